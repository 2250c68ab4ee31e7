"""
Linux: the kernel process by its own high watermark, its tree by proportional sizes.

Writing 5 to ``/proc/PID/clear_refs`` sets ``VmHWM`` back to the present resident size, so that each cell has a peak of
its own, see proc(5). Swap has no such mark and is sampled. Everything is read below a folder that can be set.
"""

from __future__ import annotations

import mmap
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from pytest_lecturecheck.model.metric import Measurement, Method, Metric, Reading, Unavailable
from pytest_lecturecheck.model.probe import CellReadings, Probe, Snapshot
from pytest_lecturecheck.model.timeline import MemorySample
from pytest_lecturecheck.probe.marked_processes import PROC_ROOT, MarkedProcesses
from pytest_lecturecheck.probe.memory._memory_sampler import SHARED_SAMPLER, MemorySampler
from pytest_lecturecheck.probe.memory._memory_timeline import MemoryTimeline
from pytest_lecturecheck.probe.memory._procfiles import KeptFile, StatFile, StatusFile, read_once
from pytest_lecturecheck.probe.memory._rate_limit import RateLimiter
from pytest_lecturecheck.probe.memory._tree import ProcessTree, read_proportional_sizes
from pytest_lecturecheck.probe.memory._usage import Usage, sum_readings, usage_readings
from pytest_lecturecheck.probe.memory._window import (
    Instrument,
    LectureWindow,
    Window,
    footprint_reading,
    rss_reading,
    swap_reading,
)
from pytest_lecturecheck.probe.procfs import Status, parse_sizes, parse_stat, parse_written_bytes

_RESET_HIGH_WATERMARK: Final = b"5"
_USAGE_FRESH_SECONDS: Final = 0.005
"""Counters this young are good for the next cell's start: the kernel was idle since, and reading them is not free."""
_MARK_SCAN_SECONDS: Final = 1.0
_MARK_SCAN_SHARE: Final = 0.005
_OWN_USAGE_EVERY: Final = 4
_GROUP_EVERY: Final = 8
_NO_COMPRESSED: Final = Unavailable(metric=Metric.PEAK_COMPRESSED, reason="the OS does not tell per process")
_SUMMED: Final = (Metric.WALL, Metric.CPU, Metric.MAJOR_FAULTS, Metric.DISK_WRITTEN)


def open_probe(
    pid: int, *, interval_seconds: float, run_token: str | None, read_group: Callable[[], int | None] | None = None
) -> Probe:
    """Open the probe of Linux for the process ``pid``."""
    probe = LinuxProbe(pid, interval_seconds=interval_seconds, run_token=run_token, read_group=read_group)
    probe.start()
    return probe


class LinuxProbe:
    """
    One kernel and its tree under measurement.

    Args:
        pid: process id of the kernel.
        interval_seconds: time between two samples.
        run_token: value of the run's mark in the kernel's environment, or ``None``.
        read_group: gives the anonymous, shared and swapped pages of the run's own memory group in bytes, shared ones
            once; ``None`` where it has no group, and then proportional sizes are read instead.
        proc_root: ``/proc``, or a recorded tree.
        sampler: who calls :meth:`sample`.
    """

    def __init__(
        self,
        pid: int,
        *,
        interval_seconds: float,
        run_token: str | None = None,
        read_group: Callable[[], int | None] | None = None,
        proc_root: Path = PROC_ROOT,
        sampler: MemorySampler = SHARED_SAMPLER,
    ) -> None:
        root = os.fspath(proc_root)
        self._lock = threading.Lock()
        self._pid, self._root = pid, root
        self._status_file = StatusFile(f"{root}/{pid}/status")
        self._stat_file = StatFile(f"{root}/{pid}/stat")
        self._io_file = KeptFile(f"{root}/{pid}/io")
        self._reset_file = KeptFile(f"{root}/{pid}/clear_refs", writable=True)
        self._tree = ProcessTree(pid, root)
        self._read_group = read_group
        self._group_bytes: int | None = None
        self._marked = MarkedProcesses(run_token, proc_root) if run_token is not None else None
        self._mark_scan_at = float("-inf")
        self._sampler = sampler
        self._interval_seconds = self._longest_interval_seconds = interval_seconds
        self._sample_count = 0
        self._tolerance_bytes = counter_lag_bytes(os.cpu_count() or 1)
        self._has_swap = bool(
            parse_sizes((read_once(f"{root}/meminfo") or b"").decode("ascii", "replace")).get("SwapTotal", 1)
        )
        self._ticks_per_second = _ticks_per_second()
        now = time.perf_counter()
        self._ration = RateLimiter(now)
        self._status: Status | None = None
        self._status_at = now
        self._members_bytes, self._process_count = 0, 1
        self._tree_bytes: tuple[int, int] | None = None
        self._usage: Usage | None = None
        self._usage_at = float("-inf")
        self._window = Window(is_mark_reset=True)
        self._noted: Window | None = None
        self._window_usage: Usage | None = None
        self._window_start_at = now
        self._window_start_bytes: int | None = None
        self._in_cell = False
        self._lecture = LectureWindow()
        self._timeline = MemoryTimeline()
        self._cells: list[Mapping[Metric, Reading]] = []
        self._result: Mapping[Metric, Reading] | None = None

    def start(self) -> None:
        """Read the state the kernel is in, and have samples taken from now on."""
        with self._lock:
            self._read_memory()
            self._look_around(complete=True)
            self._read_usage()
            self._window_usage = self._usage
        self._sampler.add(self, self._interval_seconds)

    def begin_cell(self) -> None:
        """Open a cell's window."""
        with self._lock:
            if self._result is None:
                self._close_window()
                if not self._cells:
                    # The start of a kernel and its helpers is not the lecture's.
                    self._lecture = LectureWindow()
                self._open_window(is_cell=True)

    def end_cell(self) -> CellReadings:
        """Close the cell's window."""
        with self._lock:
            ended_at = time.perf_counter()
            start_bytes, started_at = self._window_start_bytes, self._window_start_at
            window, before = self._window, self._window_usage
            if self._result is None:
                self._close_window(complete=True)
                self._open_window(is_cell=False)
            readings = self._cell_readings(window, before, ended_at - started_at)
            self._cells.append(readings)
            return CellReadings(
                readings=readings, start_footprint_bytes=start_bytes, mapped_file_bytes=window.file_bytes
            )

    def snapshot(self) -> Snapshot | None:
        """Give the last figures read."""
        with self._lock:
            if self._status is None:
                return None
            return Snapshot(
                footprint_bytes=self._footprint_bytes(),
                peak_footprint_bytes=max(self._lecture.floor_bytes, self._window.floor_bytes),
                age_seconds=time.perf_counter() - self._status_at,
                process_count=self._process_count,
            )

    def close(self) -> Mapping[Metric, Reading]:
        """Stop reading and give the lecture's figures."""
        self._sampler.remove(self)
        with self._lock:
            if self._result is None:
                self._close_window(is_last=not self._in_cell)
                self._result = self._lecture_readings()
                for file in (self._status_file, self._stat_file, self._io_file, self._reset_file):
                    file.close()
                self._tree.close()
            return self._result

    def timeline(self, since: float) -> tuple[MemorySample, ...]:
        """Give the memory over time so far."""
        with self._lock:
            return self._timeline.samples(since)

    def sample(self, interval_seconds: float) -> bool:
        """Take one cheap sample, and tell whether proportional sizes are worth reading."""
        marked = self._scan_marked_when_due()
        with self._lock:
            if self._result is not None:
                return False
            self._longest_interval_seconds = max(self._longest_interval_seconds, interval_seconds)
            if marked is not None:
                self._tree.set_strays(marked)
            self._read_memory()
            if self._sample_count % _OWN_USAGE_EVERY == 0:
                self._read_own_usage()
            self._look_around()
            self._note_on_timeline()
            self._sample_count += 1
            return self._wants_pss()

    def sample_deeply(self) -> None:
        """Read proportional sizes without holding up the cell, and book them on the window they were read in."""
        with self._lock:
            window, pids = self._window, (self._pid, *self._tree.members)
        started_at = time.perf_counter()
        sizes = read_proportional_sizes(pids, self._root)
        ended_at = time.perf_counter()
        with self._lock:
            self._ration.spend(started_at, ended_at)
            if sizes is None or self._result is not None:
                return
            total_bytes = sizes.pss_bytes + sizes.swap_bytes
            self._tree_bytes = (total_bytes, self._own_bytes() + self._members_bytes)
            is_same = self._window is window
            booked = window if is_same else Window(is_complete=True, had_children=True)
            booked.note_pss(total_bytes=total_bytes, swap_bytes=sizes.swap_bytes, process_count=len(pids))
            if not is_same:
                # It began in one window and ended in another: true of the lecture, of no cell.
                self._lecture.add(booked)

    def _read_memory(self) -> None:
        """Read the kernel's status; a process that has ended leaves the last one in place."""
        status = self._status_file.read_status()
        if status is None:
            self._window.is_complete = False
            return
        is_known = status is self._status and self._noted is self._window
        self._status, self._status_at = status, time.perf_counter()
        self._window.is_complete = True
        if is_known:
            return
        self._noted = self._window
        self._note_memory(status, status.high_watermark_bytes)

    def _note_memory(self, status: Status, mark_bytes: int) -> None:
        self._window.note_memory(
            rss_bytes=status.rss_bytes,
            mark_bytes=mark_bytes,
            swap_bytes=status.swap_bytes,
            file_bytes=status.file_bytes,
        )

    def _note_on_timeline(self) -> None:
        if self._status is not None and self._window.is_complete:
            self._timeline.add(
                self._status_at,
                footprint_bytes=self._footprint_bytes(),
                rss_bytes=self._status.rss_bytes,
                swap_bytes=self._status.swap_bytes if self._has_swap else None,
            )

    def _look_around(self, *, complete: bool = False) -> None:
        """Look for other processes of the tree, and read what they hold."""
        threads = self._status.thread_count if self._status is not None else 1
        if self._tree.walk(threads, time.perf_counter(), complete=complete):
            self._window.had_children = True
            members = self._tree.read_members()
            self._members_bytes, self._process_count = members.bound_bytes, 1 + members.process_count
            self._window.child_bytes = max(self._window.child_bytes, members.largest_bytes)
            self._note_group()
        elif self._process_count > 1:
            self._members_bytes, self._process_count, self._tree_bytes = 0, 1, None
            self._group_bytes = None
        elif complete or self._sample_count % _GROUP_EVERY == 0:
            # Pages that are written but mapped by nobody (a file in shared memory, memfd) are in no process's figures.
            self._note_group()

    def _note_group(self) -> None:
        held_bytes = self._read_group() if self._read_group is not None else None
        self._group_bytes = None
        if held_bytes is not None and self._status is not None:
            # The group knows no pages mapped from files. The kernel's own are added: still a lower bound.
            self._group_bytes = held_bytes + self._status.file_bytes
            self._window.note_group(self._group_bytes)

    def _read_own_usage(self) -> None:
        """Read the kernel's own counters, so that something is known when it dies."""
        counters = self._stat_file.read_counters()
        if counters is None:
            return
        if self._window_usage is not None and counters.child_faults_count > self._window_usage.child_faults_count:
            # A child that came and went between two samples leaves its page faults behind.
            self._window.had_children = True
        self._usage = Usage(
            cpu_ticks=counters.cpu_ticks,
            major_faults_count=counters.major_faults_count,
            written_bytes=self._usage.written_bytes if self._usage is not None else None,
            child_faults_count=counters.child_faults_count,
        )
        self._usage_at = float("-inf")

    def _read_usage(self) -> None:
        """Read the counters of the whole tree."""
        self._read_own_usage()
        own = self._usage
        if own is None:
            return
        text = self._io_file.read()
        written = parse_written_bytes(text) if text is not None else None
        ticks, faults = own.cpu_ticks, own.major_faults_count
        for pid in self._tree.members:
            counters = parse_stat(read_once(f"{self._root}/{pid}/stat") or b"")
            ticks += counters.cpu_ticks if counters is not None else 0
            faults += counters.major_faults_count if counters is not None else 0
            if written is not None:
                written += parse_written_bytes(read_once(f"{self._root}/{pid}/io") or b"") or 0
        self._usage = Usage(
            cpu_ticks=ticks,
            major_faults_count=faults,
            written_bytes=written,
            child_faults_count=own.child_faults_count,
        )
        self._usage_at = time.perf_counter()

    def _open_window(self, *, is_cell: bool) -> None:
        """Open a window with the figures that were read when the last one was closed."""
        status = self._status
        was_alive = self._window.is_complete
        is_reset = is_cell and was_alive and self._reset_file.write(_RESET_HIGH_WATERMARK)
        self._window = Window(is_mark_reset=is_reset, had_children=self._process_count > 1, is_complete=was_alive)
        self._window_usage = self._usage
        self._window_start_at = time.perf_counter()
        self._window_start_bytes = self._footprint_bytes() if was_alive else None
        self._in_cell = is_cell
        if status is not None and was_alive:
            mark_bytes = status.rss_bytes if is_reset else status.high_watermark_bytes
            self._window.mark_at_start_bytes = mark_bytes
            self._note_memory(status, mark_bytes)

    def _close_window(self, *, complete: bool = False, is_last: bool = False) -> None:
        """Read what belongs to the open window, and hand it to the lecture."""
        self._read_memory()
        if complete or time.perf_counter() - self._usage_at > _USAGE_FRESH_SECONDS:
            self._look_around(complete=True)
            self._read_usage()
            if self._window.had_children and self._marked is not None:
                # Who has left the tree is found by the mark; and while nobody had children, nobody can have left.
                self._tree.set_strays(self._marked.scan())
                self._look_around(complete=True)
                self._read_usage()
        self._note_on_timeline()
        if is_last:
            self._lecture.add_last(self._window)
        else:
            self._lecture.add(self._window)

    def _cell_readings(self, window: Window, before: Usage | None, wall_seconds: float) -> dict[Metric, Reading]:
        instrument = self._instrument()
        is_complete = window.is_complete
        return {
            Metric.PEAK_FOOTPRINT: footprint_reading(window, instrument),
            Metric.PEAK_RSS: rss_reading(window, instrument),
            Metric.PEAK_SWAP: swap_reading(window, instrument),
            Metric.PEAK_COMPRESSED: _NO_COMPRESSED,
            Metric.WALL: Measurement(
                metric=Metric.WALL, value=wall_seconds, method=Method.EXACT, source="time.perf_counter"
            ),
            **usage_readings(before, self._usage, ticks_per_second=self._ticks_per_second, is_complete=is_complete),
        }

    def _lecture_readings(self) -> dict[Metric, Reading]:
        sums = {metric: sum_readings(metric, [cell[metric] for cell in self._cells]) for metric in _SUMMED}
        return {**self._lecture.readings(self._instrument()), Metric.PEAK_COMPRESSED: _NO_COMPRESSED, **sums}

    def _instrument(self) -> Instrument:
        return Instrument(
            interval_seconds=self._longest_interval_seconds,
            tolerance_bytes=self._tolerance_bytes,
            has_swap=self._has_swap,
        )

    def _own_bytes(self) -> int:
        return self._status.rss_bytes + self._status.swap_bytes if self._status is not None else 0

    def _footprint_bytes(self) -> int:
        """Estimate the tree's footprint now: the last proportional sizes, moved by what the plain sums moved since."""
        own_bytes = self._own_bytes()
        if self._group_bytes is not None:
            return max(own_bytes, self._group_bytes)
        if self._process_count == 1 or self._tree_bytes is None:
            return own_bytes
        tree_bytes, bound_then_bytes = self._tree_bytes
        bound_bytes = own_bytes + self._members_bytes
        return min(bound_bytes, max(own_bytes, tree_bytes + bound_bytes - bound_then_bytes))

    def _wants_pss(self) -> bool:
        # The sum of plain sizes is an upper bound of the proportional ones: below the known peak there is nothing new.
        if self._process_count == 1 or self._group_bytes is not None:
            return False
        bound_bytes = self._own_bytes() + self._members_bytes
        return bound_bytes > self._window.floor_bytes and self._ration.allows(time.perf_counter())

    def _scan_marked_when_due(self) -> list[int] | None:
        started_at = time.perf_counter()
        if self._marked is None or started_at < self._mark_scan_at:
            return None
        marked = self._marked.scan()
        ended_at = time.perf_counter()
        self._mark_scan_at = ended_at + max(_MARK_SCAN_SECONDS, (ended_at - started_at) / _MARK_SCAN_SHARE)
        return marked


def counter_lag_bytes(cpu_count: int, page_bytes: int = mmap.PAGESIZE) -> int:
    """Give how far the counter of resident pages may lag: each CPU keeps up to ``max(32, 2 x CPUs)`` pages back."""
    return cpu_count * max(32, 2 * cpu_count) * page_bytes


def _ticks_per_second() -> int:
    return os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
