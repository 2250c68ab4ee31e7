from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from pytest_lecturecheck.model.device import Device, DeviceSample, DeviceUse
from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.model.timeline import MemorySample
from pytest_lecturecheck.probe.memory._memory_timeline import MOST_MEMORY_POINTS, MemoryTimeline
from pytest_lecturecheck.store.runs import run_to_dict

GIB = 1024**3


def filled(levels, most_points):
    timeline = MemoryTimeline(most_points)
    for second, level in enumerate(levels):
        timeline.add(float(second), footprint_bytes=level, rss_bytes=level // 2, swap_bytes=0)
    return timeline.samples(0.0)


def test_a_short_run_keeps_every_sample():
    assert filled([5, 3, 9], 100) == tuple(
        MemorySample(seconds=float(second), footprint_bytes=level, rss_bytes=level // 2, swap_bytes=0)
        for second, level in enumerate([5, 3, 9])
    )


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=300), st.integers(6, 40))
def test_ends_and_extremes_of_a_long_run_stay(levels, most_points):
    samples = filled(levels, most_points)
    kept = [sample.footprint_bytes for sample in samples]
    assert len(samples) <= most_points
    assert (kept[0], kept[-1]) == (levels[0], levels[-1])
    assert (max(kept), min(kept)) == (max(levels), min(levels))
    moments = [sample.seconds for sample in samples]
    assert moments == sorted(set(moments))
    # Nothing is made up: each sample is one that was taken.
    assert all(levels[round(sample.seconds)] == sample.footprint_bytes for sample in samples)


@given(st.integers(10, 400), st.data())
def test_every_bucket_keeps_its_peak(count, data):
    levels = [100] * count
    spike = data.draw(st.integers(0, count - 1))
    levels[spike] = 1000
    samples = filled(levels, 12)
    assert MemorySample(seconds=float(spike), footprint_bytes=1000, rss_bytes=500, swap_bytes=0) in samples


def test_seconds_are_counted_from_the_start_of_the_run():
    timeline = MemoryTimeline()
    timeline.add(100.0, footprint_bytes=None, rss_bytes=7, swap_bytes=None)
    timeline.add(100.5126, footprint_bytes=None, rss_bytes=8, swap_bytes=None)
    assert timeline.samples(100.2) == (MemorySample(seconds=0.0, rss_bytes=7), MemorySample(seconds=0.313, rss_bytes=8))
    assert [sample.level_bytes for sample in timeline.samples(0.0)] == [7, 8]


def test_nothing_was_read():
    assert MemoryTimeline().samples(0.0) == ()


def test_the_record_of_a_day_stays_under_a_megabyte():
    timeline = MemoryTimeline()
    for number in range(3 * MOST_MEMORY_POINTS * 8 + 1):
        at, size = number * 0.9 * 2, 300 * GIB + (number * 7919) % GIB
        timeline.add(at, footprint_bytes=size, rss_bytes=size - 1, swap_bytes=size - 2)
    samples = timeline.samples(0.0)
    device = tuple(
        DeviceSample(
            seconds=at * 144.123, used_bytes=80 * GIB + at, run_bytes=70 * GIB + at, utilisation_fraction=0.123
        )
        for at in range(600)
    )
    run = Run(
        lecture="a.md",
        platform="p",
        outcome=Outcome.COMPLETED,
        timeline=samples,
        devices=(DeviceUse(device=Device(index=0, name="H100"), timeline=device),),
    )
    assert MOST_MEMORY_POINTS // 2 <= len(samples) <= MOST_MEMORY_POINTS
    assert len(json.dumps(run_to_dict(run), indent=2)) < 1_000_000
