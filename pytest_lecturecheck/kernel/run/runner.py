"""Run one lecture in one kernel: start, cells, teardown. The result is always a record."""

from __future__ import annotations

import asyncio
import copy
import math
import time
from dataclasses import replace
from typing import Final

import zmq.asyncio

from pytest_lecturecheck.errors import KernelStartError
from pytest_lecturecheck.kernel.run.barrier import BarrierSlot
from pytest_lecturecheck.kernel.run.cell_marking import CellMarking
from pytest_lecturecheck.kernel.run.cell_repeater import CellRepeater, most_of_cells
from pytest_lecturecheck.kernel.run.cell_runner import CellRunner, RunParts, stray_error_findings
from pytest_lecturecheck.kernel.run.device_log import DeviceLog
from pytest_lecturecheck.kernel.run.evidence_builder import EvidenceBuilder
from pytest_lecturecheck.kernel.run.kernel_probes import open_memory_probe
from pytest_lecturecheck.kernel.run.kernel_session import KernelSession
from pytest_lecturecheck.kernel.run.kernel_starter import KernelStarter
from pytest_lecturecheck.kernel.run.leftovers import LeftoverWatch
from pytest_lecturecheck.kernel.run.manifest_log import ManifestLog, python_finding, with_blas
from pytest_lecturecheck.kernel.run.memory_watch import MemoryWatch
from pytest_lecturecheck.kernel.run.passes import PassRunner
from pytest_lecturecheck.kernel.run.plan_watch import PlanWatch
from pytest_lecturecheck.kernel.run.ports import Ports, RunPlan, RunProgress
from pytest_lecturecheck.kernel.run.printed_errors import lost_task_findings
from pytest_lecturecheck.kernel.run.profiler import Profiler
from pytest_lecturecheck.kernel.run.queueing import Queueing
from pytest_lecturecheck.kernel.run.record_builder import RunRecordBuilder
from pytest_lecturecheck.kernel.run.run_clock import RunClock
from pytest_lecturecheck.kernel.run.scheduler_step import read_job_step
from pytest_lecturecheck.kernel.run.state_capture import StateCapture
from pytest_lecturecheck.model.cell_run import CellStatus
from pytest_lecturecheck.model.evidence import Evidence, KernelExit, TimeoutFacts
from pytest_lecturecheck.model.executed import ExecutedLecture
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.lecture import Cell, Lecture, all_skipped_text
from pytest_lecturecheck.model.repetition import RepeatRequest
from pytest_lecturecheck.model.run import Outcome, Run

_PROGRESS_SECONDS: Final = 0.5


async def run_lecture(
    plan: RunPlan, ports: Ports, context: zmq.asyncio.Context, slot: BarrierSlot | None = None
) -> Run:
    """
    Run a lecture and return its record, whatever the lecture does.

    Cancelling the task tears the kernel down before the cancellation goes on.

    Args:
        plan: the run.
        ports: access to the machine.
        context: zmq context of the sockets.
        slot: the run's slot in a cohort, whose kernels begin their first cells together; ``None`` for none.
    """
    if not plan.lecture.has_work:
        record = RunRecordBuilder(plan)
        record.note_outcome(Outcome.NOTHING_TO_RUN, reason=nothing_to_run(plan.lecture))
        return record.finish()
    return await _LectureRun(plan, ports, context, slot).execute()


def nothing_to_run(lecture: Lecture) -> str:
    """Explain in a few words why no cell of a lecture would run."""
    if not lecture.cells:
        return "no code cells"
    skipped = sum(1 for cell in lecture.cells if cell.skip_reason)
    blank = len(lecture.cells) - skipped
    if not blank:
        return all_skipped_text(lecture.cells)
    parts = []
    if skipped:
        parts.append(f"{skipped} code cell{'' if skipped == 1 else 's'} left out")
    if blank:
        parts.append(f"{blank} blank code cell{'' if blank == 1 else 's'}")
    return " and ".join(parts)


class _LectureRun:
    """One run from start to teardown."""

    def __init__(self, plan: RunPlan, ports: Ports, context: zmq.asyncio.Context, slot: BarrierSlot | None) -> None:
        self._plan, self._ports, self._slot = plan, ports, slot
        self._clock = RunClock(plan.settings)
        self._record = RunRecordBuilder(plan)
        self._document = copy.deepcopy(plan.lecture.document)
        self._queueing = Queueing(ports.launcher, slot, self._clock.startup_limit_seconds)
        self._starter = KernelStarter(plan, ports, context, document=self._document, on_queue=self._queueing.note)
        self._leftovers: LeftoverWatch | None = None
        self._marking: CellMarking | None = None
        self._running: Cell | None = None
        self._last_cell: Cell | None = None
        self._may_shut_down = False
        self._devices = DeviceLog(plan.shown_name)
        self._manifest = ManifestLog(ports.manifest, plan.environment)
        self._profiler = Profiler(plan.tracing, plan.lecture.cells, self._record.findings)
        self._plans = PlanWatch(plan.machine)
        self._warning = ""
        self._capture = StateCapture(plan.capture, self._record.findings)
        self._memory = MemoryWatch(plan.memory, plan.lecture.cells, plan.environment, self._record.findings)
        self._evidence = EvidenceBuilder(
            lecture=plan.shown_name,
            machine=plan.machine,
            kernel_count=plan.kernel_count,
            environment=plan.environment,
            host=ports.host,
            devices=self._devices,
            since=self._clock.monotonic_origin,
            declared_bytes=plan.settings.declared_memory_bytes,
        )
        if slot is not None:
            slot.origin = self._clock.origin

    async def execute(self) -> Run:
        ticker, is_stopped = asyncio.ensure_future(self._tick()), False
        try:
            await self._start_and_run()
        except asyncio.CancelledError:
            is_stopped = True
            self._record.note_outcome(Outcome.STOPPED, reason="the session was interrupted")
            raise
        finally:
            ticker.cancel()
            # Shielded, because a second cancellation must not interrupt the teardown.
            await asyncio.shield(asyncio.ensure_future(self._tear_down()))
            if is_stopped:
                self._ports.on_stopped(self._record.finish(self._devices))
        return self._record.finish(self._devices)

    # -- start --------------------------------------------------------------------------------------------------------

    async def _start_and_run(self) -> None:
        limit = min(self._clock.startup_limit_seconds, self._clock.total_left_seconds)
        try:
            session = await self._starter.start(self._launch, limit)
        except KernelStartError as exc:
            self._note_not_started(str(exc))
            return
        except TimeoutError:
            kind = "startup" if limit == self._clock.startup_limit_seconds else "lecture"
            timeout = TimeoutFacts(limit_seconds=limit, kind=kind)
            self._note_not_started(f"the kernel was not ready after {limit:g} s", timeout)
            return
        self._record.note_ready(
            kernel_name=session.kernel.spec_name,
            process_start=session.kernel.process_start,
            startup_seconds=self._clock.elapsed_seconds,
            cap=session.cap,
        )
        if not session.has_agent and session.kernel.language == "python":
            message = "the agent could not be installed in the kernel; shell lines and threads are not observed"
            self._record.add_findings([Finding(kind=FindingKind.KERNEL, message=message)])
        if self._starter.has_started_again:
            message = "the kernel was started twice: another process was quicker to bind a port of the first one"
            self._record.add_findings([Finding(kind=FindingKind.KERNEL, message=message)])
        self._devices.report_leftovers()
        if self._leftovers is not None:
            self._leftovers.note_ready()
        left = self._clock.total_left_seconds
        self._clock.exclude(await self._queueing.wait_for_others(None if left == math.inf else left))
        await self._run_cells(session)
        if self._record.has_completed:
            await self._end(session)
        elif self._record.is_interruptible:
            self._record.software = await session.software()
        self._may_shut_down = not session.has_agent and self._record.is_interruptible

    async def _launch(self) -> KernelSession:
        session = await self._queueing.launch(self._starter.launch())
        self._clock.exclude(session.kernel.provisioner.queued_seconds)
        self._devices.attach(session.probes.devices)
        folder = None if self._plan.settings.run_in_temp else self._starter.folder
        self._leftovers = LeftoverWatch(session, self._ports.leftovers, folder, self._plan.lecture.path)
        if self._slot is not None:
            self._slot.note_kernel(session)
        return session

    def _note_not_started(self, reason: str, timeout: TimeoutFacts | None = None) -> None:
        evidence = None
        if self._starter.session is not None:
            evidence = self._evidence.build(self._starter.session, self._starter.folder)
            evidence = replace(evidence, exit=replace(evidence.exit, ready=False))
        if timeout is not None:
            evidence = replace(evidence or Evidence(exit=KernelExit(ready=False)), timeout=timeout)
        self._record.note_outcome(Outcome.NOT_STARTED, reason=reason, evidence=evidence)

    # -- cells --------------------------------------------------------------------------------------------------------

    async def _run_cells(self, session: KernelSession) -> None:
        assert self._leftovers is not None  # noqa: S101 - for the type checker; each launch sets it
        after_seconds = self._plan.settings.marks_after_seconds or 0.0
        self._marking = CellMarking(session, self._plan.lecture.cells, after_seconds, self._clock.origin)
        parts = RunParts(
            clock=self._clock,
            record=self._record,
            devices=self._devices,
            evidence=self._evidence,
            leftovers=self._leftovers,
            marking=self._marking,
        )
        runner = CellRunner(
            session,
            parts,
            cells=self._plan.lecture.cells,
            folder=self._starter.folder,
            allow_errors=bool(self._plan.settings.allow_errors),
            on_sent=self._slot.note_sent if self._slot is not None else lambda: None,
        )
        for position, cell in enumerate(self._plan.lecture.cells):
            if self._record.cells[position].status is not CellStatus.NOT_RUN:
                continue
            self._running = cell
            self._report_progress()
            await self._capture.begin(session, cell, self._clock)
            await self._profiler.begin(session, cell)
            await self._memory.begin(session, cell)
            started_seconds = time.perf_counter() - self._clock.origin
            try:
                end = await runner.run(cell, self._document.cells[cell.index])
            except asyncio.CancelledError:
                self._record.cells[position] = replace(self._record.cells[position], marks=runner.marks)
                raise
            result = await self._memory.end(session, cell, await self._profiler.end(session, cell, end.result))
            self._record.cells[position] = result.timed(started_seconds)
            if end.outcome is not None:
                self._record.note_outcome(end.outcome, evidence=end.evidence)
                return
            self._last_cell = cell
        self._running = None

    # -- end ----------------------------------------------------------------------------------------------------------

    async def _end(self, session: KernelSession) -> None:
        """Close the measurement of a completed lecture and let the kernel end; one that is gone by now has died."""
        self._leave_cohort()
        session.probe.close()
        if session.has_ended:
            evidence = self._evidence.build(session, self._starter.folder)
            self._record.note_outcome(Outcome.DIED, evidence=evidence)
            return
        if self._plan.on_executed is not None:
            self._plan.on_executed(self._executed(session))
        if not await self._run_passes(session):
            return
        await session.kernel.provisioner.launch.look()
        self._manifest.note_end(session)
        if self._plan.repeats is not None and await self._repeat(session, self._plan.repeats):
            return
        # From here on nothing of this lecture is measured any more.
        if self._plan.is_followed and self._ports.spares is not None:
            self._ports.spares.prepare(session)
        farewell = await session.leave()
        self._record.software = farewell.software
        if self._last_cell is not None:
            self._record.add_findings(lost_task_findings(farewell.lost_tasks, self._last_cell))
            self._record.add_findings(stray_error_findings(session, self._plan.lecture.cells, self._last_cell))
        if farewell.fault:
            finding = Finding(kind=FindingKind.KERNEL, message=farewell.fault, fails_when_strict=True)
            self._record.add_findings([finding])
        self._record.note_load(self._ports.host.load_average())

    async def _run_passes(self, session: KernelSession) -> bool:
        """Run the cells again where the lecture asks for it; return True if the kernel can still be asked something."""
        plan = self._plan
        if (plan.settings.passes or 1) < 2 or plan.is_profiled or plan.capture or plan.until_cell:  # noqa: PLR2004 - no second pass
            return True
        end = await PassRunner(session, plan, self._clock, self._note_running).run()
        self._running = None
        self._record.passes = end.passes
        self._record.add_findings([end.finding] if end.finding is not None else [])
        return end.is_usable

    async def _repeat(self, session: KernelSession, request: RepeatRequest) -> bool:
        """Run cells again, now that everything is measured; return True if the kernel is lost."""
        if not session.has_agent or not session.kernel.location.is_here:
            message = "no cell was run again: only Python kernels on this machine can be asked for their memory"
            self._record.add_findings([Finding(kind=FindingKind.LEAK, message=message)])
            return False
        if self._last_cell is not None:
            self._record.add_findings(stray_error_findings(session, self._plan.lecture.cells, self._last_cell))
        # The lecture's own probe is closed, and the limit on memory holds on.
        probe = open_memory_probe(self._ports.probes, session.kernel)
        session.watch_cap(self._ports.host.available_bytes, probe)
        repeater = CellRepeater(
            request,
            self._plan.lecture.cells,
            self._clock.cell_limit_seconds,
            findings=self._record.findings,
            on_cell=self._note_running,
        )
        try:
            self._record.cells = await repeater.run(session, self._record.cells)
        finally:
            self._running = None
            probe.close()
        return repeater.is_lost or session.has_ended

    def _note_running(self, cell: Cell) -> None:
        self._running = cell
        self._report_progress()

    def _executed(self, session: KernelSession) -> ExecutedLecture:
        client, plan = session.client, self._plan
        ends = [cell.ended_seconds for cell in self._record.cells if cell.ended_seconds is not None]
        starts = [cell.started_seconds for cell in self._record.cells if cell.started_seconds is not None]
        return ExecutedLecture(
            document=client.finish_document(),
            messages=[client.messages.of_cell(cell.index) for cell in plan.lecture.cells],
            seconds=max(ends) - min(starts) if starts and ends else 0.0,
            environment=dict(plan.environment),
            token=session.kernel.token,
            is_whole=client.keep_outputs,
        )

    def _leave_cohort(self) -> None:
        if self._slot is not None:
            self._slot.leave()

    async def _tear_down(self) -> None:
        self._leave_cohort()
        session = self._starter.session
        if self._marking is not None:
            self._marking.close()
        if session is not None:
            self._manifest.note_end(session)
            readings = session.probe.close()
            self._record.note_memory(readings, session.probe.timeline(self._clock.origin))
            if self._may_shut_down:
                await session.request_shutdown()
            killed = await self._starter.tear_down(session)
            self._record.add_findings(self._leftovers.report(killed) if self._leftovers is not None else ())
            self._record.job_step = await read_job_step(session.kernel, self._ports.launcher)
        await self._describe(session)
        readings, devices = await self._devices.close()
        if self._plan.repeats is not None:
            readings = {**readings, **most_of_cells(self._record.cells, readings)}
        self._record.note_devices(readings, devices)
        self._starter.remove_folder()

    async def _describe(self, session: KernelSession | None) -> None:
        self._record.manifest = manifest = await self._manifest.manifest(session)
        if self._record.software is not None and manifest is not None:
            self._record.software = with_blas(self._record.software, manifest)
        finding = python_finding(self._plan.lecture.metadata, self._record.manifest)
        self._record.add_findings([finding] if finding is not None else [])

    # -- progress -----------------------------------------------------------------------------------------------------

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_PROGRESS_SECONDS)
            self._warning = self._plans.look(self._starter.session, self._running)
            self._report_progress()
            self._manifest.look(self._starter.session, self._clock.elapsed_seconds)

    def _report_progress(self) -> None:
        session, running, marking = self._starter.session, self._running, self._marking
        self._ports.on_progress(
            RunProgress(
                lecture=self._plan.lecture.name,
                number=running.number if running is not None else 0,
                total=len(self._plan.lecture.cells),
                elapsed_seconds=self._queueing.elapsed_seconds(self._clock.elapsed_seconds),
                waits_for=self._queueing.text,
                is_ending=running is None and self._record.history.has_begun,
                snapshot=session.probe.snapshot() if session is not None else None,
                warning=self._warning if running is not None else "",
                sample=marking.last if marking is not None else None,
                sample_seconds=marking.interval_seconds if marking is not None else 0.0,
            )
        )
