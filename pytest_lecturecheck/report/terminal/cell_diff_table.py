"""Render two runs of one lecture side by side: cell by cell, then the suspects below equal package versions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pytest_lecturecheck.model.cell_run import CellRun
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.report.measurement_text import NO_VALUE
from pytest_lecturecheck.report.style import Paint, Tone
from pytest_lecturecheck.report.table import Column, Field, render_table
from pytest_lecturecheck.report.text import wrap
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.units import format_size
from pytest_lecturecheck.verdict.cell_diff import CellPair, Divergence, RunPair, compare_cells
from pytest_lecturecheck.verdict.joint_failures import read_together
from pytest_lecturecheck.verdict.session_diff import Pair
from pytest_lecturecheck.verdict.suspects import Rank, Suspect, rank_suspects, recorded_on_neither

_INDENT: Final = "  "
_NOTHING: Final = (
    "machine, versions and libraries are the same on both sides, as far as they were recorded; "
    "the lecture's own code was not compared"
)
_MOST_CELLS: Final = 60
_MOST_TEXT: Final = 160
_RANKS: Final = {
    Rank.CAN: "can explain it",
    Rank.PARTLY: "can explain a part",
    Rank.NOT_RECORDED: "unknown",
    Rank.UNLIKELY: "unlikely",
}
_NAMES: Final = {Divergence.OUTCOME: "outcome", Divergence.MEMORY: "memory", Divergence.TIME: "time"}


def render_first_divergences(pairs: Sequence[Pair]) -> Iterator[str]:
    """Return a line for each lecture of both sides in which a cell diverges."""
    for pair in pairs:
        runs = run_pair(pair)
        if runs is not None and (cell := runs.first_divergence) is not None:
            yield f"{one_line(pair.subject[0])}: {_divergence_text(cell)}"


def run_pair(pair: Pair) -> RunPair | None:
    """Return the runs of both sides cell by cell, or ``None`` if a side has no run of the lecture."""
    if pair.before is None or pair.after is None or pair.before.run is None or pair.after.run is None:
        return None
    return compare_cells(pair.before.run, pair.after.run)


def render_cells(runs: RunPair, *, width: int, paint: Paint) -> list[str]:
    """
    Render the cells of two runs of one lecture, the first that diverges, and the suspects.

    Args:
        runs: the two runs.
        width: columns of the terminal.
        paint: the colours.
    """
    first = runs.first_divergence
    lines = [paint(Tone.TITLE, f"{one_line(runs.before.lecture)}, cell by cell"), *_cell_table(runs, width, paint)]
    text = f"first cell whose need diverges: {_divergence_text(first)}" if first is not None else "no cell diverges"
    lines += ["", *wrap(text, width)]
    lines += [line for note in read_together([runs.before, runs.after]) for line in wrap(note, width)]
    suspects = rank_suspects(runs.before, runs.after, first)
    absent = ", ".join(recorded_on_neither(runs.before, runs.after))
    rest = wrap(f"recorded on neither side: {absent}", width) if absent else []
    if not suspects:
        return [*lines, *wrap(_NOTHING, width), *rest]
    lines += ["", paint(Tone.TITLE, "What differs underneath, the likeliest suspect first")]
    for number, suspect in enumerate(suspects, 1):
        lines += _suspect_lines(number, suspect, width, paint)
    return [*lines, *rest]


def _divergence_text(cell: CellPair) -> str:
    line = next((side.first_line for side in (cell.before, cell.after) if side is not None), None)
    place = f"cell {cell.number}{f' (line {line})' if line is not None else ''}, {_NAMES[cell.divergence]}"
    if cell.divergence is Divergence.OUTCOME:
        return f"{place}: {_status(cell.before)} -> {_status(cell.after)}"
    if cell.divergence is Divergence.MEMORY:
        return f"{place}: {' -> '.join(map(_size, cell.need_bytes))}"
    return f"{place}: {_time(cell.before)} -> {_time(cell.after)}"


def _cell_table(runs: RunPair, width: int, paint: Paint) -> list[str]:
    columns = [
        Column(title="cell", right=True),
        *(Column(title=title, right=True) for title in ("need before", "after")),
        *(Column(title=title, right=True, optional=True) for title in ("time before", "after")),
        Column(title="ended", optional=True),
        Column(title=""),
    ]
    shown = runs.cells[:_MOST_CELLS]
    first = runs.first_divergence
    if first is not None and first not in shown:
        shown = (*shown[:-1], first)
    lines = render_table(columns, [_cell_row(cell, first) for cell in shown], width=width, paint=paint)
    left_out = len(runs.cells) - len(shown)
    return [*lines, f"and {left_out} more"] if left_out else lines


def _cell_row(cell: CellPair, first: CellPair | None) -> list[Field]:
    tone = Tone.BAD if cell is first else Tone.PLAIN
    sides = [_status(cell.before), _status(cell.after)]
    mark = (
        "<- first that diverges"
        if cell is first
        else f"differs in {_NAMES[cell.divergence]}"
        if cell.divergence
        else ""
    )
    return [
        Field(str(cell.number), tone),
        *(Field(_size(size), tone) for size in cell.need_bytes),
        *(Field(_time(side), tone) for side in (cell.before, cell.after)),
        Field(sides[0] if sides[0] == sides[1] else " -> ".join(sides), tone),
        Field(mark, tone),
    ]


def _size(size_bytes: int | None) -> str:
    return NO_VALUE if size_bytes is None else format_size(size_bytes)


def _time(cell: CellRun | None) -> str:
    found = cell.measured(Metric.WALL) if cell is not None else None
    return NO_VALUE if found is None else Metric.WALL.format_value(found.value)


def _status(cell: CellRun | None) -> str:
    if cell is None:
        return "absent"
    return f"{cell.status} ({one_line(cell.error.name)})" if cell.error is not None else str(cell.status)


def _suspect_lines(number: int, suspect: Suspect, width: int, paint: Paint) -> Iterator[str]:
    before, after = (
        one_line(text)[:_MOST_TEXT] if text else f"not recorded on {side}"
        for text, side in ((suspect.before, "A"), (suspect.after, "B"))
    )
    tone = Tone.BAD if suspect.rank is Rank.CAN else Tone.PLAIN if suspect.rank is Rank.PARTLY else Tone.DIM
    head = wrap(f"{number:>2}. {one_line(suspect.name)}: {before} -> {after}", width, rest=_INDENT * 2)
    yield from (paint(tone, line) for line in head)
    detail = f"{_RANKS[suspect.rank]}: {suspect.reason}"
    yield from wrap(detail, width, first=_INDENT * 2, rest=_INDENT * 2)
    yield from wrap(f"rule it out: {suspect.rule_out}", width, first=_INDENT * 2, rest=_INDENT * 3)
