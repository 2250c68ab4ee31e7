"""Build the record of one run while it runs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import replace

from pytest_lecturecheck.kernel.process.cap import Cap
from pytest_lecturecheck.kernel.run.cell_history import CellHistory
from pytest_lecturecheck.kernel.run.device_log import DeviceLog
from pytest_lecturecheck.kernel.run.evidence_builder import with_cap
from pytest_lecturecheck.kernel.run.observations import allowed_error_findings
from pytest_lecturecheck.kernel.run.plan_findings import plan_findings
from pytest_lecturecheck.kernel.run.ports import RunPlan
from pytest_lecturecheck.kernel.run.scheduler_step import JobStep, scheduler_findings
from pytest_lecturecheck.model.cell_run import CellRun, CellStatus
from pytest_lecturecheck.model.device import DeviceUse
from pytest_lecturecheck.model.evidence import Evidence
from pytest_lecturecheck.model.finding import Finding
from pytest_lecturecheck.model.kernel_pass import KernelPass
from pytest_lecturecheck.model.lecture import Cell
from pytest_lecturecheck.model.manifest import Manifest
from pytest_lecturecheck.model.metric import Metric, Reading
from pytest_lecturecheck.model.platform import Software
from pytest_lecturecheck.model.run import LaunchFacts, Outcome, Run
from pytest_lecturecheck.model.run_conditions import RunConditions
from pytest_lecturecheck.model.timeline import MemorySample


class RunRecordBuilder:
    """
    Collects the parts of a run's record; :meth:`finish` puts them together.

    Args:
        plan: the run.

    Attributes:
        cells: all code cells in order; replaced as they run.
        findings: what was noticed so far.
        history: what the cells left behind, for findings about the heaviest one.
        job_step: what is known of the scheduler's job step.
        software: what ran inside the kernel, or ``None``.
        manifest: what lies beneath the run, or ``None``.
        passes: the times of further passes in the same kernel.
    """

    def __init__(self, plan: RunPlan) -> None:
        """Begin with cells that have not run."""
        self._plan = plan
        self._outcome = Outcome.COMPLETED
        self._reason = ""
        self._evidence: Evidence | None = None
        self._launch = LaunchFacts(started=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"))
        self._conditions = RunConditions(environment=dict(plan.environment))
        self._timeline: tuple[MemorySample, ...] = ()
        self._readings: dict[Metric, Reading] = {}
        self._devices: tuple[DeviceUse, ...] = ()
        self.cells = [idle_cell(cell) for cell in plan.lecture.cells]
        self.findings = list(plan.lecture.findings)
        self.history = CellHistory()
        self.job_step = JobStep()
        self.software: Software | None = None
        self.manifest: Manifest | None = None
        self.passes: tuple[KernelPass, ...] = ()

    def note_ready(self, *, kernel_name: str, process_start: str, startup_seconds: float, cap: Cap | None) -> None:
        """Record how the kernel was started."""
        self._launch = replace(
            self._launch, kernel_name=kernel_name, process_start=process_start, startup_seconds=startup_seconds
        )
        self._conditions = with_cap(self._conditions, cap)

    def note_load(self, load_average: float | None) -> None:
        """Record the load of the machine at the end of a completed lecture."""
        self._conditions = replace(self._conditions, load_average=load_average)

    def note_outcome(self, outcome: Outcome, *, reason: str = "", evidence: Evidence | None = None) -> None:
        """Record how the run ended; a run without this call has completed."""
        self._outcome, self._reason, self._evidence = outcome, reason, evidence

    def note_memory(self, readings: Mapping[Metric, Reading], timeline: tuple[MemorySample, ...]) -> None:
        """Record the lecture's readings and the memory over time."""
        self._readings.update(readings)
        self._timeline = timeline

    def note_devices(self, readings: Mapping[Metric, Reading], devices: tuple[DeviceUse, ...]) -> None:
        """Record the GPUs after the teardown."""
        self._readings.update(readings)
        self._devices = devices

    def add_findings(self, findings: Iterable[Finding]) -> None:
        """Add findings in their order."""
        self.findings.extend(findings)

    @property
    def has_completed(self) -> bool:
        """Return True if no other outcome was recorded so far."""
        return self._outcome is Outcome.COMPLETED

    @property
    def is_interruptible(self) -> bool:
        """Return True unless the run ended in a cell that the kernel may still be running."""
        return self._outcome in {Outcome.COMPLETED, Outcome.FAILED}

    def finish(self, device_log: DeviceLog | None = None) -> Run:
        """
        Return the record.

        Args:
            device_log: readings of the kernel's allocators and compiler; ``None`` if no kernel was started.
        """
        cells, readings = tuple(self.cells), self._readings
        if device_log is not None:
            cells = tuple(replace(cell, readings=device_log.marked(cell.readings)) for cell in cells)
            readings = {**readings, **device_log.lecture_readings(cells)}
        plan = self._plan
        run = Run(
            lecture=plan.lecture.name,
            variant=plan.variant,
            platform=plan.platform,
            machine=plan.machine,
            repeat=plan.repeat,
            outcome=self._outcome,
            reason=self._reason,
            cells=cells,
            readings=readings,
            evidence=self._evidence,
            launch=self._launch,
            conditions=self._conditions,
            software=self.software,
            manifest=self.manifest,
            devices=self._devices,
            timeline=self._timeline,
            is_profiled=plan.is_profiled,
            captured_cell=plan.capture.cell_number if plan.capture is not None else None,
            until_cell=plan.until_cell,
            passes=self.passes,
        )
        run = self.job_step.added_to(run)
        late = [*self.history.findings(run), *scheduler_findings(run), *allowed_error_findings(cells)]
        late += plan_findings(cells, plan.machine, self._devices)
        late += device_log.findings if device_log is not None else []
        return replace(run, findings=(*self.findings, *late))


def idle_cell(cell: Cell) -> CellRun:
    """Return the record of a cell that was not run (yet)."""
    status = CellStatus.SKIPPED
    if not cell.skip_reason:
        status = CellStatus.NOT_RUN if cell.source.strip() else CellStatus.EMPTY
    return CellRun(number=cell.number, index=cell.index, line=cell.line, opening_line=cell.opening_line, status=status)
