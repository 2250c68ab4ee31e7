"""
Render the sections of a replication report that follow from measurements, as Markdown to paste.

"Computing Environment of the Replicator" is a heading of the AEA Data Editor's report,
https://github.com/AEADataEditor/replication-template (REPLICATION.md). Every line names the notebook that it rests on.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.manifest import Fact
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.platform import Machine
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.report.bounds import bound_of, size_text, time_text
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.measurement_text import NO_VALUE
from pytest_lecturecheck.report.readable_markdown import pasted, span
from pytest_lecturecheck.units import format_size

_NOT_RUN: Final = frozenset({Outcome.SKIPPED, Outcome.NOTHING_TO_RUN})


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformResult:
    """
    The latest runs of a package on one platform.

    Attributes:
        platform: platform label.
        entries: the runs.
        ended: when the last session there ended, or ``None``.
    """

    platform: str
    entries: Sequence[Entry]
    ended: dt.datetime | None = None


def render_tested_on(results: Sequence[PlatformResult]) -> str:
    """
    Render the platforms on which a package was run, and the values of each notebook on each; never a blend of them.

    Args:
        results: the latest runs on each platform.
    """
    rows = ["| platform | machine | Python | last run |", "|---|---|---|---|"]
    for result in results:
        machines = dict.fromkeys(entry.run.machine.text for entry in result.entries if entry.run.machine)
        pythons = sorted(set(_interpreters(result.entries)))
        day = f"{result.ended.astimezone(dt.UTC):%Y-%m-%d}" if result.ended is not None else NO_VALUE
        fields = [span(result.platform), "; ".join(map(pasted, machines)), pasted(", ".join(pythons)), day]
        rows.append(f"| {' | '.join(field or NO_VALUE for field in fields)} |")
    names = list(dict.fromkeys(_title(entry) for result in results for entry in made_entries(result.entries)))
    titles = " | ".join(span(result.platform) for result in results)
    values = [f"| notebook | {titles} |", f"|---|{'---|' * len(results)}"]
    for name in names:
        fields = [_value([item for item in made_entries(result.entries) if _title(item) == name]) for result in results]
        values.append(f"| {span(name)} | {' | '.join(fields)} |")
    return "\n".join(rows) + "\n\n" + "\n".join(values)


def made_entries(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries of lectures that were run."""
    return [entry for entry in entries if entry.run.outcome not in _NOT_RUN]


def _value(entries: Sequence[Entry]) -> str:
    if not entries:
        return "not run"
    bound = bound_of(entries, Metric.PEAK_FOOTPRINT)
    longest = max(entries, key=lambda entry: entry.seconds or entry.wall_seconds)
    is_whole = all(entry.run.outcome is Outcome.COMPLETED for entry in entries)
    size = size_text(bound) if bound is not None else ""
    time = time_text(longest.seconds or longest.wall_seconds, is_upper=is_whole)
    parts = [f"{'≤' if bound is not None and bound.is_upper else '≥'} {size}"] if size else []
    parts += [f"{'≤' if is_whole else '≥'} {time}"] if time else []
    ends = sorted({entry.run.outcome.value for entry in entries if entry.run.outcome is not Outcome.COMPLETED})
    return pasted(", ".join([*parts, *ends])) or NO_VALUE


def render_environment(entries: Sequence[Entry]) -> str:
    """Render the computing environment of the replicator, one list for each machine."""
    machines = list(dict.fromkeys(entry.run.machine for entry in entries if entry.run.machine is not None))
    blocks = ["\n".join(_machine_lines(machine)) for machine in machines] or ["- The machine was not recorded."]
    software = [entry.run.software for entry in entries if entry.run.software is not None]
    pythons = sorted(set(_interpreters(entries)))
    lines = [f"- Interpreter: {pasted(python)}" for python in pythons]
    versions = sorted(
        {(found.distributions.get(name, name), text) for found in software for name, text in found.packages.items()}
    )
    if versions:
        lines.append(f"- Packages: {pasted(', '.join(f'{name} {version}' for name, version in versions))}")
    return "\n\n".join([*blocks, *(["\n".join(lines)] if lines else [])])


def _interpreters(entries: Sequence[Entry]) -> Iterator[str]:
    """Yield the interpreters; a kernel that died could not be asked, but its environment may be known."""
    for run in (entry.run for entry in entries):
        found = run.software.interpreter if run.software is not None else ""
        if run.manifest is not None:
            found = found or run.manifest.fact(Fact.PYTHON) or run.manifest.fact(Fact.PROGRAM)
        if found:
            yield found


def _machine_lines(machine: Machine) -> Iterator[str]:
    yield f"- OS: {pasted(machine.system)} ({pasted(machine.architecture)})"
    cores = f"{machine.core_count} core{'' if machine.core_count == 1 else 's'}"
    yield f"- Processor: {pasted(machine.cpu)}, {cores}"
    limited = machine.usable_memory_bytes < machine.ram_bytes
    limit = (
        f", of {format_size(machine.ram_bytes)} RAM (limit: {pasted(machine.usable_memory_source)})" if limited else ""
    )
    yield f"- Memory available: {format_size(machine.usable_memory_bytes)}{limit}"
    if machine.swap_bytes is not None:
        yield f"- Swap: {format_size(machine.swap_bytes) if machine.swap_bytes else 'none'}"
    if machine.accelerators:
        driver = f", driver {pasted(machine.driver)}" if machine.driver else ""
        yield f"- GPU: {pasted(', '.join(machine.accelerators))}{driver}"


def _title(entry: Entry) -> str:
    return f"{entry.run.lecture} [{entry.run.variant}]" if entry.run.variant else entry.run.lecture
