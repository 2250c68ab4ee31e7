"""
A memory timeline that stays short however long the run: samples are thinned while it lasts, peaks and troughs are kept.

Adding a sample is on the sampler's path and costs about a microsecond; values are made only when they are asked for.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from pytest_lecturecheck.model.timeline import MemorySample

MOST_POINTS: Final = 2000
"""So many points a run keeps at most."""
_LEAST_POINTS: Final = 6

Point: TypeAlias = tuple[float, int, int | None, int | None, int | None, int | None]
"""Moment (of ``time.perf_counter``), level (what is thinned by), footprint, resident size, swap, compressed."""
_Bucket: TypeAlias = tuple[Point, Point]
"""Of one stretch of samples: the lowest and the highest."""


class MemoryTimeline:
    """
    The samples of one run.

    They are kept in buckets of equally many samples, each as its lowest and its highest; when there are too many
    buckets, two neighbours become one. The first and the last sample are always there. Not safe for threads: whoever
    owns it holds a lock.

    Args:
        most_points: points at most; at least 6.
    """

    def __init__(self, most_points: int = MOST_POINTS) -> None:
        self._most_buckets = (max(most_points, _LEAST_POINTS) - 2) // 2
        self._first: Point | None = None
        self._last: Point | None = None
        self._buckets: list[_Bucket] = []
        self._per_bucket = 1
        self._in_last = 0

    def add(
        self,
        at: float,
        *,
        footprint_bytes: int | None,
        rss_bytes: int | None,
        swap_bytes: int | None,
        compressed_bytes: int | None = None,
    ) -> None:
        """Add a sample taken at the moment ``at`` of ``time.perf_counter``; it is not before the last one."""
        level = footprint_bytes if footprint_bytes is not None else rss_bytes or 0
        point = (at, level, footprint_bytes, rss_bytes, swap_bytes, compressed_bytes)
        self._last = point
        if self._first is None:
            self._first = point
        if self._buckets and self._in_last < self._per_bucket:
            low, high = self._buckets[-1]
            if level > high[1]:
                self._buckets[-1] = (low, point)
            elif level < low[1]:
                self._buckets[-1] = (point, high)
            self._in_last += 1
            return
        if len(self._buckets) == self._most_buckets:
            self._halve()
            self.add(
                at,
                footprint_bytes=footprint_bytes,
                rss_bytes=rss_bytes,
                swap_bytes=swap_bytes,
                compressed_bytes=compressed_bytes,
            )
            return
        self._buckets.append((point, point))
        self._in_last = 1

    def _halve(self) -> None:
        buckets = self._buckets
        # An odd one at the end stays half full, and takes more.
        self._in_last = self._per_bucket if len(buckets) % 2 else 2 * self._per_bucket
        self._buckets = [_join(buckets[start : start + 2]) for start in range(0, len(buckets), 2)]
        self._per_bucket *= 2

    def samples(self, since: float) -> tuple[MemorySample, ...]:
        """Give what is kept in order of time, in seconds after the moment ``since``; none lies before it."""
        kept = {point for bucket in self._buckets for point in bucket}
        kept |= {point for point in (self._first, self._last) if point is not None}
        return tuple(
            MemorySample(
                seconds=max(0.0, round(at - since, 3)),
                footprint_bytes=footprint_bytes,
                rss_bytes=rss_bytes,
                swap_bytes=swap_bytes,
                compressed_bytes=compressed_bytes,
            )
            for at, _, footprint_bytes, rss_bytes, swap_bytes, compressed_bytes in sorted(
                kept, key=lambda point: point[0]
            )
        )


def _join(buckets: list[_Bucket]) -> _Bucket:
    # The earlier of two equal ones stays.
    return min((low for low, _ in buckets), key=_level), max((high for _, high in buckets), key=_level)


def _level(point: Point) -> int:
    return point[1]
