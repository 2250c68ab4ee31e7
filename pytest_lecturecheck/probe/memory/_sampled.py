"""A kernel and its tree by samples and by the peaks that the OS counts itself, over the port of ``_source``."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from pytest_lecturecheck.model.metric import Metric, Reading, Unavailable
from pytest_lecturecheck.model.probe import Snapshot
from pytest_lecturecheck.probe.memory._cell_windows import CellWindows, WindowStart
from pytest_lecturecheck.probe.memory._descendants import Descendants
from pytest_lecturecheck.probe.memory._high_watermark import HighWatermark
from pytest_lecturecheck.probe.memory._memory_sampler import SHARED_SAMPLER, MemorySampler
from pytest_lecturecheck.probe.memory._sampled_window import SampledWindow, WindowSum
from pytest_lecturecheck.probe.memory._source import GONE, ProcessReading, ProcessSource, Unread
from pytest_lecturecheck.probe.memory._usage import Usage, usage_readings
from pytest_lecturecheck.units import format_size

_MACHINE_SECONDS: Final = 1.0
"""Time between two readings of the swap of the whole machine."""
_FRESH_SECONDS: Final = 0.005
"""Readings this recent also serve as the next cell's start: the kernel has been idle since."""

_Number = TypeVar("_Number", int, float)


class SampledProbe(CellWindows[SampledWindow, WindowSum]):
    """
    One kernel and its tree under measurement.

    Args:
        pid: process id of the kernel.
        interval_seconds: time between two samples.
        source: reads processes.
        sampler: calls :meth:`sample`.
        clock: returns seconds; ``time.perf_counter`` where the timeline is compared with other times.
    """

    def __init__(
        self,
        pid: int,
        *,
        interval_seconds: float,
        source: ProcessSource,
        sampler: MemorySampler = SHARED_SAMPLER,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        super().__init__(
            interval_seconds=interval_seconds,
            sampler=sampler,
            clock=clock,
            make_lecture=lambda: WindowSum(source.texts),
        )
        self._pid, self._source, self._texts = pid, source, source.texts
        self._descendants = Descendants(pid, source)
        self._own: ProcessReading | None = None
        self._read_at = self._completed_at = self._machine_at = float("-inf")
        self._reason = GONE
        self._uses_interval = self._is_alive = False
        self._machine_text = ""
        self._machine_swap_bytes: int | None = None
        self._window = self._new_window(is_reset=False)
        self._read(complete=True)
        self._window = self._new_window(is_reset=False)
        sampler.add(self, interval_seconds)

    def snapshot(self) -> Snapshot | None:
        """Return the last values read: of the footprint, or of the resident size where that is all there is."""
        with self._lock:
            if self._own is None:
                return None
            held_bytes = self._held_bytes()
            known_bytes = max(self._lecture.low_bytes, self._window.low_bytes or 0)
            return Snapshot(
                footprint_bytes=held_bytes,
                peak_footprint_bytes=max(held_bytes, known_bytes),
                age_seconds=self._clock() - self._read_at,
                process_count=1 + len(self._descendants.members),
            )

    def _read_footprint(self) -> None:
        self._read()

    def sample(self, interval_seconds: float) -> bool:
        """Take one sample; there is no more expensive one."""
        with self._lock:
            self._longest_interval_seconds = max(self._longest_interval_seconds, interval_seconds)
            if self._result is None:
                self._read()
        return False

    def sample_deeply(self) -> None:
        """Do nothing: :meth:`sample` never asks for it."""

    def _read(self, *, complete: bool = False) -> None:
        """Sample the kernel and its descendants; a process that has ended leaves the last sample in place."""
        own = self._source.read(self._pid)
        self._is_alive = False
        if isinstance(own, Unread):
            self._window.is_complete = False
            self._reason = GONE if own.is_gone else own.reason
            return
        now = self._clock()
        if own.has_ended:
            self._window.note(own, [])
            return
        if self._own is not None and own.started != self._own.started:
            # The kernel has ended, and its process id was given to another process.
            self._window.is_complete = False
            return
        self._own, self._read_at, self._is_alive = own, now, True
        self._descendants.look(own, now, complete=complete)
        if complete:
            self._completed_at = now
        self._note(own)
        self._timeline.add(
            now,
            footprint_bytes=self._held_bytes() if own.footprint_bytes is not None else None,
            rss_bytes=own.resident_bytes,
            swap_bytes=None,
            compressed_bytes=(own.beyond_resident_bytes or None) if self._texts.beyond_resident else None,
        )
        self._read_machine(now)

    def _note(self, own: ProcessReading) -> None:
        window, descendants = self._window, self._descendants
        window.note(own, descendants.members)
        if descendants.has_lost or not descendants.is_empty:
            window.had_children = True
        window.lost_children = window.lost_children or descendants.has_lost
        window.most_of_children_bytes = descendants.most_bytes
        descendants.has_lost = False

    def _prepare_first_cell(self) -> None:
        """Measure what a launcher has started in its place, now that the kernel is ready."""
        # Not earlier: until the kernel is ready, a launcher may not have started it.
        pid = self._source.worker(self._pid)
        if pid != self._pid:
            self._pid, self._own = pid, None
            self._descendants = Descendants(pid, self._source)
            self._window = self._new_window(is_reset=False)

    def _read_machine(self, now: float) -> None:
        if now - self._machine_at < _MACHINE_SECONDS:
            return
        self._machine_at = now
        used_bytes = self._source.machine_swap_bytes()
        if used_bytes is not None:
            self._machine_swap_bytes = max(self._machine_swap_bytes or 0, used_bytes)
        self._machine_text = self._source.memory_pressure() or self._machine_text

    def _reset_peaks(self) -> bool:
        """Reset the peak counters of the tree; return True if the kernel's was reset."""
        if not self._window.is_complete or self._own is None or self._own.interval_peak_bytes is None:
            return False
        is_reset = self._source.reset_peak(self._pid)
        self._descendants.reset_peaks()
        # A counter that was reset once stays the one to read: its value began later than the process.
        self._uses_interval = self._uses_interval or is_reset
        return is_reset

    def _open_window(self, *, is_cell: bool) -> None:
        is_reset = is_cell and self._reset_peaks()
        self._window = self._new_window(is_reset=is_reset)
        if not is_cell:
            return
        self._read()
        is_complete = self._window.is_complete
        self._start = WindowStart(
            at=self._clock(),
            usage=self._usage() if is_complete else None,
            footprint_bytes=self._held_bytes() if is_complete else None,
        )

    def _new_window(self, *, is_reset: bool) -> SampledWindow:
        """Return a window that begins with what was read when the last one was closed."""
        own = self._own
        mark_bytes = None
        if own is not None:
            mark_bytes = own.interval_peak_bytes if self._uses_interval else own.lifetime_peak_bytes
        window = SampledWindow(
            footprint=HighWatermark(at_start_bytes=mark_bytes, is_reset=is_reset),
            resident=HighWatermark(at_start_bytes=own.resident_peak_bytes if own is not None else None),
            uses_interval=self._uses_interval,
            had_children=not self._descendants.is_empty,
        )
        if own is not None and self._is_alive and not is_reset:
            window.note(own, self._descendants.members)
            window.most_of_children_bytes = self._descendants.most_bytes
        return window

    def _finish_window(self, *, complete: bool) -> None:
        is_stale = self._clock() - self._completed_at > _FRESH_SECONDS
        self._read(complete=complete or is_stale)

    def _held_bytes(self) -> int:
        own_bytes = self._own.held_bytes if self._own is not None else 0
        return own_bytes + sum(member.held_bytes for member in self._descendants.members)

    def _usage(self) -> Usage:
        living = [*([self._own] if self._own is not None else []), *self._descendants.members]
        return tree_usage(living, self._descendants.former, adds_children=self._texts.adds_children)

    def _cell_memory(self, window: SampledWindow) -> dict[Metric, Reading]:
        cell = WindowSum(self._texts)
        cell.add(window)
        return self._memory_readings(cell)

    def _was_peak_reset(self, window: SampledWindow) -> bool:
        return window.was_peak_reset

    def _lecture_memory(self) -> dict[Metric, Reading]:
        return self._memory_readings(self._lecture)

    def _memory_readings(self, windows: WindowSum) -> dict[Metric, Reading]:
        swap = self._texts.swap
        if self._machine_swap_bytes is not None:
            swap += f"; the whole machine had up to {format_size(self._machine_swap_bytes)} in swap"
        if self._machine_text:
            swap += f", and {self._machine_text}"
        return {
            **windows.readings(interval_seconds=self._longest_interval_seconds, reason=self._reason),
            Metric.PEAK_SWAP: Unavailable(metric=Metric.PEAK_SWAP, reason=swap),
        }

    def _cell_usage(self, window: SampledWindow, before: Usage | None) -> dict[Metric, Reading]:
        exact = set()
        is_whole = not window.lost_children
        if window.is_complete and (is_whole or self._texts.adds_children):
            exact = {Metric.MAJOR_FAULTS, *([Metric.CPU] if self._texts.is_cpu_exact else [])}
        if window.is_complete and is_whole:
            # Neither macOS nor Windows adds the bytes that a child wrote or read to those of its parent.
            exact |= {Metric.DISK_WRITTEN, Metric.DISK_READ}
        return usage_readings(before, self._usage(), self._texts.usage, exact=exact, reason=self._reason)


def tree_usage(living: Sequence[ProcessReading], former: Sequence[ProcessReading], *, adds_children: bool) -> Usage:
    """
    Return the counters of a tree.

    Args:
        living: last samples of the processes that live.
        former: last samples of those that have ended.
        adds_children: whether the OS added the counters of those to their parents', all but bytes written.
    """
    everybody = [*living, *former]
    counted = list(living) if adds_children else everybody
    return Usage(
        cpu_ticks=_sum([item.cpu_seconds for item in counted]),
        major_faults_count=_sum([item.major_faults_count for item in counted]),
        written_bytes=_sum([item.written_bytes for item in everybody]),
        fetched_bytes=_sum([item.fetched_bytes for item in everybody]),
    )


def _sum(values: Sequence[_Number | None]) -> _Number | None:
    known = [item for item in values if item is not None]
    # Without any process there is no value; zero would be a claim.
    return sum(known[1:], start=known[0]) if known and len(known) == len(values) else None
