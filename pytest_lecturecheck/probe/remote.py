"""A kernel on another machine: its wall time is measured here, its memory is not."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from pytest_lecturecheck.model.metric import Measurement, Method, Metric, Reading, Unavailable
from pytest_lecturecheck.model.probe import CellReadings, Snapshot
from pytest_lecturecheck.model.timeline import MemorySample

_REASON: Final = "the kernel ran on another node"
_MISSING: Final = (
    Metric.PEAK_FOOTPRINT,
    Metric.PEAK_RSS,
    Metric.PEAK_SWAP,
    Metric.PEAK_COMPRESSED,
    Metric.CPU,
    Metric.MAJOR_FAULTS,
    Metric.DISK_WRITTEN,
    Metric.DISK_READ,
    Metric.READ_CALLS,
)


class RemoteProbe:
    """The probe of a kernel whose processes run on another machine."""

    def __init__(self) -> None:
        """Wait for the first cell."""
        self._cell_begun = 0.0
        self._total_seconds = 0.0

    def begin_cell(self) -> None:
        """Start the cell's clock."""
        self._cell_begun = time.perf_counter()

    def end_cell(self) -> CellReadings:
        """Return the cell's wall time."""
        seconds = time.perf_counter() - self._cell_begun
        self._total_seconds += seconds
        return CellReadings(readings=_readings(seconds))

    def snapshot(self) -> Snapshot | None:
        """Return nothing: no memory was read."""
        return None

    def fresh_snapshot(self) -> Snapshot | None:
        """Return nothing: no memory can be read."""
        return None

    def close(self) -> Mapping[Metric, Reading]:
        """Return the wall time of all cells; safe to call twice."""
        return _readings(self._total_seconds)

    def timeline(self, since: float) -> tuple[MemorySample, ...]:  # noqa: ARG002 - the port's signature
        """Return nothing: no memory was read."""
        return ()


def _readings(wall_seconds: float) -> dict[Metric, Reading]:
    wall = Measurement(metric=Metric.WALL, value=wall_seconds, method=Method.EXACT, source="time.perf_counter")
    return {Metric.WALL: wall, **{metric: Unavailable(metric=metric, reason=_REASON) for metric in _MISSING}}
