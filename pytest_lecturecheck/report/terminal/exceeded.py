"""Render the evidence for an exceeded limit: comparisons, heaviest cells, methods, changes since recording."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pytest_lecturecheck.budget.limits import LectureBudget
from pytest_lecturecheck.model.cell_run import CellRun
from pytest_lecturecheck.model.metric import Measurement, Metric, Unit
from pytest_lecturecheck.model.reported_value import (
    format_reported_range,
    format_reported_value,
    format_reported_values_apart,
)
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.model.timeline import MemorySample
from pytest_lecturecheck.model.variant import title_of
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.measurement_text import (
    NO_VALUE,
    changes_since_recording,
    join_values,
    limit_unit,
    line_text,
    method_text,
    plural,
    value_text,
)
from pytest_lecturecheck.report.memory_text import lacks_peak_lines
from pytest_lecturecheck.report.style import Paint, Tone
from pytest_lecturecheck.report.table import Column, Field, render_table
from pytest_lecturecheck.report.text import wrap
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.units import format_duration, format_fraction, format_size
from pytest_lecturecheck.verdict import Comparison, RelationComparison, ReportedValueComparison, VerdictKind
from pytest_lecturecheck.verdict.values import AnyComparison

_DECLARED: Final = frozenset({VerdictKind.FITS, VerdictKind.NOT_FITTING})
_PEAK_LINES: Final = "Run it again with --lecture-profile memory (and memray) to see which lines hold the peak."
_HEAVIEST: Final = 5
_CHANGES: Final = 12


def render_exceeded(entry: Entry, *, width: int, paint: Paint, indent: str) -> list[str]:
    """Render the sections of evidence of an entry whose comparisons fail."""
    title = [paint(Tone.TITLE, row) for row in wrap(comparison_title(entry), width)]
    lines = [*title, *_comparisons(entry, width, paint, indent)]
    exceeded = [item.metric for item in entry.verdict.comparisons if item.kind.exceeds_limit]
    reported = [item.name for item in entry.verdict.reported_values if item.kind.exceeds_limit]
    reported += [item.text for item in entry.verdict.relations if item.kind.exceeds_limit]
    if any(metric.unit is Unit.BYTES for metric in exceeded) or not (exceeded or reported):
        lines += _section(paint, "Heaviest cells", _heaviest(entry, width, paint, indent))
    if any(metric.unit is Unit.SECONDS for metric in exceeded):
        lines += _section(paint, "Slowest cells", _slowest(entry, width, paint, indent))
    if Metric.PEAK_FOOTPRINT in exceeded:
        lines += _section(
            paint, "Other memory measurements", _bullets(list(beside_footprint(entry.run)), width, indent)
        )
    lines += _section(paint, "Measurement methods", _methods(entry, width, indent))
    lines += _section(paint, "What to do", _bullets(remedies(entry), width, indent))
    changes = list(changes_since_recording(entry))
    shown = changes[:_CHANGES]
    if len(changes) > _CHANGES:
        shown.append(f"and {len(changes) - _CHANGES} more")
    return lines + _section(paint, "Changed since the budget was recorded", _bullets(shown, width, indent))


def beside_footprint(run: Run) -> Iterator[str]:
    """
    Yield the other memory measurements if they differ from the footprint: resident size, compressed, swapped.

    On a system that compresses and swaps, resident size and footprint peak at different times.
    """
    footprint, rss = run.measured(Metric.PEAK_FOOTPRINT), run.measured(Metric.PEAK_RSS)
    if footprint is None or rss is None or format_size(footprint.value) == format_size(rss.value):
        return
    yield f"peak RSS of the kernel: {rss.text}"
    highest = _highest_moments(run)
    if highest is not None:
        held, resident = highest
        yield (
            f"highest samples: footprint {format_size(held.footprint_bytes or 0)} after "
            f"{format_duration(held.seconds)}, RSS of the kernel {format_size(resident.rss_bytes or 0)} after "
            f"{format_duration(resident.seconds)}"
        )
    for metric in (Metric.PEAK_COMPRESSED, Metric.PEAK_SWAP):
        found = run.readings.get(metric)
        # The reason of an unavailable value describes the machine; a plain zero says nothing.
        if found is not None and not (isinstance(found, Measurement) and not found.value):
            yield f"{metric.label}: {one_line(found.text)}"


def _highest_moments(run: Run) -> tuple[MemorySample, MemorySample] | None:
    """Return the samples with the highest footprint and the highest resident size, if they are different."""
    whole = [item for item in run.timeline if item.footprint_bytes is not None and item.rss_bytes is not None]
    if not whole:
        return None
    held = max(whole, key=lambda item: item.footprint_bytes or 0)
    resident = max(whole, key=lambda item: item.rss_bytes or 0)
    return None if held is resident else (held, resident)


def remedies(entry: Entry) -> list[str]:
    """Return what to do about an exceeded or missing budget; recording keeps limits that were set by hand."""
    if entry.budget is None and entry.verdict.failed and entry.verdict.kind is VerdictKind.NO_BUDGET:
        former = one_line(entry.verdict.former_name)
        # The number of kernels and the lectures of a cohort are in the options of this session only.
        how = "the same command with --lecture-record" if entry.run.variant else _recording(entry)
        record = f"{how} on this platform ({one_line(entry.run.platform)}) and commit the budget file."
        if former:
            name = one_line(title_of(entry.run.lecture, entry.run.variant))
            rename = (
                f"In the budget file {one_line(entry.run.platform)}.toml, rename the table of {former!r} to {name!r}"
            )
            return [f"{rename}, which keeps its limits. If it is a new one, run {record}"]
        return [f"Run {record}"]
    lines = [_PEAK_LINES] if lacks_peak_lines(entry) else []
    if entry.budget is None or not entry.is_over:
        return lines
    over = [item.metric for item in entry.verdict.comparisons if item.kind is VerdictKind.OVER]
    by_hand = [metric.label for metric in over if _is_by_hand(entry.budget, metric)]
    texts = []
    if len(by_hand) < len(over):
        texts.append(f"run {_recording(entry)} and commit the budget file.")
    by_hand += [one_line(item.name) for item in entry.verdict.reported_values if item.kind.exceeds_limit]
    by_hand += [one_line(item.text) for item in entry.verdict.relations if item.kind.exceeds_limit]
    if by_hand:
        where = f"in the budget file {one_line(entry.run.platform)}.toml"
        texts.append(f"edit the limit of {', '.join(by_hand)} {where}; recording keeps limits set by hand.")
    return [*lines, *(f"If this is intended, {text}" for text in texts)]


def _recording(entry: Entry) -> str:
    """Return the command that records a lecture; a program is recorded from the kept session."""
    return "lecturecheck record" if entry.run.is_program else f"pytest --lecture-record {one_line(entry.run.lecture)}"


def _is_by_hand(budget: LectureBudget, metric: Metric) -> bool:
    found = budget.metrics.get(metric)
    return found is not None and (found.hand_set or not found.seen)


def _section(paint: Paint, title: str, rows: Sequence[str]) -> list[str]:
    return ["", paint(Tone.TITLE, title), *rows] if rows else []


def _bullets(items: Sequence[str], width: int, indent: str) -> list[str]:
    return [row for item in items for row in wrap(item, width, first=indent)]


def comparison_title(entry: Entry) -> str:
    """Return the title of the comparisons: what the run was compared with, and when that was recorded."""
    kinds = {item.kind for item in entry.verdict.comparisons}
    declared = "the declared limits" if kinds & _DECLARED else ""
    budget = entry.budget
    if budget is None:
        return f"Compared with {declared or 'the limits'}"
    title = f"Compared with {declared}{' and ' if declared else ''}the budget of {one_line(entry.run.platform)}"
    if budget.recorded is None:
        return title
    return f"{title}, recorded {budget.recorded.isoformat()} from {budget.run_count} run{plural(budget.run_count)}"


def _comparisons(entry: Entry, width: int, paint: Paint, indent: str) -> list[str]:
    columns = (
        Column(title="metric", shrink_to=8),
        Column(title="measured", right=True),
        Column(title="limit", right=True),
        Column(title="verdict"),
        Column(title="recorded", optional=True),
    )[: 5 if entry.budget is not None else 4]
    rows = [_comparison_row(entry, item)[: len(columns)] for item in entry.verdict.comparisons]
    rows += [_reported_row(entry, item)[: len(columns)] for item in entry.verdict.reported_values]
    rows += [_relation_row(item)[: len(columns)] for item in entry.verdict.relations]
    return render_table(columns, rows, width=width, paint=paint, indent=indent)


def _comparison_row(entry: Entry, item: Comparison) -> tuple[Field, ...]:
    metric, limit, measured = item.metric, item.limit, item.measured
    shown, shown_limit, verdict = NO_VALUE, NO_VALUE, item.kind.value
    if limit is not None:
        shown_limit = metric.format_value(limit)
    if measured is not None:
        shown = measured.text
    if limit is not None and measured is not None and measured.value > limit:
        at_least = ">= " if measured.method.is_lower_bound else ""
        shown, shown_limit = metric.format_values_apart(measured.value, limit)
        shown = f"{at_least}{shown}"
        verdict = over_text(item)
    tone = Tone.BAD if item.kind.exceeds_limit else Tone.PLAIN
    declared = item.kind in _DECLARED
    return (
        Field(f"{metric.label}, declared" if declared and entry.budget is not None else metric.label),
        Field(shown, tone),
        Field(shown_limit),
        Field(verdict, tone),
        Field(NO_VALUE if declared else _recorded_text(entry, metric)),
    )


def over_text(item: Comparison) -> str:
    """Return by how much a limit is exceeded (``88.4 MiB over (+21 %)``), or the verdict of the comparison."""
    limit, measured = item.limit, item.measured
    if limit is None or measured is None or measured.value <= limit:
        return item.kind.value
    difference = measured.value - limit
    share = f" ({format_fraction(difference / limit)})" if limit else ""
    return f"{item.metric.format_value(difference)} over{share}"


def _reported_row(entry: Entry, item: ReportedValueComparison) -> tuple[Field, ...]:
    limits = _limits_text(item, limit_unit(entry, item))
    shown, tone = NO_VALUE, Tone.BAD if item.kind.exceeds_limit else Tone.PLAIN
    if item.reported is not None:
        unit = item.reported.unit
        exceeded = {VerdictKind.OVER: item.limit, VerdictKind.UNDER: item.at_least}.get(item.kind)
        shown = format_reported_value(item.reported.value, unit)
        if exceeded is not None:
            shown, limits = format_reported_values_apart(item.reported.value, exceeded, unit)
            limits = f"at least {limits}" if item.kind is VerdictKind.UNDER else limits
    found = entry.budget.reported_values.get(item.name) if entry.budget is not None else None
    recorded = format_reported_range(found.seen, found.unit) if found is not None and found.seen else "set by hand"
    return Field(item.name), Field(shown, tone), Field(limits), Field(item.kind.value, tone), Field(recorded)


def _relation_row(item: RelationComparison) -> tuple[Field, ...]:
    tone = Tone.BAD if item.kind.exceeds_limit else Tone.PLAIN
    shown, limit = one_line(item.lower) or NO_VALUE, one_line(item.upper) or NO_VALUE
    return (
        Field(one_line(item.text)),
        Field(shown, tone),
        Field(limit),
        Field(item.kind.value, tone),
        Field("set by hand"),
    )


def _limits_text(item: ReportedValueComparison, unit: str) -> str:
    most = "" if item.limit is None else format_reported_value(item.limit, unit)
    if item.at_least is None:
        return most
    if most:
        return f"{format_reported_value(item.at_least)} to {most}"
    return f"at least {format_reported_value(item.at_least, unit)}"


def _recorded_text(entry: Entry, metric: Metric) -> str:
    found = entry.budget.metrics.get(metric) if entry.budget is not None else None
    if found is None or not found.seen:
        return "set by hand" if found is not None and found.hand_set else NO_VALUE
    return recorded_range(metric, found.seen)


def recorded_range(metric: Metric, values: Sequence[float]) -> str:
    """Return the range of the recorded values (``1.27 to 1.29 GiB``), or the single value."""
    lowest, highest = metric.format_value(min(values)), metric.format_value(max(values))
    return highest if lowest == highest else join_values(lowest, highest, " to ")


def _heaviest(entry: Entry, width: int, paint: Paint, indent: str) -> list[str]:
    """Render the heaviest cells of the run next to those of the recorded budget."""
    now = entry.run.heaviest_cells(Metric.PEAK_FOOTPRINT)[:_HEAVIEST]
    then = {cell.number: cell for cell in entry.budget.heaviest} if entry.budget is not None else {}
    by_number = {cell.number: cell for cell in entry.run.cells}
    numbers = [cell.number for cell in now]
    numbers += [number for number in then if number not in numbers]
    columns = (
        Column(title=""),
        Column(title="cell", right=True),
        Column(title="line", right=True),
        Column(title="peak now", right=True),
        Column(title="added", right=True, optional=True),
        *((Column(title="peak recorded", right=True),) if then else ()),
    )
    rows = []
    for number in numbers:
        cell = by_number.get(number)
        line = cell.line if cell is not None else then[number].line
        raised = cell.raised_bytes if cell is not None else None
        recorded = format_size(then[number].peak_footprint_bytes) if number in then else NO_VALUE
        rows.append(
            (
                _mark(cell, entry.focus),
                Field(str(number)),
                Field(line_text(line)),
                Field("no such cell" if cell is None else value_text(cell, Metric.PEAK_FOOTPRINT)),
                Field(NO_VALUE if raised is None else format_size(raised)),
                *((Field(recorded),) if then else ()),
            )
        )
    return render_table(columns, rows, width=width, paint=paint, indent=indent) if rows else []


def _slowest(entry: Entry, width: int, paint: Paint, indent: str) -> list[str]:
    columns = (
        Column(title=""),
        Column(title="cell", right=True),
        Column(title="line", right=True),
        Column(title="wall", right=True),
        Column(title="CPU", right=True),
        Column(title="compile", right=True, optional=True),
    )
    rows = [
        (
            _mark(cell, entry.focus),
            Field(str(cell.number)),
            Field(line_text(cell.line)),
            *(Field(value_text(cell, metric)) for metric in (Metric.WALL, Metric.CPU, Metric.COMPILE)),
        )
        for cell in entry.run.heaviest_cells(Metric.WALL)[:_HEAVIEST]
    ]
    return render_table(columns, rows, width=width, paint=paint, indent=indent) if rows else []


def _mark(cell: CellRun | None, focus: CellRun | None) -> Field:
    return Field(">" if cell is not None and focus is not None and cell.number == focus.number else "", Tone.MARK)


def _methods(entry: Entry, width: int, indent: str) -> list[str]:
    return [
        row
        for text in dict.fromkeys(_method_texts(entry))
        for row in wrap(text, width, first=indent, rest=indent + "  ")
    ]


def _method_texts(entry: Entry) -> Iterator[str]:
    for item in entry.verdict.comparisons:
        if item.measured is None:
            yield one_line(item.message)
            continue
        text = f"{item.metric.label}: {method_text(item.measured)}"
        found = entry.budget.metrics.get(item.metric) if entry.budget is not None else None
        if found is not None and found.method is not None and found.method is not item.measured.method:
            text += f"; recorded: {found.method.value}"
        yield text
    others: tuple[AnyComparison, ...] = (*entry.verdict.reported_values, *entry.verdict.relations)
    yield from (one_line(item.message) for item in others if item.kind is VerdictKind.NOT_MEASURED)
    machine = entry.run.machine
    if machine is not None:
        yield f"machine: {one_line(machine.text)}"
