"""
Where Python was when native code ended it, as faulthandler printed it.

faulthandler writes ``File "PATH", line N in NAME`` for each frame of the thread that crashed, the innermost first.
ipykernel compiles each cell as a file of its own, ``.../ipykernel_PID/HASH.py``, so that a frame ``<module>`` there is
the running cell itself.
"""

from __future__ import annotations

import re
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.diagnosis.wording import FAULT, FAULT_FRAME, LONGEST_QUOTE, frame_lines
from pytest_lecturecheck.model.evidence import Evidence
from pytest_lecturecheck.safe_text import one_line

_CELL: Final = re.compile(r"(?:.*[/\\])?ipykernel_[0-9]+[/\\][0-9]+\.py")
_IN_CELL: Final = re.compile(r"code cell [0-9]+, line |another code cell, line ")
_OUTERMOST: Final = re.compile(r"code cell [0-9]+, (?P<line>line [0-9]+(?: of the cell)?)")
_PACKAGES: Final = re.compile(r".*[/\\](?:site-packages|dist-packages|python3\.[0-9]+|[Ll]ib)[/\\]")
_SHOWN_FRAMES: Final = 2
"""The place itself names the innermost and the outermost frame."""
_KEPT_PARTS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashPlace:
    """
    What faulthandler said.

    Attributes:
        text: the location as one line.
        cell_line: 1-based line of the running cell's source, or ``None``.
    """

    text: str
    cell_line: int | None = None


def find_crash_place(evidence: Evidence) -> CrashPlace | None:
    """Read faulthandler's frames in the last lines of stderr; ``None`` where there are none."""
    frames = _frames(evidence.exit.stderr_tail)
    if not frames:
        return None
    # Only line feeds count: str.splitlines would also split at form feeds.
    source = evidence.source.removesuffix("\n").split("\n") if evidence.source else []
    in_cell = [frame for frame in frames if _CELL.fullmatch(frame["path"]) and frame["name"] == "<module>"]
    line = int(in_cell[-1]["line"]) if in_cell else None
    if line is not None and source and not 1 <= line <= len(source):
        line = None
    parts = []
    if line is None or frames[0] is not in_cell[-1]:
        parts.append(_text(frames[0], evidence.exit.crash_stack))
    if line is not None:
        code = one_line(source[line - 1], LONGEST_QUOTE) if source else ""
        called = "called from " if parts else ""
        # The line of the file, as everywhere else, where the kernel's dump was read while the lecture ran.
        in_file = _OUTERMOST.fullmatch(evidence.exit.crash_stack[-1]) if evidence.exit.crash_stack else None
        where = in_file["line"] if in_file is not None else f"line {line} of the cell"
        parts.append(f"{called}{where}{f': {code}' if code else ''}")
    return CrashPlace(text="running Python: " + "; ".join(parts), cell_line=line)


def crash_lines(evidence: Evidence) -> tuple[str, ...]:
    """Return the place as a line of evidence, and the stack if the place does not show all of it."""
    place, stack = find_crash_place(evidence), evidence.exit.crash_stack
    if place is None:
        return ()
    return (place.text, *(frame_lines(stack) if len(stack) > _SHOWN_FRAMES else ()))


def _frames(stderr_tail: tuple[str, ...]) -> list[re.Match[str]]:
    """Return the frames after the last fault; a dump that the lecture requested itself is not a fault."""
    faults = [number for number, line in enumerate(stderr_tail) if FAULT.fullmatch(line.strip())]
    if not faults:
        return []
    return [match for line in stderr_tail[faults[-1] + 1 :] if (match := FAULT_FRAME.fullmatch(line))]


def _text(frame: re.Match[str], crash_stack: tuple[str, ...]) -> str:
    name = one_line(frame["name"])
    inside = f", in {name}" if name and name != "<module>" else ""
    if crash_stack and _IN_CELL.match(crash_stack[0]):
        return one_line(crash_stack[0], LONGEST_QUOTE)
    if _CELL.fullmatch(frame["path"]):
        return f"line {frame['line']} of a cell{inside}"
    path = _PACKAGES.sub("", frame["path"])
    parts = re.split(r"[/\\]", path)
    return f"{one_line('/'.join(parts[-_KEPT_PARTS:])) or 'a file'}, line {frame['line']}{inside}"
