"""The record of one run: one execution of a lecture in one kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from pytest_lecturecheck.device import AllocatorFigures, CompileFigures, DeviceUse
from pytest_lecturecheck.figure import Figure
from pytest_lecturecheck.finding import Finding
from pytest_lecturecheck.metric import Measurement, Metric, Reading, Unavailable
from pytest_lecturecheck.platform import Machine, Software
from pytest_lecturecheck.profile import ProfileFigures
from pytest_lecturecheck.timeline import MemorySample
from pytest_lecturecheck.variant import DEFAULT_VARIANT, title_of

_SAME_PEAK_FRACTION: Final = 0.99


class Outcome(StrEnum):
    """How a run ended, before any budget is looked at."""

    COMPLETED = "completed"
    FAILED = "failed"
    TIMED_OUT = "timed out"
    DIED = "died"
    NOT_STARTED = "not started"
    REFUSED = "refused"
    """Not started, because it can never fit what lectures may take of this machine."""
    UNREADABLE = "unreadable"
    """The file is no lecture that could be run: broken, or without the header that its cells need."""
    NOTHING_TO_RUN = "nothing to run"
    SKIPPED = "skipped"
    STOPPED = "stopped"
    """Ended from outside (Ctrl-C): no statement about the lecture."""


class CellStatus(StrEnum):
    """What became of one code cell."""

    OK = "ok"
    EXPECTED_ERROR = "expected error"
    ALLOWED_ERROR = "allowed error"
    FAILED = "failed"
    TIMED_OUT = "timed out"
    DIED = "died"
    SKIPPED = "skipped"
    EMPTY = "empty"
    NOT_RUN = "not run"

    @property
    def has_run(self) -> bool:
        """Tell whether the cell was sent to the kernel."""
        return self not in {CellStatus.SKIPPED, CellStatus.EMPTY, CellStatus.NOT_RUN}


@dataclass(frozen=True, slots=True, kw_only=True)
class CellError:
    """
    An exception as the kernel reported it.

    Attributes:
        name: class name (``ename``), as the kernel sent it.
        value: message (``evalue``).
        traceback: lines of the kernel's traceback, without terminal control sequences.
        line_in_cell: 1-based line of the cell's source that was running, or ``None``.
    """

    name: str
    value: str
    traceback: tuple[str, ...] = ()
    line_in_cell: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRun:
    """
    One code cell of a run.

    Attributes:
        number: 1-based number among the code cells.
        index: 0-based position in the notebook.
        line: 1-based line in the lecture's file where the cell's source starts, or ``None``.
        status: what became of it.
        readings: one reading for each metric taken.
        start_footprint_bytes: footprint when the cell started, or ``None`` where it was not had. What the cell itself
            raised is its peak less this level.
        error: the exception, if one was reported.
        output_extract: the beginning and end of the cell's text output, cut and marked.
        allocators: what the allocators inside the kernel said at the cell's end, one for each library and device.
        compilation: what JAX's compiler took, or ``None`` where JAX was not imported.
        figures: what the cell reported of itself by name, the last report of each name.
        profile: what a trace of the cell says, or ``None`` where it was not traced.
        started_seconds: when it was sent to the kernel, after the start of the run; ``None`` where it was not sent.
        ended_seconds: when it had ended, after the start of the run.
    """

    number: int
    index: int
    line: int | None
    status: CellStatus
    readings: Mapping[Metric, Reading] = field(default_factory=dict)
    start_footprint_bytes: int | None = None
    error: CellError | None = None
    output_extract: str = ""
    allocators: tuple[AllocatorFigures, ...] = ()
    compilation: CompileFigures | None = None
    figures: tuple[Figure, ...] = ()
    profile: ProfileFigures | None = None
    started_seconds: float | None = None
    ended_seconds: float | None = None

    def measured(self, metric: Metric) -> Measurement | None:
        """Give the measurement of ``metric``, or ``None`` where there is none."""
        reading = self.readings.get(metric)
        return reading if isinstance(reading, Measurement) else None

    def placed(self, started_seconds: float) -> CellRun:
        """Give the cell with its place in the run's time: its start, and its end by its wall time."""
        wall = self.measured(Metric.WALL)
        ended_seconds = None if wall is None else round(started_seconds + wall.value, 6)
        return replace(self, started_seconds=round(started_seconds, 6), ended_seconds=ended_seconds)

    @property
    def raised_bytes(self) -> int | None:
        """Give how far the cell's peak footprint rose above the level at its start."""
        peak = self.measured(Metric.PEAK_FOOTPRINT)
        if peak is None or self.start_footprint_bytes is None:
            return None
        return max(0, round(peak.value) - self.start_footprint_bytes)


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
    allocators: tuple[AllocatorFigures, ...] = ()
    compilation: CompileFigures | None = None
    stack: tuple[str, ...] = ()
    session_kernel_count: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    lecture: str = ""
    scheduler: SchedulerFacts | None = None

    @property
    def last_words(self) -> tuple[str, ...]:
        """Give the lines of stderr that came while the cell ran."""
        return self.stderr_tail[self.stderr_earlier_count :]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """
    One execution of a lecture x variant in one kernel.

    Attributes:
        lecture: the lecture's name (POSIX path from rootdir, NFC).
        variant: the variant's name; empty for the default one.
        platform: platform label.
        outcome: how it ended.
        reason: for ``skipped``, ``nothing to run`` and ``not started``: why, in one sentence.
        cells: all code cells in order, run or not.
        readings: lecture-level readings.
        findings: what was noticed, in the order of the cells.
        evidence: what was observed at a bad end, or ``None``.
        kernel_name: the kernelspec that was used.
        machine: where it was measured.
        software: what ran inside the kernel, or ``None`` where it could not be asked.
        started: start of the run, ISO 8601 in UTC.
        startup_seconds: from the launch of the kernel until it was ready.
        repeat: 1-based number of this run among ``--lecture-runs``.
        cap_bytes: limit that was set for the run's processes, or ``None``.
        cap_method: how it was held ("cgroup v1", "cgroup v2", "watchdog"), or an empty string.
        load_average: processes that wanted a core, over the last minute of the run, or ``None``.
        devices: the GPUs during the run, one for each that could be read.
        environment: variables that were set for the kernel only, by the settings' environment or profile.
        company: lectures that ran beside this one, of any session on the machine, where that is known; times of a run
            in company say little.
        is_profiled: whether cells were traced in it: its times and memory are held against nothing.
        timeline: memory over time, thinned to at most 2,000 samples; empty where it was not read.
        launcher: what started the kernel ("slurm"); empty for a kernel that was started here.
        queued_seconds: how long the kernel's start waited for a scheduler, or ``None`` where there was none; no part of
            ``startup_seconds``.
        scheduler: what the batch scheduler says of the kernel's step, or ``None``.
        members: of a cohort, the run of each kernel; the other attributes are then about all of them together, but for
            evidence, cells and reason, which are those of the kernel that ended worst, and absent where all completed.
        first_cell_seconds: of a kernel in a cohort: when its first cell was started, after the first of all; ``None``
            where none was.
    """

    lecture: str
    platform: str
    outcome: Outcome
    variant: str = DEFAULT_VARIANT
    reason: str = ""
    cells: tuple[CellRun, ...] = ()
    readings: Mapping[Metric, Reading] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    evidence: Evidence | None = None
    kernel_name: str = ""
    machine: Machine | None = None
    software: Software | None = None
    started: str = ""
    startup_seconds: float | None = None
    repeat: int = 1
    cap_bytes: int | None = None
    cap_method: str = ""
    load_average: float | None = None
    devices: tuple[DeviceUse, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    company: tuple[str, ...] = ()
    timeline: tuple[MemorySample, ...] = ()
    is_profiled: bool = False
    launcher: str = ""
    queued_seconds: float | None = None
    scheduler: SchedulerFacts | None = None
    members: tuple[Run, ...] = ()
    first_cell_seconds: float | None = None

    def reading(self, metric: Metric) -> Reading:
        """Give the lecture-level reading of ``metric``; absence is an :class:`Unavailable` too."""
        return self.readings.get(metric) or Unavailable(metric=metric, reason="not taken in this run")

    def measured(self, metric: Metric) -> Measurement | None:
        """Give the lecture-level measurement of ``metric``, or ``None``."""
        reading = self.readings.get(metric)
        return reading if isinstance(reading, Measurement) else None

    @property
    def figures(self) -> dict[str, Figure]:
        """Give the figures that the lecture reported, by name; of several reports of one name the last one."""
        return {figure.name: figure for cell in self.cells for figure in cell.figures}

    def reporting_cell(self, name: str) -> CellRun | None:
        """Give the cell whose report of a figure counts, or ``None`` where none reported it."""
        cells = [cell for cell in self.cells if any(figure.name == name for figure in cell.figures)]
        return cells[-1] if cells else None

    @property
    def title(self) -> str:
        """Name the lecture, or the cohort."""
        return title_of(self.lecture, self.variant) if self.members else self.lecture

    @property
    def speaker(self) -> Run:
        """Give the run that cells and evidence are of: of a cohort, the kernel that ended worst."""
        found = (run for run in self.members if run.outcome is self.outcome and run.evidence == self.evidence)
        return next(found, self)

    @property
    def cell_run_count(self) -> int:
        """Give the number of cells that were sent to a kernel."""
        return sum(cell.status.has_run for run in self.members or (self,) for cell in run.cells)

    @property
    def has_reservation(self) -> bool:
        """Tell whether ``gpu_used_bytes`` is an allocator's preallocation, which says nothing about need."""
        return any(item.is_reserved for item in self.devices)

    def heaviest_cell(self, metric: Metric = Metric.PEAK_FOOTPRINT) -> CellRun | None:
        """Give the cell with the highest measurement of ``metric``, the first of :meth:`heaviest_cells`."""
        cells = self.heaviest_cells(metric)
        return cells[0] if cells else None

    def heaviest_cells(self, metric: Metric = Metric.PEAK_FOOTPRINT) -> tuple[CellRun, ...]:
        """
        Give the cells that have a measurement of ``metric``, the highest first; what is as high, in the order of cells.

        Memory within 1 % of what is highest is as high: a later cell that only keeps what an earlier one took is not
        charged for it. A cohort has none: its figures are those of several kernels.
        """
        if self.members:
            return ()
        pairs = [(cell, found.value) for cell in self.cells if (found := cell.measured(metric)) is not None]
        ordered: list[CellRun] = []
        alike: list[CellRun] = []
        enough = math.inf
        for cell, value in sorted(pairs, key=lambda pair: (-pair[1], pair[0].number)):
            if not value >= enough:
                ordered += sorted(alike, key=lambda cell: cell.number)
                alike, enough = [], value * (_SAME_PEAK_FRACTION if metric.is_memory and value > 0 else 1)
            alike.append(cell)
        return (*ordered, *sorted(alike, key=lambda cell: cell.number))
