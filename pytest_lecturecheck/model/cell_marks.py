"""Where Python was in a long cell: marks over time, and time and memory by line."""

from __future__ import annotations

from pytest_lecturecheck.deferred_dataclass import dataclass

OTHER_LINES = "other lines"
"""Place of the lines beyond those that a cell may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodePlace:
    """
    The innermost line of the lecture on a stack.

    Attributes:
        place: the line ("code cell 2, line 41", "paths.py:12 in draw"); empty where no code of the lecture ran.
        function: name of the function that the line is in, or an empty string at the top level of a cell.
        source: text of the line, shortened, or an empty string.
        called: the function of a package that it called ("numpy/linalg/_linalg.py in solve"), or an empty string.
        caller: the line of the cell that led there, if the line is elsewhere.
        cell_number: number of the code cell that the line is in, or ``None``.
        file_line: 1-based line in the lecture's file, or ``None``.
    """

    place: str = ""
    function: str = ""
    source: str = ""
    called: str = ""
    caller: str = ""
    cell_number: int | None = None
    file_line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopState:
    """
    How far a ``for`` loop around the line was, by its counter.

    Attributes:
        name: name of the counter.
        value: its value.
        stop: value at which the loop ends, or ``None`` if it is unknown.
    """

    name: str
    value: int
    stop: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LineSample:
    """
    One look at a running cell.

    Attributes:
        seconds: time since the start of the run.
        place: the line.
        footprint_bytes: footprint of the nearest sample of memory, or ``None``.
        loop: the loop around the line, or ``None``.
    """

    seconds: float
    place: CodePlace
    footprint_bytes: int | None = None
    loop: LoopState | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """
    A period in which every sample found the same line.

    Attributes:
        line: position of that line in :attr:`CellMarks.lines`.
        seconds: time of the first sample, since the start of the run.
        until_seconds: time of the last one.
        sample_count: number of samples.
        footprint_bytes: footprint at the first sample, or ``None``.
        until_footprint_bytes: footprint at the last sample, or ``None``.
        loop: the loop around the line at the last sample, or ``None``.
    """

    line: int
    seconds: float
    until_seconds: float
    sample_count: int = 1
    footprint_bytes: int | None = None
    until_footprint_bytes: int | None = None
    loop: LoopState | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LineUse:
    """
    What was sampled of one line, over all its marks.

    Attributes:
        place: the line.
        busy_seconds: time that samples found this line.
        sample_count: number of samples.
        first_seconds: time of the first one, since the start of the run.
        last_seconds: time of the last one.
        rise_bytes: how far the footprint rose (or fell, if negative) meanwhile; between samples of two lines, half of
            it counts for each.
        first_loop: the loop around the line at the first sample, or ``None``.
        last_loop: the same at the last sample.
    """

    place: CodePlace
    busy_seconds: float = 0.0
    sample_count: int = 0
    first_seconds: float = 0.0
    last_seconds: float = 0.0
    rise_bytes: int = 0
    first_loop: LoopState | None = None
    last_loop: LoopState | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CellMarks:
    """
    Where Python was in a long cell, from the first sample on.

    Attributes:
        interval_seconds: time between two samples.
        lines: the lines that were found, in the order of their first samples; with :data:`OTHER_LINES` for those
            beyond some hundred.
        marks: periods on one line, thinned out evenly; the last one is always kept.
        sample_count: number of samples.
        silent_seconds: how long Python had not answered at the end of the cell, because a call into C held the
            interpreter; 0 if it had.
    """

    interval_seconds: float
    lines: tuple[LineUse, ...]
    marks: tuple[Mark, ...]
    sample_count: int
    silent_seconds: float = 0.0

    @property
    def busy_seconds(self) -> float:
        """Return the time that the marks cover."""
        return sum(line.busy_seconds for line in self.lines)

    @property
    def latest(self) -> LineUse | None:
        """Return the line of the last mark."""
        return self.line_of(self.marks[-1]) if self.marks else None

    def line_of(self, mark: Mark) -> LineUse | None:
        """Return the line of a mark; ``None`` in a record that was edited by hand."""
        return self.lines[mark.line] if 0 <= mark.line < len(self.lines) else None
