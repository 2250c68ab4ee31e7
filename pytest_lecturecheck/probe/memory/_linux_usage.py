"""The counters of a process tree on Linux: CPU time, page faults, bytes written and read."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.probe.memory._procfiles import KeptFile, StatFile, read_once
from pytest_lecturecheck.probe.memory._usage import Usage, UsageSource
from pytest_lecturecheck.probe.procfs import Counters, Traffic, parse_stat, parse_traffic


class UsageReader:
    """
    Reads the counters of a kernel, of its descendants, and of orphans that its supervisor has reaped.

    Linux adds the counters of a process to those of its parent when it is reaped. An orphan is reaped by the kernel's
    supervisor, so its counters are not among the kernel's.

    Args:
        pid: process id of the kernel.
        root: ``/proc``, or a recorded tree.
        supervisor_pid: parent of the kernel that adopts orphans, or ``None``.
    """

    def __init__(self, pid: int, root: str, *, supervisor_pid: int | None = None) -> None:
        self._root = root
        self._stat_file = StatFile(f"{root}/{pid}/stat")
        self._io_file = KeptFile(f"{root}/{pid}/io")
        self._supervisor_stat: StatFile | None = None
        self._supervisor_io: KeptFile | None = None
        if supervisor_pid is not None:
            self._supervisor_stat = StatFile(f"{root}/{supervisor_pid}/stat")
            self._supervisor_io = KeptFile(f"{root}/{supervisor_pid}/io")
        self._traffic: Traffic | None = None

    def read_own(self) -> Usage | None:
        """
        Read the counters of the kernel and of reaped orphans; ``None`` if the kernel has ended.

        Bytes written and read are those of the last :meth:`read_tree`.
        """
        # The supervisor first: if the kernel still exists afterwards, its own counters are not among the reaped ones.
        reaped = self._supervisor_stat.read_counters() if self._supervisor_stat is not None else None
        counters = self._stat_file.read_counters()
        if counters is None:
            return None
        return Usage(
            cpu_ticks=counters.cpu_ticks + (reaped.reaped_cpu_ticks if reaped is not None else 0),
            major_faults_count=counters.major_faults_count
            + (reaped.reaped_major_faults_count if reaped is not None else 0),
            **_traffic_counters(self._traffic),
            child_faults_count=counters.child_faults_count + (reaped.child_faults_count if reaped is not None else 0),
        )

    def read_tree(self, own: Usage, members: Iterable[int]) -> Usage:
        """
        Add the counters of the living descendants to those of the kernel.

        Args:
            own: result of :meth:`read_own`, from just before.
            members: process ids of the descendants.
        """
        traffic = self._read_traffic()
        ticks, faults = own.cpu_ticks or 0, own.major_faults_count or 0
        for pid in members:
            counters = self._counters(pid)
            ticks += counters.cpu_ticks if counters is not None else 0
            faults += counters.major_faults_count if counters is not None else 0
            if traffic is not None:
                traffic = traffic.plus(parse_traffic(read_once(f"{self._root}/{pid}/io") or b""))
        self._traffic = traffic
        return Usage(
            cpu_ticks=ticks,
            major_faults_count=faults,
            **_traffic_counters(traffic),
            child_faults_count=own.child_faults_count,
        )

    def _counters(self, pid: int) -> Counters | None:
        return parse_stat(read_once(f"{self._root}/{pid}/stat") or b"")

    def _read_traffic(self) -> Traffic | None:
        reaped = self._supervisor_io.read() if self._supervisor_io is not None else None
        text = self._io_file.read()
        own = parse_traffic(text) if text is not None else None
        if own is None:
            return None
        # A supervisor writes to pipes and sockets only, which are not counted; it reads a few bytes of messages.
        return own.plus(parse_traffic(reaped) if reaped is not None else None)

    def close(self) -> None:
        """Close all files; safe to call twice."""
        for file in (self._stat_file, self._io_file, self._supervisor_stat, self._supervisor_io):
            if file is not None:
                file.close()


def _traffic_counters(traffic: Traffic | None) -> dict[str, int | None]:
    if traffic is None:
        return {"written_bytes": None}
    return {
        "written_bytes": traffic.written_bytes,
        "fetched_bytes": traffic.fetched_bytes,
        "called_bytes": traffic.called_bytes,
    }


def _ticks_per_second() -> int:
    return os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


LINUX_USAGE: Final = UsageSource(
    sources={
        Metric.CPU: "/proc/PID/stat",
        Metric.MAJOR_FAULTS: "/proc/PID/stat",
        Metric.DISK_WRITTEN: "/proc/PID/io",
        Metric.DISK_READ: "/proc/PID/io read_bytes",
        Metric.READ_CALLS: "/proc/PID/io rchar",
    },
    missing=dict.fromkeys((Metric.DISK_WRITTEN, Metric.DISK_READ, Metric.READ_CALLS), "/proc/PID/io cannot be read"),
    ticks_per_second=_ticks_per_second(),
    # User and system time are each truncated to whole ticks.
    cpu_tolerance_seconds=2 / _ticks_per_second(),
)
