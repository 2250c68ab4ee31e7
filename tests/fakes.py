"""Stand-ins for the ports, one for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_lecturecheck.device import DeviceUse
from pytest_lecturecheck.metric import Metric, Reading
from pytest_lecturecheck.probe.port import CellReadings, Snapshot
from pytest_lecturecheck.timeline import MemorySample


class FakeProbe:
    """A probe that says what it was told to say, and keeps what it was told."""

    def __init__(
        self,
        cells: Sequence[CellReadings] = (),
        lecture: Mapping[Metric, Reading] | None = None,
        last: Snapshot | None = None,
        samples: Sequence[MemorySample] = (),
    ):
        self.samples = tuple(samples)
        self.cells = list(cells)
        self.lecture = lecture or {}
        self.last = last
        self.calls: list[str] = []

    def begin_cell(self) -> None:
        self.calls.append("begin")

    def end_cell(self) -> CellReadings:
        """Give the next scripted cell; empty readings when the script has run out."""
        self.calls.append("end")
        return self.cells.pop(0) if self.cells else CellReadings(readings={})

    def snapshot(self) -> Snapshot | None:
        self.calls.append("snapshot")
        return self.last

    def close(self) -> Mapping[Metric, Reading]:
        self.calls.append("close")
        return self.lecture

    def timeline(self, since: float) -> tuple[MemorySample, ...]:  # noqa: ARG002 - the port's signature
        return self.samples


class FakeDeviceProbe:
    """Devices as a script has them: readings for each cell, uses before, during and after the lecture."""

    def __init__(
        self,
        cells: Sequence[Mapping[Metric, Reading]] = (),
        lecture: Mapping[Metric, Reading] | None = None,
        now: Sequence[DeviceUse] = (),
        after: Sequence[DeviceUse] = (),
    ):
        self.cells = list(cells)
        self.lecture = lecture or {}
        self.now = tuple(now)
        self.after = tuple(after)
        self.calls: list[str] = []

    def begin_cell(self) -> None:
        self.calls.append("begin")

    def end_cell(self) -> Mapping[Metric, Reading]:
        """Give the next scripted cell; no readings when the script has run out."""
        self.calls.append("end")
        return self.cells.pop(0) if self.cells else {}

    def snapshot(self) -> tuple[DeviceUse, ...]:
        self.calls.append("snapshot")
        return self.now

    def close(self) -> tuple[Mapping[Metric, Reading], tuple[DeviceUse, ...]]:
        self.calls.append("close")
        return self.lecture, self.after
