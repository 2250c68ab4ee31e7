"""Render measurements as text: their methods, cells in a table, what changed since a budget was recorded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from pytest_lecturecheck.model.cell_run import CellRun, CellStatus
from pytest_lecturecheck.model.metric import Measurement, Method, Metric
from pytest_lecturecheck.model.platform import Machine, Software
from pytest_lecturecheck.model.reported_value import format_reported_value
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.report.device_table import compile_text, gpu_cell_text
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.style import Paint, Tone
from pytest_lecturecheck.report.table import Column, Field, render_table
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.units import format_duration, format_size
from pytest_lecturecheck.verdict import ReportedValueComparison, VerdictKind

NO_VALUE: Final = "-"
_VALUE: Final = re.compile(r"(?P<number>[0-9][0-9.,]*) (?P<unit>[^0-9\s]+)")
_CELL_ROWS: Final = 12
_LAST_ROWS: Final = 4
_STATUS_TONES: Final = {
    CellStatus.FAILED: Tone.BAD,
    CellStatus.TIMED_OUT: Tone.BAD,
    CellStatus.DIED: Tone.BAD,
    CellStatus.ALLOWED_ERROR: Tone.WARN,
    CellStatus.SKIPPED: Tone.DIM,
    CellStatus.EMPTY: Tone.DIM,
    CellStatus.NOT_RUN: Tone.DIM,
}
_SAME_MEMORY_FRACTION: Final = 0.01


def join_values(first: str, second: str, joint: str) -> str:
    """Join two values; a unit that both have is printed once (``1.37 -> 1.56 GiB``)."""
    one, other = _VALUE.fullmatch(first), _VALUE.fullmatch(second)
    if one is not None and other is not None and one["unit"] == other["unit"]:
        first = one["number"]
    return f"{first}{joint}{second}"


def method_text(measured: Measurement) -> str:
    """Return how a value was measured (``exact (VmHWM), within 256 KiB``)."""
    text = measured.method.value
    if measured.interval_seconds:
        text += f" every {_interval_text(measured.interval_seconds)}"
    if measured.method is Method.SAMPLED:
        text += ", a lower bound"
    if measured.source:
        text += f" ({one_line(measured.source)})"
    if measured.tolerance:
        text += f", within {measured.metric.format_value(measured.tolerance)}"
    return text


def _interval_text(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else format_duration(seconds)


def reported_text(entry: Entry) -> str:
    """Return the values that a lecture reported, with their limits (``speedup 1.67 x (>= 1.5 x)``)."""
    compared = {item.name: item for item in entry.verdict.reported_values}
    parts = []
    for reported in entry.run.reported_values.values():
        item, limits = compared.get(reported.name), []
        if item is not None and item.at_least is not None:
            limits.append(f">= {format_reported_value(item.at_least, limit_unit(entry, item))}")
        if item is not None and item.limit is not None:
            limits.append(f"<= {format_reported_value(item.limit, limit_unit(entry, item))}")
        parts.append(reported.text + (f" ({', '.join(limits)})" if limits else ""))
    return one_line(", ".join(parts))


def limit_unit(entry: Entry, item: ReportedValueComparison) -> str:
    """
    Return the unit of a reported value's limits, or an empty string if it is unknown.

    It is the budget's unit. If the budget has none or is missing (sessions kept by older versions), it is the unit of
    the compared value: only values of the same unit are compared.
    """
    found = entry.budget.reported_values.get(item.name) if entry.budget is not None else None
    if found is not None and found.unit:
        return found.unit
    return item.reported.unit if item.reported is not None and item.kind is not VerdictKind.NOT_MEASURED else ""


def focus_text(entry: Entry) -> str:
    """
    Return the cell that the verdict is about (``code cell 3 of 12, which starts at line 41``), or an empty string.

    A cell with a fence or a mark of its own starts one or more lines above its code, which tables of cells name.
    """
    cell = entry.focus
    if cell is None or entry.run.is_program:
        return ""
    text = f"code cell {cell.number} of {len(entry.subject.cells)}"
    if cell.line is None or cell.line == entry.line:
        return text
    code = f" (its code at line {cell.line})" if cell.first_line != cell.line else ""
    return f"{text}, which starts at line {cell.first_line}{code}"


def value_text(cell: CellRun, metric: Metric) -> str:
    """Return a cell's value as text, or a dash if there is none."""
    measured = cell.measured(metric)
    return measured.text if measured is not None else NO_VALUE


def line_text(line: int | None) -> str:
    """Return a line number as text, or a dash."""
    return NO_VALUE if line is None else str(line)


def render_cells(
    run: Run, focus: CellRun | None, *, width: int, paint: Paint, indent: str, all_cells: bool = False
) -> list[str]:
    """
    Render a table of the cells that ran; of many cells the heaviest and the last ones, unless ``all_cells`` is set.

    Cells that were not reached are only counted.
    """
    cells = [cell for cell in run.cells if cell.status is not CellStatus.NOT_RUN]
    if not cells:
        return []
    chosen = cells if all_cells else _choose(cells, focus)
    more = [
        (title, render)
        for title, render in (("compile", compile_text), ("GPU", gpu_cell_text))
        if any(render(cell) != NO_VALUE for cell in chosen)
    ]
    columns = (
        Column(title=""),
        Column(title="cell", right=True),
        Column(title="line", right=True),
        Column(title="status"),
        Column(title="peak", right=True),
        Column(title="added", right=True, optional=True),
        Column(title="wall", right=True),
        *(Column(title=title, right=True, optional=True) for title, _ in more),
    )
    rows = [(*_cell_row(cell, focus), *(Field(render(cell)) for _, render in more)) for cell in chosen]
    lines = render_table(columns, rows, width=width, paint=paint, indent=indent)
    left_out, not_run = len(cells) - len(chosen), len(run.cells) - len(cells)
    if left_out:
        lines.append(f"{indent}{left_out} lighter cell{plural(left_out)} left out")
    if not_run:
        lines.append(f"{indent}{not_run} cell{plural(not_run)} not run")
    return lines


def plural(count: int) -> str:
    """Return the plural ending of a regular noun."""
    return "" if count == 1 else "s"


def _choose(cells: Sequence[CellRun], focus: CellRun | None) -> list[CellRun]:
    if len(cells) <= _CELL_ROWS:
        return list(cells)
    last = {cell.number for cell in cells[-_LAST_ROWS:]} | ({focus.number} if focus is not None else set())
    heaviest = sorted(cells, key=lambda cell: (-(cell.raised_bytes or 0), cell.number))
    numbers = [cell.number for cell in heaviest if cell.number not in last]
    chosen = last | set(numbers[: _CELL_ROWS - len(last)])
    return [cell for cell in cells if cell.number in chosen]


def _cell_row(cell: CellRun, focus: CellRun | None) -> tuple[Field, ...]:
    is_focus = focus is not None and cell.number == focus.number
    raised = NO_VALUE if cell.raised_bytes is None else format_size(cell.raised_bytes)
    return (
        Field(">" if is_focus else "", Tone.MARK),
        Field(str(cell.number)),
        Field(line_text(cell.line)),
        Field(cell.status.value, _STATUS_TONES.get(cell.status, Tone.PLAIN)),
        Field(value_text(cell, Metric.PEAK_FOOTPRINT)),
        Field(raised),
        Field(value_text(cell, Metric.WALL)),
    )


def changes_since_recording(entry: Entry) -> Iterator[str]:
    """Yield what changed since the budget was recorded: versions first, then the machine."""
    if entry.budget is None:
        return
    then, now = entry.budget.software, entry.run.software
    if then is not None and now is not None:
        yield from _software_changes(then, now)
    if entry.budget.machine is not None and entry.run.machine is not None:
        yield from _machine_changes(entry.budget.machine, entry.run.machine)


def _software_changes(then: Software, now: Software) -> Iterator[str]:
    if then.python and now.python and then.python != now.python:
        yield one_line(f"{then.interpreter} -> {now.interpreter.removeprefix('Python ')}")
    for name in sorted({*then.packages, *now.packages}):
        before, after = then.packages.get(name, "absent"), now.packages.get(name, "absent")
        if before != after:
            yield one_line(f"{name} {before} -> {after}")
    yield from (one_line(change) for change in then.variable_changes(now))


def _memory_pair(then_bytes: int, now_bytes: int) -> Iterator[tuple[str, str, str]]:
    # A budget file keeps four digits, and the firmware reserves a varying part of a machine's memory.
    if abs(then_bytes - now_bytes) > _SAME_MEMORY_FRACTION * max(then_bytes, now_bytes):
        yield "memory", format_size(then_bytes), format_size(now_bytes)


def _machine_changes(then: Machine, now: Machine) -> Iterator[str]:
    pairs = (
        ("CPU", then.cpu, now.cpu),
        ("cores", str(then.core_count), str(now.core_count)),
        *_memory_pair(then.usable_memory_bytes, now.usable_memory_bytes),
        ("huge pages", then.transparent_hugepages or "unknown", now.transparent_hugepages or "unknown"),
        ("accelerators", ", ".join(then.accelerators) or "none", ", ".join(now.accelerators) or "none"),
    )
    for name, before, after in pairs:
        if before != after:
            yield one_line(f"{name} {before} -> {after}")
