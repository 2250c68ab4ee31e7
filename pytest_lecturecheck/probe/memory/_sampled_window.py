"""
What is known about one window of time from samples and from the peaks that the OS counts itself. Pure.

See :class:`~pytest_lecturecheck.probe.memory._high_watermark.HighWatermark` for what a counter says of a window.
"""

from __future__ import annotations

from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.metric import Measurement, Method, Metric, Reading, Unavailable
from pytest_lecturecheck.probe.memory._high_watermark import HighWatermark, highest
from pytest_lecturecheck.probe.memory._source import ProbeTexts, ProcessReading

_NOTABLE_DROP_BYTES: Final = 1024**2
"""Smaller drops of a peak counter may come from charges that the OS settles late."""


@dataclass(slots=True, kw_only=True)
class SampledWindow:
    """
    One window of time of a kernel and its descendants, filled while it is open.

    Attributes:
        footprint: footprint of the kernel process.
        resident: resident size of the kernel process.
        uses_interval: whether the footprint's counter is the one that can be reset.
        is_complete: whether the last sample was of a living process.
        had_children: whether any other process of the tree lived in it.
        lost_children: whether one of these may have held more than was sampled: it ended, or could not be read.
        tree_bytes: highest sum over all processes at one moment.
        tree_count: processes in that sum.
        beyond_bytes: highest sum, at one moment, of the differences between footprint and resident size.
        most_of_children_bytes: sum that the children alive at the end did not exceed, or ``None``: not known.
    """

    footprint: HighWatermark
    resident: HighWatermark
    uses_interval: bool = False
    is_complete: bool = False
    had_children: bool = False
    lost_children: bool = False
    tree_bytes: int = 0
    tree_count: int = 0
    beyond_bytes: int = 0
    most_of_children_bytes: int | None = 0

    def note(self, own: ProcessReading, children: list[ProcessReading]) -> None:
        """Add one sample of the kernel and of its descendants."""
        self.is_complete = not own.has_ended
        self.had_children = self.had_children or bool(children)
        mark_bytes = own.interval_peak_bytes if self.uses_interval else own.lifetime_peak_bytes
        if own.has_ended:
            # Its counters still hold the peaks of its life; its memory was freed.
            self.footprint.note(None, mark_bytes)
            self.resident.note(None, own.resident_peak_bytes)
            return
        self.footprint.note(own.footprint_bytes, mark_bytes)
        self.resident.note(own.resident_bytes, own.resident_peak_bytes)
        living = [own, *(child for child in children if not child.has_ended)]
        self.beyond_bytes = max(self.beyond_bytes, sum(item.beyond_resident_bytes for item in living))
        total_bytes = sum(item.footprint_bytes or 0 for item in living)
        if total_bytes > self.tree_bytes:
            self.tree_bytes, self.tree_count = total_bytes, len(living)

    @property
    def was_peak_reset(self) -> bool:
        """Return True if the counter fell, which means that the lecture has reset it."""
        return self.footprint.drop_bytes > _NOTABLE_DROP_BYTES

    @property
    def low_bytes(self) -> int | None:
        """Return a footprint that the tree certainly reached, or ``None`` where nothing was read."""
        own_bytes = self.footprint.low_bytes
        return None if own_bytes is None else max(own_bytes, self.tree_bytes)

    @property
    def high_bytes(self) -> int | None:
        """Return a footprint that the tree certainly did not exceed, or ``None`` where that is not known."""
        own_bytes, others_bytes = self.footprint.high_bytes, self.most_of_children_bytes
        if own_bytes is None or not self.is_complete or self.lost_children or self.was_peak_reset:
            return None
        if not self.had_children:
            return max(own_bytes, self.low_bytes or 0)
        return None if others_bytes is None else max(own_bytes + others_bytes, self.low_bytes or 0)


@dataclass(slots=True, kw_only=True)
class MemoryPeak:
    """What a quantity certainly reached, and what it certainly did not exceed; ``None``: not known."""

    low_bytes: int | None = None
    high_bytes: int | None = None
    is_bounded: bool = True

    def add(self, low_bytes: int | None, high_bytes: int | None) -> None:
        """Add another window."""
        self.low_bytes = highest(self.low_bytes, low_bytes)
        self.high_bytes = highest(self.high_bytes, high_bytes)
        self.is_bounded = self.is_bounded and high_bytes is not None

    def reading(self, metric: Metric, *, source: str, interval_seconds: float, reason: str) -> Reading:
        """Return a reading: exact, a bracket, a lower bound, or unavailable for ``reason``."""
        if self.low_bytes is None:
            return Unavailable(metric=metric, reason=reason)
        high_bytes = self.high_bytes if self.is_bounded else None
        if high_bytes is not None and high_bytes <= self.low_bytes:
            return Measurement(metric=metric, value=self.low_bytes, method=Method.EXACT, source=source)
        return Measurement(
            metric=metric,
            value=self.low_bytes,
            method=Method.SAMPLED if high_bytes is None else Method.BRACKET,
            high=high_bytes,
            interval_seconds=interval_seconds,
            source=source,
        )


class WindowSum:
    """
    Several windows together: one for a cell, all for a lecture.

    Args:
        texts: names of what was read.
    """

    def __init__(self, texts: ProbeTexts) -> None:
        self._texts = texts
        self._footprint, self._resident = MemoryPeak(), MemoryPeak()
        self._beyond_bytes = 0
        self._tree_count = 0
        self._is_counted = self._is_interval = False

    @property
    def low_bytes(self) -> int:
        """Return the highest footprint known so far."""
        return self._footprint.low_bytes or 0

    def add(self, window: SampledWindow) -> None:
        """Add a window that has been closed."""
        if window.had_children and window.tree_bytes >= self.low_bytes:
            self._tree_count = window.tree_count
        own = window.footprint
        if own.is_own and (own.bytes or 0) >= self.low_bytes:
            self._is_counted, self._is_interval = True, window.uses_interval
        self._footprint.add(window.low_bytes, window.high_bytes)
        self._resident.add(window.resident.low_bytes, window.resident.high_bytes if window.is_complete else None)
        self._beyond_bytes = max(self._beyond_bytes, window.beyond_bytes)

    def add_last(self, window: SampledWindow) -> None:
        """Add the window after the last cell, in which the kernel ends, if it exceeded the others."""
        if self._footprint.low_bytes is None or window.is_complete or (window.low_bytes or 0) > self.low_bytes:
            self.add(window)

    def readings(self, *, interval_seconds: float, reason: str) -> dict[Metric, Reading]:
        """
        Return the memory of these windows.

        Args:
            interval_seconds: longest time between two samples.
            reason: explanation where nothing was read.
        """
        texts = self._texts
        return {
            Metric.PEAK_FOOTPRINT: self._footprint.reading(
                Metric.PEAK_FOOTPRINT,
                source=self._footprint_source(),
                interval_seconds=interval_seconds,
                reason=texts.missing.get(Metric.PEAK_FOOTPRINT, reason),
            ),
            Metric.PEAK_RSS: self._resident.reading(
                Metric.PEAK_RSS,
                source=texts.resident_peak or texts.resident,
                interval_seconds=interval_seconds,
                reason=reason,
            ),
            Metric.PEAK_COMPRESSED: self._compressed(interval_seconds, reason),
        }

    def _footprint_source(self) -> str:
        texts = self._texts
        if self._tree_count > 1:
            return f"{texts.footprint} of {self._tree_count} processes"
        if self._is_counted:
            return texts.interval_peak if self._is_interval else texts.lifetime_peak
        return texts.footprint

    def _compressed(self, interval_seconds: float, reason: str) -> Reading:
        metric, texts = Metric.PEAK_COMPRESSED, self._texts
        if self._footprint.low_bytes is None:
            return Unavailable(metric=metric, reason=reason)
        if not texts.beyond_resident or not self._beyond_bytes:
            return Unavailable(metric=metric, reason=texts.missing.get(metric, reason))
        return Measurement(
            metric=metric,
            value=self._beyond_bytes,
            method=Method.SAMPLED,
            interval_seconds=interval_seconds,
            source=texts.beyond_resident,
        )
