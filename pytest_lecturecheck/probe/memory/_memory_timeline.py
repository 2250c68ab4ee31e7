"""
The memory of one run over time: highest and lowest samples are kept. Pure.

Adding a sample is on the sampler's path and costs about a microsecond. :class:`MemorySample` values are therefore made
only when the timeline is read.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pytest_lecturecheck.model.timeline import MemorySample
from pytest_lecturecheck.probe.thinned_timeline import Extremes, ThinnedTimeline

MOST_MEMORY_POINTS: Final = 2000
"""Highest number of points that a run keeps."""


class MemoryPoint(NamedTuple):
    """
    One sample as it is kept.

    Attributes:
        at: time, of ``time.perf_counter``.
        level_bytes: what samples are compared by: the footprint, or the resident size where there is none.
        footprint_bytes: footprint of the tree.
        rss_bytes: resident size.
        swap_bytes: bytes in swap.
        compressed_bytes: bytes held by a compressor.
    """

    at: float
    level_bytes: int
    footprint_bytes: int | None
    rss_bytes: int | None
    swap_bytes: int | None
    compressed_bytes: int | None


class MemoryTimeline:
    """
    The samples of one run.

    Args:
        most_points: highest number of points; at least 6.
    """

    def __init__(self, most_points: int = MOST_MEMORY_POINTS) -> None:
        self._points = ThinnedTimeline(most_points, _merge, _at)

    def add(
        self,
        at: float,
        *,
        footprint_bytes: int | None,
        rss_bytes: int | None,
        swap_bytes: int | None,
        compressed_bytes: int | None = None,
    ) -> None:
        """Add a sample taken at the time ``at`` of ``time.perf_counter``, which is not before that of the last one."""
        level_bytes = footprint_bytes if footprint_bytes is not None else rss_bytes or 0
        self._points.add(MemoryPoint(at, level_bytes, footprint_bytes, rss_bytes, swap_bytes, compressed_bytes))

    def samples(self, since: float) -> tuple[MemorySample, ...]:
        """Return the kept samples in order of time, in seconds after the time ``since``; none is negative."""
        return tuple(
            MemorySample(
                seconds=max(0.0, round(point.at - since, 3)),
                footprint_bytes=point.footprint_bytes,
                rss_bytes=point.rss_bytes,
                swap_bytes=point.swap_bytes,
                compressed_bytes=point.compressed_bytes,
            )
            for point in self._points.points()
        )


def _at(point: MemoryPoint) -> float:
    return point.at


def _merge(first: Extremes[MemoryPoint], second: Extremes[MemoryPoint]) -> Extremes[MemoryPoint]:
    """Keep the lowest and the highest; compared by hand because this runs for every sample."""
    low = first[0] if first[0].level_bytes <= second[0].level_bytes else second[0]
    high = first[1] if first[1].level_bytes >= second[1].level_bytes else second[1]
    return low, high
