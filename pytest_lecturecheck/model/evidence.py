"""What was observed when a run ended badly."""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.cell_run import CellError
from pytest_lecturecheck.model.device import AllocatorUsage, CompileTimes, DeviceUse, LiveBuffers
from pytest_lecturecheck.model.factorisation import Factorisation
from pytest_lecturecheck.model.run_conditions import RunConditions


class OomScope(StrEnum):
    """Whose memory limit an OOM kill was about."""

    CAP = "cap"
    """The group that was made for this run alone."""
    CONTAINER = "container"
    """A group that the session lives in."""
    SCHEDULER = "scheduler"
    """A group that a batch scheduler (Slurm) made."""
    OUTER = "outer"
    """A limit of a group further out than can be seen, or the machine's memory: the group's counter of kills rose, and
    no limit that can be seen was reached."""
    MACHINE = "machine"
    """Only the machine's own counter rose (``/proc/vmstat``, which counts the kills of every group as well)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OomKill:
    """
    A counter of OOM kills that rose while the run lasted.

    Attributes:
        scope: whose limit it is about.
        before: the counter at the start of the run; an old count means nothing.
        after: the counter at its end.
        limit_bytes: the limit of that group, or ``None``.
        where: the counter that was read ("cgroup v2 /box/job7 memory.events oom_kill").
    """

    scope: OomScope
    before: int
    after: int
    limit_bytes: int | None = None
    where: str = ""


class WatchdogReason(StrEnum):
    """Why the watchdog stopped a run."""

    CAP = "cap"
    """The footprint exceeded the memory cap of the run."""
    MACHINE = "machine"
    """The machine was about to run out of memory, and this run held more than was left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchdogStop:
    """
    The reading at which the watchdog stopped a run.

    Attributes:
        reason: why.
        footprint_bytes: footprint of the run at that reading.
        available_bytes: memory that was available on the machine, or ``None`` if that was not the reason.
    """

    reason: WatchdogReason
    footprint_bytes: int
    available_bytes: int | None = None


class NoAnswerReason(StrEnum):
    """How it is known that a kernel will never answer a request."""

    LOST_REPLY = "lost reply"
    """The request ended with an error inside the kernel before its reply was sent."""
    IDLE = "idle"
    """The kernel published that the request has ended, sent no reply, and does nothing."""
    SOCKETS_CLOSED = "sockets closed"
    """The process lives, but nobody listens on its sockets: it runs another program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoAnswer:
    """
    A request that a living kernel will never answer.

    Attributes:
        reason: how that is known.
        text: the error inside the kernel, or the command line of the program that took its place; may be empty.
    """

    reason: NoAnswerReason
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelExit:
    """
    How the kernel's process ended.

    Attributes:
        exit_code: exit status of the process, or ``None`` (still running, or ended by a signal).
        signal: number of the signal that ended the process, or ``None``.
        ready: whether the kernel had become ready.
        stderr_tail: last lines of the kernel's stderr, without the kernel's own noise.
        stderr_earlier_count: how many of these lines were written before the cell began.
        crash_stack: Python frames at a crash, as in :attr:`TimeoutFacts.stack`; empty where none were printed.
        no_answer: why the living process would never have answered, or ``None``.
        lost_supervisor: whether the kernel's supervisor was killed, so that the system killed the kernel with it and
            nobody knows its own status.
    """

    exit_code: int | None = None
    signal: int | None = None
    ready: bool = True
    stderr_tail: tuple[str, ...] = ()
    stderr_earlier_count: int = 0
    crash_stack: tuple[str, ...] = ()
    no_answer: NoAnswer | None = None
    lost_supervisor: bool = False

    @property
    def cell_stderr(self) -> tuple[str, ...]:
        """Return the lines of stderr that were written while the cell ran."""
        return self.stderr_tail[self.stderr_earlier_count :]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeoutFacts:
    """
    A time limit that was exceeded; all attributes are at their defaults where none was.

    Attributes:
        limit_seconds: the limit that was exceeded, or ``None``.
        kind: "cell", "lecture" or "startup".
        stopped_by_interrupt: whether the interrupt was enough to stop the cell, or ``None`` where none was sent.
        stack: Python frames of the kernel's main thread at that moment, innermost first, down to the cell
            ("jax/_src/compiler.py:362 in backend_compile", "code cell 3, line 41"); paths are those within a package.
        children: processes that the cell had started and that were still running ("pid 812: sleep 600"), newest first.
        wants_cpu: whether the kernel's main thread, or a child process, ran or waited for a core at that moment, or
            ``None`` where it was not looked at. Other threads of the kernel do not count.
    """

    limit_seconds: float | None = None
    kind: str = ""
    stopped_by_interrupt: bool | None = None
    stack: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    wants_cpu: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CellUsage:
    """
    What the cell that was running had used up to the bad end.

    Attributes:
        wall_seconds: time the cell had been running, or ``None``.
        cpu_seconds: CPU time of the kernel's processes in that cell, or ``None``.
        major_faults_count: major page faults in that cell, or ``None``.
        compilation: what JAX's compiler had used in that cell, or ``None``.
    """

    wall_seconds: float | None = None
    cpu_seconds: float | None = None
    major_faults_count: int | None = None
    compilation: CompileTimes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFacts:
    """
    Memory of the kernel's processes and of the machine at the bad end.

    Attributes:
        peak_footprint_bytes: highest footprint of that cell, or ``None``.
        last_footprint_bytes: last footprint that was read, or ``None``.
        last_footprint_age_seconds: age of that reading when the end was noticed.
        swap_growth_bytes: how far the swapped memory of the kernel's processes rose in that cell, or ``None``; a lower
            bound.
        available_bytes: memory that was available on the machine (limits included), or ``None``.
        limit_bytes: smallest memory limit in force (RAM, container, ulimit), or ``None``.
        limit_source: what sets that limit.
        ulimit_bytes: smallest limit of ``ulimit`` in force for the kernel's memory, or ``None``.
        ulimit_source: which one it is ("ulimit -v (RLIMIT_AS)"), or an empty string.
        swap_bytes: swap space of the machine, or ``None``.
        ram_bytes: physical memory of the machine, or ``None``.
        refuses_when_full: whether the system refuses allocations when memory runs out, or ``None`` if unknown. Linux
            does so with ``vm.overcommit_memory = 2`` only; otherwise it kills.
        commit_limit_bytes: memory that all processes together may reserve, or ``None`` if the system sets no such
            limit.
        declared_bytes: memory that the lecture's package declares, or ``None``.
        stopped_at_cap: whether the watchdog killed the run's processes.
        watchdog_stop: why the watchdog did so, or ``None`` if it did not, or an older version kept the record.
        oom_kills: counters of OOM kills that rose during the run.
        kernel_log: lines of the operating system's log about a kill of one of the run's processes.
    """

    peak_footprint_bytes: int | None = None
    last_footprint_bytes: int | None = None
    last_footprint_age_seconds: float | None = None
    swap_growth_bytes: int | None = None
    available_bytes: int | None = None
    limit_bytes: int | None = None
    limit_source: str = ""
    ulimit_bytes: int | None = None
    ulimit_source: str = ""
    swap_bytes: int | None = None
    ram_bytes: int | None = None
    refuses_when_full: bool | None = None
    commit_limit_bytes: int | None = None
    declared_bytes: int | None = None
    stopped_at_cap: bool = False
    watchdog_stop: WatchdogStop | None = None
    oom_kills: tuple[OomKill, ...] = ()
    kernel_log: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """
    The machine, as far as it explains a bad end.

    Attributes:
        architecture: architecture of the machine ("x86_64"), for limits that differ by architecture.
        core_count: cores that the run could use, or ``None``.
        session_kernel_count: kernels that the session may run at once, or ``None``.
    """

    architecture: str = ""
    core_count: int | None = None
    session_kernel_count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """
    What was observed when a run ended badly. Facts only; :mod:`pytest_lecturecheck.diagnosis` says what they mean.

    Attributes:
        lecture: name of the lecture, or an empty string.
        cell_number: code cell that was running (1-based), or ``None`` (kernel start, between cells).
        line: line in the lecture's file, of the failing statement where known.
        source: the cell's source.
        error: the exception, if one was reported.
        exit: how the kernel's process ended.
        timeout: the time limit that was exceeded.
        usage: what the cell had used.
        memory: memory of the kernel's processes and of the machine.
        devices: the GPUs up to the end, with the processes that held their memory.
        allocators: the last report of the allocators inside the kernel.
        host: the machine.
        conditions: limits and surroundings of the kernel.
        live_buffers: arrays of JAX that were alive after an out-of-memory error, the largest first.
        factorisations: sparse factorisations that the cell had made.
        is_program: whether a plain program was run, which has no kernel and one step.
        shadowing_files: files beside the lecture that are named like a module the kernel needs to start.
    """

    lecture: str = ""
    cell_number: int | None = None
    line: int | None = None
    source: str = ""
    error: CellError | None = None
    exit: KernelExit = field(default_factory=KernelExit)
    timeout: TimeoutFacts = field(default_factory=TimeoutFacts)
    usage: CellUsage = field(default_factory=CellUsage)
    memory: MemoryFacts = field(default_factory=MemoryFacts)
    devices: tuple[DeviceUse, ...] = ()
    allocators: tuple[AllocatorUsage, ...] = ()
    host: HostFacts = field(default_factory=HostFacts)
    conditions: RunConditions = field(default_factory=RunConditions)
    shadowing_files: tuple[str, ...] = ()
    factorisations: tuple[Factorisation, ...] = ()
    live_buffers: tuple[LiveBuffers, ...] = ()
    is_program: bool = False
