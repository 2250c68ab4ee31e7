"""Render where Python was in a long cell as text: the lines that took its time and in which its memory rose."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_lecturecheck.model.cell_marks import CellMarks, CodePlace, LineUse, LoopState
from pytest_lecturecheck.model.cell_run import CellRun, CellStatus
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.units import format_duration, format_size

SHOWN_MARK_LINES: Final = 5
_WORTH_BYTES: Final = 1 << 20
_LEAST_SHARE: Final = 0.01
_NOT_THE_LECTURE: Final = "outside of the lecture's code (such as drawing figures)"
_CUT: Final = frozenset({CellStatus.DIED, CellStatus.TIMED_OUT, CellStatus.NOT_RUN})


def heaviest_lines(marks: CellMarks, most: int = SHOWN_MARK_LINES) -> list[LineUse]:
    """Return the lines with most of the time or of the rise of memory, the largest share first."""
    shares = {id(use): max(time_share(use, marks), rise_share(use, marks)) for use in marks.lines}
    found = sorted(marks.lines, key=lambda use: -shares[id(use)])
    return [use for position, use in enumerate(found[:most]) if position == 0 or shares[id(use)] >= _LEAST_SHARE]


def time_share(use: LineUse, marks: CellMarks) -> float:
    """Return the share of a line in the time that the marks cover (0..1)."""
    whole = marks.busy_seconds
    return max(0.0, min(1.0, use.busy_seconds / whole)) if whole > 0 else 0.0


def rise_share(use: LineUse, marks: CellMarks) -> float:
    """Return the share of a line in what all lines rose (0..1); 0 where little rose."""
    whole = sum(max(0, line.rise_bytes) for line in marks.lines)
    return max(0.0, min(1.0, use.rise_bytes / whole)) if whole >= _WORTH_BYTES else 0.0


def rise_text(rise_bytes: int) -> str:
    """Render a rise of memory with its sign (``+5.2 GiB``)."""
    return f"{'-' if rise_bytes < 0 else '+'}{format_size(abs(rise_bytes))}"


def place_text(place: CodePlace) -> str:
    """Return the place of a line with its function (``code cell 3, line 14, in simulate``)."""
    if not place.place:
        return _NOT_THE_LECTURE
    is_named = bool(place.function) and place.cell_number is not None
    return one_line(f"{place.place}, in {place.function}" if is_named else place.place)


def loop_text(first: LoopState | None, last: LoopState | None) -> str:
    """Return how far a loop was (``i from 12 to 93 of 500``), or an empty string."""
    if last is None:
        return ""
    stop = "" if last.stop is None else f" of {last.stop:,}"
    if first is None or first.name != last.name or first.value == last.value:
        return one_line(f"{last.name} at {last.value:,}{stop}")
    return one_line(f"{last.name} from {first.value:,} to {last.value:,}{stop}")


def period_text(use: LineUse, cell: CellRun) -> str:
    """Return when samples found a line, since the start of the cell (``3 min 00 s to 41 min 10 s``)."""
    first, last = (format_duration(since(cell, seconds)) for seconds in (use.first_seconds, use.last_seconds))
    return f"at {first}" if first == last else f"{first} to {last}"


def since(cell: CellRun, seconds: float) -> float:
    """Return a time since the start of the cell."""
    return max(0.0, seconds - (cell.started_seconds or 0.0))


def line_details(use: LineUse) -> str:
    """Return what stands beside a line: its caller, what it called, its loop."""
    parts = [f"called by {use.place.caller}"] if use.place.caller else []
    parts += [f"calls {use.place.called}"] if use.place.called else []
    parts += [text] if (text := loop_text(use.first_loop, use.last_loop)) else []
    return one_line(", ".join(parts))


def use_text(use: LineUse, marks: CellMarks, cell: CellRun) -> str:
    """Render one line (``+5.2 GiB, 62 % of the time: code cell 3, line 14 (3 min 00 s to 41 min 10 s): x = f(y)``)."""
    source = f": {use.place.source}" if use.place.source else ""
    loop = loop_text(use.first_loop, use.last_loop)
    when = f"{period_text(use, cell)}{f'; {loop}' if loop else ''}"
    share = f"{time_share(use, marks) * 100:.0f} % of the time"
    return one_line(f"{rise_text(use.rise_bytes)}, {share}: {place_text(use.place)} ({when}){source}")


def marks_summary(marks: CellMarks, cell: CellRun) -> str:
    """Return since when and how often the cell was sampled."""
    first = format_duration(since(cell, min(line.first_seconds for line in marks.lines)))
    return (
        f"{marks.sample_count:,} samples from {first} of the cell on, one every "
        f"{format_duration(marks.interval_seconds)}; what ran between two samples is not seen"
    )


def last_place(marks: CellMarks, cell: CellRun) -> str:
    """Return where a cell that was stopped was last, or an empty string for one that ended by itself."""
    return ending_text(marks) if cell.status in _CUT else ""


def ending_text(marks: CellMarks) -> str:
    """Return where a cell was last, and for how long."""
    latest = marks.latest
    if latest is None:
        return ""
    mark = marks.marks[-1]
    since_when = mark.until_seconds - mark.seconds
    during = f" for the last {format_duration(since_when)} of samples" if since_when >= marks.interval_seconds else ""
    text = f"it was last in {place_text(latest.place)}{during}"
    if mark.loop is not None:
        text += f", {loop_text(None, mark.loop)}"
    if marks.silent_seconds > 0:
        text += (
            f"; then Python did not answer for {format_duration(marks.silent_seconds)}, as it does while a call into C "
            "holds the interpreter"
        )
    return one_line(text)


def climb_text(marks: CellMarks) -> str:
    """Return in which line memory rose most, or an empty string where it rose little."""
    climbs = max(marks.lines, key=lambda use: use.rise_bytes, default=None)
    if climbs is None or climbs.rise_bytes < _WORTH_BYTES:
        return ""
    return one_line(f"memory rose most in {place_text(climbs.place)}: {rise_text(climbs.rise_bytes)}")


def long_cell_lines(run: Run) -> Iterator[str]:
    """Yield for each long cell where it was, at most five lines each."""
    for cell in run.cells:
        marks = cell.marks
        if marks is None or not marks.lines:
            continue
        ending = last_place(marks, cell)
        yield f"code cell {cell.number}: {marks_summary(marks, cell)}"
        for use in heaviest_lines(marks, SHOWN_MARK_LINES - 1 - bool(ending)):
            yield f"code cell {cell.number}: {use_text(use, marks, cell)}"
        if ending:
            yield f"code cell {cell.number}: {ending}"
