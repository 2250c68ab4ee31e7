"""The port behind the sampled probe: what a system tells of one process, asked again and again."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from pytest_lecturecheck.model.metric import Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessReading:
    """
    One look at one process. What the system does not tell is ``None``, never 0.

    Attributes:
        started: moment of its start on the system's own clock; together with the process id it names one process.
        has_ended: whether it has ended and merely waits to be waited for; its peaks are true, its sizes are not.
        resident_bytes: resident size.
        footprint_bytes: what the system charges it for, in memory, compressed or in swap.
        interval_peak_bytes: highest footprint since the last reset, counted by the system.
        lifetime_peak_bytes: highest footprint since its start, counted by the system.
        resident_peak_bytes: highest resident size since its start, counted by the system.
        cpu_seconds: user and system time, with that of the children it waited for where the system adds it.
        major_faults_count: page faults that needed the disk, in the same way.
        written_bytes: bytes it sent to storage.
        waited_for: a number that rises with every child that it waits for; always 0 where the system has none.
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
    waited_for: int = 0

    @property
    def held_bytes(self) -> int:
        """Give what it holds as far as that is known: the footprint, or else the resident size."""
        return self.footprint_bytes if self.footprint_bytes is not None else self.resident_bytes or 0

    @property
    def beyond_resident_bytes(self) -> int:
        """Give by how much the footprint exceeds the resident size; pages of files make the latter the larger one."""
        if self.footprint_bytes is None or self.resident_bytes is None:
            return 0
        return max(0, self.footprint_bytes - self.resident_bytes)

    @property
    def most_bytes(self) -> int | None:
        """Give a footprint that it did not exceed since the last reset, or ``None`` where that is not known."""
        return self.interval_peak_bytes if self.interval_peak_bytes is not None else self.lifetime_peak_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """
    A process that could not be read.

    Attributes:
        reason: why, in words for people.
        is_gone: whether it is because the process does not exist any more.
    """

    reason: str
    is_gone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeTexts:
    """
    What a source calls the interfaces that it reads, and what it cannot say.

    Attributes:
        footprint: name of the footprint.
        interval_peak: name of the counter of its highest value since a reset.
        lifetime_peak: name of the counter of its highest value since the start.
        resident: name of the resident size.
        resident_peak: name of the counter of its highest value.
        sources: names of the counters of CPU time, page faults and written bytes.
        missing: metrics that the system has no figure for, with the reason.
        beyond_resident: name of what a footprint exceeds the resident size by, or an empty string where that says
            nothing.
        swap: why there is no figure for swap; the machine's own is told behind it.
        is_cpu_exact: whether CPU time is counted, not estimated from ticks of a clock.
        adds_children: whether the counters of a child are added to its parent's when it is waited for.
        look_seconds: time between two looks for child processes.
    """

    footprint: str
    interval_peak: str = ""
    lifetime_peak: str
    resident: str
    resident_peak: str = ""
    sources: Mapping[Metric, str]
    missing: Mapping[Metric, str] = field(default_factory=dict)
    beyond_resident: str = ""
    swap: str
    is_cpu_exact: bool = True
    adds_children: bool = True
    look_seconds: float = 0.0


class ProcessSource(Protocol):
    """Reads processes of one operating system."""

    @property
    def words(self) -> ProbeTexts:
        """Give the names of what is read."""

    def worker(self, pid: int) -> int:
        """Give the process that does the work: another than ``pid`` where that one only started it, and waits."""

    def read(self, pid: int) -> ProcessReading | Unread:
        """Look at one process."""

    def reset_peak(self, pid: int) -> bool:
        """Have the system count the highest footprint anew; ``False`` where it cannot."""

    def descendants(self, pids: Collection[int]) -> frozenset[int] | None:
        """Find the descendants of processes, without these; ``None`` where the system does not tell."""

    def machine_swap_bytes(self) -> int | None:
        """Give what the whole machine has in swap now: context, no part of any process's figure."""

    def memory_pressure(self) -> str:
        """Give the system's own word for a shortage of memory, or an empty string where it sees none or has none."""
