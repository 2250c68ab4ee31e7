"""What was observed when a run ended badly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pytest_lecturecheck.model.cell_run import CellError
from pytest_lecturecheck.model.device import AllocatorUsage, CompileTimes, DeviceUse


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerFacts:
    """
    What a batch scheduler says of the step that a kernel was.

    Attributes:
        name: the scheduler ("Slurm").
        step: its name of the step ("812.3"), or an empty string where none was made.
        state: the state in which the step ended, in the scheduler's words ("OUT_OF_MEMORY"), or an empty string.
        exit: the exit code in its words ("0:9"), or an empty string.
        memory_bytes: memory that the step asked for and was held to.
        max_rss_bytes: the highest resident size that it sampled, or ``None`` where it did not say.
        source: where the state comes from ("sacct", "srun").
    """

    name: str
    step: str = ""
    state: str = ""
    exit: str = ""
    memory_bytes: int | None = None
    max_rss_bytes: int | None = None
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """
    What was observed when a run ended badly. Facts only; :mod:`pytest_lecturecheck.diagnosis` says what they mean.

    Attributes:
        cell_number: code cell that was running (1-based), or ``None`` (kernel start, between cells).
        line: line in the lecture's file, of the failing statement where known.
        source: the cell's source.
        error: the exception, if one was reported.
        exit_code: exit status of the kernel process, or ``None`` (still running, or ended by a signal).
        signal: number of the signal that ended the kernel process, or ``None``.
        ready: whether the kernel had become ready.
        stderr_tail: last lines of the kernel's stderr, its own noise filtered.
        stderr_earlier_count: how many of these were there before the cell began.
        timeout_seconds: the limit that was exceeded, or ``None``.
        timeout_kind: "cell", "lecture" or "startup" where a limit was exceeded.
        stopped_by_interrupt: after a timeout, whether the interrupt was enough (``None``: no timeout).
        wall_seconds: time the cell had been running.
        cpu_seconds: CPU time of the kernel's processes in that cell, or ``None``.
        major_faults_count: major page faults in that cell, or ``None``.
        peak_footprint_bytes: highest footprint of that cell, or ``None``.
        last_footprint_bytes: last footprint read, or ``None``.
        last_footprint_age_seconds: age of that reading when the end was noticed.
        available_memory_bytes: memory that was available on the machine (limits counted), or ``None``.
        limit_memory_bytes: smallest memory limit in force (RAM, container, ulimit), or ``None``.
        limit_source: what sets that limit.
        ulimit_bytes: smallest limit of ``ulimit`` on the kernel's memory that was in force, or ``None``.
        ulimit_source: which one it is ("ulimit -v (RLIMIT_AS)"), or an empty string.
        swap_bytes: swap space of the machine, or ``None``.
        swap_growth_bytes: how far the swapped memory of the kernel's processes rose in that cell, or ``None``; a lower
            bound.
        machine: architecture of the machine ("x86_64"), for limits that differ by architecture.
        cap_bytes: limit that was set for this run's processes, or ``None``.
        cap_method: how it was held ("cgroup v2", "watchdog"), or an empty string.
        stopped_at_cap: the watchdog killed the run's processes because they exceeded the cap.
        oom_kills: counters of OOM kills that rose during the run.
        kernel_log: lines of the kernel's log about a kill of one of the run's processes.
        load_average: processes that wanted a core, over the last minute, or ``None``.
        core_count: cores that the run could use, or ``None``.
        shadowing_files: files beside the lecture that are named like a module the kernel needs to start.
        devices: the GPUs up to the end, with who held their memory.
        allocators: last words of the allocators inside the kernel.
        compilation: what JAX's compiler had taken in that cell, or ``None``.
        stack: Python frames of the kernel's main thread when a limit was exceeded, innermost first, down to the cell
            ("jax/_src/compiler.py:362 in backend_compile", "code cell 3 line 2"); paths are those within a package.
        session_kernel_count: kernels that the session may run at once, or ``None``.
        environment: variables that were set for the kernel only.
        lecture: name of the lecture, or an empty string.
        scheduler: what the batch scheduler says of the kernel's step, or ``None`` where none was involved.
    """

    cell_number: int | None = None
    line: int | None = None
    source: str = ""
    error: CellError | None = None
    exit_code: int | None = None
    signal: int | None = None
    ready: bool = True
    stderr_tail: tuple[str, ...] = ()
    stderr_earlier_count: int = 0
    timeout_seconds: float | None = None
    timeout_kind: str = ""
    stopped_by_interrupt: bool | None = None
    wall_seconds: float | None = None
    cpu_seconds: float | None = None
    major_faults_count: int | None = None
    peak_footprint_bytes: int | None = None
    last_footprint_bytes: int | None = None
    last_footprint_age_seconds: float | None = None
    available_memory_bytes: int | None = None
    limit_memory_bytes: int | None = None
    limit_source: str = ""
    ulimit_bytes: int | None = None
    ulimit_source: str = ""
    swap_bytes: int | None = None
    swap_growth_bytes: int | None = None
    machine: str = ""
    cap_bytes: int | None = None
    cap_method: str = ""
    stopped_at_cap: bool = False
    oom_kills: tuple[OomKill, ...] = ()
    kernel_log: tuple[str, ...] = ()
    load_average: float | None = None
    core_count: int | None = None
    shadowing_files: tuple[str, ...] = ()
    devices: tuple[DeviceUse, ...] = ()
    allocators: tuple[AllocatorUsage, ...] = ()
    compilation: CompileTimes | None = None
    stack: tuple[str, ...] = ()
    session_kernel_count: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    lecture: str = ""
    scheduler: SchedulerFacts | None = None

    @property
    def last_words(self) -> tuple[str, ...]:
        """Give the lines of stderr that came while the cell ran."""
        return self.stderr_tail[self.stderr_earlier_count :]
