"""
Linux: the kernel process by its own high watermark, its tree by proportional sizes.

Writing 5 to ``/proc/PID/clear_refs`` resets ``VmHWM`` to the present resident size, so that each cell has its own peak,
see proc(5). Swap has no such counter and is sampled. Everything is read below a folder that can be set.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pytest_lecturecheck.model.metric import Metric, Reading, Unavailable
from pytest_lecturecheck.model.probe import Probe, Snapshot
from pytest_lecturecheck.probe.marked_processes import PROC_ROOT, MarkedProcesses
from pytest_lecturecheck.probe.memory._cell_windows import CellWindows, WindowStart
from pytest_lecturecheck.probe.memory._high_watermark import HighWatermark
from pytest_lecturecheck.probe.memory._linux_usage import LINUX_USAGE, UsageReader
from pytest_lecturecheck.probe.memory._linux_window import (
    Instrument,
    LinuxLecture,
    LinuxWindow,
    footprint_reading,
    rss_reading,
    swap_reading,
)
from pytest_lecturecheck.probe.memory._memory_sampler import SHARED_SAMPLER, MemorySampler
from pytest_lecturecheck.probe.memory._procfiles import KeptFile, StatusFile, read_once
from pytest_lecturecheck.probe.memory._rate_limit import RateLimiter
from pytest_lecturecheck.probe.memory._source import GONE
from pytest_lecturecheck.probe.memory._tree import ProcessTree, read_proportional_sizes
from pytest_lecturecheck.probe.memory._usage import USAGE_METRICS, Usage, usage_readings
from pytest_lecturecheck.probe.memory_limits import read_group_peak
from pytest_lecturecheck.probe.procfs import Status, parse_sizes

# Writing 5 resets VmHWM and the process's own ru_maxrss (Linux 4.0). Values 1 to 4 clear page flags, which is slow.
_RESET_HIGH_WATERMARK: Final = b"5"
_USAGE_FRESH_SECONDS: Final = 0.005
"""Counters this recent also serve as the next cell's start: the kernel has been idle since, and reading costs time."""
# On a machine with thousands of processes a scan takes tens of milliseconds, so it also gets a share of the time.
_MARK_SCAN_SECONDS: Final = 1.0
_MARK_SCAN_SHARE: Final = 0.005
_OWN_USAGE_EVERY: Final = 4
_GROUP_EVERY: Final = 8
_NO_COMPRESSED: Final = Unavailable(metric=Metric.PEAK_COMPRESSED, reason="the OS does not report it per process")


def open_probe(
    pid: int,
    *,
    interval_seconds: float,
    run_token: str | None,
    supervisor_pid: int | None = None,
    read_group: Callable[[], int | None] | None = None,
) -> Probe:
    """Open the probe of Linux for the process ``pid``."""
    probe = LinuxProbe(
        pid,
        interval_seconds=interval_seconds,
        run_token=run_token,
        supervisor_pid=supervisor_pid,
        read_group=read_group,
    )
    probe.start()
    return probe


class LinuxProbe(CellWindows[LinuxWindow, LinuxLecture]):
    """
    One kernel and its tree under measurement.

    Args:
        pid: process id of the kernel.
        interval_seconds: time between two samples.
        run_token: value of the run's mark in the kernel's environment, or ``None``.
        supervisor_pid: parent of the kernel that adopts the orphans of its tree, or ``None``.
        read_group: returns the anonymous, shared and swapped pages of the run's own memory group in bytes, shared ones
            once; ``None`` where it has no group, and then proportional sizes are read instead.
        proc_root: ``/proc``, or a recorded tree.
        sampler: calls :meth:`sample`.
    """

    def __init__(  # noqa: PLR0913 - keyword-only, most of them for tests
        self,
        pid: int,
        *,
        interval_seconds: float,
        run_token: str | None = None,
        supervisor_pid: int | None = None,
        read_group: Callable[[], int | None] | None = None,
        proc_root: Path = PROC_ROOT,
        sampler: MemorySampler = SHARED_SAMPLER,
    ) -> None:
        super().__init__(
            interval_seconds=interval_seconds, sampler=sampler, clock=time.perf_counter, make_lecture=LinuxLecture
        )
        root = os.fspath(proc_root)
        self._pid, self._root = pid, root
        self._status_file = StatusFile(f"{root}/{pid}/status")
        self._usage_reader = UsageReader(pid, root, supervisor_pid=supervisor_pid)
        self._reset_file = KeptFile(f"{root}/{pid}/clear_refs", writable=True)
        self._tree = ProcessTree(pid, root, supervisor_pid=supervisor_pid)
        self._read_group = read_group
        self._group_bytes: int | None = None
        self._marked = MarkedProcesses(run_token, proc_root) if run_token is not None else None
        self._mark_scan_at = float("-inf")
        self._sample_count = 0
        self._tolerance_bytes = counter_lag_bytes(os.cpu_count() or 1)
        self._has_swap = bool(
            # Assume swap if meminfo cannot be read: a claim that there is none would make values exact.
            parse_sizes((read_once(f"{root}/meminfo") or b"").decode("ascii", "replace")).get("SwapTotal", 1)
        )
        self._rate_limiter = RateLimiter(self._start.at)
        self._status: Status | None = None
        self._status_at = self._start.at
        self._members_bytes, self._process_count = 0, 1
        self._other_pids: tuple[int, ...] = ()
        self._tree_bytes: tuple[int, int] | None = None
        self._usage: Usage | None = None
        self._usage_at = float("-inf")
        self._window = LinuxWindow()
        self._noted: LinuxWindow | None = None

    def start(self) -> None:
        """Read the state that the kernel is in, and start sampling."""
        with self._lock:
            self._read_memory()
            self._read_tree(complete=True)
            self._read_usage()
            self._start = WindowStart(at=self._start.at, usage=self._usage)
        self._sampler.add(self, self._interval_seconds)

    def snapshot(self) -> Snapshot | None:
        """Return the last values read."""
        with self._lock:
            if self._status is None:
                return None
            return Snapshot(
                footprint_bytes=self._footprint_bytes(),
                peak_footprint_bytes=max(self._lecture.floor_bytes, self._window.floor_bytes),
                age_seconds=self._clock() - self._status_at,
                process_count=self._process_count,
                other_pids=self._other_pids,
            )

    def _read_footprint(self) -> None:
        self._read_memory()
        self._read_tree()

    def sample(self, interval_seconds: float) -> bool:
        """Take one cheap sample, and return True if proportional sizes are worth reading."""
        # Outside of the lock: a scan must not delay the end of a cell.
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
            self._read_tree()
            self._add_to_timeline()
            self._sample_count += 1
            return self._wants_pss()

    def sample_deeply(self) -> None:
        """Read proportional sizes without holding up the cell, and add them to the window they were read in."""
        with self._lock:
            window, pids = self._window, (self._pid, *self._tree.members)
        started_at = self._clock()
        sizes = read_proportional_sizes(pids, self._root)
        ended_at = self._clock()
        with self._lock:
            self._rate_limiter.spend(started_at, ended_at)
            if sizes is None or self._result is not None:
                return
            total_bytes = sizes.pss_bytes + sizes.swap_bytes
            self._tree_bytes = (total_bytes, self._own_bytes() + self._members_bytes)
            is_same = self._window is window
            target = window if is_same else LinuxWindow(is_complete=True, had_children=True)
            target.note_pss(total_bytes=total_bytes, swap_bytes=sizes.swap_bytes, process_count=len(pids))
            if not is_same:
                # The reading began in one window and ended in another: it counts for the lecture, but for no cell.
                self._lecture.add(target)

    def _read_memory(self) -> None:
        """Read the kernel's status; if it has ended, the last status stays."""
        status = self._status_file.read_status()
        if status is None:
            self._window.is_complete = False
            return
        # StatusFile returns the same object while nothing has changed, and then there is nothing to note.
        is_known = status is self._status and self._noted is self._window
        self._status, self._status_at = status, self._clock()
        self._window.is_complete = True
        if is_known:
            return
        self._noted = self._window
        self._note_memory(status)

    def _note_memory(self, status: Status, reset_mark_bytes: int | None = None) -> None:
        """Add a status to the window; ``reset_mark_bytes`` replaces a mark that was read before it was reset."""
        is_read = reset_mark_bytes is None
        self._window.note_memory(
            rss_bytes=status.rss_bytes,
            mark_bytes=status.high_watermark_bytes if reset_mark_bytes is None else reset_mark_bytes,
            swap_bytes=status.swap_bytes,
            file_bytes=status.file_bytes,
            is_mark_read=is_read,
        )

    def _add_to_timeline(self) -> None:
        if self._status is not None and self._window.is_complete:
            self._timeline.add(
                self._status_at,
                footprint_bytes=self._footprint_bytes(),
                rss_bytes=self._status.rss_bytes,
                swap_bytes=self._status.swap_bytes if self._has_swap else None,
            )

    def _read_tree(self, *, complete: bool = False) -> None:
        """Find the other processes of the tree, and read what they hold."""
        threads = self._status.thread_count if self._status is not None else 1
        if self._tree.walk(threads, self._clock(), complete=complete):
            self._window.had_children = True
            members = self._tree.read_members()
            self._members_bytes, self._process_count = members.bound_bytes, 1 + members.process_count
            self._other_pids = self._tree.members
            self._window.child_bytes = max(self._window.child_bytes, members.largest_bytes)
            self._note_group()
        elif self._process_count > 1:
            self._members_bytes, self._process_count, self._tree_bytes = 0, 1, None
            self._other_pids = ()
            self._group_bytes = None
        elif complete or self._sample_count % _GROUP_EVERY == 0:
            # Pages that no process maps (files in /dev/shm, memfd) are in no process's counters, but in the group's.
            self._note_group()

    def _note_group(self) -> None:
        held_bytes = self._read_group() if self._read_group is not None else None
        self._group_bytes = None
        if held_bytes is not None and self._status is not None:
            # The group's count has no mapped file pages. With the kernel's own added it is still a lower bound.
            self._group_bytes = held_bytes + self._status.file_bytes
            self._window.note_group(self._group_bytes)

    def _read_own_usage(self) -> bool:
        """Read the kernel's own counters, so that something is known if it dies; return False if it has ended."""
        usage = self._usage_reader.read_own()
        if usage is None:
            return False
        if self._start.usage is not None and usage.child_faults_count > self._start.usage.child_faults_count:
            # A child that lived between two samples leaves its page faults in the counters of who reaped it.
            self._window.had_children = True
        self._usage = usage
        self._usage_at = float("-inf")
        return True

    def _read_usage(self) -> None:
        """Read the counters of the whole tree."""
        if self._read_own_usage() and self._usage is not None:
            self._usage = self._usage_reader.read_tree(self._usage, self._tree.members)
            self._usage_at = self._clock()

    def _open_window(self, *, is_cell: bool) -> None:
        """Open a window with what was read when the last one was closed."""
        status = self._status
        was_alive = self._window.is_complete
        is_reset = is_cell and was_alive and self._reset_file.write(_RESET_HIGH_WATERMARK)
        resident = HighWatermark(at_start_bytes=0, is_reset=is_reset)
        self._window = LinuxWindow(resident=resident, had_children=self._process_count > 1, is_complete=was_alive)
        self._start = WindowStart(
            at=self._clock(), usage=self._usage, footprint_bytes=self._footprint_bytes() if was_alive else None
        )
        if status is not None and was_alive:
            resident.at_start_bytes = status.rss_bytes if is_reset else status.high_watermark_bytes
            self._note_memory(status, status.rss_bytes if is_reset else None)

    def _finish_window(self, *, complete: bool) -> None:
        self._read_memory()
        if complete or self._clock() - self._usage_at > _USAGE_FRESH_SECONDS:
            self._read_tree(complete=True)
            self._read_usage()
            if self._window.had_children and self._marked is not None and not self._tree.is_supervised:
                # Processes that left the tree are found by their mark. Without children nobody can have left.
                self._tree.set_strays(self._marked.scan())
                self._read_tree(complete=True)
                self._read_usage()
        if self._window.lost_mark(self._instrument()):
            self._window.ceiling_bytes = self._ceiling_bytes()
        self._add_to_timeline()

    def _ceiling_bytes(self) -> int | None:
        """Return an upper bound of the footprint that a lecture's reset of ``VmHWM`` does not change, or ``None``."""
        peak_bytes = read_group_peak(Path(self._root).parent, self._pid, has_swap=self._has_swap)
        if peak_bytes is None or self._status is None:
            return None
        # Pages of libraries may be charged to the group of another process that mapped them first.
        return peak_bytes + self._status.file_bytes

    def _was_peak_reset(self, window: LinuxWindow) -> bool:
        return window.lost_mark(self._instrument())

    def _mapped_file_bytes(self, window: LinuxWindow) -> int | None:
        return window.file_bytes

    def _cell_memory(self, window: LinuxWindow) -> dict[Metric, Reading]:
        instrument = self._instrument()
        return {
            Metric.PEAK_FOOTPRINT: footprint_reading(window, instrument),
            Metric.PEAK_RSS: rss_reading(window, instrument),
            Metric.PEAK_SWAP: swap_reading(window, instrument),
            Metric.PEAK_COMPRESSED: _NO_COMPRESSED,
        }

    def _cell_usage(self, window: LinuxWindow, before: Usage | None) -> dict[Metric, Reading]:
        exact = USAGE_METRICS if window.is_complete else ()
        return usage_readings(before, self._usage, LINUX_USAGE, exact=exact, reason=GONE)

    def _lecture_memory(self) -> dict[Metric, Reading]:
        return {**self._lecture.readings(self._instrument()), Metric.PEAK_COMPRESSED: _NO_COMPRESSED}

    def _release(self) -> None:
        for file in (self._status_file, self._reset_file, self._usage_reader, self._tree):
            file.close()

    def _instrument(self) -> Instrument:
        return Instrument(
            interval_seconds=self._longest_interval_seconds,
            tolerance_bytes=self._tolerance_bytes,
            has_swap=self._has_swap,
        )

    def _own_bytes(self) -> int:
        return self._status.rss_bytes + self._status.swap_bytes if self._status is not None else 0

    def _footprint_bytes(self) -> int:
        """Estimate the tree's present footprint: the last proportional sizes plus the change of plain sizes since."""
        own_bytes = self._own_bytes()
        if self._group_bytes is not None:
            return max(own_bytes, self._group_bytes)
        if self._process_count == 1 or self._tree_bytes is None:
            return own_bytes
        tree_bytes, bound_then_bytes = self._tree_bytes
        bound_bytes = own_bytes + self._members_bytes
        return min(bound_bytes, max(own_bytes, tree_bytes + bound_bytes - bound_then_bytes))

    def _wants_pss(self) -> bool:
        # Plain sizes add up to an upper bound of the proportional ones. Below the known peak nothing new can be found.
        if self._process_count == 1 or self._group_bytes is not None:
            return False
        bound_bytes = self._own_bytes() + self._members_bytes
        return bound_bytes > self._window.floor_bytes and self._rate_limiter.allows(self._clock())

    def _scan_marked_when_due(self) -> list[int] | None:
        started_at = self._clock()
        if self._marked is None or self._tree.is_supervised or started_at < self._mark_scan_at:
            return None
        marked = self._marked.scan()
        ended_at = self._clock()
        self._mark_scan_at = ended_at + max(_MARK_SCAN_SECONDS, (ended_at - started_at) / _MARK_SCAN_SHARE)
        return marked


def counter_lag_bytes(cpu_count: int, page_bytes: int = mmap.PAGESIZE) -> int:
    """Return how far the counter of resident pages may lag: each CPU withholds up to ``max(32, 2 x CPUs)`` pages."""
    return cpu_count * max(32, 2 * cpu_count) * page_bytes
