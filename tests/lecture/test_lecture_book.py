from __future__ import annotations

from unicodedata import normalize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_lecturecheck.errors import LectureReadError, SettingsError
from pytest_lecturecheck.lecture.book.configuration import read_book
from pytest_lecturecheck.lecture.book.patterns import matches_path
from pytest_lecturecheck.model.settings import NO_LIMIT, RunSettings


def _write(folder, **files: str):
    names = {"config": "_config.yml", "toc": "_toc.yml", "myst": "myst.yml", "conf": "conf.py"}
    for key, text in files.items():
        (folder / names[key]).write_text(text, encoding="utf-8")
    return folder


def _excluded(folder, *names: str) -> dict[str, str]:
    book = read_book(folder)
    assert book is not None
    return {name: book.why_excluded(folder / name) for name in names}


def test_folder_without_configuration_is_no_book(tmp_path):
    assert read_book(tmp_path) is None


def test_the_execute_keys(tmp_path):
    text = "execute:\n  timeout: 2400\n  allow_errors: true\n  run_in_temp: true\n  execute_notebooks: cache\n"
    book = read_book(_write(tmp_path, config=text))
    assert book is not None
    assert book.settings_for(tmp_path / "a.md") == RunSettings(
        timeout_seconds=2400.0,
        allow_errors=True,
        run_in_temp=True,
        origins={
            "timeout_seconds": "_config.yml execute.timeout",
            "allow_errors": "_config.yml execute.allow_errors",
            "run_in_temp": "_config.yml execute.run_in_temp",
        },
    )


def test_sphinx_configuration_wins(tmp_path):
    text = (
        "execute:\n  timeout: 10\n  execute_notebooks: off\n"
        "sphinx:\n  config:\n    nb_execution_timeout: -1\n    nb_execution_mode: force\n"
    )
    book = read_book(_write(tmp_path, config=text))
    assert book is not None
    assert book.settings == RunSettings(
        timeout_seconds=NO_LIMIT, origins={"timeout_seconds": "_config.yml sphinx.config.nb_execution_timeout"}
    )


@pytest.mark.parametrize("value", ["off", "'off'", "false"])
def test_notebooks_that_are_not_executed(tmp_path, value):
    book = read_book(_write(tmp_path, config=f"execute:\n  execute_notebooks: {value}\n"))
    assert book is not None
    assert book.settings.skip_reason == "_config.yml execute.execute_notebooks is off"


def test_lectures_that_are_excluded_from_execution(tmp_path):
    book = read_book(_write(tmp_path, config="execute:\n  exclude_patterns: ['big*', drafts/*]\n"))
    assert book is not None
    names = ("big_one.md", "sub/bigger.md", "drafts/a.md", "small.md", "sub/small.md")
    reasons = {name: book.settings_for(tmp_path / name).skip_reason for name in names}
    assert reasons == {
        "big_one.md": "excluded from execution by _config.yml execute.exclude_patterns 'big*'",
        "sub/bigger.md": "excluded from execution by _config.yml execute.exclude_patterns 'big*'",
        "drafts/a.md": "excluded from execution by _config.yml execute.exclude_patterns 'drafts/*'",
        "small.md": None,
        "sub/small.md": None,
    }
    assert book.why_excluded(tmp_path / "big_one.md") == ""


def test_pages_that_are_excluded(tmp_path):
    _write(tmp_path, config="exclude_patterns: [drafts, '*.ipynb', '**/old.md']\n")
    assert _excluded(tmp_path, "drafts/a.md", "a.ipynb", "sub/a.ipynb", "old.md", "x/old.md", "a.md") == {
        "drafts/a.md": "excluded by _config.yml exclude_patterns 'drafts'",
        "a.ipynb": "excluded by _config.yml exclude_patterns '*.ipynb'",
        "sub/a.ipynb": "",
        "old.md": "excluded by _config.yml exclude_patterns '**/old.md'",
        "x/old.md": "excluded by _config.yml exclude_patterns '**/old.md'",
        "a.md": "",
    }


TOCS = {
    "chapters": "format: jb-book\nroot: intro\nchapters:\n- file: a\n- file: sub/b.md\n- url: https://x.org/c\n",
    "parts": "root: intro\nparts:\n- caption: One\n  chapters:\n  - file: a\n    sections:\n    - file: sub/b\n",
    "subtrees": "root: intro\nsubtrees:\n- entries:\n  - file: a\n    subtrees:\n    - entries: [{glob: sub/b*}]\n",
    "old list": "- file: intro\n- part: One\n  chapters:\n  - file: a\n    sections:\n    - file: sub/b\n",
    "globs": "root: intro\nentries:\n- glob: 'a*'\n- glob: sub/*\n",
}


@pytest.mark.parametrize("toc", TOCS.values(), ids=TOCS)
def test_every_form_of_toc(tmp_path, toc):
    _write(tmp_path, config="only_build_toc_files: true\n", toc=toc)
    assert _excluded(tmp_path, "intro.md", "a.ipynb", "sub/b.md", "c.md", "sub/deep/b.md") == {
        "intro.md": "",
        "a.ipynb": "",
        "sub/b.md": "",
        "c.md": "not in _toc.yml",
        "sub/deep/b.md": "not in _toc.yml",
    }


def test_toc_excludes_nothing_by_default(tmp_path):
    _write(tmp_path, config="title: x\n", toc="root: intro\n")
    assert _excluded(tmp_path, "c.md") == {"c.md": ""}


def test_toc_alone_excludes_nothing(tmp_path):
    _write(tmp_path, toc="root: intro\n")
    assert _excluded(tmp_path, "c.md") == {"c.md": ""}


def test_names_match_in_both_forms_of_unicode(tmp_path):
    _write(tmp_path, config="only_build_toc_files: true\n", toc="root: étude\n")
    composed, decomposed = normalize("NFC", "étude.md"), normalize("NFD", "étude.md")
    assert _excluded(tmp_path, composed, decomposed) == {composed: "", decomposed: ""}


def test_file_outside_the_book_is_not_excluded(tmp_path):
    inner = tmp_path / "book"
    inner.mkdir()
    book = read_book(_write(inner, config="only_build_toc_files: true\n", toc="root: intro\n"))
    assert book is not None
    assert book.why_excluded(tmp_path / "other.md") == ""


def test_mystmd(tmp_path):
    toc = "version: 1\nproject:\n  toc:\n  - file: index.md\n  - title: One\n    children:\n    - pattern: 'ch*.md'\n"
    _write(tmp_path, myst=toc + "  exclude: ch9.md\n")
    assert _excluded(tmp_path, "index.md", "ch1.md", "ch9.md", "notes.md") == {
        "index.md": "",
        "ch1.md": "",
        "ch9.md": "excluded by myst.yml project.exclude 'ch9.md'",
        "notes.md": "not in myst.yml project.toc",
    }


def test_mystmd_with_jupyter_book_1_toc(tmp_path):
    _write(tmp_path, myst="project:\n  title: x\n", toc="root: intro\n")
    assert _excluded(tmp_path, "intro.md", "c.md") == {"intro.md": "", "c.md": "not in _toc.yml"}


def test_mystmd_without_toc_builds_everything(tmp_path):
    _write(tmp_path, myst="project:\n  exclude: [drafts/*]\n")
    assert _excluded(tmp_path, "c.md", "drafts/a.md") == {
        "c.md": "",
        "drafts/a.md": "excluded by myst.yml project.exclude 'drafts/*'",
    }


def test_sphinx_conf_is_never_executed(tmp_path):
    text = (
        "raise SystemExit('conf.py was run')\nimport os\nextensions = ['myst_nb']\n"
        "nb_execution_timeout: int = 5\nnb_execution_mode = os.environ['MODE']\n"
        "execution_allow_errors = True\nnb_execution_excludepatterns = ['slow*']\nexclude_patterns = ['drafts']\n"
    )
    book = read_book(_write(tmp_path, conf=text))
    assert book is not None
    assert book.settings == RunSettings(
        timeout_seconds=5.0,
        allow_errors=True,
        origins={
            "timeout_seconds": "conf.py nb_execution_timeout",
            "allow_errors": "conf.py execution_allow_errors",
        },
    )
    skipped = book.settings_for(tmp_path / "slow.md")
    assert skipped.skip_reason == "excluded from execution by conf.py nb_execution_excludepatterns 'slow*'"
    assert book.why_excluded(tmp_path / "drafts" / "a.md") == "excluded by conf.py exclude_patterns 'drafts'"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nb_execution_mode = 'off'\n", "conf.py nb_execution_mode is off"),
        ("jupyter_execute_notebooks = 'off'\n", "conf.py jupyter_execute_notebooks is off"),
        ("nbsphinx_execute = 'never'\n", "conf.py nbsphinx_execute is never"),
        ("nb_execution_mode = 'auto'\n", None),
        ("jupyter_execute_notebooks = 'off'\nnb_execution_mode = 'cache'\n", None),
    ],
)
def test_sphinx_execution_modes(tmp_path, text, reason):
    book = read_book(_write(tmp_path, conf=text))
    assert book is not None
    assert book.settings.skip_reason == reason


@pytest.mark.parametrize("text", ["port = 8080\n", "def broken(:\n", "x = " + "(" * 300 + ")" * 300])
def test_other_conf_py_files_are_not_books(tmp_path, text):
    assert read_book(_write(tmp_path, conf=text)) is None


def test_broken_yaml_names_file_and_line(tmp_path):
    path = tmp_path / "_config.yml"
    with pytest.raises(LectureReadError) as caught:
        read_book(_write(tmp_path, config="title: x\nexecute: [\n"))
    assert str(caught.value) == (
        f"{path}:3: _config.yml is not valid YAML: expected the node content, but found '<stream end>'"
    )
    with pytest.raises(LectureReadError) as caught:
        read_book(_write(tmp_path, config="a: 1\n<<<<<<< x\nb: 1\n=======\nb: 2\n>>>>>>> y\n"))
    assert str(caught.value) == f"{path}:2: has merge conflict markers at line 2; finish the merge"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            "execute:\n  timeout: long\n",
            "2: execute.timeout is 'long'; expected a number of seconds (0, a negative number or null for no limit)",
        ),
        ("execute:\n  allow_errors: 'no'\n", "2: execute.allow_errors is 'no'; expected true or false"),
        (
            "execute:\n  execute_notebooks: maybe\n",
            "2: execute.execute_notebooks is 'maybe'; expected one of off, auto, force, cache, inline",
        ),
        ("execute:\n  exclude_patterns: a.md\n", "2: execute.exclude_patterns is 'a.md'; expected a list of patterns"),
        ("execute: 3\n", "1: execute is 3; expected a table of settings"),
        ("sphinx: [a]\n", "1: sphinx is ['a']; expected a table of settings"),
        ("execute:\n  cache: 7\n", "2: execute.cache is 7; expected the path of a folder"),
        (
            "sphinx:\n  config:\n    nb_kernel_rgx_aliases: x\n",
            "3: sphinx.config.nb_kernel_rgx_aliases is 'x'; expected a table of kernel names",
        ),
        ("only_build_toc_files: 1\n", "1: only_build_toc_files is 1; expected true or false"),
    ],
)
def test_bad_values_name_file_line_and_key(tmp_path, text, fault):
    with pytest.raises(SettingsError) as caught:
        read_book(_write(tmp_path, config=text))
    assert str(caught.value) == f"{tmp_path / '_config.yml'}:{fault}"


def test_empty_configuration_is_a_book_without_settings(tmp_path):
    book = read_book(_write(tmp_path, config=""))
    assert book is not None
    assert book.settings == RunSettings()


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("a.md", "a.md", True),
        ("a.md", "sub/a.md", False),
        ("*", "sub/a.md", True),
        ("*.md", "sub/a.md", False),
        ("**.md", "sub/a.md", True),
        ("sub/", "sub/deep/a.md", True),
        ("s?b", "sub/a.md", True),
        ("[ab].md", "a.md", True),
        ("[!ab].md", "a.md", False),
        ("[a", "[a", True),
        ("./a.md", "a.md", True),
        ("a+b(1).md", "a+b(1).md", True),
    ],
)
def test_patterns(pattern, path, matches):
    assert matches_path(pattern, path) is matches


@settings(deadline=None)
@given(
    pattern=st.text(alphabet="ab*?[]!^-\\/.()+", max_size=12), path=st.text(alphabet="ab/.-", min_size=1, max_size=12)
)
def test_no_pattern_is_an_error(pattern, path):
    assert matches_path(pattern, path) in {True, False}
