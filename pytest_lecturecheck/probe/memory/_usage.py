"""What a process tree used between two readings: CPU time, page faults, bytes written and read. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.metric import Measurement, Method, Metric, Reading, Unavailable

USAGE_METRICS: Final = (
    Metric.CPU,
    Metric.MAJOR_FAULTS,
    Metric.DISK_WRITTEN,
    Metric.DISK_READ,
    Metric.READ_CALLS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """
    Counters of a process tree at one moment; ``None`` where a counter could not be read for all of its processes.

    Where the OS adds the counters of a child to those of its parent when it is waited for, the sum only grows.

    Attributes:
        cpu_ticks: user and system time, in ticks of :attr:`UsageSource.ticks_per_second`.
        major_faults_count: page faults that needed the disk.
        written_bytes: bytes sent to storage.
        fetched_bytes: bytes that storage delivered.
        called_bytes: bytes that read calls returned, from the page cache as well.
        child_faults_count: minor faults of children of the kernel that were waited for (Linux); else 0.
    """

    cpu_ticks: float | None
    major_faults_count: int | None
    written_bytes: int | None
    fetched_bytes: int | None = None
    called_bytes: int | None = None
    child_faults_count: int = 0

    def value(self, metric: Metric) -> float | None:
        """Return the counter behind one of :data:`USAGE_METRICS`."""
        counters: dict[Metric, float | None] = {
            Metric.CPU: self.cpu_ticks,
            Metric.MAJOR_FAULTS: self.major_faults_count,
            Metric.DISK_WRITTEN: self.written_bytes,
            Metric.DISK_READ: self.fetched_bytes,
            Metric.READ_CALLS: self.called_bytes,
        }
        return counters[metric]


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSource:
    """
    Where an OS keeps these counters.

    Attributes:
        sources: names of the counters.
        missing: why the OS has no value, for the metrics that it lacks.
        ticks_per_second: unit of :attr:`Usage.cpu_ticks`.
        cpu_tolerance_seconds: possible error of a difference of CPU times.
    """

    sources: Mapping[Metric, str]
    missing: Mapping[Metric, str] = field(default_factory=dict)
    ticks_per_second: float = 1.0
    cpu_tolerance_seconds: float = 0.0


def usage_readings(
    before: Usage | None, after: Usage | None, source: UsageSource, *, exact: Collection[Metric], reason: str
) -> dict[Metric, Reading]:
    """
    Return what was used between two moments.

    Args:
        before: counters at the start, or ``None`` where they could not be read.
        after: counters at the end, likewise.
        source: where the counters come from.
        exact: metrics whose counters hold the whole window and all processes.
        reason: why there is no value, where ``before`` or ``after`` is missing.
    """
    if before is None or after is None:
        return {metric: Unavailable(metric=metric, reason=reason) for metric in USAGE_METRICS}
    found: dict[Metric, Reading] = {}
    for metric in USAGE_METRICS:
        first, last = before.value(metric), after.value(metric)
        if first is None or last is None:
            found[metric] = Unavailable(metric=metric, reason=source.missing.get(metric, reason))
            continue
        # Counters of a process that has left the tree are missing at the end, so the difference may be negative.
        used = max(0, last - first)
        found[metric] = Measurement(
            metric=metric,
            value=used / source.ticks_per_second if metric is Metric.CPU else used,
            method=Method.EXACT if metric in exact else Method.SAMPLED,
            tolerance=source.cpu_tolerance_seconds if metric is Metric.CPU else 0,
            source=source.sources.get(metric, ""),
        )
    return found


def sum_readings(metric: Metric, readings: Iterable[Reading]) -> Reading:
    """Return the sum over all cells; unavailable where one cell was not measured, or none was."""
    total, tolerance, count, source, method = 0.0, 0.0, 0, "", Method.EXACT
    for reading in readings:
        if isinstance(reading, Unavailable):
            return reading
        total, tolerance, count = total + reading.value, tolerance + reading.tolerance, count + 1
        source = reading.source
        method = method if reading.method is Method.EXACT else reading.method
    if not count:
        return Unavailable(metric=metric, reason="no cell was measured")
    return Measurement(metric=metric, value=total, method=method, tolerance=tolerance, source=source)
