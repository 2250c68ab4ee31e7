"""
Windows: private commit, with the peak of the process's life, which cannot be reset.

The commit charge holds every private page that was promised: in memory, in the page file or never touched. Unlike on
Linux and macOS, an array of zeros counts as soon as it exists. Sections shared by processes are not in it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final, TypeAlias

import psutil

from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.probe import Probe
from pytest_lecturecheck.probe.memory._sampled import SampledProbe
from pytest_lecturecheck.probe.memory._source import GONE, ProbeTexts, ProcessReading, Unread
from pytest_lecturecheck.probe.memory._usage import UsageSource

Process: TypeAlias = Any
"""A ``psutil.Process``; its fields differ by system and version, so they are read by name."""

_LOOK_SECONDS: Final = 1.0
"""A search for children goes through all processes of the machine, which takes milliseconds."""
_NO_COMMIT: Final = "psutil has no private commit here"
_MISSING: Final = {
    Metric.PEAK_FOOTPRINT: _NO_COMMIT,
    Metric.PEAK_COMPRESSED: "Windows does not report it for a process",
    Metric.MAJOR_FAULTS: "Windows counts faults that need no disk as well",
    Metric.DISK_WRITTEN: "Windows counts what goes to pipes and devices as well",
    Metric.DISK_READ: "Windows counts what comes from pipes and from its cache as well",
    Metric.READ_CALLS: "it is read on Linux only",
}
_TEXTS: Final = ProbeTexts(
    footprint="private commit (PrivateUsage)",
    lifetime_peak="private commit (PeakPagefileUsage)",
    resident="working set",
    resident_peak="working set (PeakWorkingSetSize)",
    usage=UsageSource(sources={Metric.CPU: "CPU times of the processes"}, missing=_MISSING),
    swap="Windows does not report it for a process; the private commit includes it",
    is_cpu_exact=False,
    adds_children=False,
    look_seconds=_LOOK_SECONDS,
)


class WindowsSource:
    """
    Processes of Windows, through psutil.

    Args:
        open_process: opens a process by its id, as ``psutil.Process`` does.
    """

    def __init__(self, open_process: Callable[[int], Process] = psutil.Process) -> None:
        self._open_process = open_process
        self._opened: dict[int, Process] = {}

    @property
    def texts(self) -> ProbeTexts:
        """Return the names of what is read."""
        return _TEXTS

    def worker(self, pid: int) -> int:
        """
        Return the interpreter behind the ``python.exe`` of a virtual environment.

        That ``python.exe`` is a redirector: it starts the real interpreter with its own arguments, and waits.
        """
        try:
            process = self._process(pid)
            children, arguments = process.children(recursive=False), process.cmdline()[1:]
            if len(children) == 1 and arguments and children[0].cmdline()[1:] == arguments:
                return int(children[0].pid)
        except psutil.Error:
            pass
        return pid

    def read(self, pid: int) -> ProcessReading | Unread:
        """Sample one process."""
        try:
            return self._reading(self._process(pid))
        except psutil.NoSuchProcess:
            self._opened.pop(pid, None)
            return Unread(reason=GONE, is_gone=True)
        except psutil.Error as error:
            return Unread(reason=f"psutil: {error}")

    def _process(self, pid: int) -> Process:
        if pid not in self._opened:
            self._opened[pid] = self._open_process(pid)
        return self._opened[pid]

    @staticmethod
    def _reading(process: Process) -> ProcessReading:
        memory, times = process.memory_info(), process.cpu_times()
        return ProcessReading(
            started=process.create_time(),
            # An ending process has no pages left. Recorded trees are read on Linux, where that is a zombie.
            has_ended=memory.rss == 0,
            resident_bytes=memory.rss,
            footprint_bytes=getattr(memory, "private", None),
            lifetime_peak_bytes=getattr(memory, "peak_pagefile", None),
            resident_peak_bytes=getattr(memory, "peak_wset", None),
            cpu_seconds=times.user + times.system,
        )

    def reset_peak(self, pid: int) -> bool:  # noqa: ARG002 - the port's signature
        """Return False: Windows has no counter that can be reset."""
        return False

    def descendants(self, pids: Collection[int]) -> frozenset[int] | None:
        """Return the descendants of processes; each search goes through all processes of the machine."""
        found: dict[int, Process] = {}
        for pid in sorted(pids):
            if pid in found:
                continue
            try:
                children = self._process(pid).children(recursive=True)
            except psutil.NoSuchProcess:
                continue
            except psutil.Error:
                return None
            found.update({child.pid: child for child in children})
        for pid, process in found.items():
            self._opened.setdefault(pid, process)
        return frozenset(found.keys() - set(pids))

    def machine_swap_bytes(self) -> int | None:
        """Return ``None``: Windows needs a performance counter for it, which is too slow to be read repeatedly."""
        return None

    def memory_pressure(self) -> str:
        """Return an empty string: Windows does not report it."""
        return ""


def open_probe(pid: int, *, interval_seconds: float) -> Probe:
    """Open the probe of Windows for the process ``pid``."""
    return SampledProbe(pid, interval_seconds=interval_seconds, source=WindowsSource())
