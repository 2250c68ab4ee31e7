"""A timeline that stays short however long the run: moments are thinned, peaks are kept. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from pytest_lecturecheck.model.device import DeviceSample

LIMIT: Final = 600
"""So many points at most."""
_Peaks: TypeAlias = tuple[DeviceSample, DeviceSample]
"""Of one stretch of time: the sample with most used on the device, and the one with most held by the run."""


class DeviceTimeline:
    """
    The samples of one device in one run.

    They are kept in stretches of equally many samples, each as its two peaks; when there are too many stretches, two
    neighbours become one. The first and the last sample are always there.

    Args:
        limit: points at most; at least 8.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._most = (limit - 2) // 2
        self._first: DeviceSample | None = None
        self._last: DeviceSample | None = None
        self._stretches: list[_Peaks] = []
        self._per_stretch = 1
        self._in_last = 0

    def add(self, sample: DeviceSample) -> None:
        """Add a sample; its time is not before that of the last one."""
        self._first = self._first or sample
        self._last = sample
        if self._stretches and self._in_last < self._per_stretch:
            self._stretches[-1] = _join(self._stretches[-1], (sample, sample))
            self._in_last += 1
            return
        if len(self._stretches) == self._most:
            self._halve()
            self.add(sample)
            return
        self._stretches.append((sample, sample))
        self._in_last = 1

    def _halve(self) -> None:
        # An odd one at the end stays half full, and takes more.
        self._in_last = self._per_stretch if len(self._stretches) % 2 else 2 * self._per_stretch
        pairs = range(0, len(self._stretches), 2)
        self._stretches = [_join(self._stretches[start], self._stretches[start : start + 2][-1]) for start in pairs]
        self._per_stretch *= 2

    def points(self) -> tuple[DeviceSample, ...]:
        """Give what is kept, in order of time."""
        return tuple(self._points())

    def _points(self) -> Iterator[DeviceSample]:
        given: DeviceSample | None = None
        peaks = [sample for stretch in self._stretches for sample in sorted(stretch, key=_seconds)]
        ends = [sample for sample in (self._last,) if sample is not None]
        for sample in [*([self._first] if self._first is not None else []), *peaks, *ends]:
            if sample is not given:
                yield sample
            given = sample


def _seconds(sample: DeviceSample) -> float:
    return sample.seconds


def _join(first: _Peaks, second: _Peaks) -> _Peaks:
    # The earlier of two equal ones stays.
    used = max(first[0], second[0], key=lambda sample: sample.used_bytes)
    run = max(first[1], second[1], key=lambda sample: -1 if sample.run_bytes is None else sample.run_bytes)
    return used, run
