"""The line that was running when native code crashed."""

from __future__ import annotations

import pytest
from support.made_records import changed
from support.roomy_evidence import CRASH, ROOMY, ROOMY_LINES

from pytest_lecturecheck.diagnosis import diagnose

IN_CELL = ("Fatal Python error: Aborted", CRASH[3])

SOURCE = "x = 1\nf(x)  # boom\n"


@pytest.mark.parametrize(
    ("changes", "headline", "line"),
    [
        (
            {"stderr_tail": CRASH},
            "kernel crashed (SIGSEGV) in code cell 2, line 9",
            ("running Python: ctypes/__init__.py, line 519, in string_at; called from line 2 of the cell: f(x) # boom"),
        ),
        (
            {"stderr_tail": IN_CELL},
            "kernel crashed (SIGSEGV) in code cell 2, line 9",
            "running Python: line 2 of the cell: f(x) # boom",
        ),
        (
            {"stderr_tail": (CRASH[0], *CRASH[2:])},
            "kernel crashed (SIGSEGV) in code cell 2, line 9",
            "running Python: line 3 of a cell, in f; called from line 2 of the cell: f(x) # boom",
        ),
        (
            {
                "stderr_tail": (CRASH[0], *CRASH[2:]),
                "crash_stack": ("code cell 1, line 5, in f", "code cell 2, line 9"),
            },
            "kernel crashed (SIGSEGV) in code cell 2, line 9",
            "running Python: code cell 1, line 5, in f; called from line 9: f(x) # boom",
        ),
        (
            {"stderr_tail": IN_CELL, "line": None},
            "kernel crashed (SIGSEGV) in code cell 2",
            "running Python: line 2 of the cell: f(x) # boom",
        ),
        (
            {"stderr_tail": IN_CELL, "source": ""},
            "kernel crashed (SIGSEGV) in code cell 2, line 9",
            "running Python: line 2 of the cell",
        ),
        (
            {"stderr_tail": IN_CELL, "source": "only one line"},
            "kernel crashed (SIGSEGV) in code cell 2, line 9",
            "running Python: line 2 of a cell",
        ),
        (
            {"stderr_tail": CRASH[:2]},
            "kernel crashed (SIGSEGV) in code cell 2, line 9",
            "running Python: ctypes/__init__.py, line 519, in string_at",
        ),
        (
            {
                "stderr_tail": (
                    "Windows fatal exception: access violation",
                    r'  File "C:\env\Lib\site-packages\numpy\linalg\_linalg.py", line 5 in inv',
                    r'  File "C:\Temp\ipykernel_5\66.py", line 1 in <module>',
                ),
                "signal": None,
                "exit_code": -1073741819,
            },
            "kernel ended with exit code -1073741819 (0xC0000005) in code cell 2, line 9",
            "running Python: numpy/linalg/_linalg.py, line 5, in inv; called from line 1 of the cell: x = 1",
        ),
    ],
)
def test_a_crash_names_the_python_line_that_was_running(changes, headline, line):
    cause = diagnose(changed(ROOMY, **({"signal": 11, "source": SOURCE} | changes)))
    assert (cause.headline, cause.evidence[0]) == (headline, line)
    assert cause.evidence[1:4] == ROOMY_LINES


def test_frames_with_lines_of_the_file_replace_those_of_stderr():
    stack = ("code cell 2, line 9, in g", "code cell 2, line 12, in f", "code cell 2, line 14")
    cause = diagnose(changed(ROOMY, signal=11, source=SOURCE, stderr_tail=("before", *CRASH), crash_stack=stack))
    assert cause.evidence[:4] == (
        "running Python: code cell 2, line 9, in g; called from line 14: f(x) # boom",
        *(f"stack: {frame}" for frame in stack),
    )
    assert [line for line in cause.evidence if "stderr" in line] == ["stderr: before", f"stderr: {CRASH[0]}"]


@pytest.mark.parametrize("stderr", [CRASH[1:], (*CRASH[1:], CRASH[0]), ("Fatal Python error: x", "no frame"), ()])
def test_frames_that_are_not_of_a_crash_say_nothing(stderr):
    cause = diagnose(changed(ROOMY, signal=11, source=SOURCE, stderr_tail=stderr))
    assert cause.headline == "kernel crashed (SIGSEGV) in code cell 2, line 9"
    assert not any(line.startswith("running Python") for line in cause.evidence)


def test_an_abort_with_stderr_and_a_line():
    stderr = (
        "E external/alloc.cc:12] pool GPU_0 could not give 2.50GiB; free 1.10GiB",
        "F external/stream.cc:99] Check failed: allocation of 2684354560 bytes: RESOURCE_EXHAUSTED",
        *IN_CELL,
    )
    cause = diagnose(changed(ROOMY, signal=6, source=SOURCE, stderr_tail=stderr))
    assert cause.headline == (
        "kernel aborted (SIGABRT) in code cell 2, line 9; "
        "the native allocator reported an exhausted GPU pool, asked 2.68 GB (2.5 GiB)"
    )
    assert cause.evidence[0] == "running Python: line 2 of the cell: f(x) # boom"
