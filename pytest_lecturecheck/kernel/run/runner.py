"""Run one lecture in one kernel: start, cells under measurement, teardown. The result is always a record."""

from __future__ import annotations

import asyncio
import copy
import datetime as dt
import math
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import zmq.asyncio

from pytest_lecturecheck.errors import KernelStartError
from pytest_lecturecheck.kernel.messages.client import Reply, Request
from pytest_lecturecheck.kernel.process.launch import make_shared_folder
from pytest_lecturecheck.kernel.process.shadowing_files import find_shadowing_files
from pytest_lecturecheck.kernel.process.teardown import interrupt
from pytest_lecturecheck.kernel.run.barrier import BarrierSlot
from pytest_lecturecheck.kernel.run.device_log import CellDevices, DeviceLog
from pytest_lecturecheck.kernel.run.evidence_builder import (
    cell_usage,
    host_facts,
    machine_memory,
    with_cap,
    with_cell_memory,
    with_kernel_memory,
)
from pytest_lecturecheck.kernel.run.kernel_session import KernelSession, launch
from pytest_lecturecheck.kernel.run.leftovers import LeftoverWatch
from pytest_lecturecheck.kernel.run.observations import (
    cell_error,
    cell_findings,
    exit_error,
    line_of_error,
    mapped_file_findings,
    thread_findings,
)
from pytest_lecturecheck.kernel.run.ports import Ports, RunPlan, RunProgress
from pytest_lecturecheck.kernel.run.profiler import Profiler
from pytest_lecturecheck.kernel.run.queueing import Queueing
from pytest_lecturecheck.kernel.run.scheduler_step import JobStep, look_at_step, scheduler_findings
from pytest_lecturecheck.model.cell_run import CellRun, CellStatus
from pytest_lecturecheck.model.evidence import Evidence, KernelExit, TimeoutFacts
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.lecture import Cell, Lecture
from pytest_lecturecheck.model.metric import Metric, Reading
from pytest_lecturecheck.model.probe import CellReadings
from pytest_lecturecheck.model.run import LaunchFacts, Outcome, Run
from pytest_lecturecheck.model.run_conditions import RunConditions

_INTERRUPT_GRACE_SECONDS: Final = 5.0
_PROGRESS_SECONDS: Final = 0.5
_START_TRIES: Final = 2


async def run_lecture(
    plan: RunPlan, ports: Ports, context: zmq.asyncio.Context, seat: BarrierSlot | None = None
) -> Run:
    """
    Run a lecture and give the record of it.

    Whatever the lecture does ends in the record. Cancelling the task tears the kernel down and then goes on as a
    cancellation. With a ``seat`` in a cohort, the first cell waits for the kernels of the others.
    """
    record = Run(
        lecture=plan.lecture.name,
        variant=plan.variant,
        platform=plan.platform,
        machine=plan.machine,
        findings=plan.lecture.findings,
        outcome=Outcome.COMPLETED,
        repeat=plan.repeat,
        launch=LaunchFacts(started=dt.datetime.now(dt.UTC).isoformat(timespec="seconds")),
        conditions=RunConditions(environment=dict(plan.environment)),
        is_profiled=plan.tracing is not None,
    )
    if not plan.lecture.has_work:
        cells = tuple(_cell_run(cell, _idle_status(cell)) for cell in plan.lecture.cells)
        return replace(record, outcome=Outcome.NOTHING_TO_RUN, reason=nothing_to_run(plan.lecture), cells=cells)
    return await _LectureRun(plan, ports, context, record, seat).execute()


def nothing_to_run(lecture: Lecture) -> str:
    """Say in a few words why no cell of a lecture would run."""
    if not lecture.cells:
        return "no code cells"
    skipped = sum(1 for cell in lecture.cells if cell.skip_reason)
    blank = len(lecture.cells) - skipped
    parts = []
    if skipped:
        parts.append(f"{skipped} code cell{'' if skipped == 1 else 's'} left out")
    if blank:
        parts.append(f"{blank} blank code cell{'' if blank == 1 else 's'}")
    return " and ".join(parts)


def _idle_status(cell: Cell) -> CellStatus:
    if cell.skip_reason:
        return CellStatus.SKIPPED
    return CellStatus.NOT_RUN if cell.source.strip() else CellStatus.EMPTY


def _cell_run(cell: Cell, status: CellStatus) -> CellRun:
    return CellRun(number=cell.number, index=cell.index, line=cell.line, opening_line=cell.opening_line, status=status)


class _LectureRun:
    """The state of one run while it lasts."""

    def __init__(
        self, plan: RunPlan, ports: Ports, context: zmq.asyncio.Context, record: Run, seat: BarrierSlot | None
    ) -> None:
        self.plan, self.ports, self.context, self.record, self.seat = plan, ports, context, record, seat
        self.timeout = plan.settings.timeout_seconds or math.inf
        self.total_timeout = plan.settings.total_timeout_seconds or math.inf
        self.startup_timeout = plan.settings.startup_timeout_seconds or math.inf
        self.cells = [_cell_run(cell, _idle_status(cell)) for cell in plan.lecture.cells]
        self.findings = list(plan.lecture.findings)
        self.document = copy.deepcopy(plan.lecture.document)
        self.clock = asyncio.get_running_loop().time
        self.begun = self.clock()
        self.monotonic, self.started_at = time.monotonic(), time.perf_counter()
        self.attached: KernelSession | None = None
        self.running: Cell | None = None
        self.cell_of_request: dict[int, int] = {}
        self.mapped_files: dict[int, int | None] = {}
        self.threads_after: dict[int, list[tuple[str, int]]] = {}
        self.queueing = Queueing(ports.launcher, seat, self.startup_timeout)
        self.temp_folder: tempfile.TemporaryDirectory[str] | None = None
        self.traces: LeftoverWatch | None = None
        self.step = JobStep()
        self.devices = DeviceLog(plan.shown_name)
        if seat is not None:
            seat.origin = self.started_at
        self.profiler = Profiler(plan.tracing, plan.lecture.cells, self.findings)

    async def execute(self) -> Run:
        ticker = asyncio.ensure_future(self._tick())
        try:
            record = await self._start_and_run()
        finally:
            ticker.cancel()
            # Not to be left half-way by a second cancellation.
            readings = await asyncio.shield(asyncio.ensure_future(self._tear_down()))
        return self._complete(record, readings)

    # -- start --------------------------------------------------------------------------------------------------------

    async def _start_and_run(self) -> Run:
        limit = min(self.startup_timeout, self._total_left())
        try:
            attached = await self._start(limit)
        except KernelStartError as exc:
            return self._not_started(str(exc))
        except TimeoutError:
            kind = "startup" if limit == self.startup_timeout else "lecture"
            record = self._not_started(f"the kernel was not ready after {limit:g} s")
            evidence = record.evidence or Evidence(exit=KernelExit(ready=False))
            return replace(record, evidence=replace(evidence, timeout=TimeoutFacts(limit_seconds=limit, kind=kind)))
        self.record = replace(
            self.record,
            launch=replace(
                self.record.launch,
                startup_seconds=self.clock() - self.begun,
                kernel_name=attached.kernel.spec_name,
            ),
            conditions=with_cap(self.record.conditions, attached.cap),
        )
        if not attached.has_agent and attached.kernel.language == "python":
            message = "the agent could not be installed in the kernel; shell lines and threads are not seen"
            self.findings.append(Finding(kind=FindingKind.KERNEL, message=message))
        self.devices.look_before()
        left = self._total_left()
        self.begun += await self.queueing.wait_for_others(None if left == math.inf else left)
        record = await self._run_cells(attached)
        return record if record.outcome is not Outcome.COMPLETED else await self._finish(attached)

    async def _start(self, limit: float) -> KernelSession:
        for _ in range(_START_TRIES - 1):
            attached = await self._launch()
            try:
                await attached.connect(limit)
            except KernelStartError:
                # Ports are picked before they are bound; another process may have been quicker.
                if not attached.lost_a_port:
                    raise
                attached.probe.close()
                await attached.tear_down(self.ports)
                self.attached = None
            else:
                return attached
        attached = await self._launch()
        await attached.connect(limit)
        return attached

    async def _launch(self) -> KernelSession:
        folder = self._folder()
        launching = launch(
            self.plan, self.ports, self.context, cwd=folder, document=self.document, on_queue=self.queueing.note
        )
        self.attached = await self.queueing.launch(launching)
        # A queue before the start is no time of the lecture's.
        self.begun += self.attached.kernel.provisioner.queued_seconds
        self.devices.attach(self.attached.device_probe)
        self.traces = LeftoverWatch(self.attached, self.ports, folder, self.plan.lecture.path)
        if self.seat is not None:
            self.seat.note_kernel(self.attached)
        return self.attached

    def _folder(self) -> Path:
        if not self.plan.settings.run_in_temp:
            return self.plan.lecture.path.parent
        if self.temp_folder is None:
            shared = make_shared_folder(self.ports.launcher)
            self.temp_folder = tempfile.TemporaryDirectory(prefix="lc-run-", dir=shared, ignore_cleanup_errors=True)
        return Path(self.temp_folder.name)

    def _total_left(self) -> float:
        return max(0.0, self.total_timeout - (self.clock() - self.begun))

    def _not_started(self, reason: str) -> Run:
        evidence = None
        if self.attached is not None:
            evidence = self._evidence(None)
            evidence = replace(evidence, exit=replace(evidence.exit, ready=False))
        return replace(self.record, outcome=Outcome.NOT_STARTED, reason=reason, evidence=evidence)

    # -- cells --------------------------------------------------------------------------------------------------------

    async def _run_cells(self, attached: KernelSession) -> Run:
        for position, cell in enumerate(self.plan.lecture.cells):
            if self.cells[position].status is not CellStatus.NOT_RUN:
                continue
            self.running = cell
            self._report_progress()
            await self.profiler.begin(attached, cell)
            started_seconds = time.perf_counter() - self.started_at
            result, end = await self._run_cell(attached, cell)
            result = await self.profiler.end(attached, cell, result)
            self.cells[position] = result.placed(started_seconds)
            if end is not None:
                outcome, evidence = end
                return replace(self.record, outcome=outcome, evidence=evidence)
        self.running = None
        return self.record

    async def _run_cell(self, attached: KernelSession, cell: Cell) -> tuple[CellRun, tuple[Outcome, Evidence] | None]:
        total_left = self._total_left()
        limit = min(self.timeout, total_left)
        attached.request_count += 1
        self.cell_of_request[attached.request_count] = cell.number
        attached.kernel.provisioner.mark_stderr()
        attached.probe.begin_cell()
        self.devices.begin_cell()
        try:
            request = attached.client.begin_cell(self.document.cells[cell.index], cell.index)
            if self.seat is not None:
                self.seat.note_sent()
            ended = await attached.client.wait_cell(request, None if limit == math.inf else limit)
        finally:
            measured = attached.probe.end_cell()
            used = self.devices.end_cell()
        measured = replace(measured, readings={**measured.readings, **used})
        self.mapped_files[cell.number] = measured.mapped_file_bytes
        if self.traces is not None:
            self.traces.look(cell.number)
        if ended:
            return self._judge_cell(attached, cell, request.reply, measured)
        if attached.has_ended:
            seen = self.devices.take_last_words(cell.number, attached.last_words(), attached.request_count)
            result = _measured_cell(cell, CellStatus.DIED, measured, seen, attached)
            return result, (Outcome.DIED, self._evidence(cell, measured, seen))
        evidence, seen = await self._time_out(attached, cell, request, measured)
        result = _measured_cell(cell, CellStatus.TIMED_OUT, measured, seen, attached)
        kind, seconds = ("lecture", self.total_timeout) if total_left < self.timeout else ("cell", self.timeout)
        timeout = replace(evidence.timeout, limit_seconds=seconds, kind=kind)
        return result, (Outcome.TIMED_OUT, replace(evidence, timeout=timeout))

    async def _time_out(
        self, attached: KernelSession, cell: Cell, request: Request, measured: CellReadings
    ) -> tuple[Evidence, CellDevices]:
        """Look at what the cell is doing, then stop it."""
        words = attached.last_words()
        seen = self.devices.read_last_words(words, attached.request_count)
        stack = await attached.stack(cell.number)
        stopped = await self._stop_cell(attached, request)
        timeout = TimeoutFacts(stopped_by_interrupt=stopped, stack=stack.frames)
        evidence = replace(self._evidence(cell, measured, seen), timeout=timeout)
        if cell.line is not None and stack.cell_line is not None and stack.cell_line <= cell.source.count("\n") + 1:
            evidence = replace(evidence, line=cell.line + stack.cell_line - 1)
        if stopped:
            return evidence, self.devices.take_words(cell.number, request.reply.payload)
        return evidence, self.devices.take_last_words(cell.number, words, attached.request_count)

    @staticmethod
    async def _stop_cell(attached: KernelSession, request: Request) -> bool:
        """Interrupt, wait a little; what does not stop then is killed with the teardown."""
        await interrupt(attached.kernel)
        return await attached.client.wait_cell(request, _INTERRUPT_GRACE_SECONDS)

    def _judge_cell(
        self, attached: KernelSession, cell: Cell, reply: Reply, measured: CellReadings
    ) -> tuple[CellRun, tuple[Outcome, Evidence] | None]:
        client = attached.client
        attached.stack_taken = "stack_taken" in reply.payload
        seen = self.devices.take_words(cell.number, reply.payload)
        self.threads_after[cell.number] = [
            (name, self.cell_of_request.get(request, 0)) for name, request in reply.payload.get("threads", [])
        ]
        error = cell_error(reply, client.errors, cell)
        if error is None and reply.payload.get("exit_asked"):
            error = exit_error()
        text = client.text
        self.findings.extend(cell_findings(cell, reply, is_cut=text.is_cut, raised=error is not None, output=text.text))
        figures, faults = client.reported_values.end_cell(cell)
        self.findings.extend(faults)
        status = CellStatus.OK
        if error is not None:
            status = CellStatus.FAILED
            if cell.expects_error:
                status = CellStatus.EXPECTED_ERROR
            elif self.plan.settings.allow_errors:
                status = CellStatus.ALLOWED_ERROR
        result = replace(_measured_cell(cell, status, measured, seen, attached), error=error, figures=figures)
        if status is not CellStatus.FAILED:
            return result, None
        evidence = replace(self._evidence(cell, measured, seen), error=error, line=line_of_error(cell, error))
        return result, (Outcome.FAILED, evidence)

    def _evidence(
        self, cell: Cell | None, measured: CellReadings | None = None, seen: CellDevices | None = None
    ) -> Evidence:
        attached = self.attached
        memory = machine_memory(self.plan.machine, self.ports)
        if attached is not None:
            memory = with_kernel_memory(memory, self.ports, attached, self.monotonic)
        conditions = RunConditions(environment=dict(self.plan.environment), load_average=self.ports.read_load_average())
        return Evidence(
            lecture=self.plan.shown_name,
            cell_number=cell.number if cell is not None else None,
            line=cell.line if cell is not None else None,
            source=cell.source if cell is not None else "",
            exit=attached.exit if attached is not None else KernelExit(),
            usage=cell_usage(measured, seen),
            memory=with_cell_memory(memory, measured, self.cells),
            devices=self.devices.snapshot(),
            allocators=seen.allocators if seen is not None else (),
            host=host_facts(self.plan),
            conditions=with_cap(conditions, attached.cap if attached is not None else None),
            shadowing_files=find_shadowing_files(self._folder()),
        )

    # -- end ----------------------------------------------------------------------------------------------------------

    async def _finish(self, attached: KernelSession) -> Run:
        """Close the measurement of a lecture that came to its end and ask what ran; a kernel that has gone has died."""
        self._leave_seat()
        attached.probe.close()
        if attached.has_ended:
            return replace(self.record, outcome=Outcome.DIED, evidence=self._evidence(None))
        await attached.kernel.provisioner.launch.look()
        software, bad_end = await attached.leave()
        if bad_end:
            self.findings.append(Finding(kind=FindingKind.KERNEL, message=bad_end, fails_when_strict=True))
        conditions = replace(self.record.conditions, load_average=self.ports.read_load_average())
        return replace(self.record, software=software, conditions=conditions)

    def _leave_seat(self) -> None:
        if self.seat is not None:
            self.seat.leave()

    async def _tear_down(self) -> Mapping[Metric, Reading]:
        self._leave_seat()
        readings: Mapping[Metric, Reading] = {}
        if self.attached is not None:
            readings = self.attached.probe.close()
            self.record = replace(self.record, timeline=self.attached.probe.timeline(self.started_at))
            leftovers = await self.attached.tear_down(self.ports)
            self.findings.extend(self.traces.left(leftovers) if self.traces is not None else ())
            self.step = await look_at_step(self.attached.kernel, self.ports.launcher)
        used, devices = await self.devices.close()
        self.record = replace(self.record, devices=devices)
        if self.temp_folder is not None:
            self.temp_folder.cleanup()
        return {**readings, **used}

    def _complete(self, record: Run, readings: Mapping[Metric, Reading]) -> Run:
        cells = tuple(replace(cell, readings=self.devices.marked(cell.readings)) for cell in self.cells)
        readings = {**readings, **self.devices.lecture_readings(cells)}
        record = replace(record, cells=cells, readings=readings, devices=self.record.devices)
        record = self.step.added_to(replace(record, timeline=self.record.timeline))
        heaviest = record.heaviest_cell()
        if heaviest is not None:
            self.findings.extend(thread_findings(heaviest.number, self.threads_after))
            self.findings.extend(mapped_file_findings(heaviest, self.mapped_files.get(heaviest.number)))
        self.findings.extend(scheduler_findings(record))
        return replace(record, findings=(*self.findings, *self.devices.findings))

    # -- progress -----------------------------------------------------------------------------------------------------

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_PROGRESS_SECONDS)
            self._report_progress()

    def _report_progress(self) -> None:
        self.ports.on_progress(
            RunProgress(
                lecture=self.record.lecture,
                number=self.running.number if self.running is not None else 0,
                total=len(self.cells),
                elapsed_seconds=self.queueing.elapsed_seconds(self.clock() - self.begun),
                waits_for=self.queueing.text,
                is_ending=self.running is None and bool(self.cell_of_request),
                snapshot=self.attached.probe.snapshot() if self.attached is not None else None,
            )
        )


def _measured_cell(
    cell: Cell, status: CellStatus, measured: CellReadings, seen: CellDevices, attached: KernelSession
) -> CellRun:
    return replace(
        _cell_run(cell, status),
        readings={**measured.readings, **seen.readings},
        allocators=seen.allocators,
        compilation=seen.compilation,
        start_footprint_bytes=measured.start_footprint_bytes,
        output_extract=attached.client.text.text,
    )
