"""How often the watchdog reads a run that comes near its cap."""

from __future__ import annotations

import asyncio

import pytest
from support.fakes import FakeProbe, FakeSource, StillSampler

from pytest_lecturecheck.kernel.process.cap import Cap, pause_seconds, watch
from pytest_lecturecheck.model.evidence import WatchdogReason
from pytest_lecturecheck.model.probe import Snapshot
from pytest_lecturecheck.probe.memory._sampled import SampledProbe
from pytest_lecturecheck.probe.memory._source import ProcessReading
from pytest_lecturecheck.units import GIB, MIB

CAP = 400 * MIB


def snapshot(footprint_bytes):
    return Snapshot(footprint_bytes=footprint_bytes, peak_footprint_bytes=footprint_bytes, age_seconds=0.0)


class GrowingProbe(FakeProbe):
    """Its sampler saw ``seen_bytes`` last; what is read afresh grows with every reading."""

    def __init__(self, seen_bytes, steps):
        super().__init__(last=snapshot(seen_bytes))
        self.steps = iter(steps)

    def fresh_snapshot(self):
        super().fresh_snapshot()
        return snapshot(next(self.steps))


@pytest.mark.parametrize(
    ("headroom", "rate", "seconds"),
    [
        (10 * GIB, 0, 0.02),
        (164 * MIB, 0, 0.02),
        (82 * MIB, 0, 0.01),
        (82 * MIB, -GIB, 0.01),
        (82 * MIB, 8 * GIB, 0.005),
        (1 * MIB, 0, 0.002),
        (-5 * MIB, 0, 0.002),
    ],
)
def test_readings_become_more_frequent_near_the_cap(headroom, rate, seconds):
    assert pause_seconds(headroom, rate) == pytest.approx(seconds, rel=0.01)


def stop_of(probe, cap, available_bytes=None):
    stops = []
    asyncio.run(asyncio.wait_for(watch(cap, probe, lambda: available_bytes, stops.append), 30))
    return stops


def test_near_the_cap_the_watchdog_reads_for_itself():
    probe = GrowingProbe(350 * MIB, [360 * MIB, 390 * MIB, 401 * MIB])
    (stop,) = stop_of(probe, Cap(limit_bytes=CAP))
    assert (stop.reason, stop.footprint_bytes) == (WatchdogReason.CAP, 401 * MIB)
    assert probe.calls == ["snapshot", "fresh_snapshot", "fresh_snapshot", "fresh_snapshot"]


def test_far_from_the_cap_the_watchdog_uses_the_samples_there_are():
    probe = FakeProbe(last=snapshot(100 * MIB))
    (stop,) = stop_of(probe, Cap(limit_bytes=CAP), available_bytes=MIB)
    assert stop.reason is WatchdogReason.MACHINE
    assert probe.calls == ["snapshot"]


def test_a_fresh_reading_sees_what_no_sample_has_seen_yet():
    source = FakeSource()
    source.processes[1] = ProcessReading(started=1, resident_bytes=MIB, footprint_bytes=MIB)
    probe = SampledProbe(1, interval_seconds=30, source=source, sampler=StillSampler())
    source.processes[1] = ProcessReading(started=1, resident_bytes=9 * MIB, footprint_bytes=9 * MIB)
    assert probe.snapshot().footprint_bytes == MIB
    assert probe.fresh_snapshot().footprint_bytes == 9 * MIB
