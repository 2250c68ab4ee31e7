"""Render the line for a replication report, and the counts of a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pytest_lecturecheck.model.cohort_record import is_cohort
from pytest_lecturecheck.model.metric import Measurement, Metric, Unit
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.measurement_text import method_text, plural
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.units import format_declared_duration, format_declared_size, format_duration, format_size
from pytest_lecturecheck.verdict import PackageComparison, VerdictKind, compare_package

_BESIDE_FOOTPRINT: Final = (Metric.PEAK_RSS, Metric.PEAK_SWAP, Metric.PEAK_COMPRESSED)
_GOOD_ENDS: Final = frozenset({Outcome.COMPLETED, Outcome.SKIPPED, Outcome.NOTHING_TO_RUN})
_DECLARED: Final = frozenset({VerdictKind.FITS, VerdictKind.NOT_FITTING})


def has_declared(entries: Sequence[Entry]) -> bool:
    """Return True if a run was compared with a declared limit."""
    return any(item.kind in _DECLARED for entry in entries for item in entry.verdict.comparisons)


def package_comparisons(entries: Sequence[Entry]) -> list[PackageComparison]:
    """Return the comparisons of the whole package with what is declared; see ``verdict.package``."""
    return compare_package([(entry.run, entry.verdict) for entry in entries])


def replication_line(entries: Sequence[Entry], *, noun: str = "lecture") -> str:
    """
    Render in one line what a replication report needs: memory, time, how they were measured, and the machine.

    It stays one line at any width, so that it can be copied. Lectures run one after another: their times add up, their
    peaks do not. Cohorts are left out, because a reader runs one kernel at a time.

    Args:
        entries: the session's entries.
        noun: what a lecture is called.
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
    longest = _longest_runs(entries)
    parts.append(f"wall time {_times_text(longest)} for {subjects_text(longest, noun)}")
    parts.append(_declared_text(entries))
    bad = [entry for entry in longest if entry.run.outcome not in _GOOD_ENDS]
    parts.append(f"incomplete: {subjects_text(bad, noun)} did not run to the end" if bad else "")
    machines = [entry.run.machine for entry in entries if entry.run.machine is not None]
    parts.append(one_line(machines[0].text) if machines else "machine unknown")
    return "; ".join(part for part in parts if part)


def _longest_runs(entries: Sequence[Entry]) -> list[Entry]:
    """Return the longest run of each lecture, cohort and variant: a reader runs each once."""
    longest: dict[tuple[str, str], Entry] = {}
    for entry in entries:
        subject = (entry.run.lecture, entry.run.variant)
        if subject not in longest or entry.wall_seconds > longest[subject].wall_seconds:
            longest[subject] = entry
    return list(longest.values())


def _times_text(entries: Sequence[Entry]) -> str:
    """Return the total time of the cells, and of the lectures with their kernel starts; programs have neither."""
    cells, whole = sum(entry.wall_seconds for entry in entries), sum(entry.seconds for entry in entries)
    if all(entry.run.is_program for entry in entries):
        return format_duration(cells)
    around = f"; {format_duration(whole)} with kernel starts" if whole > cells else ""
    return f"{format_duration(cells)} (cells{around})"


def _highest_text(entries: Sequence[Entry], metric: Metric) -> str:
    found: list[Measurement] = [value for entry in entries if (value := entry.run.measured(metric)) is not None]
    return f"{metric.label} {max(found, key=lambda item: item.value).text}" if found else ""


def _declared_text(entries: Sequence[Entry]) -> str:
    limits = {
        item.metric: format_declared_size(item.limit) + (" of disk" if item.metric is Metric.DISK_WRITTEN else "")
        if item.metric.unit is Unit.BYTES
        else format_declared_duration(item.limit)
        for entry in entries
        for item in entry.verdict.comparisons
        if item.kind in _DECLARED and item.limit is not None
    }
    return "declared " + " and ".join(limits.values()) if limits else ""


def subjects_text(entries: Sequence[Entry], noun: str = "lecture", *, repeated: int = 0) -> str:
    """
    Return the number of lectures, programs, cohorts and, if there are more, runs (``3 lectures and 1 cohort``).

    Args:
        entries: the entries to count.
        noun: what a lecture is called.
        repeated: further runs, which other entries replace.
    """
    programs = {entry.run.lecture for entry in entries if entry.run.is_program}
    lectures = {entry.run.lecture for entry in entries if not is_cohort(entry.run)} - programs
    cohorts = {(entry.run.lecture, entry.run.variant) for entry in entries if is_cohort(entry.run)}
    counts = [(len(lectures), noun), (len(programs), "program"), (len(cohorts), "cohort")]
    *parts, last = [f"{count} {word}{plural(count)}" for count, word in counts if count] or [f"0 {noun}s"]
    text = f"{', '.join(parts)} and {last}" if parts else last
    runs = len(entries) + repeated
    return f"{text} in {runs} runs" if runs > sum(count for count, _ in counts) else text


def repeated_count(entries: Sequence[Entry]) -> int:
    """Return the number of runs that another plugin repeated, and that other entries replace."""
    return sum(len(entry.verdict.earlier_ends) for entry in entries)


def count_text(entries: Sequence[Entry]) -> str:
    """Return one line with the number of lectures, their verdicts (failing first), highest peak and total time."""
    counts: dict[tuple[bool, VerdictKind], int] = {}
    for entry in sorted(entries, key=lambda item: not item.verdict.failed):
        key = (entry.verdict.failed, entry.verdict.kind)
        counts[key] = counts.get(key, 0) + 1
    verdicts = ", ".join(f"{count} {kind.value}" for (_, kind), count in counts.items())
    made = [entry for entry in entries if entry.was_run]
    cell_count = sum(entry.run.cell_run_count for entry in made)
    peaks = [found for entry in made if (found := entry.run.measured(Metric.PEAK_FOOTPRINT)) is not None]
    repeated = repeated_count(entries)
    parts = [f"{subjects_text(entries, repeated=repeated)}: {verdicts}"]
    parts += [f"{repeated} run again"] if repeated else []
    has_only_programs = all(entry.run.is_program for entry in entries)
    whole = sum(entry.seconds for entry in entries)
    parts += [] if has_only_programs else [f"{cell_count} cell{plural(cell_count)} run"]
    if peaks:
        highest = max(peaks, key=lambda item: item.value)
        at_least = ">= " if highest.method.is_lower_bound else ""
        parts.append(f"highest peak {at_least}{format_size(highest.value)}")
    # A sum over lectures: with several workers the session itself is shorter.
    parts.append(f"total {'' if has_only_programs else 'lecture '}time {format_duration(whole)}")
    return "; ".join(parts)
