"""Find the error with which a plain program ended in what it wrote."""

from __future__ import annotations

import re
from typing import Final

from pytest_lecturecheck.model.cell_run import CellError

_PYTHON_BLOCK: Final = "Traceback (most recent call last):"
_PYTHON_ERROR: Final = re.compile(r"(?P<name>[A-Za-z_][\w.]*)(?:: (?P<value>.*))?")
_R_ERROR: Final = re.compile(r"Error(?: in .{0,200}?)? ?: ?(?P<value>.*)")
_R_MEMORY: Final = re.compile(r"cannot allocate (?:vector of size|memory block of size) .*")
_JULIA_MEMORY: Final = re.compile(r"ERROR: (?:LoadError: )?OutOfMemoryError\(\)")
_STATA_MEMORY: Final = re.compile(r"op\. sys\. refuses to provide memory|r\(909\);")
_MOST_LINES: Final = 80


def find_program_error(text: str) -> CellError | None:
    """
    Return the error that ended a program, from the end of its output; ``None`` if none is recognised.

    Tracebacks of Python, errors of R, and exhausted memory of Julia and Stata are known.
    """
    lines = text.splitlines()[-_MOST_LINES:]
    return _python_error(lines) or _memory_error(lines) or _r_error(lines)


def _python_error(lines: list[str]) -> CellError | None:
    starts = [number for number, line in enumerate(lines) if line == _PYTHON_BLOCK]
    if not starts:
        return None
    block = lines[starts[-1] :]
    # The error is the first line after the frames, which are indented.
    error = next((number for number, line in enumerate(block[1:], 1) if line[:1].strip()), None)
    match = _PYTHON_ERROR.fullmatch(block[error]) if error is not None else None
    if match is None or error is None:
        return None
    return CellError(name=match["name"], value=match["value"] or "", traceback=tuple(block[: error + 1]))


def _memory_error(lines: list[str]) -> CellError | None:
    for line in reversed(lines):
        if (match := _R_MEMORY.search(line)) is not None:
            return CellError(name="MemoryError", value=match[0])
        if _JULIA_MEMORY.search(line) or _STATA_MEMORY.search(line):
            return CellError(name="MemoryError", value=line.strip())
    return None


def _r_error(lines: list[str]) -> CellError | None:
    for line, following in zip(reversed(lines), ["", *reversed(lines)], strict=False):
        if (match := _R_ERROR.fullmatch(line)) is not None:
            return CellError(name="Error", value=match["value"].strip() or following.strip())
    return None
