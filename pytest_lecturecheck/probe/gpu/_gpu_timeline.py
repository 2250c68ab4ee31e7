"""The timeline of one device in one run: the highest use of the device and of the run are kept. Pure."""

from __future__ import annotations

from typing import Final

from pytest_lecturecheck.model.device import DeviceSample
from pytest_lecturecheck.probe.thinned_timeline import Extremes, ThinnedTimeline

MOST_DEVICE_POINTS: Final = 600
"""Highest number of points that a run keeps for one device."""


def device_timeline(most_points: int = MOST_DEVICE_POINTS) -> ThinnedTimeline[DeviceSample]:
    """Return an empty timeline of at most ``most_points`` points."""
    return ThinnedTimeline(most_points, _merge, _seconds)


def _seconds(sample: DeviceSample) -> float:
    return sample.seconds


def _merge(first: Extremes[DeviceSample], second: Extremes[DeviceSample]) -> Extremes[DeviceSample]:
    """Keep the sample with most memory in use on the device, and the one with most memory held by the run."""
    used = max(first[0], second[0], key=lambda sample: sample.used_bytes)
    run = max(first[1], second[1], key=lambda sample: -1 if sample.run_bytes is None else sample.run_bytes)
    return used, run
