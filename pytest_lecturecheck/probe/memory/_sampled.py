"""A kernel and its tree by samples and by the peaks that the system counts itself, over the port of ``_source``."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from pytest_lecturecheck.model.metric import Measurement, Method, Metric, Reading, Unavailable
from pytest_lecturecheck.model.probe import CellReadings, Snapshot
from pytest_lecturecheck.model.timeline import MemorySample
from pytest_lecturecheck.probe.memory._descendants import Descendants
from pytest_lecturecheck.probe.memory._memory_sampler import SHARED_SAMPLER, MemorySampler
from pytest_lecturecheck.probe.memory._memory_timeline import MemoryTimeline
from pytest_lecturecheck.probe.memory._peaks import GONE, Mark, PeakWindow, Summary
from pytest_lecturecheck.probe.memory._source import ProcessReading, ProcessSource, Unread
from pytest_lecturecheck.probe.memory._usage import sum_readings
from pytest_lecturecheck.probe.memory._usage_sampled import Used, add_up, used_readings
from pytest_lecturecheck.units import format_size

_MACHINE_SECONDS: Final = 1.0
"""Time between two looks at the swap of the whole machine."""
_FRESH_SECONDS: Final = 0.005
"""Readings this young are good for the next cell's start: the kernel was idle since."""
_SUMMED: Final = (Metric.WALL, Metric.CPU, Metric.MAJOR_FAULTS, Metric.DISK_WRITTEN)


class SampledProbe:
    """
    One kernel and its tree under measurement.

    Args:
        pid: process id of the kernel.
        interval_seconds: time between two samples.
        source: reads processes.
        sampler: who calls :meth:`sample`.
        clock: seconds; ``time.perf_counter`` where the timeline is to be compared with other times.
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
        self._lock = threading.Lock()
        self._pid, self._source, self._words = pid, source, source.words
        self._sampler, self._clock = sampler, clock
        self._longest_interval_seconds = interval_seconds
        self._family = Descendants(pid, source)
        self._own: ProcessReading | None = None
        self._read_at = self._completed_at = self._machine_at = float("-inf")
        self._reason = GONE
        self._uses_interval = self._is_alive = False
        self._machine_text = ""
        self._machine_swap_bytes: int | None = None
        self._stretch = self._new_stretch(is_reset=False)
        self._lecture = Summary(self._words)
        self._timeline = MemoryTimeline()
        self._start: tuple[float, Used | None, int | None] = (clock(), None, None)
        self._is_in_cell = False
        self._cells: list[Mapping[Metric, Reading]] = []
        self._result: Mapping[Metric, Reading] | None = None
        self._read(complete=True)
        self._stretch = self._new_stretch(is_reset=False)
        sampler.add(self, interval_seconds)

    def begin_cell(self) -> None:
        """Open a cell's window."""
        with self._lock:
            if self._result is not None:
                return
            if not self._cells:
                self._find_worker()
            self._close_stretch()
            if not self._cells:
                # The start of a kernel and its helpers is not the lecture's.
                self._lecture = Summary(self._words)
            is_reset = self._reset_peaks()
            self._stretch = self._new_stretch(is_reset=is_reset)
            self._read()
            held_bytes = self._held_bytes() if self._stretch.is_complete else None
            self._start = (self._clock(), self._used() if self._stretch.is_complete else None, held_bytes)
            self._is_in_cell = True

    def end_cell(self) -> CellReadings:
        """Close the cell's window."""
        with self._lock:
            ended_at = self._clock()
            started_at, before, start_bytes = self._start
            stretch = self._stretch
            if self._result is None:
                self._close_stretch(complete=True)
                self._stretch = self._new_stretch(is_reset=False)
            cell = Summary(self._words)
            cell.add(stretch)
            wall = Measurement(
                metric=Metric.WALL, value=ended_at - started_at, method=Method.EXACT, source="time.perf_counter"
            )
            readings = {**self._memory_readings(cell), Metric.WALL: wall, **self._usage_readings(before, stretch)}
            self._cells.append(readings)
            self._is_in_cell = False
            return CellReadings(readings=readings, start_footprint_bytes=start_bytes)

    def snapshot(self) -> Snapshot | None:
        """Give the last figures read: of the footprint, or of the resident size where that is all there is."""
        with self._lock:
            if self._own is None:
                return None
            held_bytes = self._held_bytes()
            known_bytes = max(self._lecture.low_bytes, self._stretch.low_bytes or 0)
            return Snapshot(
                footprint_bytes=held_bytes,
                peak_footprint_bytes=max(held_bytes, known_bytes),
                age_seconds=self._clock() - self._read_at,
                process_count=1 + len(self._family.members),
            )

    def close(self) -> Mapping[Metric, Reading]:
        """Stop reading and give the lecture's figures."""
        self._sampler.remove(self)
        with self._lock:
            if self._result is None:
                self._close_stretch(is_last=not self._is_in_cell)
                sums = {metric: sum_readings(metric, [cell[metric] for cell in self._cells]) for metric in _SUMMED}
                self._result = {**self._memory_readings(self._lecture), **sums}
            return self._result

    def timeline(self, since: float) -> tuple[MemorySample, ...]:
        """Give the memory over time so far."""
        with self._lock:
            return self._timeline.samples(since)

    def sample(self, interval_seconds: float) -> bool:
        """Take one sample; there is no dearer one."""
        with self._lock:
            self._longest_interval_seconds = max(self._longest_interval_seconds, interval_seconds)
            if self._result is None:
                self._read()
        return False

    def sample_deeply(self) -> None:
        """Do nothing: it is never asked for."""

    def _read(self, *, complete: bool = False) -> None:
        """Look at the kernel and at its descendants; a process that has ended leaves the last reading in place."""
        own = self._source.read(self._pid)
        self._is_alive = False
        if isinstance(own, Unread):
            self._stretch.is_complete = False
            self._reason = GONE if own.is_gone else own.reason
            return
        now = self._clock()
        if own.has_ended:
            self._stretch.note(own, [])
            return
        if self._own is not None and own.started != self._own.started:
            # The kernel has ended, and its process id is another's.
            self._stretch.is_complete = False
            return
        self._own, self._read_at, self._is_alive = own, now, True
        self._family.look(own, now, complete=complete)
        if complete:
            self._completed_at = now
        stretch = self._stretch
        stretch.note(own, self._family.members)
        if self._family.has_lost or not self._family.is_empty:
            stretch.had_children = True
        stretch.lost_children = stretch.lost_children or self._family.has_lost
        stretch.most_of_children_bytes = self._family.most_bytes
        self._family.has_lost = False
        self._timeline.add(
            now,
            footprint_bytes=self._held_bytes() if own.footprint_bytes is not None else None,
            rss_bytes=own.resident_bytes,
            swap_bytes=None,
            compressed_bytes=(own.beyond_resident_bytes or None) if self._words.beyond_resident else None,
        )
        self._look_at_machine(now)

    def _find_worker(self) -> None:
        """Measure what the started process has started in its place, now that the kernel is ready."""
        pid = self._source.worker(self._pid)
        if pid != self._pid:
            self._pid, self._own = pid, None
            self._family = Descendants(pid, self._source)
            self._stretch = self._new_stretch(is_reset=False)

    def _look_at_machine(self, now: float) -> None:
        if now - self._machine_at < _MACHINE_SECONDS:
            return
        self._machine_at = now
        used_bytes = self._source.machine_swap_bytes()
        if used_bytes is not None:
            self._machine_swap_bytes = max(self._machine_swap_bytes or 0, used_bytes)
        self._machine_text = self._source.memory_pressure() or self._machine_text

    def _reset_peaks(self) -> bool:
        """Have the peaks of the tree counted anew, and tell whether the kernel's is."""
        if not self._stretch.is_complete or self._own is None or self._own.interval_peak_bytes is None:
            return False
        is_reset = self._source.reset_peak(self._pid)
        self._family.reset_peaks()
        # A counter that was reset once stays the one to read: what it holds began later than the process.
        self._uses_interval = self._uses_interval or is_reset
        return is_reset

    def _new_stretch(self, *, is_reset: bool) -> PeakWindow:
        """Open a stretch with what was read when the last one was closed."""
        own = self._own
        mark_bytes = None
        if own is not None:
            mark_bytes = own.interval_peak_bytes if self._uses_interval else own.lifetime_peak_bytes
        stretch = PeakWindow(
            footprint=Mark(at_start_bytes=mark_bytes, is_reset=is_reset),
            resident=Mark(at_start_bytes=own.resident_peak_bytes if own is not None else None),
            uses_interval=self._uses_interval,
            had_children=not self._family.is_empty,
        )
        if own is not None and self._is_alive and not is_reset:
            stretch.note(own, self._family.members)
            stretch.most_of_children_bytes = self._family.most_bytes
        return stretch

    def _close_stretch(self, *, complete: bool = False, is_last: bool = False) -> None:
        """Read what belongs to the open stretch, and hand it to the lecture."""
        is_stale = self._clock() - self._completed_at > _FRESH_SECONDS
        self._read(complete=complete or is_stale)
        if is_last:
            self._lecture.add_last(self._stretch)
        else:
            self._lecture.add(self._stretch)

    def _held_bytes(self) -> int:
        own_bytes = self._own.held_bytes if self._own is not None else 0
        return own_bytes + sum(member.held_bytes for member in self._family.members)

    def _used(self) -> Used:
        living = [*([self._own] if self._own is not None else []), *self._family.members]
        return add_up(living, self._family.former, adds_children=self._words.adds_children)

    def _usage_readings(self, before: Used | None, stretch: PeakWindow) -> dict[Metric, Reading]:
        return used_readings(
            before,
            self._used(),
            self._words,
            is_complete=stretch.is_complete,
            is_whole=not stretch.lost_children,
            reason=self._reason,
        )

    def _memory_readings(self, summary: Summary) -> dict[Metric, Reading]:
        swap = self._words.swap
        if self._machine_swap_bytes is not None:
            swap += f"; the whole machine had up to {format_size(self._machine_swap_bytes)} in swap"
        if self._machine_text:
            swap += f", and {self._machine_text}"
        return {
            **summary.readings(interval_seconds=self._longest_interval_seconds, reason=self._reason),
            Metric.PEAK_SWAP: Unavailable(metric=Metric.PEAK_SWAP, reason=swap),
        }
