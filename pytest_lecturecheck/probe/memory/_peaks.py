"""
What may be said of a stretch of time from samples and from the peaks that a system counts itself. No clock here.

A counter that was reset when the stretch began is the peak of the stretch. One that only ever rises (the peak of a
process's whole life) is the peak of the stretch where it rose in it; where it did not, the truth lies between the
highest sample and the counter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pytest_lecturecheck.model.metric import Measurement, Method, Metric, Reading, Unavailable
from pytest_lecturecheck.probe.memory._source import ProbeTexts, ProcessReading

GONE: Final = "the process had ended before it could be read"


@dataclass(slots=True, kw_only=True)
class Mark:
    """
    A counter of the system that holds a highest value, over one stretch of time.

    Attributes:
        at_start_bytes: where it stood at the beginning, or ``None`` where there is none.
        is_reset: whether it was reset there: all of it belongs to the stretch.
        bytes: where it stands now.
        sampled_bytes: highest single reading of the quantity itself.
    """

    at_start_bytes: int | None = None
    is_reset: bool = False
    bytes: int | None = None
    sampled_bytes: int | None = None

    def note(self, size_bytes: int | None, mark_bytes: int | None) -> None:
        """Take in a reading of the quantity and of the counter."""
        self.sampled_bytes = _highest(self.sampled_bytes, size_bytes)
        self.bytes = _highest(self.bytes, mark_bytes)

    @property
    def is_own(self) -> bool:
        """Tell whether the counter reached its value within the stretch."""
        if self.bytes is None:
            return False
        return self.is_reset or (self.at_start_bytes is not None and self.bytes > self.at_start_bytes)

    @property
    def low_bytes(self) -> int | None:
        """Give a value that was surely reached, or ``None`` where nothing was read."""
        return _highest(self.sampled_bytes, self.bytes if self.is_own else None)

    @property
    def high_bytes(self) -> int | None:
        """Give a value that was surely not exceeded, or ``None`` without a counter."""
        return None if self.bytes is None else _highest(self.bytes, self.low_bytes)


@dataclass(slots=True, kw_only=True)
class PeakWindow:
    """
    One stretch of time of a kernel and its descendants, filled while it lasts.

    Attributes:
        footprint: of the kernel process.
        resident: of the kernel process.
        uses_interval: whether the footprint's counter is the one that can be reset.
        is_complete: whether the last reading was of a living process.
        had_children: whether any other process of the tree lived in it.
        lost_children: whether one of these may have held more than was seen: it ended, or could not be read.
        tree_bytes: highest sum over all processes at one moment.
        tree_count: processes in that sum.
        beyond_bytes: highest sum, at one moment, of what footprints exceeded resident sizes by.
        most_of_children_bytes: what the children that live at the end did not exceed in sum; ``None``: not known.
    """

    footprint: Mark
    resident: Mark
    uses_interval: bool = False
    is_complete: bool = False
    had_children: bool = False
    lost_children: bool = False
    tree_bytes: int = 0
    tree_count: int = 0
    beyond_bytes: int = 0
    most_of_children_bytes: int | None = 0

    def note(self, own: ProcessReading, children: list[ProcessReading]) -> None:
        """Take in one look at the kernel and at its descendants."""
        self.is_complete = not own.has_ended
        self.had_children = self.had_children or bool(children)
        mark_bytes = own.interval_peak_bytes if self.uses_interval else own.lifetime_peak_bytes
        if own.has_ended:
            # Its peaks are those of its life; its sizes were given back.
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
    def low_bytes(self) -> int | None:
        """Give a footprint that the tree surely reached, or ``None`` where nothing was read."""
        own_bytes = self.footprint.low_bytes
        return None if own_bytes is None else max(own_bytes, self.tree_bytes)

    @property
    def high_bytes(self) -> int | None:
        """Give a footprint that the tree surely did not exceed, or ``None`` where that is not known."""
        own_bytes, others_bytes = self.footprint.high_bytes, self.most_of_children_bytes
        if own_bytes is None or not self.is_complete or self.lost_children:
            return None
        if not self.had_children:
            return max(own_bytes, self.low_bytes or 0)
        return None if others_bytes is None else max(own_bytes + others_bytes, self.low_bytes or 0)


@dataclass(slots=True, kw_only=True)
class MemoryPeak:
    """Between what a quantity surely reached and what it surely did not exceed; ``None``: not known."""

    low_bytes: int | None = None
    high_bytes: int | None = None
    is_bounded: bool = True

    def add(self, low_bytes: int | None, high_bytes: int | None) -> None:
        """Take in another stretch of time."""
        self.low_bytes = _highest(self.low_bytes, low_bytes)
        self.high_bytes = _highest(self.high_bytes, high_bytes)
        self.is_bounded = self.is_bounded and high_bytes is not None

    def reading(self, metric: Metric, *, source: str, interval_seconds: float, reason: str) -> Reading:
        """Say what is known: exactly, between two ends, at least, or nothing for that ``reason``."""
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


class Summary:
    """
    What is known of several stretches together: one for a cell, all for a lecture.

    Args:
        words: names of what was read.
    """

    def __init__(self, words: ProbeTexts) -> None:
        self._words = words
        self._footprint, self._resident = MemoryPeak(), MemoryPeak()
        self._beyond_bytes = 0
        self._tree_count = 0
        self._is_counted = self._is_interval = False

    @property
    def low_bytes(self) -> int:
        """Give the highest footprint known so far."""
        return self._footprint.low_bytes or 0

    def add(self, stretch: PeakWindow) -> None:
        """Take in a stretch that is over."""
        if stretch.had_children and stretch.tree_bytes >= self.low_bytes:
            self._tree_count = stretch.tree_count
        own = stretch.footprint
        if own.is_own and (own.bytes or 0) >= self.low_bytes:
            self._is_counted, self._is_interval = True, stretch.uses_interval
        self._footprint.add(stretch.low_bytes, stretch.high_bytes)
        self._resident.add(stretch.resident.low_bytes, stretch.resident.high_bytes if stretch.is_complete else None)
        self._beyond_bytes = max(self._beyond_bytes, stretch.beyond_bytes)

    def add_last(self, stretch: PeakWindow) -> None:
        """Take in the stretch after the last cell, whose end is the kernel's: only as far as it exceeded the others."""
        if self._footprint.low_bytes is None or stretch.is_complete or (stretch.low_bytes or 0) > self.low_bytes:
            self.add(stretch)

    def readings(self, *, interval_seconds: float, reason: str) -> dict[Metric, Reading]:
        """
        Say what is known of the memory.

        Args:
            interval_seconds: longest time between two samples.
            reason: why there is nothing, where there is nothing.
        """
        words = self._words
        return {
            Metric.PEAK_FOOTPRINT: self._footprint.reading(
                Metric.PEAK_FOOTPRINT,
                source=self._footprint_source(),
                interval_seconds=interval_seconds,
                reason=words.missing.get(Metric.PEAK_FOOTPRINT, reason),
            ),
            Metric.PEAK_RSS: self._resident.reading(
                Metric.PEAK_RSS,
                source=words.resident_peak or words.resident,
                interval_seconds=interval_seconds,
                reason=reason,
            ),
            Metric.PEAK_COMPRESSED: self._compressed(interval_seconds, reason),
        }

    def _footprint_source(self) -> str:
        words = self._words
        if self._tree_count > 1:
            return f"{words.footprint} of {self._tree_count} processes"
        if self._is_counted:
            return words.interval_peak if self._is_interval else words.lifetime_peak
        return words.footprint

    def _compressed(self, interval_seconds: float, reason: str) -> Reading:
        metric, words = Metric.PEAK_COMPRESSED, self._words
        if self._footprint.low_bytes is None:
            return Unavailable(metric=metric, reason=reason)
        if not words.beyond_resident or not self._beyond_bytes:
            return Unavailable(metric=metric, reason=words.missing.get(metric, reason))
        return Measurement(
            metric=metric,
            value=self._beyond_bytes,
            method=Method.SAMPLED,
            interval_seconds=interval_seconds,
            source=words.beyond_resident,
        )


def _highest(first: int | None, second: int | None) -> int | None:
    return max((item for item in (first, second) if item is not None), default=None)
