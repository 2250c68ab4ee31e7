"""
Find errors that Python only prints, because no code is there to catch them. Pure.

Threads, tasks, futures, callbacks, child processes and destructors print a traceback and end; the cell succeeds. The
headings are those of CPython's ``threading``, ``asyncio``, ``concurrent.futures`` and ``multiprocessing``, and of
``sys.unraisablehook``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from pytest_lecturecheck.kernel.run.traceback_lines import cut_line
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.lecture import Cell

_KINDS: Final = (
    ("an error ended a thread and was only printed", r"Exception in thread .*:[ \r]*$"),
    ("an error ended a task of asyncio and was only printed", r"Task exception was never retrieved[ \r]*$"),
    (
        "the error of a future was never retrieved and was only printed",
        r"\w*Future exception was never retrieved[ \r]*$",
    ),
    ("an error in a callback was only printed", r"(?:Exception in callback .*[)>]|exception calling callback <)"),
    ("an error ended a child process and was only printed", r"Process \S+:$(?=\n(?:.*\n){0,2}?Traceback )"),
    (
        "an error that Python ignores (of a destructor, for example) was only printed",
        r"Exception ignored (?:in|while|on)\b.*[:>'\"][ \r]*$",
    ),
)
_HEADINGS: Final = re.compile(
    "|".join(f"^(?P<kind{number}>{text})" for number, (_, text) in enumerate(_KINDS)), re.MULTILINE
)
_TRACEBACK: Final = re.compile(r"^.*Traceback \(most recent call last\):\n", re.MULTILINE)
_BARE: Final = re.compile(r"\s*\n(?:future|task): <.*\n(?P<error>[A-Za-z_][\w.]*(?:: .*)?)$", re.MULTILINE)
_GROUP_MARGIN: Final = re.compile(r"^ +\| ?")
_JOINTS: Final = ("During handling of the above exception", "The above exception was the direct cause")
_HEADING_LINES: Final = 8
_MOST: Final = 5
_ERROR_CHARS: Final = 120
_ANSI: Final = re.compile(r"\x1b\[[0-9;:?]*[ -/]*[@-~]")


def printed_error_findings(text: str, cell: Cell) -> Iterator[Finding]:
    """
    Return a finding for each error that was only printed, each text once.

    Args:
        text: output of the kernel, perhaps cut.
        cell: the cell that printed it or, if that is unknown, that was running.
    """
    messages: dict[str, None] = {}
    text = _ANSI.sub("", text)
    for heading in _HEADINGS.finditer(text):
        what = next(what for number, (what, _) in enumerate(_KINDS) if heading[f"kind{number}"] is not None)
        error = _error_after(text, heading.end())
        messages[f"{what}: {error!r}" if error else what] = None
    for message in list(messages)[:_MOST]:
        yield Finding(
            kind=FindingKind.THREAD, message=message, cell_number=cell.number, line=cell.line, fails_when_strict=True
        )
    if len(messages) > _MOST:
        message = f"{len(messages) - _MOST} more errors were only printed"
        yield Finding(
            kind=FindingKind.THREAD, message=message, cell_number=cell.number, line=cell.line, fails_when_strict=True
        )


def lost_task_findings(errors: Sequence[str], last: Cell) -> Iterator[Finding]:
    """
    Return findings for tasks of asyncio that failed and that nobody awaited until the end.

    Args:
        errors: their errors.
        last: the last cell that ran.
    """
    for error in dict.fromkeys(errors):
        message = f"an error ended a task of asyncio that was never awaited: {cut_line(error, _ERROR_CHARS)!r}"
        yield Finding(
            kind=FindingKind.THREAD, message=message, cell_number=last.number, line=last.line, fails_when_strict=True
        )


def _error_after(text: str, start: int) -> str:
    """Return the last line of the traceback below a heading, or an empty string."""
    found = _TRACEBACK.search(text, start)
    if found is None or text.count("\n", start, found.start()) > _HEADING_LINES:
        # An error that was set and never raised has no traceback.
        bare = _BARE.match(text, start)
        return cut_line(bare["error"], _ERROR_CHARS) if bare is not None else ""
    error = ""
    for raw_line in text[found.end() :].split("\n"):
        line = _GROUP_MARGIN.sub("", raw_line)
        if line.startswith(_JOINTS):
            # The error so far is the cause of the one whose traceback follows.
            error = ""
        elif not line.strip() or line[0].isspace() or _TRACEBACK.match(f"{line}\n"):
            continue
        elif error:
            break
        else:
            error = line
    return cut_line(error, _ERROR_CHARS)
