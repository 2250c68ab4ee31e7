"""What errors that a cell raised are reported as."""

from __future__ import annotations

import pytest
from support.roomy_evidence import check, raised

from pytest_lecturecheck.diagnosis import CauseKind, diagnose
from pytest_lecturecheck.model.cell_run import CellError


@pytest.mark.parametrize(
    ("name", "value", "headline"),
    [
        ("ValueError", "short and clear", "ValueError: short and clear (code cell 2, line 9)"),
        ("AssertionError", "", "AssertionError (code cell 2, line 9)"),
        ("ValueError", "the student ran out of memory cards", None),
        ("RuntimeError", "Out of memory allocating 5 bytes", None),
        ("OutOfMemoryError", "the heap of cards is full", None),
        ("ValueError", "RESOURCE_EXHAUSTED: Out of memory allocating 98765432100 bytes.", None),
        ("KeyError", "'splu'", None),
        ("ValueError", "DNN library initialization failed", None),
    ],
)
def test_plain_errors_are_what_they_say(name, value, headline):
    cause = check(raised(name, value), CauseKind.CELL_ERROR, headline or f"{name}: {value} (code cell 2, line 9)")
    assert cause.advice == ()


@pytest.mark.parametrize(("missing", "name"), [("seaborn", "seaborn"), ("sklearn.externals", "sklearn")])
def test_a_missing_module_is_to_be_installed(missing, name):
    cause = diagnose(raised("ModuleNotFoundError", f"No module named '{missing}'"))
    text = f"install the package that provides '{name}' in the kernel's environment"
    assert cause.advice == (f"{text}; if it is a file of the lectures, {name}.py has to be beside this one",)


def test_a_place_that_is_not_known_is_left_out():
    check(raised("E", "x", line=None), CauseKind.CELL_ERROR, "E: x (code cell 2)")
    check(raised("E", "x", line=None, cell_number=None), CauseKind.CELL_ERROR, "E: x")


@pytest.mark.parametrize(
    ("value", "source", "line", "headline"),
    [
        ("", "x = 1\nassert x == 2", 2, "AssertionError: assert x == 2 (code cell 2, line 9)"),
        ("", "x = 1\ncheck(x)", 2, "AssertionError, raised by check(x) (code cell 2, line 9)"),
        ("no", "assert x == 2, 'no'", 1, "AssertionError: no (code cell 2, line 9)"),
        ("", "x = 1", 7, "AssertionError (code cell 2, line 9)"),
        ("", "x = 1", None, "AssertionError (code cell 2, line 9)"),
    ],
)
def test_an_error_without_a_message_shows_its_source_line(value, source, line, headline):
    error = CellError(name="AssertionError", value=value, line_in_cell=line)
    assert diagnose(raised("AssertionError", error=error, source=source)).headline == headline


def test_text_of_an_error_is_made_fit_for_one_line():
    value = "red \x1b[31mline\nnext\tone \N{RIGHT-TO-LEFT OVERRIDE}evil\udc80\x00\r\x1b"
    check(
        raised("Value\x07Error", value),
        CauseKind.CELL_ERROR,
        r"Value\x07Error: red line next one \u202eevil\udc80\x00 \x1b (code cell 2, line 9)",
    )


def test_a_long_message_keeps_its_beginning_and_its_end():
    headline = diagnose(raised("CalledProcessError", f"Command '{'x' * 9000}' returned exit status 1.")).headline
    assert headline.startswith("CalledProcessError: Command 'xxx")
    assert headline.endswith("x' returned exit status 1. (code cell 2, line 9)")
    assert len(headline) < 400


@pytest.mark.parametrize("call", ["raw_input", "getpass"])
def test_a_cell_that_asks_for_input(call):
    value = f"{call} was called, but this frontend does not support input requests."
    cause = check(
        raised("StdinNotImplementedError", value),
        CauseKind.INPUT_REQUESTED,
        "the cell asks for input, which is not available here (code cell 2, line 9)",
    )
    assert cause.evidence == (f"StdinNotImplementedError: {value}",)
    assert cause.advice == ("set the value in the code, or tag the cell skip-execution",)


@pytest.mark.parametrize("value", ["0", "1", "bad input"])
@pytest.mark.parametrize("exit_code", [None, 0])
def test_an_exit_is_the_lectures_own_wish_and_no_death(value, exit_code):
    cause = check(
        raised("SystemExit", value, exit_code=exit_code),
        CauseKind.EXIT_REQUESTED,
        f"the lecture stops here: SystemExit: {value} (code cell 2, line 9)",
    )
    assert cause.advice == ("no cell after it can run: remove the call, or tag the cell skip-execution",)
