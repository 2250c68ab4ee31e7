"""Collect what the page shows about one lecture: its end, comparisons, findings, measurements and environment."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.diagnosis.wording import readable_stderr
from pytest_lecturecheck.model.evidence import Evidence
from pytest_lecturecheck.model.metric import Measurement, Metric, Unavailable
from pytest_lecturecheck.model.platform import Software
from pytest_lecturecheck.model.reported_value import format_reported_value
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.report.device_table import device_lines
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.frames import condense_traceback, lines_by_count
from pytest_lecturecheck.report.html.cell_memory import CellMemory, cell_memories
from pytest_lecturecheck.report.measurement_text import (
    NO_VALUE,
    changes_since_recording,
    focus_text,
    limit_unit,
    method_text,
)
from pytest_lecturecheck.report.memory_text import buffers_text
from pytest_lecturecheck.report.plan_text import shown_plan, taken_text
from pytest_lecturecheck.report.terminal.exceeded import comparison_title, over_text, recorded_range, remedies
from pytest_lecturecheck.safe_text import cut, one_line, plain
from pytest_lecturecheck.units import format_duration, format_size
from pytest_lecturecheck.verdict import Comparison, ReportedValueComparison, VerdictKind

_BLOCK_LINES: Final = 60
_BLOCK_CHARS: Final = 400
_NOTE_CHARS: Final = 2000
_FINDINGS: Final = 100
_PACKAGES: Final = 60
_VALUE_CHARS: Final = 200
_NEVER_MEASURED: Final = {
    "Linux": frozenset({Metric.PEAK_COMPRESSED}),
    "macOS": frozenset({Metric.PEAK_SWAP, Metric.READ_CALLS}),
    "Windows": frozenset(
        {
            Metric.PEAK_SWAP,
            Metric.PEAK_COMPRESSED,
            Metric.MAJOR_FAULTS,
            Metric.DISK_WRITTEN,
            Metric.DISK_READ,
            Metric.READ_CALLS,
        }
    ),
}
"""What a system does not count for a process: that it is missing says nothing about the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DetailBlock:
    """A piece of preformatted text with its heading."""

    title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLine:
    """A line of a cell's source with its number in the file."""

    number: str
    text: str
    is_marked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedValue:
    """One value that was compared with a limit."""

    name: str
    measured: str
    limit: str
    kind: str
    tone: str
    recorded: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """
    One lecture.

    Attributes:
        location: where to look (``lectures/intro.md:41``).
        cell: the cell that the verdict is about, or an empty string.
        source: source of that cell, with the failing line marked.
        evidence: the evidence for the diagnosis.
        advice: what to do.
        compared_title: what the run was compared with, and when that was recorded.
        blocks: traceback, stack, end of stderr, output.
        memory: what is known of the memory of single cells.
        compared: every value that was compared with a limit.
        measurements: name, value and method of every measurement.
        reported: the values that the lecture reported.
        plans: cell, program, its parts and what the cell took, for each cell with a large compiled program.
        devices: one line for each GPU and allocator.
        findings: kind, message and location of each finding.
        notes: context.
        changes: what changed since the budget was recorded.
        facts: where and with what it ran.
    """

    location: str
    cell: str
    source: tuple[SourceLine, ...]
    evidence: tuple[str, ...]
    advice: tuple[str, ...]
    compared_title: str
    blocks: tuple[DetailBlock, ...]
    memory: tuple[CellMemory, ...]
    compared: tuple[ComparedValue, ...]
    measurements: tuple[tuple[str, str, str], ...]
    reported: tuple[str, ...]
    plans: tuple[tuple[str, ...], ...]
    devices: tuple[str, ...]
    findings: tuple[tuple[str, str, str], ...]
    notes: tuple[str, ...]
    changes: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]


def detail_of(entry: Entry) -> Detail:
    """Collect what the page shows about one lecture, as safe text."""
    run, cause = entry.run, entry.verdict.cause
    return Detail(
        location=entry.location,
        cell=focus_text(entry),
        source=tuple(_source(entry)),
        evidence=_texts(cause.evidence) if cause is not None else (),
        advice=(*(_texts(cause.advice) if cause is not None else ()), *remedies(entry)),
        compared_title=comparison_title(entry),
        blocks=tuple(_blocks(entry)),
        memory=tuple(cell_memories(entry)),
        compared=tuple(_compared(entry)),
        measurements=tuple(_measurements(entry)),
        reported=tuple(one_line(value.text) for value in run.reported_values.values()),
        plans=tuple(_plans(run)),
        devices=tuple(device_lines(run)),
        findings=tuple((str(item.kind), one_line(item.message), item.place) for item in run.findings[:_FINDINGS]),
        notes=_texts((*((entry.rerun_text,) if entry.rerun_text else ()), *entry.verdict.notes)),
        changes=tuple(changes_since_recording(entry)),
        facts=tuple(_facts(entry)),
    )


def _texts(items: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(cut(plain(item).strip("\n"), _BLOCK_LINES, _NOTE_CHARS) for item in items)


def _block_text(text: str) -> str:
    return cut(plain(text).strip("\n"), _BLOCK_LINES, _BLOCK_CHARS)


# -- the cell that the verdict is about -------------------------------------------------------------------------------


def _source(entry: Entry) -> Iterator[SourceLine]:
    marked, first = entry.marked_row, entry.source_first_line or 1
    if not entry.source.strip():
        return
    rows = plain(entry.source).rstrip("\n").split("\n")
    start = max(0, min((marked or 1) - _BLOCK_LINES // 2, len(rows) - _BLOCK_LINES))
    for offset, row in enumerate(rows[start : start + _BLOCK_LINES], start=start):
        text = cut(row, 1, _BLOCK_CHARS)
        yield SourceLine(number=str(first + offset), text=text, is_marked=offset + 1 == marked)
    left_out = max(len(rows), entry.verdict.source_line_count) - start - _BLOCK_LINES
    if left_out > 0:
        yield SourceLine(number="", text=f"[... {left_out} more lines of the cell ...]", is_marked=False)


def _blocks(entry: Entry) -> Iterator[DetailBlock]:
    evidence, cell = entry.run.evidence, entry.focus
    error = evidence.error if evidence is not None else None
    if error is None and cell is not None:
        error = cell.error
    if error is not None and error.traceback:
        rows = condense_traceback(error.traceback, lines_by_count(entry.run))
        yield DetailBlock(title="Traceback (condensed)", text="\n".join(rows))
    if evidence is not None:
        for title, lines in (
            ("Python stack at the timeout", evidence.timeout.stack),
            ("Python stack at the crash", evidence.exit.crash_stack),
            (
                f"End of the {'program' if entry.run.is_program else 'kernel'}'s stderr",
                tuple(readable_stderr(evidence)),
            ),
            ("Log of the operating system", evidence.memory.kernel_log),
        ):
            if any(line.strip() for line in lines):
                yield DetailBlock(title=title, text=_block_text("\n".join(lines)))
        if evidence.live_buffers:
            text = "\n".join(buffers_text(item) for item in evidence.live_buffers)
            yield DetailBlock(title="JAX arrays that were alive", text=_block_text(text))
    shown = cell if cell is not None and evidence is not None else None
    if shown is not None and shown.output_extract.strip():
        whose = "the program" if entry.run.is_program else f"code cell {shown.number}"
        yield DetailBlock(title=f"Output of {whose}", text=_block_text(shown.output_extract))


# -- measurements -----------------------------------------------------------------------------------------------------


def _compared(entry: Entry) -> Iterator[ComparedValue]:
    for item in entry.verdict.comparisons:
        yield _compared_metric(entry, item)
    for reported in entry.verdict.reported_values:
        yield _compared_report(reported, limit_unit(entry, reported))
    for relation in entry.verdict.relations:
        yield ComparedValue(
            name=one_line(relation.text),
            measured=one_line(relation.lower) or NO_VALUE,
            limit=one_line(relation.upper) or NO_VALUE,
            kind=relation.kind.value,
            tone=_comparison_tone(relation.kind),
            recorded=NO_VALUE,
        )


def _compared_metric(entry: Entry, item: Comparison) -> ComparedValue:
    metric, measured, limit = item.metric, item.measured, item.limit
    shown, shown_limit = measured.text if measured is not None else NO_VALUE, NO_VALUE
    if limit is not None:
        shown_limit = metric.format_value(limit)
    if measured is not None and limit is not None and measured.value > limit:
        shown, shown_limit = metric.format_values_apart(measured.value, limit)
        shown = f">= {shown}" if measured.method.is_lower_bound else shown
    found = entry.budget.metrics.get(metric) if entry.budget is not None else None
    recorded = recorded_range(metric, found.seen) if found is not None and found.seen else NO_VALUE
    return ComparedValue(
        name=metric.label,
        measured=shown,
        limit=shown_limit,
        kind=over_text(item),
        tone=_comparison_tone(item.kind),
        recorded=recorded,
    )


def _compared_report(item: ReportedValueComparison, unit: str) -> ComparedValue:
    limits = [] if item.at_least is None else [f"at least {format_reported_value(item.at_least, unit)}"]
    limits += [] if item.limit is None else [f"at most {format_reported_value(item.limit, unit)}"]
    measured = NO_VALUE if item.reported is None else format_reported_value(item.reported.value, item.reported.unit)
    return ComparedValue(
        name=one_line(item.name),
        measured=one_line(measured),
        limit=one_line(", ".join(limits)),
        kind=item.kind.value,
        tone=_comparison_tone(item.kind),
        recorded=NO_VALUE,
    )


def _comparison_tone(kind: VerdictKind) -> str:
    if kind.exceeds_limit:
        return "bad"
    return "good" if kind in {VerdictKind.WITHIN, VerdictKind.FITS} else "warn"


def _measurements(entry: Entry) -> Iterator[tuple[str, str, str]]:
    system = entry.run.machine.system if entry.run.machine is not None else ""
    never = next((metrics for name, metrics in _NEVER_MEASURED.items() if system.startswith(name)), frozenset())
    for metric, reading in entry.run.readings.items():
        if isinstance(reading, Unavailable) and metric in never:
            continue
        if isinstance(reading, Measurement):
            yield metric.label, reading.text, method_text(reading)
        elif isinstance(reading, Unavailable):
            yield metric.label, NO_VALUE, one_line(f"not measured: {reading.reason}")


def _plans(run: Run) -> Iterator[tuple[str, ...]]:
    """Yield what the compiler planned for the largest program of each cell, beside what the cell took."""
    for cell in run.cells:
        plan = shown_plan(cell)
        if plan is not None:
            sizes = (format_size(size) for size in (*plan.parts.values(), plan.total_bytes))
            yield (str(cell.number), one_line(plan.program), *sizes, taken_text(cell) or NO_VALUE)


# -- facts ------------------------------------------------------------------------------------------------------------


def _facts(entry: Entry) -> Iterator[tuple[str, str]]:
    """Yield where and with what the lecture ran; unknown facts are left out."""
    run = entry.run
    machine, software = run.machine, run.software
    facts = [
        ("Platform", run.platform),
        ("Machine", machine.text if machine is not None else ""),
        ("Huge pages", (machine.transparent_hugepages or "") if machine is not None else ""),
        ("GPUs", "; ".join(card.text for card in machine.cards) if machine is not None else ""),
        ("Between GPUs", "; ".join(link.text for link in machine.card_links) if machine is not None else ""),
        ("GPU driver", (machine.driver or "") if machine is not None else ""),
        ("Kernel", run.launch.kernel_name),
        ("Python", software.python if software is not None else ""),
        ("Packages", _packages(software.packages) if software is not None else ""),
        ("BLAS and threads", _blas_text(software) if software is not None else ""),
        (
            "Variables that change memory",
            "; ".join(f"{name}={value}" for name, value in sorted(software.variables.items())) if software else "",
        ),
        ("Variables", "; ".join(f"{name}={value}" for name, value in sorted(run.conditions.environment.items()))),
        ("Started", run.launch.started),
        ("Kernel start", format_duration(run.launch.startup_seconds) if run.launch.startup_seconds is not None else ""),
        ("Again in this kernel", _passes_text(run)),
        ("Load average", f"{run.conditions.load_average:.1f}" if run.conditions.load_average is not None else ""),
        ("Memory cap", _cap_text(run)),
        *(_end_facts(run.evidence) if run.evidence is not None else ()),
    ]
    yield from ((name, one_line(text)) for name, text in facts if text)


def _passes_text(run: Run) -> str:
    seconds = [item.wall_seconds for item in run.passes]
    if not seconds:
        return ""
    return f"{len(seconds)} times, {format_duration(min(seconds))} to {format_duration(max(seconds))}"


def _cap_text(run: Run) -> str:
    cap, method = run.conditions.cap_bytes, run.conditions.cap_method
    if cap is None:
        return ""
    return f"{format_size(cap)} ({method})" if method else format_size(cap)


def _blas_text(software: Software) -> str:
    if software.blas or "numpy" not in software.packages:
        return "; ".join(software.blas)
    return "unknown (install threadpoolctl in the kernel's environment)"


def _packages(packages: Mapping[str, str]) -> str:
    items = sorted(packages.items())
    shown = [f"{name} {version}"[:_VALUE_CHARS] for name, version in items[:_PACKAGES]]
    return ", ".join([*shown, *([f"and {len(items) - _PACKAGES} more"] if len(items) > _PACKAGES else [])])


def _end_facts(evidence: Evidence) -> Iterator[tuple[str, str]]:
    if evidence.exit.signal is not None:
        yield "Ended by", f"signal {evidence.exit.signal}{_signal_name(evidence.exit.signal)}"
    elif evidence.exit.exit_code is not None:
        yield "Exit code", str(evidence.exit.exit_code)
    if evidence.memory.last_footprint_bytes is not None:
        age = evidence.memory.last_footprint_age_seconds
        when = f", read {format_duration(age)} before the end was noticed" if age is not None else ""
        yield "Last footprint", f"{format_size(evidence.memory.last_footprint_bytes)}{when}"
    if evidence.memory.available_bytes is not None:
        yield "Memory available at the end", format_size(evidence.memory.available_bytes)
    for kill in evidence.memory.oom_kills:
        limit = f", limit {format_size(kill.limit_bytes)}" if kill.limit_bytes is not None else ""
        yield "OOM kills counted", f"{kill.scope}: {kill.before} to {kill.after}{limit} {kill.where}"


def _signal_name(number: int) -> str:
    try:
        return f" ({signal.Signals(number).name})"
    except ValueError:
        return ""
