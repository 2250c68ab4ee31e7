"""The port behind the sampled probe: what an OS reports about one process, read again and again."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Protocol

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.probe.memory._usage import UsageSource

GONE: Final = "the process had ended before it could be read"
"""Reason for a value that is missing because the process ended too early."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessReading:
    """
    One sample of one process. What the OS does not report is ``None``, never 0.

    Attributes:
        started: start time on the clock of the OS; together with the process id it identifies one process.
        has_ended: whether it has ended and is not reaped yet; its peaks are valid, its sizes are not.
        resident_bytes: resident size.
        footprint_bytes: what the OS charges it for: in memory, compressed or in swap.
        interval_peak_bytes: highest footprint since the last reset, counted by the OS.
        lifetime_peak_bytes: highest footprint since its start, counted by the OS.
        resident_peak_bytes: highest resident size since its start, counted by the OS.
        cpu_seconds: user and system time, with that of reaped children where the OS adds it.
        major_faults_count: page faults that needed the disk, in the same way.
        written_bytes: bytes sent to storage.
        fetched_bytes: bytes that storage delivered.
        waited_for: a number that rises with every child that it reaps; always 0 where the OS has none.
    """

    started: float
    has_ended: bool = False
    resident_bytes: int | None = None
    footprint_bytes: int | None = None
    interval_peak_bytes: int | None = None
    lifetime_peak_bytes: int | None = None
    resident_peak_bytes: int | None = None
    cpu_seconds: float | None = None
    major_faults_count: int | None = None
    written_bytes: int | None = None
    fetched_bytes: int | None = None
    waited_for: int = 0

    @property
    def held_bytes(self) -> int:
        """Return what it holds: the footprint, or the resident size where the footprint is not known."""
        return self.footprint_bytes if self.footprint_bytes is not None else self.resident_bytes or 0

    @property
    def beyond_resident_bytes(self) -> int:
        """Return by how much the footprint exceeds the resident size; file pages can make the resident size larger."""
        if self.footprint_bytes is None or self.resident_bytes is None:
            return 0
        return max(0, self.footprint_bytes - self.resident_bytes)

    @property
    def most_bytes(self) -> int | None:
        """Return a footprint that it did not exceed since the last reset, or ``None`` where that is not known."""
        return self.interval_peak_bytes if self.interval_peak_bytes is not None else self.lifetime_peak_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """
    A process that could not be read.

    Attributes:
        reason: explanation for people.
        is_gone: whether the process no longer exists.
    """

    reason: str
    is_gone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeTexts:
    """
    Names of the interfaces of one OS, and what that OS cannot report.

    Attributes:
        footprint: name of the footprint.
        interval_peak: name of the counter of its highest value since a reset.
        lifetime_peak: name of the counter of its highest value since the start.
        resident: name of the resident size.
        resident_peak: name of the counter of its highest value.
        usage: counters of CPU time, page faults and written bytes, and reasons for metrics without a value.
        beyond_resident: name of the difference between footprint and resident size, or an empty string where it means
            nothing.
        swap: why there is no value for swap; the machine's own swap is appended to it.
        is_cpu_exact: whether CPU time is counted, not estimated from clock ticks.
        adds_children: whether the counters of a child are added to its parent's when it is reaped.
        look_seconds: time between two searches for child processes.
    """

    footprint: str
    interval_peak: str = ""
    lifetime_peak: str
    resident: str
    resident_peak: str = ""
    usage: UsageSource
    beyond_resident: str = ""
    swap: str
    is_cpu_exact: bool = True
    adds_children: bool = True
    look_seconds: float = 0.0

    @property
    def missing(self) -> Mapping[Metric, str]:
        """Return the reasons for metrics that the OS has no value for."""
        return self.usage.missing


class ProcessSource(Protocol):
    """Reads processes of one OS."""

    @property
    def texts(self) -> ProbeTexts:
        """Return the names of what is read."""

    def worker(self, pid: int) -> int:
        """Return the process that does the work; it differs from ``pid`` where that one is only a launcher."""

    def read(self, pid: int) -> ProcessReading | Unread:
        """Sample one process."""

    def reset_peak(self, pid: int) -> bool:
        """Reset the counter of the highest footprint; return False where the OS cannot."""

    def descendants(self, pids: Collection[int]) -> frozenset[int] | None:
        """Return the descendants of processes, without these; ``None`` where the OS does not report them."""

    def machine_swap_bytes(self) -> int | None:
        """Return what the whole machine has in swap now; it is context, and part of no process's value."""

    def memory_pressure(self) -> str:
        """Return what the OS says about a shortage of memory, or an empty string."""
