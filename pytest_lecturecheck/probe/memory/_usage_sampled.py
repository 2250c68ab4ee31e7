"""What a tree of sampled processes has used up: CPU time, page faults, bytes written. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_lecturecheck.model.metric import Measurement, Method, Metric, Reading, Unavailable
from pytest_lecturecheck.probe.memory._source import ProbeTexts, ProcessReading


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """Counters of a whole tree at one moment; ``None`` where one of its processes has none."""

    cpu_seconds: float | None
    major_faults_count: float | None
    written_bytes: float | None


def add_up(living: Sequence[ProcessReading], former: Sequence[ProcessReading], *, adds_children: bool) -> Used:
    """
    Add up the counters of a tree.

    Args:
        living: last readings of those that live.
        former: last readings of those that have ended.
        adds_children: whether the system added those to their parents', all but what they wrote.
    """
    everybody = [*living, *former]
    counted = list(living) if adds_children else everybody
    return Used(
        cpu_seconds=_sum([item.cpu_seconds for item in counted]),
        major_faults_count=_sum([item.major_faults_count for item in counted]),
        written_bytes=_sum([item.written_bytes for item in everybody]),
    )


def used_readings(
    before: Used | None, after: Used, words: ProbeTexts, *, is_complete: bool, is_whole: bool, reason: str
) -> dict[Metric, Reading]:
    """
    Say what was used between two moments.

    Args:
        before: counters at the start, or ``None`` where they could not be read.
        after: counters at the end.
        words: names of what was read.
        is_complete: whether ``after`` was read from a living kernel.
        is_whole: whether every process of the tree was read up to its end.
        reason: why there is nothing, where there is nothing.
    """
    is_counted = is_complete and (is_whole or words.adds_children)
    pairs: dict[Metric, tuple[float | None, float | None, bool]] = {
        Metric.CPU: (before.cpu_seconds if before else None, after.cpu_seconds, is_counted and words.is_cpu_exact),
        Metric.MAJOR_FAULTS: (before.major_faults_count if before else None, after.major_faults_count, is_counted),
        Metric.DISK_WRITTEN: (
            before.written_bytes if before else None,
            after.written_bytes,
            is_complete and is_whole,
        ),
    }
    found: dict[Metric, Reading] = {}
    for metric, (first, last, is_exact) in pairs.items():
        if first is None or last is None:
            why = reason if before is None else words.missing.get(metric, reason)
            found[metric] = Unavailable(metric=metric, reason=why)
            continue
        found[metric] = Measurement(
            metric=metric,
            value=max(0, last - first),
            method=Method.EXACT if is_exact else Method.SAMPLED,
            source=words.sources.get(metric, ""),
        )
    return found


def _sum(values: Sequence[float | None]) -> float | None:
    known = [item for item in values if item is not None]
    return sum(known) if values and len(known) == len(values) else None
