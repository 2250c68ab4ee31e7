"""The agent inside a real kernel: what it observes, and that it stays invisible to the lecture."""

import sys

import pytest
from support.benches import messages

from pytest_lecturecheck.kernel.agent import software_report
from pytest_lecturecheck.kernel.agent.installed_packages import distributions_of, installed_versions, replaced_modules
from pytest_lecturecheck.model.run import Outcome


def test_a_lecture_sees_nothing_of_the_agent(bench):
    run = bench.run(
        """
        assert len(In) == 2, In
        assert not [name for name in globals() if "agent" in name.lower()], sorted(globals())
        import sys
        assert "lecturecheck_agent" not in sys.modules
        assert not [name for name in sys.modules if name.startswith("pytest")]
        _
        """,
        "assert len(In) == 3, In",
    )
    assert run.outcome is Outcome.COMPLETED, [cell.error for cell in run.cells]


def test_pytests_own_variables_do_not_reach_the_kernel(bench):
    run = bench.run("import os\nassert not [name for name in os.environ if name.startswith('PYTEST_')]")
    assert run.outcome is Outcome.COMPLETED


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("!exit 4", ["shell line 'exit 4' ended with code 4"]),
        ("!true", []),
        ("!no-such-program-0001", ["shell line 'no-such-program-0001' ended with code 127: program not found"]),
        ("word = 'exit 3'\n!{word}", ["shell line 'exit 3' ended with code 3"]),
        ("def f():\n    local = 'exit 5'\n    !$local\nf()", ["shell line 'exit 5' ended with code 5"]),
        ("breakpoint()", ["breakpoint() was reached 1 time; it returns at once here"]),
        ("x = !exit 6\nassert x == []", ["shell line 'exit 6' ended with code 6"]),
        (
            "%sx exit 7\n%system exit 8",
            ["shell line 'exit 7' ended with code 7", "shell line 'exit 8' ended with code 8"],
        ),
        ("x = !echo found\nassert x == ['found']", []),
        ("!exit 1\n!exit 2", ["shell line 'exit 1' ended with code 1", "shell line 'exit 2' ended with code 2"]),
    ],
)
def test_what_the_agent_sees(bench, code, expected):
    run = bench.run(code)
    assert run.outcome is Outcome.COMPLETED, run.cells[0].error
    assert messages(run) == expected


def test_the_exit_code_of_a_shell_line_is_kept(bench):
    run = bench.run("!exit 4", "assert _exit_code == 4")
    assert run.outcome is Outcome.COMPLETED


def test_a_lecture_that_removes_its_own_file(bench, tmp_path):
    (tmp_path / "lecture.md").write_text("text", encoding="utf-8")
    run = bench.run("import os\nos.remove('lecture.md')")
    assert run.outcome is Outcome.COMPLETED
    assert messages(run) == ["the lecture's own file was removed while it ran (by it, or by what ran beside it)"]


def test_an_error_in_a_function_of_an_earlier_cell(bench):
    run = bench.run("def f(x):\n    y = x\n    return 1 / y", "\n\nz = 1\nf(0)")
    assert run.evidence.line == 201
    assert run.cells[1].error.line_in_cell == 2


def test_the_line_of_an_error_inside_a_library(bench):
    run = bench.run("import json\n\njson.loads(\n    '{'\n)")
    assert (run.cells[0].error.name, run.evidence.line) == ("JSONDecodeError", 102)


def test_exit_handlers_of_the_lecture_run(bench, tmp_path):
    run = bench.run("import atexit, pathlib\natexit.register(pathlib.Path('left.txt').write_text, 'done')")
    assert run.outcome is Outcome.COMPLETED
    assert (tmp_path / "left.txt").read_text(encoding="utf-8") == "done"


def test_what_ran_in_the_kernel(bench):
    run = bench.run("import numpy\nimport psutil\nimport yaml")
    assert run.software.packages["numpy"]
    assert run.software.packages["psutil"]
    assert run.software.blas != ()
    assert run.software.distributions["yaml"].lower() == "pyyaml"
    assert "json" not in run.software.packages


def test_an_install_line_that_replaces_an_imported_package_is_noticed(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("seen_pkg-1.0.dist-info", "other-1.0.dist-info", "kept-1.0.dist-info"):
        (tmp_path / name).mkdir()
    (tmp_path / "seen_pkg-1.0.dist-info" / "top_level.txt").write_text("seen\n")
    monkeypatch.setitem(sys.modules, "seen", sys)
    monkeypatch.setitem(sys.modules, "kept", sys)
    before = installed_versions()
    assert replaced_modules(before) == []
    (tmp_path / "seen_pkg-1.0.dist-info").rename(tmp_path / "seen_pkg-2.0.dist-info")
    (tmp_path / "other-1.0.dist-info").rename(tmp_path / "other-2.0.dist-info")
    assert replaced_modules(before) == ["seen_pkg 1.0 -> 2.0"]
    assert replaced_modules({}) == []


def distribution(folder, name, version, *, top_level="", record=""):
    path = folder / f"{name}-{version}.dist-info"
    path.mkdir()
    (path / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.title()}\nVersion: {version}\n\nName: no\n")
    for file, text in (("top_level.txt", top_level), ("RECORD", record)):
        if text:
            (path / file).write_text(text)


def test_modules_are_found_in_distributions_of_other_names(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "none-such")])
    distribution(tmp_path, "pillow", "11.0", top_level="PIL\n")
    distribution(tmp_path, "single", "2.0", record="one.py,sha256=x,1\none_more/__init__.py,,\n")
    distribution(tmp_path, "native", "3.0", record="fast.cpython-311-x86_64-linux-gnu.so,sha256=x,1\n")
    distribution(tmp_path, "first", "1.0", record="shared/a.py,,\n")
    distribution(tmp_path, "second", "1.0", record="shared/b.py,,\n")
    assert distributions_of(["PIL", "one", "fast", "shared", "absent"]) == {
        "PIL": ("Pillow", "11.0"),
        "one": ("Single", "2.0"),
        "fast": ("Native", "3.0"),
    }
    assert distributions_of([]) == {}


def test_what_to_install_agrees_with_importlib():
    from importlib.metadata import packages_distributions, version  # noqa: PLC0415 - takes half a second

    known = packages_distributions()
    (name,) = set(known["yaml"])
    assert distributions_of(["yaml"]) == {"yaml": (name, version(name))}


class Built:
    """A package with a build configuration."""

    def __init__(self, config):
        self.config = config

    def show_config(self, mode):
        assert mode == "dicts"
        return {"Build Dependencies": self.config}


OPENBLAS = {"name": "scipy-openblas", "version": "0.3.27", "found": True}
ACCELERATE = {"name": "accelerate", "version": "unknown"}


@pytest.mark.parametrize(
    ("numpy", "scipy", "lines"),
    [
        (
            Built({"blas": OPENBLAS, "lapack": OPENBLAS}),
            Built({"blas": OPENBLAS, "lapack": OPENBLAS}),
            ["scipy-openblas 0.3.27 (numpy and scipy built with it), threads unknown"],
        ),
        (
            Built({"blas": ACCELERATE, "lapack": {"name": "", "version": ""}}),
            None,
            ["accelerate (numpy built with it), threads unknown"],
        ),
        (Built({}), None, []),
        (sys, None, []),
    ],
)
def test_without_threadpoolctl_the_build_configuration_is_read(monkeypatch, numpy, scipy, lines):
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    monkeypatch.setitem(sys.modules, "numpy", numpy)
    monkeypatch.setitem(sys.modules, "scipy", scipy)
    found = software_report.describe_software(frozenset(sys.modules), {}, lambda _: {})
    assert found["blas"] == lines
