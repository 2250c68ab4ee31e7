"""Stand-ins for the ports, one for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pytest_lecturecheck.model.device import DeviceUse
from pytest_lecturecheck.model.metric import Metric, Reading
from pytest_lecturecheck.model.probe import CellReadings, Snapshot
from pytest_lecturecheck.model.timeline import MemorySample
from pytest_lecturecheck.probe.memory._memory_sampler import MemorySampler
from pytest_lecturecheck.probe.memory._source import ProbeTexts, Unread
from pytest_lecturecheck.probe.memory._usage import UsageSource


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

    def fresh_snapshot(self) -> Snapshot | None:
        self.calls.append("fresh_snapshot")
        return self.last

    def close(self) -> Mapping[Metric, Reading]:
        self.calls.append("close")
        return self.lecture

    def timeline(self, since: float) -> tuple[MemorySample, ...]:  # noqa: ARG002 - the port's signature
        return self.samples


class FakeProbes:
    """Opens the same probes for every kernel."""

    def __init__(self, probe: FakeProbe | None = None, devices: FakeDeviceProbe | None = None, others=None):
        self.probe = probe or FakeProbe()
        self.devices = devices
        self.others = others

    def open_probe(self, _pid, _token, _supervisor_pid, _read_group):
        return self.probe

    def open_remote_probe(self):
        return self.probe

    def open_device_probe(self, pid, token, supervisor_pid):
        if self.others is None:
            return self.devices
        return self.others.open_device_probe(pid, token, supervisor_pid)

    def note_killed(self, token):
        if self.others is not None:
            self.others.note_killed(token)


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


class StillSampler(MemorySampler):
    """A sampler without a thread: the test takes the samples."""

    def add(self, target, interval_seconds):
        """Leave the target alone."""


class FakeSource:
    """Processes as a test sets them: readings by process id, children by parent. What was reset is kept."""

    def __init__(self, *, missing=None, **texts):
        self.processes = {}
        self.children = {}
        self.workers = {}
        self.can_reset = True
        self.resets = []
        self.swap_bytes = None
        self.pressure = ""
        self.texts = ProbeTexts(
            **{
                "footprint": "footprint",
                "interval_peak": "interval peak",
                "lifetime_peak": "lifetime peak",
                "resident": "resident size",
                "resident_peak": "resident peak",
                "usage": UsageSource(
                    sources={Metric.CPU: "times", Metric.MAJOR_FAULTS: "faults", Metric.DISK_WRITTEN: "bytes"},
                    missing={Metric.PEAK_COMPRESSED: "not reported"} if missing is None else missing,
                ),
                "swap": "only the machine's is known",
                **texts,
            }
        )

    def worker(self, pid):
        return self.workers.get(pid, pid)

    def read(self, pid):
        return self.processes.get(pid, Unread(reason="gone", is_gone=True))

    def reset_peak(self, pid):
        """Set the counter back to the present footprint, where there is one and that is allowed."""
        self.resets.append(pid)
        reading = self.processes.get(pid)
        if self.can_reset and reading is not None and reading.interval_peak_bytes is not None:
            self.processes[pid] = replace(reading, interval_peak_bytes=reading.footprint_bytes)
        return self.can_reset

    def descendants(self, pids):
        """Give all descendants, or ``None`` where the children of one process are."""
        found, left = set(), list(pids)
        while left:
            children = self.children.get(left.pop(), ())
            if children is None:
                return None
            left += [child for child in children if child not in found]
            found |= set(children)
        return frozenset(found - set(pids))

    def machine_swap_bytes(self):
        return self.swap_bytes

    def memory_pressure(self):
        return self.pressure
