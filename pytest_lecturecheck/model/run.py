"""The record of one run: one execution of a lecture in one kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.cell_run import CellRun
from pytest_lecturecheck.model.device import DeviceUse
from pytest_lecturecheck.model.evidence import Evidence
from pytest_lecturecheck.model.finding import Finding
from pytest_lecturecheck.model.kernel_pass import KernelPass
from pytest_lecturecheck.model.manifest import Manifest
from pytest_lecturecheck.model.metric import Measurement, Metric, Reading, Unavailable
from pytest_lecturecheck.model.platform import Machine, Software
from pytest_lecturecheck.model.reported_value import ReportedValue
from pytest_lecturecheck.model.run_conditions import RunConditions
from pytest_lecturecheck.model.timeline import MemorySample
from pytest_lecturecheck.model.variant import DEFAULT_VARIANT, title_of

_SAME_PEAK_FRACTION: Final = 0.99
PROGRAM_LAUNCHER: Final = "program"
"""The launcher of a plain program, which has no kernel and one step."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchFacts:
    """
    How the kernel of a run was started.

    Attributes:
        kernel_name: the kernelspec that was used.
        launcher: what started the kernel ("slurm"); empty for a kernel that was started here.
        process_start: how the kernel's process was started here ("fork", "spawn"); empty elsewhere. Forked kernels of
            a session share one seed of hashes.
        started: start of the run, ISO 8601 in UTC.
        startup_seconds: from the launch of the kernel until it was ready.
        queued_seconds: how long the start waited for a scheduler, or ``None`` where there was none; no part of
            ``startup_seconds``.
        compile_cache: state of JAX's compile cache at the start, where the session keeps one: "cold" for an empty one,
            "warm" after an earlier run of the session; else empty.
    """

    kernel_name: str = ""
    launcher: str = ""
    process_start: str = ""
    started: str = ""
    startup_seconds: float | None = None
    queued_seconds: float | None = None
    compile_cache: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """
    One execution of a lecture x variant in one kernel.

    Attributes:
        lecture: the lecture's name (POSIX path from rootdir, NFC).
        platform: platform label.
        outcome: how it ended.
        variant: the variant's name; empty for the default one.
        repeat: 1-based number of this run among ``--lecture-runs``.
        reason: for ``skipped``, ``nothing to run`` and ``not started``: why, in one sentence.
        fault_line: line of the lecture's file that the reason is about; ``None`` where it is about no line.
        cells: all code cells in order, run or not.
        readings: lecture-level readings.
        findings: what was noticed, in the order of the cells.
        evidence: what was observed at a bad end, or ``None``.
        launch: how the kernel was started.
        conditions: limits and surroundings of the kernel.
        machine: where it was measured.
        software: what ran inside the kernel, or ``None`` where it could not be asked.
        manifest: what lies beneath it, or ``None`` where nothing is known.
        devices: the GPUs during the run, one for each that could be read.
        timeline: memory over time, thinned to at most 2,000 samples; empty where it was not read.
        concurrent_lectures: lectures that ran at the same time, of any session on the machine, where that is known; the
            times of such a run say little.
        is_profiled: whether cells were traced in it: its times and memory are compared with nothing.
        captured_cell: the code cell before which state was saved, which changes memory; ``None`` for none.
        until_cell: the last code cell that was to run, or ``None`` for all.
        members: of a cohort, the run of each kernel; the other attributes are then about all of them together, but for
            evidence, cells and reason, which are those of the kernel that ended worst, and absent where all completed.
        first_cell_seconds: of a kernel in a cohort: when its first cell was started, after the first of all; ``None``
            where none was.
        passes: the lecture again in the same kernel, after everything else was measured: times only.
    """

    lecture: str
    platform: str
    outcome: Outcome
    variant: str = DEFAULT_VARIANT
    repeat: int = 1
    reason: str = ""
    fault_line: int | None = None
    cells: tuple[CellRun, ...] = ()
    readings: Mapping[Metric, Reading] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    evidence: Evidence | None = None
    launch: LaunchFacts = field(default_factory=LaunchFacts)
    conditions: RunConditions = field(default_factory=RunConditions)
    machine: Machine | None = None
    software: Software | None = None
    manifest: Manifest | None = None
    devices: tuple[DeviceUse, ...] = ()
    timeline: tuple[MemorySample, ...] = ()
    concurrent_lectures: tuple[str, ...] = ()
    is_profiled: bool = False
    captured_cell: int | None = None
    until_cell: int | None = None
    members: tuple[Run, ...] = ()
    first_cell_seconds: float | None = None
    passes: tuple[KernelPass, ...] = ()

    def reading(self, metric: Metric) -> Reading:
        """Return the lecture-level reading of ``metric``; absence is an :class:`Unavailable` too."""
        return self.readings.get(metric) or Unavailable(metric=metric, reason="not taken in this run")

    def measured(self, metric: Metric) -> Measurement | None:
        """Return the lecture-level measurement of ``metric``, or ``None``."""
        reading = self.readings.get(metric)
        return reading if isinstance(reading, Measurement) else None

    @property
    def is_program(self) -> bool:
        """Return True for a plain program; its one step is no code cell."""
        return self.launch.launcher == PROGRAM_LAUNCHER

    @property
    def is_comparable(self) -> bool:
        """Return True if the whole lecture ran undisturbed: without traces, without a capture, to its last cell."""
        return not self.is_profiled and self.captured_cell is None and self.until_cell is None

    @property
    def reported_values(self) -> dict[str, ReportedValue]:
        """Return the values that the lecture reported, by name; of several reports of one name the last one."""
        return {item.name: item for cell in self.cells for item in cell.reported_values}

    def reporting_cell(self, name: str) -> CellRun | None:
        """Return the cell whose report of a value counts, or ``None`` if no cell reported it."""
        cells = [cell for cell in self.cells if any(item.name == name for item in cell.reported_values)]
        return cells[-1] if cells else None

    @property
    def title(self) -> str:
        """Name the lecture, or the cohort."""
        return title_of(self.lecture, self.variant) if self.members else self.lecture

    @property
    def speaker(self) -> Run:
        """Return the run that cells and evidence belong to: in a cohort, that of the kernel that ended worst."""
        found = (run for run in self.members if run.outcome is self.outcome and run.evidence == self.evidence)
        return next(found, self)

    @property
    def cell_run_count(self) -> int:
        """Return the number of cells that were sent to a kernel."""
        return sum(cell.status.has_run for run in self.members or (self,) for cell in run.cells)

    @property
    def has_reservation(self) -> bool:
        """Return True if ``gpu_used_bytes`` is an allocator's preallocation, which says nothing about need."""
        return any(item.is_reserved for item in self.devices)

    def heaviest_cell(self, metric: Metric = Metric.PEAK_FOOTPRINT) -> CellRun | None:
        """Return the cell with the highest measurement of ``metric``, the first of :meth:`heaviest_cells`."""
        cells = self.heaviest_cells(metric)
        return cells[0] if cells else None

    def heaviest_cells(self, metric: Metric = Metric.PEAK_FOOTPRINT) -> tuple[CellRun, ...]:
        """
        Return the cells with a measurement of ``metric``, the highest first; equals stay in the order of the cells.

        Memory within 1 % of the highest counts as equal: a later cell that only keeps what an earlier one took is not
        charged for it. A cohort has no such cells: its measurements are those of several kernels. Nor has a program.
        """
        if self.members or self.is_program:
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
