"""
A timeline that stays short however long a run lasts. Pure.

Samples are thinned while they arrive, and peaks are kept. Not thread-safe: the caller must hold the lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeAlias, TypeVar

Sample = TypeVar("Sample")
Extremes: TypeAlias = tuple[Sample, Sample]
"""The two samples that are kept of one bucket."""

_FEWEST_POINTS: Final = 6


class ThinnedTimeline(Generic[Sample]):
    """
    The samples of one run, at most a fixed number of them.

    Buckets hold equally many samples, each bucket reduced to two extremes. When there are too many buckets, neighbours
    are merged in pairs. The first and the last sample are always kept.

    Args:
        most_points: highest number of points; at least 6.
        merge: reduces the extremes of two neighbouring buckets to two; of equal samples the earlier one must stay.
        seconds: returns the time of a sample.
    """

    def __init__(
        self,
        most_points: int,
        merge: Callable[[Extremes[Sample], Extremes[Sample]], Extremes[Sample]],
        seconds: Callable[[Sample], float],
    ) -> None:
        self._most_buckets = (max(most_points, _FEWEST_POINTS) - 2) // 2
        self._merge = merge
        self._seconds = seconds
        self._first: Sample | None = None
        self._last: Sample | None = None
        self._buckets: list[Extremes[Sample]] = []
        self._bucket_size = 1
        self._last_bucket_count = 0

    @property
    def bucket_count(self) -> int:
        """Return the number of buckets, which bounds the cost of :meth:`add`."""
        return len(self._buckets)

    def add(self, sample: Sample) -> None:
        """Add a sample; its time must not be before that of the last one."""
        if self._first is None:
            self._first = sample
        self._last = sample
        if not self._buckets or self._last_bucket_count >= self._bucket_size:
            if len(self._buckets) < self._most_buckets:
                self._buckets.append((sample, sample))
                self._last_bucket_count = 1
                return
            self._halve()
        if self._last_bucket_count < self._bucket_size:
            self._buckets[-1] = self._merge(self._buckets[-1], (sample, sample))
            self._last_bucket_count += 1
        else:
            self._buckets.append((sample, sample))
            self._last_bucket_count = 1

    def _halve(self) -> None:
        buckets = self._buckets
        # With an odd number of buckets the last one stays half full, and takes more samples.
        self._last_bucket_count = self._bucket_size if len(buckets) % 2 else 2 * self._bucket_size
        pairs = (buckets[start : start + 2] for start in range(0, len(buckets), 2))
        self._buckets = [self._merge(pair[0], pair[1]) if len(pair) > 1 else pair[0] for pair in pairs]
        self._bucket_size *= 2

    def points(self) -> tuple[Sample, ...]:
        """Return the kept samples in order of time, each once."""
        return tuple(self._points())

    def _points(self) -> Iterator[Sample]:
        previous: Sample | None = None
        extremes = [sample for bucket in self._buckets for sample in sorted(bucket, key=self._seconds)]
        ends = (self._first, self._last)
        for sample in (*ends[:1], *extremes, *ends[1:]):
            if sample is not None and sample is not previous:
                yield sample
            previous = sample
