"""Kernels on other machines: times only."""

from __future__ import annotations

from pytest_lecturecheck.model.metric import Measurement, Metric, Unavailable
from pytest_lecturecheck.probe.remote import RemoteProbe


def test_wall_time_is_measured_and_memory_is_not():
    probe = RemoteProbe()
    walls = []
    for _ in range(2):
        probe.begin_cell()
        walls.append(probe.end_cell().readings[Metric.WALL].value)
    readings = probe.close()
    assert readings[Metric.WALL].value == sum(walls)
    assert isinstance(readings[Metric.WALL], Measurement)
    rest = {metric: reading for metric, reading in readings.items() if metric is not Metric.WALL}
    assert Metric.PEAK_FOOTPRINT in rest
    assert {type(reading) for reading in rest.values()} == {Unavailable}
    assert {reading.reason for reading in rest.values()} == {"the kernel ran on another node"}
    assert probe.snapshot() is None
    assert probe.timeline(0.0) == ()
