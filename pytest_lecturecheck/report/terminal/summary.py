"""Render the summary of a session: table of verdicts, remarks, line for a replication report, counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from pytest_lecturecheck.model.cell_run import CellRun
from pytest_lecturecheck.model.cohort_record import is_cohort
from pytest_lecturecheck.model.metric import Measurement, Metric, Unit
from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.report.device_table import (
    compile_groups,
    compile_text,
    device_lines,
    gpu_text,
    has_compile_times,
    has_gpu_values,
)
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.measurement_text import NO_VALUE, method_text, plural, reported_text
from pytest_lecturecheck.report.profiles import profile_groups
from pytest_lecturecheck.report.style import Paint, Tone, verdict_tone
from pytest_lecturecheck.report.table import Column, Field, render_table
from pytest_lecturecheck.report.terminal.concurrency import render_concurrency
from pytest_lecturecheck.report.terminal.timelines import render_all_cells, render_timelines
from pytest_lecturecheck.report.text import fit_middle, wrap
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.units import format_declared_duration, format_declared_size, format_duration, format_size
from pytest_lecturecheck.verdict import SHARED_MACHINE, VerdictKind

_INDENT: Final = "  "
_ALL_CELLS: Final = 2
_LOCATIONS: Final = 4
_MESSAGE_CHARS: Final = 400
_QUIET: Final = frozenset({VerdictKind.WITHIN, VerdictKind.FITS, VerdictKind.RECORDED})
_BESIDE_FOOTPRINT: Final = (Metric.PEAK_RSS, Metric.PEAK_SWAP, Metric.PEAK_COMPRESSED)
_BAD_ENDS: Final = frozenset(
    {Outcome.FAILED, Outcome.TIMED_OUT, Outcome.DIED, Outcome.NOT_STARTED, Outcome.REFUSED, Outcome.STOPPED}
)
_DECLARED: Final = frozenset({VerdictKind.FITS, VerdictKind.NOT_FITTING})

Group: TypeAlias = tuple[str, list[str]]
"""Equal remarks: the message and its locations."""


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
        lines += _render_groups(title, groups, width, paint)
    lines += render_concurrency(entries, width=width, paint=paint)
    if replication or any(item.kind in _DECLARED for entry in entries for item in entry.verdict.comparisons):
        lines += ["", paint(Tone.TITLE, "For a replication report"), replication_line(entries)]
    tone = Tone.BAD if any(entry.verdict.failed for entry in entries) else Tone.GOOD
    return [*lines, "", *(paint(tone, row) for row in wrap(count_text(entries), width))]


def _table(entries: Sequence[Entry], width: int, paint: Paint) -> list[str]:
    more = extra_columns(entries)
    columns = (
        Column(title="lecture", shrink_to=20),
        Column(title="verdict"),
        Column(title="peak", right=True),
        Column(title="limit", right=True),
        Column(title="time", right=True, optional=True),
        *(Column(title=title, right=True, optional=True) for title, _ in more),
        Column(title="heaviest cell", optional=True),
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


def remark_groups(entries: Sequence[Entry]) -> list[tuple[str, list[Group]]]:
    """Return the remarks that are not failures by heading, with equal remarks joined and no empty headings."""
    titled = (
        ("Verdicts", _verdict_groups(entries)),
        ("Notes", _note_groups(entries)),
        ("Findings", _finding_groups(entries)),
        ("GPUs", _device_groups(entries)),
        ("Compiler", compile_groups(entries)),
        ("Reported by the lectures", _reported_groups(entries)),
        ("Traced cells", profile_groups(entries)),
    )
    return [(title, groups) for title, groups in titled if groups]


def _verdict_groups(entries: Iterable[Entry]) -> list[Group]:
    """Collect headlines that call for action; failures have their own text, and good verdicts need none."""
    pairs = (
        (_named(entry.verdict.kind.value, entry.headline), entry.name)
        for entry in entries
        if not entry.verdict.failed and entry.verdict.kind not in _QUIET
    )
    return _group(pairs)


def _named(kind: str, headline: str) -> str:
    return headline if headline.startswith(kind) else f"{kind}: {headline}"


def _note_groups(entries: Iterable[Entry]) -> list[Group]:
    """Collect the notes of passing lectures; a failure's own text has its notes."""
    pairs = ((note, entry.name) for entry in entries if not entry.verdict.failed for note in entry.verdict.notes)
    return _group(_split_companions(note, name) for note, name in pairs)


def _split_companions(note: str, name: str) -> tuple[str, str]:
    """Move the concurrent lectures from the note to the location, so that equal notes of many lectures join."""
    start = f"{SHARED_MACHINE}: "
    if not note.startswith(start):
        return note, name
    return SHARED_MACHINE, f"{name}, with {one_line(note.removeprefix(start))}"


def _finding_groups(entries: Iterable[Entry]) -> list[Group]:
    return _group(
        (item.message, f"{entry.name}: {item.place}" if item.place else entry.name)
        for entry in entries
        for item in entry.run.findings
    )


def _device_groups(entries: Iterable[Entry]) -> list[Group]:
    return _group((line, entry.name) for entry in entries for line in device_lines(entry.run))


def _reported_groups(entries: Iterable[Entry]) -> list[Group]:
    return _group((reported_text(entry), entry.name) for entry in entries if entry.run.figures)


def _group(pairs: Iterable[tuple[str, str]]) -> list[Group]:
    """Join equal messages, in the order of their first occurrence."""
    groups: dict[str, list[str]] = {}
    for message, location in pairs:
        locations = groups.setdefault(one_line(message, _MESSAGE_CHARS), [])
        if location not in locations:
            locations.append(location)
    return list(groups.items())


def _render_groups(title: str, groups: Sequence[Group], width: int, paint: Paint) -> list[str]:
    lines = ["", paint(Tone.TITLE, title)]
    for message, locations in groups:
        lines += wrap(message, width, first=_INDENT, rest=_INDENT)
        indent = _INDENT * 3
        lines += [
            f"{indent}{paint(Tone.LOCATION, fit_middle(location, width - len(indent)))}"
            for location in locations[:_LOCATIONS]
        ]
        if len(locations) > _LOCATIONS:
            lines.append(f"{indent}and {len(locations) - _LOCATIONS} more")
    return lines


def replication_line(entries: Sequence[Entry]) -> str:
    """
    Render in one line what a replication report needs: memory, time, how they were measured, and the machine.

    It stays one line at any width, so that it can be copied. Lectures run one after another: their times add up, their
    peaks do not. Cohorts are left out, because a reader runs one kernel at a time.
    """
    entries = [entry for entry in entries if not entry.run.members] or entries
    peaks = [(found, entry) for entry in entries if (found := entry.run.measured(Metric.PEAK_FOOTPRINT)) is not None]
    parts = []
    if peaks:
        peak, entry = max(peaks, key=lambda pair: pair[0].high or pair[0].value)
        parts.append(f"peak footprint {peak.text} in {entry.name}, {method_text(peak)}")
    else:
        parts.append("peak footprint not measured")
    parts += [_highest_text(entries, metric) for metric in _BESIDE_FOOTPRINT]
    parts.append(f"wall time {_times_text(entries)} for {subjects_text(entries)}")
    parts.append(_declared_text(entries))
    bad = len({entry.run.lecture for entry in entries if entry.run.outcome in _BAD_ENDS})
    parts.append(f"incomplete: {bad} lecture{plural(bad)} did not run to the end" if bad else "")
    machines = [entry.run.machine for entry in entries if entry.run.machine is not None]
    parts.append(one_line(machines[0].text) if machines else "machine unknown")
    return "; ".join(part for part in parts if part)


def _times_text(entries: Sequence[Entry]) -> str:
    """Return the total time of the cells, and of the lectures with their kernel starts."""
    cells, whole = sum(entry.wall_seconds for entry in entries), sum(entry.seconds for entry in entries)
    around = f"; {format_duration(whole)} with kernel starts" if whole > cells else ""
    return f"{format_duration(cells)} (cells{around})"


def _highest_text(entries: Sequence[Entry], metric: Metric) -> str:
    found: list[Measurement] = [value for entry in entries if (value := entry.run.measured(metric)) is not None]
    return f"{metric.label} {max(found, key=lambda item: item.value).text}" if found else ""


def _declared_text(entries: Sequence[Entry]) -> str:
    limits = {
        item.metric: format_declared_size(item.limit)
        if item.metric.unit is Unit.BYTES
        else format_declared_duration(item.limit)
        for entry in entries
        for item in entry.verdict.comparisons
        if item.kind in _DECLARED and item.limit is not None
    }
    return "declared " + " and ".join(limits.values()) if limits else ""


def subjects_text(entries: Sequence[Entry]) -> str:
    """Return the number of lectures, cohorts and, if there are more, runs (``3 lectures and 1 cohort``)."""
    lectures = {entry.run.lecture for entry in entries if not is_cohort(entry.run)}
    cohorts = {(entry.run.lecture, entry.run.variant) for entry in entries if is_cohort(entry.run)}
    counts = [(len(lectures), "lecture"), (len(cohorts), "cohort")]
    text = " and ".join(f"{count} {word}{plural(count)}" for count, word in counts if count)
    return f"{text} in {len(entries)} runs" if len(entries) > len(lectures) + len(cohorts) else text


def count_text(entries: Sequence[Entry]) -> str:
    """Return one line with the number of lectures, their verdicts (failing first), highest peak and total time."""
    counts: dict[tuple[bool, VerdictKind], int] = {}
    for entry in sorted(entries, key=lambda item: not item.verdict.failed):
        key = (entry.verdict.failed, entry.verdict.kind)
        counts[key] = counts.get(key, 0) + 1
    verdicts = ", ".join(f"{count} {kind.value}" for (_, kind), count in counts.items())
    made = [entry for entry in entries if entry.was_run]
    cell_count = sum(entry.run.cell_run_count for entry in made)
    peaks = [found.value for entry in made if (found := entry.run.measured(Metric.PEAK_FOOTPRINT)) is not None]
    parts = [f"{subjects_text(entries)}: {verdicts}"]
    parts.append(f"{cell_count} cell{plural(cell_count)} run")
    if peaks:
        parts.append(f"highest peak {format_size(max(peaks))}")
    # A sum over lectures: with several workers the session itself is shorter.
    parts.append(f"total lecture time {format_duration(sum(entry.seconds for entry in entries))}")
    return "; ".join(parts)
