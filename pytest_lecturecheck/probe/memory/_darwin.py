"""
macOS: the footprint that the system charges a process for, with its own peak, from ``proc_pid_rusage``.

``ri_phys_footprint`` holds what is in memory, compressed or swapped out, and what drivers map. File pages are not in
it, so the resident size may be larger. ``proc_reset_footprint_interval`` resets its highest value, so a cell's peak is
exact. Pages that two processes share after a fork count once for each process that has touched them.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection
from typing import Final

from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.probe import Probe
from pytest_lecturecheck.probe.libsystem import LibSystem, RusageInfo, open_libsystem
from pytest_lecturecheck.probe.memory._sampled import SampledProbe
from pytest_lecturecheck.probe.memory._source import GONE, ProbeTexts, ProcessReading, Unread
from pytest_lecturecheck.probe.memory._usage import UsageSource

_PRESSURES: Final = {2: "the system warned of memory pressure", 4: "memory pressure was critical"}
"""Levels of ``kern.memorystatus_vm_pressure_level``; 1 is the normal one."""
_TEXTS: Final = ProbeTexts(
    footprint="phys_footprint",
    interval_peak="ri_interval_max_phys_footprint",
    lifetime_peak="ri_lifetime_max_phys_footprint",
    resident="ri_resident_size",
    usage=UsageSource(
        sources={
            Metric.CPU: "proc_pid_rusage",
            Metric.MAJOR_FAULTS: "ri_pageins",
            Metric.DISK_WRITTEN: "ri_diskio_byteswritten",
            Metric.DISK_READ: "ri_diskio_bytesread",
        },
        missing={
            Metric.CPU: "Python is translated (Rosetta), and the unit of the system's times is not known",
            Metric.READ_CALLS: "macOS does not count them",
            Metric.PEAK_COMPRESSED: "macOS does not report it for another process, and no sample showed any",
        },
    ),
    beyond_resident="phys_footprint beyond the resident size",
    swap="macOS does not report it for a process; the footprint includes it",
)


class DarwinSource:
    """
    Processes of macOS.

    Args:
        system: the system's library, or why there is none.
    """

    def __init__(self, system: LibSystem | str) -> None:
        self._system = system
        self._seconds_per_tick = system.seconds_per_tick() if isinstance(system, LibSystem) else None
        self._worst_pressure = 0

    @property
    def texts(self) -> ProbeTexts:
        """Return the names of what is read."""
        return _TEXTS

    def worker(self, pid: int) -> int:
        """Return the process itself: launchers of Python on macOS use ``exec``."""
        return pid

    def read(self, pid: int) -> ProcessReading | Unread:
        """Sample one process, by one call."""
        if isinstance(self._system, str):
            return Unread(reason=self._system)
        info = self._system.rusage(pid)
        return self._reading(info) if isinstance(info, RusageInfo) else _unread(info)

    def _reading(self, info: RusageInfo) -> ProcessReading:
        ticks = info.ri_user_time + info.ri_system_time + info.ri_child_user_time + info.ri_child_system_time
        return ProcessReading(
            started=info.ri_proc_start_abstime,
            has_ended=info.ri_proc_exit_abstime != 0,
            resident_bytes=info.ri_resident_size,
            footprint_bytes=info.ri_phys_footprint,
            # No process has a peak of zero: the system does not count it.
            interval_peak_bytes=info.ri_interval_max_phys_footprint or None,
            lifetime_peak_bytes=info.ri_lifetime_max_phys_footprint or None,
            cpu_seconds=None if self._seconds_per_tick is None else ticks * self._seconds_per_tick,
            major_faults_count=info.ri_pageins + info.ri_child_pageins,
            written_bytes=info.ri_diskio_byteswritten,
            fetched_bytes=info.ri_diskio_bytesread,
            waited_for=info.ri_child_elapsed_abstime,
        )

    def reset_peak(self, pid: int) -> bool:
        """Reset ``ri_interval_max_phys_footprint``."""
        return isinstance(self._system, LibSystem) and self._system.reset_footprint_interval(pid)

    def descendants(self, pids: Collection[int]) -> frozenset[int] | None:
        """Return the descendants of processes, by one call for each process."""
        if isinstance(self._system, str):
            return None
        found: set[int] = set()
        left = list(pids)
        while left:
            children = self._system.children(left.pop())
            if children is None:
                return None
            left.extend(children - found - set(pids))
            found |= children
        return frozenset(found - set(pids))

    def machine_swap_bytes(self) -> int | None:
        """Return what the whole machine has in swap files."""
        return self._system.swap_used_bytes() if isinstance(self._system, LibSystem) else None

    def memory_pressure(self) -> str:
        """Return the text of the worst level since the start."""
        if isinstance(self._system, LibSystem):
            level = self._system.number("kern.memorystatus_vm_pressure_level") or 0
            self._worst_pressure = max(self._worst_pressure, level)
        return _PRESSURES.get(self._worst_pressure, "")


def _unread(error: int) -> Unread:
    if error == errno.ESRCH:
        return Unread(reason=GONE, is_gone=True)
    if error == errno.EINVAL:
        return Unread(reason="proc_pid_rusage of this system does not know RUSAGE_INFO_V4")
    return Unread(reason=f"proc_pid_rusage: {os.strerror(error)} ({errno.errorcode.get(error, error)})")


def open_probe(pid: int, *, interval_seconds: float) -> Probe:
    """Open the probe of macOS for the process ``pid``."""
    return SampledProbe(pid, interval_seconds=interval_seconds, source=DarwinSource(open_libsystem()))
