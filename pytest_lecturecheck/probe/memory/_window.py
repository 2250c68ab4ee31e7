"""
What is known about one stretch of time of a process tree, and what may be said from it. No clock and no file here.

The footprint of one process is its resident high watermark plus what it had in swap. No counter of Linux holds the peak
of the sum, so with swap in play the truth lies between the highest sum that was sampled and the sum of both maxima.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from pytest_lecturecheck.model.metric import Measurement, Method, Metric, Reading, Unavailable
from pytest_lecturecheck.units import format_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Instrument:
    """
    Properties of the measuring device that go into every figure.

    Attributes:
        interval_seconds: longest interval between two samples.
        tolerance_bytes: how far the counter of resident pages may lag.
        has_swap: whether the machine has swap space; without it, swap is exactly zero.
    """

    interval_seconds: float
    tolerance_bytes: int
    has_swap: bool


@dataclass(slots=True, kw_only=True)
class Window:
    """
    One stretch of time, filled while it lasts.

    Attributes:
        mark_at_start_bytes: the kernel's high watermark when the window opened, after a reset where that was possible.
        is_mark_reset: whether the mark was reset when the window opened: all of it belongs to this window.
        mark_bytes: highest watermark read since.
        is_complete: whether the mark was read at the window's end from a living process.
        sampled_bytes: highest sum of resident and swapped pages of the kernel in one reading; ``None`` without any.
        sampled_rss_bytes: highest resident size of the kernel in one reading; ``None`` without any.
        file_bytes: resident pages of mapped files in the reading of ``sampled_bytes``.
        swap_bytes: most that the kernel had in swap in one reading.
        had_children: whether any other process of the tree lived in the window.
        child_bytes: highest sum of resident and swapped pages of a single other process in one reading.
        pss_bytes: highest footprint of the whole tree (proportional sizes, swap included) in one reading, or ``None``.
        pss_swap_bytes: most that the whole tree had in swap in one reading.
        pss_process_count: processes in the reading that gave ``pss_bytes``.
        group_bytes: highest footprint of the run's memory group in one reading, or ``None`` without any.
    """

    mark_at_start_bytes: int = 0
    is_mark_reset: bool = True
    mark_bytes: int = 0
    is_complete: bool = False
    sampled_bytes: int | None = None
    sampled_rss_bytes: int | None = None
    file_bytes: int | None = None
    swap_bytes: int = 0
    had_children: bool = False
    child_bytes: int = 0
    pss_bytes: int | None = None
    pss_swap_bytes: int = 0
    pss_process_count: int = 0
    group_bytes: int | None = None

    def note_group(self, group_bytes: int) -> None:
        """Take in one reading of the run's memory group."""
        self.group_bytes = max(self.group_bytes or 0, group_bytes)

    def note_memory(self, *, rss_bytes: int, mark_bytes: int, swap_bytes: int, file_bytes: int | None = None) -> None:
        """Take in one reading of the kernel process."""
        if rss_bytes + swap_bytes > (self.sampled_bytes or 0):
            self.file_bytes = file_bytes
        self.mark_bytes = max(self.mark_bytes, mark_bytes)
        self.swap_bytes = max(self.swap_bytes, swap_bytes)
        self.sampled_rss_bytes = max(self.sampled_rss_bytes or 0, rss_bytes)
        self.sampled_bytes = max(self.sampled_bytes or 0, rss_bytes + swap_bytes)

    def note_pss(self, *, total_bytes: int, swap_bytes: int, process_count: int) -> None:
        """Take in one reading of the whole tree."""
        self.pss_swap_bytes = max(self.pss_swap_bytes, swap_bytes)
        if self.pss_bytes is None or total_bytes > self.pss_bytes:
            self.pss_bytes, self.pss_process_count = total_bytes, process_count

    @property
    def owns_mark(self) -> bool:
        """Tell whether the mark was reached within this window."""
        return self.is_mark_reset or self.mark_bytes > self.mark_at_start_bytes

    @property
    def low_bytes(self) -> int:
        """Give a footprint that the kernel process surely reached in this window; 0 where nothing was read."""
        return max(self.mark_bytes if self.owns_mark else 0, self.sampled_bytes or 0)

    @property
    def high_bytes(self) -> int:
        """Give a footprint that the kernel process surely did not exceed before its last reading."""
        return max(self.low_bytes, self.mark_bytes + self.swap_bytes)

    @property
    def floor_bytes(self) -> int:
        """Give a footprint that the tree surely reached."""
        return max(self.low_bytes, self.child_bytes, self.pss_bytes or 0, self.group_bytes or 0)


_NO_SWAP: Final = Measurement(metric=Metric.PEAK_SWAP, value=0, method=Method.EXACT, source="the machine has no swap")
_GONE: Final = "the process had ended before it could be read"


def rss_reading(window: Window, instrument: Instrument) -> Reading:
    """Say what is known about the kernel's peak RSS in a window."""
    metric = Metric.PEAK_RSS
    if window.sampled_rss_bytes is None:
        return Unavailable(metric=metric, reason=_GONE)
    if window.is_complete and window.owns_mark:
        tolerance = instrument.tolerance_bytes
        return Measurement(
            metric=metric, value=window.mark_bytes, method=Method.EXACT, tolerance=tolerance, source="VmHWM"
        )
    if window.is_complete:
        return Unavailable(metric=metric, reason=_not_reset_text(window.mark_bytes))
    return Measurement(
        metric=metric,
        value=max(window.mark_bytes if window.owns_mark else 0, window.sampled_rss_bytes),
        method=Method.SAMPLED,
        interval_seconds=instrument.interval_seconds,
        source="last VmHWM before the process ended" if window.owns_mark else "VmRSS",
    )


def footprint_reading(window: Window, instrument: Instrument) -> Reading:
    """Say what is known about the tree's peak footprint in a window."""
    metric = Metric.PEAK_FOOTPRINT
    if window.sampled_bytes is None and window.pss_bytes is None:
        return Unavailable(metric=metric, reason=_GONE)
    holds_unmapped = (window.group_bytes or 0) > window.high_bytes + instrument.tolerance_bytes
    if window.had_children or not window.is_complete or holds_unmapped:
        return Measurement(
            metric=metric,
            value=window.floor_bytes,
            method=Method.SAMPLED,
            interval_seconds=instrument.interval_seconds,
            source=_floor_source(window, instrument),
        )
    if not window.owns_mark:
        return Unavailable(metric=metric, reason=_not_reset_text(window.high_bytes))
    return _single_process_footprint(window.low_bytes, window.high_bytes, instrument)


def _single_process_footprint(low_bytes: int, high_bytes: int, instrument: Instrument) -> Measurement:
    exact = low_bytes == high_bytes
    return Measurement(
        metric=Metric.PEAK_FOOTPRINT,
        value=low_bytes,
        method=Method.EXACT if exact else Method.BRACKET,
        high=None if exact else high_bytes,
        tolerance=instrument.tolerance_bytes,
        interval_seconds=None if exact else instrument.interval_seconds,
        source="VmHWM" if exact else "VmHWM and VmSwap",
    )


def swap_reading(window: Window, instrument: Instrument) -> Reading:
    """Say what is known about the tree's peak in swap in a window."""
    metric = Metric.PEAK_SWAP
    if not instrument.has_swap:
        return _NO_SWAP
    if window.sampled_bytes is None:
        return Unavailable(metric=metric, reason=_GONE)
    return Measurement(
        metric=metric,
        value=max(window.swap_bytes, window.pss_swap_bytes),
        method=Method.SAMPLED,
        interval_seconds=instrument.interval_seconds,
        source="VmSwap",
    )


def _not_reset_text(bound_bytes: int) -> str:
    return f"<= {format_size(bound_bytes)}, the high watermark could not be reset"


def _floor_source(window: Window, instrument: Instrument) -> str:
    every = f"every {instrument.interval_seconds * 1000:.0f} ms"
    if window.group_bytes is not None and window.group_bytes >= window.floor_bytes:
        return f"memory group of the run, {every}"
    if window.child_bytes > max(window.low_bytes, window.pss_bytes or 0):
        return f"VmRSS of the largest child process, {every}"
    if window.pss_bytes is not None and window.pss_bytes >= window.low_bytes:
        return f"PSS of {window.pss_process_count} process{'es' * (window.pss_process_count != 1)}, {every}"
    own = "VmHWM of the kernel process" if window.owns_mark else f"VmRSS of the kernel process, {every}"
    if window.is_complete or window.had_children:
        if window.group_bytes is not None:
            seen = "the memory group of the run holds less"
        elif window.pss_bytes is not None:
            seen = f"PSS of {window.pss_process_count} processes is less"
        else:
            seen = "children not read"
        return f"{own}; {seen}"
    return f"{own}, last read before it ended"


class LectureWindow:
    """
    The sum of all windows of a lecture, gaps between cells included.

    The stretch after the last cell is special: the kernel is being shut down in it, so that its end can rarely be read.
    It counts only as far as it was seen to exceed everything before.
    """

    def __init__(self) -> None:
        self._whole = Window(is_complete=True)
        self._high_bytes = 0
        self._is_empty = True

    @property
    def floor_bytes(self) -> int:
        """Give the highest footprint known so far."""
        return self._whole.floor_bytes

    def add(self, window: Window) -> None:
        """Take in a window that has been closed."""
        whole = self._whole
        if window.sampled_bytes is not None:
            self._is_empty = False
            whole.mark_bytes = max(whole.mark_bytes, window.mark_bytes)
            whole.swap_bytes = max(whole.swap_bytes, window.swap_bytes)
            whole.sampled_bytes = max(whole.sampled_bytes or 0, window.sampled_bytes)
            whole.sampled_rss_bytes = max(whole.sampled_rss_bytes or 0, window.sampled_rss_bytes or 0)
        if window.pss_bytes is not None:
            whole.note_pss(
                total_bytes=window.pss_bytes,
                swap_bytes=window.pss_swap_bytes,
                process_count=window.pss_process_count,
            )
        if window.group_bytes is not None:
            whole.note_group(window.group_bytes)
        self._high_bytes = max(self._high_bytes, window.high_bytes)
        whole.is_complete = whole.is_complete and window.is_complete
        whole.had_children = whole.had_children or window.had_children
        whole.child_bytes = max(whole.child_bytes, window.child_bytes)

    def add_last(self, window: Window) -> None:
        """Take in the stretch after the last cell."""
        if self._is_empty or window.is_complete or window.floor_bytes > self.floor_bytes:
            self.add(window)

    def readings(self, instrument: Instrument) -> dict[Metric, Reading]:
        """Say what is known about the whole lecture."""
        whole = replace(self._whole)
        footprint = footprint_reading(whole, instrument)
        if isinstance(footprint, Measurement) and footprint.method in {Method.EXACT, Method.BRACKET}:
            high_bytes = max(whole.low_bytes, self._high_bytes)
            footprint = _single_process_footprint(whole.low_bytes, high_bytes, instrument)
        return {
            Metric.PEAK_FOOTPRINT: footprint,
            Metric.PEAK_RSS: rss_reading(whole, instrument),
            Metric.PEAK_SWAP: swap_reading(whole, instrument),
        }
