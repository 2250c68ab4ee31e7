"""What a tree of processes has used up: CPU time, page faults, bytes written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pytest_lecturecheck.model.metric import Measurement, Method, Metric, Reading, Unavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """
    Counters at one moment. Children that were waited for are in those of their parent: the sum over a tree only grows.

    Attributes:
        cpu_ticks: user and system time of the tree, in clock ticks.
        major_faults_count: page faults of the tree that needed the disk.
        written_bytes: bytes the tree sent to storage, or ``None`` where that may not be read.
        child_faults_count: minor faults of children of the kernel that were waited for.
    """

    cpu_ticks: int
    major_faults_count: int
    written_bytes: int | None
    child_faults_count: int


def usage_readings(
    before: Usage | None, after: Usage | None, *, ticks_per_second: int, is_complete: bool
) -> dict[Metric, Reading]:
    """
    Say what was used between two moments.

    Args:
        before: counters at the start, or ``None`` where they could not be read.
        after: counters at the end.
        ticks_per_second: clock ticks in a second.
        is_complete: whether ``after`` holds the end of the window and all processes.
    """
    if before is None or after is None:
        reason = "the process had ended before it could be read"
        metrics = (Metric.CPU, Metric.MAJOR_FAULTS, Metric.DISK_WRITTEN)
        return {metric: Unavailable(metric=metric, reason=reason) for metric in metrics}
    method = Method.EXACT if is_complete else Method.SAMPLED
    cpu = Measurement(
        metric=Metric.CPU,
        value=max(0, after.cpu_ticks - before.cpu_ticks) / ticks_per_second,
        method=method,
        # User and system time are each cut to whole ticks.
        tolerance=2 / ticks_per_second,
        source="/proc/PID/stat",
    )
    faults = Measurement(
        metric=Metric.MAJOR_FAULTS,
        value=max(0, after.major_faults_count - before.major_faults_count),
        method=method,
        source="/proc/PID/stat",
    )
    written = _written(before.written_bytes, after.written_bytes, method)
    return {Metric.CPU: cpu, Metric.MAJOR_FAULTS: faults, Metric.DISK_WRITTEN: written}


def _written(before: int | None, after: int | None, method: Method) -> Reading:
    if before is None or after is None:
        return Unavailable(metric=Metric.DISK_WRITTEN, reason="/proc/PID/io cannot be read")
    value = max(0, after - before)
    return Measurement(metric=Metric.DISK_WRITTEN, value=value, method=method, source="/proc/PID/io")


def sum_readings(metric: Metric, readings: Iterable[Reading]) -> Reading:
    """Add up the readings of all cells; one that is missing leaves no sum, and none at all is no sum either."""
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
