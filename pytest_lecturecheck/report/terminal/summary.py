"""Render the summary of a session: table of verdicts, remarks, line for a replication report, counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from pytest_lecturecheck.model.cell_run import CellRun
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.report.device_table import (
    compile_text,
    gpu_text,
    has_compile_times,
    has_gpu_values,
)
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.measurement_text import NO_VALUE
from pytest_lecturecheck.report.style import Paint, Tone, verdict_tone
from pytest_lecturecheck.report.table import Column, Field, render_table
from pytest_lecturecheck.report.terminal.concurrency import render_concurrency
from pytest_lecturecheck.report.terminal.remarks import remark_groups, render_remarks
from pytest_lecturecheck.report.terminal.replication import (
    count_text,
    has_declared,
    package_comparisons,
    replication_line,
)
from pytest_lecturecheck.report.terminal.timelines import render_all_cells, render_timelines
from pytest_lecturecheck.report.text import wrap
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.units import format_duration, format_size
from pytest_lecturecheck.verdict import PackageComparison

_INDENT: Final = "  "
_ALL_CELLS: Final = 2
_HEAVIEST: Final = "heaviest cell"


def render_summary(
    entries: Sequence[Entry],
    *,
    width: int,
    colour: bool,
    replication: bool = False,
    verbosity: int = 0,
    encoding: str | None = "utf-8",
) -> list[str]:
    """
    Render the summary; failing lectures come last, where a log is read first.

    Args:
        entries: the session's entries in the order of their items.
        width: columns of the terminal.
        colour: whether colour codes are written.
        replication: print the line for a replication report even if nothing was compared with a declared limit.
        verbosity: from 1 on, memory over time is drawn; from 2 on, every cell of every lecture is listed.
        encoding: the terminal's encoding.
    """
    if not entries:
        return []
    paint = Paint(colour=colour)
    ordered = [
        *(item for item in entries if not item.verdict.failed),
        *(item for item in entries if item.verdict.failed),
    ]
    lines = _table(ordered, width, paint)
    if verbosity >= 1 and (drawn := render_timelines(ordered, width=width, paint=paint, encoding=encoding)):
        lines += ["", *drawn]
    if verbosity >= _ALL_CELLS:
        lines += render_all_cells(ordered, width=width, paint=paint)
    for title, groups in remark_groups(ordered):
        lines += render_remarks(title, groups, width=width, paint=paint)
    lines += render_concurrency(entries, width=width, paint=paint)
    package = package_comparisons(entries)
    if package:
        lines += [
            "",
            paint(Tone.TITLE, "Package compared with what is declared"),
            *_package_lines(package, width, paint),
        ]
    if replication or has_declared(entries):
        lines += ["", paint(Tone.TITLE, "For a replication report"), replication_line(entries)]
    if _HEAVIEST not in lines[0]:
        lines += _heaviest_lines(entries, width)
    has_failed = any(entry.verdict.failed for entry in entries) or any(item.kind.exceeds_limit for item in package)
    tone = Tone.BAD if has_failed else Tone.GOOD
    return [*lines, "", *(paint(tone, row) for row in wrap(count_text(entries), width))]


def _heaviest_lines(entries: Sequence[Entry], width: int) -> list[str]:
    """Name the two cells that people look for where the terminal was too narrow for the column of each lecture's."""
    made = [entry for entry in entries if entry.was_run]
    if len(made) < 2:  # noqa: PLR2004 - a single lecture has its row
        return []
    texts = []
    for title, metric in (("highest peak", Metric.PEAK_FOOTPRINT), ("longest cell", Metric.WALL)):
        cells = [(entry, cell) for entry in made if (cell := entry.run.heaviest_cell(metric)) is not None]
        found = [(reading, entry, cell) for entry, cell in cells if (reading := cell.measured(metric)) is not None]
        if found:
            reading, entry, cell = max(found, key=lambda item: item[0].value)
            texts.append(f"{title} {reading.text}: {entry.name}, code cell {cell_text(cell)}")
    return ["", *(row for text in texts for row in wrap(text, width))] if texts else []


def _package_lines(items: Sequence[PackageComparison], width: int, paint: Paint) -> list[str]:
    return [
        paint(verdict_tone(item.kind, failed=item.kind.exceeds_limit), row)
        for item in items
        for row in wrap(f"{item.kind.value}: {one_line(item.message)}", width, first=_INDENT, rest=_INDENT * 2)
    ]


def _table(entries: Sequence[Entry], width: int, paint: Paint) -> list[str]:
    more = extra_columns(entries)
    columns = (
        Column(title="lecture", shrink_to=20),
        Column(title="verdict"),
        Column(title="peak", right=True),
        Column(title="limit", right=True),
        Column(title="time", right=True, optional=True),
        *(Column(title=title, right=True, optional=True) for title, _ in more),
        Column(title=_HEAVIEST, optional=True),
    )
    return render_table(columns, [_row(entry, more) for entry in entries], width=width, paint=paint)


def extra_columns(entries: Sequence[Entry]) -> list[tuple[str, Callable[[Run], str]]]:
    """Return the columns that only some sessions have: title, and the function that renders a run's field."""
    columns: list[tuple[str, Callable[[Run], str]]] = []
    if has_compile_times(entries):
        columns.append(("compile", compile_text))
    if has_gpu_values(entries):
        columns.append(("GPU", gpu_text))
    return columns


def _row(entry: Entry, more: Sequence[tuple[str, Callable[[Run], str]]]) -> tuple[Field, ...]:
    peak, limit = peak_and_limit(entry)
    tone = verdict_tone(entry.verdict.kind, failed=entry.verdict.failed)
    time, time_limit = time_and_limit(entry)
    # If limits are exceeded, only the values over their own limits are marked.
    is_peak_bad = entry.verdict.failed and (not entry.is_over or Metric.PEAK_FOOTPRINT in entry.exceeded)
    return (
        Field(entry.name),
        Field(entry.verdict.kind.value, tone),
        Field(peak, tone if is_peak_bad else Tone.PLAIN),
        Field(limit),
        Field(time, tone if time_limit else Tone.PLAIN),
        *(Field(render(entry.run)) for _, render in more),
        Field(cell_text(entry.run.heaviest_cell()), Tone.DIM),
    )


def peak_and_limit(entry: Entry) -> tuple[str, str]:
    """Return peak and limit as text; a peak over its limit never looks equal to it."""
    peak, limit = entry.run.measured(Metric.PEAK_FOOTPRINT), entry.limit_bytes
    if peak is None or limit is None:
        shown = NO_VALUE if peak is None else peak.text
        return shown, NO_VALUE if limit is None else format_size(limit)
    if peak.value <= limit:
        return peak.text, format_size(limit)
    shown, shown_limit = Metric.PEAK_FOOTPRINT.format_values_apart(peak.value, limit)
    return (f">= {shown}" if peak.method.is_lower_bound else shown), shown_limit


def time_and_limit(entry: Entry) -> tuple[str, str]:
    """Return the wall time and the limit that it exceeds, or an empty string; the two never look equal."""
    item = entry.exceeded.get(Metric.WALL)
    if item is None or item.measured is None or item.limit is None:
        return format_duration(entry.wall_seconds) if entry.wall_seconds else NO_VALUE, ""
    return Metric.WALL.format_values_apart(item.measured.value, item.limit)


def cell_text(cell: CellRun | None) -> str:
    """Return a cell's number with its line in the file."""
    if cell is None:
        return NO_VALUE
    return str(cell.number) if cell.line is None else f"{cell.number} (line {cell.line})"
