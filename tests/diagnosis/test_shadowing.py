"""Files that take the place of a module the kernel needs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.made_records import changed, made_evidence
from support.roomy_evidence import PLACE, ROOMY, check

from pytest_lecturecheck.diagnosis import CauseKind, diagnose
from pytest_lecturecheck.model.cell_run import CellError

SHADOWED = made_evidence(ready=False, exit_code=1, shadowing_files=("queue.py", "random.py"))


@pytest.mark.parametrize(
    "line",
    [
        '  File "/lectures/random.py", line 3, in <module>',
        r'  File "C:\lectures\random.py", line 3, in <module>',
        "AttributeError: partially initialized module 'random' has no attribute 'Random' (most likely)",
        "ImportError: cannot import name 'Random' from 'random' (/lectures/other)",
        "(consider renaming '/lectures/random.py' since it has the same name as a standard library module)",
    ],
)
def test_a_file_beside_the_lecture_that_the_kernel_stumbled_over(line):
    check(
        changed(SHADOWED, stderr_tail=("Traceback (most recent call last):", line)),
        CauseKind.SHADOWED,
        "kernel died at start: random.py beside the lecture takes the place of the module random",
        lines=("stderr: Traceback (most recent call last):", f"stderr: {line.strip()}"),
        advice=("rename random.py",),
    )


@pytest.mark.parametrize(
    "line", ["cannot load libexample.so.3", "a random.pyc", "/usr/myrandom.py", "random", "'random'"]
)
def test_a_file_that_is_not_named_is_only_mentioned(line):
    check(
        changed(SHADOWED, exit_code=3, stderr_tail=(line,)),
        CauseKind.DIED_AT_START,
        "kernel exited with code 3 before it was ready",
        lines=(
            "beside the lecture, named like a module that the kernel needs: queue.py, random.py",
            f"stderr: {line}",
        ),
    )


@pytest.mark.parametrize(
    ("name", "value", "traceback"),
    [
        ("AttributeError", "module 'random' has no attribute 'Random'", ()),
        ("ModuleNotFoundError", "No module named 'random.x'; 'random' is not a package", ()),
        ("ImportError", "cannot import name 'x'", ("File /lectures/random.py:3", "----> 3 from numpy import x")),
        ("ImportError", "cannot import name 'x'", ("File ~\\lectures\\random.py:3, in f()",)),
        ("ImportError", "cannot import name 'x'", ("File random.py:3",)),
    ],
)
def test_an_import_that_found_a_file_beside_the_lecture(name, value, traceback):
    error = CellError(name=name, value=value, traceback=traceback)
    evidence = replace(ROOMY, error=error, shadowing_files=("queue.py", "random.py"))
    advice = ("random.py beside the lecture takes the place of the module random: rename it",)
    check(evidence, CauseKind.CELL_ERROR, f"{name}: {value} {PLACE}", lines=(), advice=advice)
    for other in (replace(evidence, shadowing_files=("queue.py",)), replace(evidence, error=None)):
        assert diagnose(other).advice == ()


def test_another_error_in_such_a_file_is_no_matter_of_names():
    error = CellError(name="ValueError", value="x", traceback=("File /lectures/random.py:3",))
    check(
        replace(ROOMY, error=error, shadowing_files=("random.py",)),
        CauseKind.CELL_ERROR,
        f"ValueError: x {PLACE}",
        advice=(),
    )
