"""Errors that Python only prints, in the text that CPython 3.11 and 3.13 print."""

from __future__ import annotations

import pytest

from pytest_lecturecheck.kernel.run.printed_errors import printed_error_findings
from pytest_lecturecheck.model.finding import FindingKind
from pytest_lecturecheck.model.lecture import Cell

CELL = Cell(index=0, number=3, source="x", line=40)
BODY = '  File "/tmp/ipykernel_1/2.py", line 3, in step\n    raise ValueError("lost")\nValueError: lost\n'
TRACEBACK = f"Traceback (most recent call last):\n{BODY}"


def messages(text):
    return [finding.message for finding in printed_error_findings(text, CELL)]


@pytest.mark.parametrize(
    ("heading", "what"),
    [
        ("Exception in thread Thread-3 (boom):\n", "an error ended a thread and was only printed"),
        (
            "Task exception was never retrieved\nfuture: <Task finished name='Task-5' coro=<step() done>>\n",
            "an error ended a task of asyncio and was only printed",
        ),
        (
            "_GatheringFuture exception was never retrieved\nfuture: <_GatheringFuture finished>\n",
            "the error of a future was never retrieved and was only printed",
        ),
        (
            "Exception in callback boom() at /tmp/ipykernel_1/2.py:2\nhandle: <Handle boom() at x.py:2>\n",
            "an error in a callback was only printed",
        ),
        (
            "exception calling callback <Future at 0x7f state=finished returned int>\n",
            "an error in a callback was only printed",
        ),
        ("Process ForkProcess-1:\n", "an error ended a child process and was only printed"),
        (
            "Exception ignored in: <function A.__del__ at 0x7f3c>\n",
            "an error that Python ignores (of a destructor, for example) was only printed",
        ),
        (
            "Exception ignored while calling deallocator <function A.__del__ at 0x7f3c>:\n",
            "an error that Python ignores (of a destructor, for example) was only printed",
        ),
    ],
)
def test_every_kind_is_found_with_its_error(heading, what):
    (finding,) = printed_error_findings(f"before\n{heading}{TRACEBACK}after\n", CELL)
    assert finding.message == f"{what}: 'ValueError: lost'"
    assert (finding.kind, finding.cell_number, finding.line) == (FindingKind.THREAD, 3, 40)
    assert finding.fails_when_strict


def test_the_error_is_the_last_of_a_chain():
    chained = TRACEBACK + "\nDuring handling of the above exception, another exception occurred:\n\n"
    last = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nKeyError: 1\n'
    assert messages(f"Exception in thread x:\n{chained}{last}") == [
        "an error ended a thread and was only printed: 'KeyError: 1'"
    ]


def test_an_error_of_an_unusual_name_is_named():
    text = "Exception in callback f()\nTraceback (most recent call last):\n  File 'a'\nmine.Boom\n"
    assert messages(text) == ["an error in a callback was only printed: 'mine.Boom'"]


def test_equal_errors_are_reported_once_and_many_are_counted():
    same = f"Exception in thread T:\n{TRACEBACK}" * 3
    assert len(messages(same)) == 1
    many = "".join(f"Exception in thread T:\n{TRACEBACK}".replace("lost", f"lost {count}") for count in range(8))
    assert messages(many)[-1] == "3 more errors were only printed"


@pytest.mark.parametrize(
    "text",
    [
        "the words 'Exception in thread x' in a line",
        "Process flow:\nfirst\nsecond\n",
        "A Task exception was never retrieved, they say",
        "Exception in thread pools are a feature\nTask exception was never retrieved by us\n",
        "Exception ignored in this lecture, as in others\nException in callback hell\n",
        "",
    ],
)
def test_other_text_gives_nothing(text):
    assert messages(text) == []


def test_a_group_of_errors_is_named():
    text = (
        "Exception in thread Thread-1 (b):\n"
        "  + Exception Group Traceback (most recent call last):\n"
        '  |   File "/usr/lib/python3.11/threading.py", line 1045, in _bootstrap_inner\n'
        "  |     self.run()\n"
        "  | ExceptionGroup: two at once (2 sub-exceptions)\n"
        "  +-+---------------- 1 ----------------\n"
        "    | ValueError: first\n"
    )
    assert messages(text) == [
        "an error ended a thread and was only printed: 'ExceptionGroup: two at once (2 sub-exceptions)'"
    ]


def test_an_error_that_was_never_raised_has_no_traceback():
    text = "Future exception was never retrieved\nfuture: <Future finished exception=KeyError('a')>\nKeyError: 'a'\n"
    (message,) = messages(text)
    assert message == "the error of a future was never retrieved and was only printed: \"KeyError: 'a'\""
