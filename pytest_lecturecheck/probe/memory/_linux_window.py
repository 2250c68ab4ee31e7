"""
What is known about one window of time of a process tree on Linux, and what follows from it. Pure.

The footprint of one process is its resident high watermark plus what it had in swap. No counter of Linux holds the peak
of that sum. With swap in use the peak therefore lies between the highest sum that was sampled and the sum of both
maxima.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.metric import Measurement, Method, Metric, Reading, Unavailable
from pytest_lecturecheck.probe.memory._high_watermark import HighWatermark, highest
from pytest_lecturecheck.probe.memory._source import GONE
from pytest_lecturecheck.units import format_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Instrument:
    """
    Properties of the measurement that go into every value.

    Attributes:
        interval_seconds: longest interval between two samples.
        tolerance_bytes: how far the counter of resident pages may lag.
        has_swap: whether the machine has swap space; without it, swap is exactly zero.
    """

    interval_seconds: float
    tolerance_bytes: int
    has_swap: bool


@dataclass(slots=True, kw_only=True)
class LinuxWindow:
    """
    One window of time, filled while it is open.

    Attributes:
        resident: resident size of the kernel process, with ``VmHWM`` as its high watermark.
        is_complete: whether the watermark was read at the window's end from a living process.
        sampled_bytes: highest sum of resident and swapped pages of the kernel in one sample; ``None`` without any.
        file_bytes: resident pages of mapped files in the sample of ``sampled_bytes``.
        swap_bytes: most that the kernel had in swap in one sample.
        had_children: whether any other process of the tree lived in the window.
        child_bytes: highest sum of resident and swapped pages of a single other process in one sample.
        pss_bytes: highest footprint of the whole tree (proportional sizes, swap included) in one sample, or ``None``.
        pss_swap_bytes: most that the whole tree had in swap in one sample.
        pss_process_count: processes in the sample of ``pss_bytes``.
        group_bytes: highest footprint of the run's memory group in one sample, or ``None`` without any.
        ceiling_bytes: upper bound of the footprint if the watermark was reset by somebody else, or ``None``: not known.
    """

    resident: HighWatermark = field(default_factory=lambda: HighWatermark(at_start_bytes=0, is_reset=True))
    is_complete: bool = False
    sampled_bytes: int | None = None
    file_bytes: int | None = None
    swap_bytes: int = 0
    had_children: bool = False
    child_bytes: int = 0
    pss_bytes: int | None = None
    pss_swap_bytes: int = 0
    pss_process_count: int = 0
    group_bytes: int | None = None
    ceiling_bytes: int | None = None

    def lost_mark(self, instrument: Instrument) -> bool:
        """
        Return True if the watermark fell, which means that the lecture has reset it.

        Every process may write to its own ``clear_refs``. Two readings may differ by twice the lag of the counter,
        because ``VmHWM`` is partly computed when it is read.
        """
        return self.resident.drop_bytes > 2 * instrument.tolerance_bytes

    def note_group(self, group_bytes: int) -> None:
        """Add one sample of the run's memory group."""
        self.group_bytes = max(self.group_bytes or 0, group_bytes)

    def note_memory(
        self,
        *,
        rss_bytes: int,
        mark_bytes: int,
        swap_bytes: int,
        file_bytes: int | None = None,
        is_mark_read: bool = True,
    ) -> None:
        """Add one sample of the kernel process; ``is_mark_read`` is False for a watermark that was just reset."""
        # Resident and swapped pages of one sample are of one moment; sums of maxima are not.
        if rss_bytes + swap_bytes > (self.sampled_bytes or 0):
            self.file_bytes = file_bytes
        self.resident.note(rss_bytes, mark_bytes, is_read=is_mark_read)
        self.swap_bytes = max(self.swap_bytes, swap_bytes)
        self.sampled_bytes = max(self.sampled_bytes or 0, rss_bytes + swap_bytes)

    def note_pss(self, *, total_bytes: int, swap_bytes: int, process_count: int) -> None:
        """Add one sample of the whole tree."""
        self.pss_swap_bytes = max(self.pss_swap_bytes, swap_bytes)
        if self.pss_bytes is None or total_bytes > self.pss_bytes:
            self.pss_bytes, self.pss_process_count = total_bytes, process_count

    @property
    def mark_bytes(self) -> int:
        """Return the high watermark of the kernel process, whichever window it was reached in."""
        return self.resident.bytes or 0

    @property
    def low_bytes(self) -> int:
        """Return a footprint that the kernel process certainly reached in this window; 0 where nothing was read."""
        return max(self.mark_bytes if self.resident.is_own else 0, self.sampled_bytes or 0)

    @property
    def high_bytes(self) -> int:
        """Return a footprint that the kernel process certainly did not exceed before its last sample."""
        return max(self.low_bytes, self.mark_bytes + self.swap_bytes)

    @property
    def floor_bytes(self) -> int:
        """Return a footprint that the tree certainly reached."""
        return max(self.low_bytes, self.child_bytes, self.pss_bytes or 0, self.group_bytes or 0)


_LOST: Final = "VmHWM and VmRSS as sampled, because the lecture reset VmHWM"
_NO_SWAP: Final = Measurement(metric=Metric.PEAK_SWAP, value=0, method=Method.EXACT, source="the machine has no swap")


def rss_reading(window: LinuxWindow, instrument: Instrument) -> Reading:
    """Return the kernel's peak resident size in a window."""
    metric, resident = Metric.PEAK_RSS, window.resident
    if resident.sampled_bytes is None:
        return Unavailable(metric=metric, reason=GONE)
    is_lost = window.lost_mark(instrument)
    if window.is_complete and resident.is_own and not is_lost:
        tolerance = instrument.tolerance_bytes
        return Measurement(
            metric=metric, value=window.mark_bytes, method=Method.EXACT, tolerance=tolerance, source="VmHWM"
        )
    if window.is_complete and not is_lost:
        return Unavailable(metric=metric, reason=_not_reset_text(window.mark_bytes))
    source = "last VmHWM before the process ended" if resident.is_own else "VmRSS"
    return Measurement(
        metric=metric,
        value=resident.low_bytes or 0,
        method=Method.SAMPLED,
        interval_seconds=instrument.interval_seconds,
        source=_LOST if is_lost and window.is_complete else source,
    )


def footprint_reading(window: LinuxWindow, instrument: Instrument) -> Reading:
    """Return the tree's peak footprint in a window."""
    metric = Metric.PEAK_FOOTPRINT
    if window.sampled_bytes is None and window.pss_bytes is None:
        return Unavailable(metric=metric, reason=GONE)
    # Pages of memfd or deleted files in /dev/shm that no process maps are charged to the group only.
    holds_unmapped = (window.group_bytes or 0) > window.high_bytes + instrument.tolerance_bytes
    if window.lost_mark(instrument) and window.is_complete and not window.had_children:
        return _lost_footprint(window, instrument)
    if window.had_children or not window.is_complete or holds_unmapped:
        return Measurement(
            metric=metric,
            value=window.floor_bytes,
            method=Method.SAMPLED,
            interval_seconds=instrument.interval_seconds,
            source=_floor_source(window, instrument),
        )
    if not window.resident.is_own:
        return Unavailable(metric=metric, reason=_not_reset_text(window.high_bytes))
    return _single_process_footprint(window.low_bytes, window.high_bytes, instrument)


def _lost_footprint(window: LinuxWindow, instrument: Instrument) -> Measurement:
    ceiling_bytes = window.ceiling_bytes
    if ceiling_bytes is not None:
        ceiling_bytes = max(ceiling_bytes, window.floor_bytes)
    return Measurement(
        metric=Metric.PEAK_FOOTPRINT,
        value=window.floor_bytes,
        method=Method.SAMPLED if ceiling_bytes is None else Method.BRACKET,
        high=ceiling_bytes,
        interval_seconds=instrument.interval_seconds,
        source=_LOST if ceiling_bytes is None else f"{_LOST}; peak of the run's memory group",
    )


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


def swap_reading(window: LinuxWindow, instrument: Instrument) -> Reading:
    """Return the tree's peak in swap in a window."""
    metric = Metric.PEAK_SWAP
    if not instrument.has_swap:
        return _NO_SWAP
    if window.sampled_bytes is None:
        return Unavailable(metric=metric, reason=GONE)
    return Measurement(
        metric=metric,
        value=max(window.swap_bytes, window.pss_swap_bytes),
        method=Method.SAMPLED,
        interval_seconds=instrument.interval_seconds,
        source="VmSwap",
    )


def _not_reset_text(bound_bytes: int) -> str:
    return f"<= {format_size(bound_bytes)}, the high watermark could not be reset"


def _floor_source(window: LinuxWindow, instrument: Instrument) -> str:
    every = f"every {instrument.interval_seconds * 1000:.0f} ms"
    if window.group_bytes is not None and window.group_bytes >= window.floor_bytes:
        return f"memory group of the run, {every}"
    if window.child_bytes > max(window.low_bytes, window.pss_bytes or 0):
        return f"VmRSS of the largest child process, {every}"
    if window.pss_bytes is not None and window.pss_bytes >= window.low_bytes:
        return f"PSS of {window.pss_process_count} process{'es' * (window.pss_process_count != 1)}, {every}"
    own = "VmHWM of the main process" if window.resident.is_own else f"VmRSS of the main process, {every}"
    if window.is_complete or window.had_children:
        if window.group_bytes is not None:
            others = "the memory group of the run holds less"
        elif window.pss_bytes is not None:
            others = f"PSS of {window.pss_process_count} processes is less"
        else:
            others = "children not read"
        return f"{own}; {others}"
    return f"{own}, last read before it ended"


class LinuxLecture:
    """
    The sum of all windows of a lecture, gaps between cells included.

    The window after the last cell is special: the kernel shuts down in it, so that its end can rarely be read. It
    counts only if it exceeded everything before.
    """

    def __init__(self) -> None:
        self._whole = LinuxWindow(is_complete=True)
        self._high_bytes = 0
        self._is_empty = True

    @property
    def floor_bytes(self) -> int:
        """Return the highest footprint known so far."""
        return self._whole.floor_bytes

    def add(self, window: LinuxWindow) -> None:
        """Add a window that has been closed."""
        whole = self._whole
        if window.sampled_bytes is not None:
            self._is_empty = False
            whole.resident.note(window.resident.sampled_bytes, window.resident.bytes, is_read=False)
            whole.resident.drop_bytes = max(whole.resident.drop_bytes, window.resident.drop_bytes)
            whole.ceiling_bytes = highest(whole.ceiling_bytes, window.ceiling_bytes)
            whole.swap_bytes = max(whole.swap_bytes, window.swap_bytes)
            whole.sampled_bytes = max(whole.sampled_bytes or 0, window.sampled_bytes)
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

    def add_last(self, window: LinuxWindow) -> None:
        """Add the window after the last cell."""
        if self._is_empty or window.is_complete or window.floor_bytes > self.floor_bytes:
            self.add(window)

    def readings(self, instrument: Instrument) -> dict[Metric, Reading]:
        """Return the memory of the whole lecture."""
        whole = replace(self._whole)
        footprint = footprint_reading(whole, instrument)
        is_bounded = isinstance(footprint, Measurement) and footprint.method in {Method.EXACT, Method.BRACKET}
        if is_bounded and not whole.lost_mark(instrument):
            # The highest upper end of one window is tighter than the sum of maxima of different windows.
            high_bytes = max(whole.low_bytes, self._high_bytes)
            footprint = _single_process_footprint(whole.low_bytes, high_bytes, instrument)
        return {
            Metric.PEAK_FOOTPRINT: footprint,
            Metric.PEAK_RSS: rss_reading(whole, instrument),
            Metric.PEAK_SWAP: swap_reading(whole, instrument),
        }
