"""The directive of Sphinx, run by docutils with a stand-in of the few names of Sphinx that it uses."""

import importlib
import logging
import sys
from types import ModuleType, SimpleNamespace

import pytest
from docutils import nodes
from docutils.core import publish_doctree
from docutils.parsers.rst import Directive, directives

MODULE = "pytest_lecturecheck.page.sphinx_directive"
BUDGETS = """schema = 1
platform = "g4dn.2xlarge"
[lectures."lectures/intro.md"]
peak_footprint = { seen = ["3.2 GiB", "3.1 GiB"] }
wall = { seen = ["1 min 06 s"] }
[lectures."lectures/other.md"]
peak_footprint = { seen = ["1 GiB"] }
"""
HEADS = ["Platform", "Peak memory", "Time", "Fits Binder (2\N{NO-BREAK SPACE}GB)"]


class SphinxDirective(Directive):
    """What Sphinx adds to a directive of docutils."""

    @property
    def env(self):
        return self.state.document.settings.env

    def get_location(self):
        return f"{self.env.docname}:{self.lineno}"


class SphinxLogger(logging.LoggerAdapter):
    """A logger that takes the location and the type of a warning."""

    def process(self, msg, kwargs):
        return f"{kwargs.pop('location')}: {msg} [{kwargs.pop('type')}]", kwargs


@pytest.fixture
def directive(monkeypatch):
    """Register the directive as Sphinx does; return what the extension says of itself."""
    util, own = ModuleType("sphinx.util"), ModuleType("sphinx.util.docutils")
    own.SphinxDirective = SphinxDirective
    util.logging = SimpleNamespace(getLogger=lambda name: SphinxLogger(logging.getLogger(name), {}))
    modules = {"sphinx": ModuleType("sphinx"), "sphinx.util": util, "sphinx.util.docutils": own}
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)

    def add_directive(name, kind):
        monkeypatch.setitem(directives._directives, name, kind)

    described = importlib.import_module(MODULE).register(SimpleNamespace(add_directive=add_directive))
    yield described
    sys.modules.pop(MODULE, None)


@pytest.fixture
def book(tmp_path):
    (tmp_path / "lecture-budgets").mkdir()
    (tmp_path / "lecture-budgets" / "g4dn.2xlarge.toml").write_text(BUDGETS, encoding="utf-8")
    (tmp_path / "lectures").mkdir()
    return tmp_path


def build(book, text, docname="intro"):
    """Return the rows of all tables on a page, and the files that the page depends on."""
    source, depends = book / "lectures", []
    environment = SimpleNamespace(
        srcdir=str(source),
        docname=docname,
        doc2path=lambda name: str(source / f"{name}.md"),
        note_dependency=depends.append,
    )
    page = publish_doctree(text, settings_overrides={"env": environment, "report_level": 5})
    rows = [[entry.astext() for entry in row.findall(nodes.entry)] for row in page.findall(nodes.row)]
    return rows, depends


def test_the_extension_may_read_in_parallel(directive):
    assert directive["parallel_read_safe"] is True


@pytest.mark.usefixtures("directive")
def test_a_page_shows_its_own_budget(book):
    rows, depends = build(book, ".. lecture-budget::\n")
    assert rows == [HEADS, ["g4dn.2xlarge", "3.20\N{NO-BREAK SPACE}GiB", "66.0\N{NO-BREAK SPACE}s", "no"]]
    assert depends == [
        str(book / "lecture-budgets" / "g4dn.2xlarge.toml"),
        str(book / "lecture-history.jsonl"),
    ]


@pytest.mark.usefixtures("directive")
def test_a_page_may_show_another_one(book):
    rows, _ = build(book, ".. lecture-budget:: other.md\n")
    assert rows[1:] == [["g4dn.2xlarge", "1.00\N{NO-BREAK SPACE}GiB", "-", "yes"]]


@pytest.mark.usefixtures("directive")
def test_the_option_all_lists_every_lecture(book):
    rows, _ = build(book, ".. lecture-budget::\n   :all:\n")
    assert [row[0] for row in rows] == ["Lecture", "lectures/intro.md", "lectures/other.md"]


@pytest.mark.usefixtures("directive")
def test_a_page_without_a_budget_has_no_table(book, tmp_path_factory):
    assert build(book, ".. lecture-budget::\n", docname="new")[0] == []
    empty = tmp_path_factory.mktemp("empty")
    assert build(empty, ".. lecture-budget::\n") == ([], [])


@pytest.mark.usefixtures("directive")
def test_a_broken_budget_file_is_a_warning_of_the_build(book, caplog):
    (book / "lecture-budgets" / "bad.toml").write_text("x = [", encoding="utf-8")
    assert build(book, ".. lecture-budget::\n")[0] == []
    (warning,) = caplog.messages
    assert warning.startswith("intro:1: lecture-budget: ")
    assert "bad.toml is not a budget file" in warning
    assert warning.endswith("[lecturecheck]")
