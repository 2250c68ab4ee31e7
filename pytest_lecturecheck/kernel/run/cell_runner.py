"""Run one cell under measurement and decide how it ended."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.kernel.messages.cell_files import CellFiles
from pytest_lecturecheck.kernel.messages.request import Reply, Request
from pytest_lecturecheck.kernel.messages.stack import parse_crash
from pytest_lecturecheck.kernel.process.child_processes import describe_children, process_clock, wants_cpu
from pytest_lecturecheck.kernel.process.teardown import interrupt
from pytest_lecturecheck.kernel.run.cell_marking import CellMarking
from pytest_lecturecheck.kernel.run.device_log import CellDevices, DeviceLog
from pytest_lecturecheck.kernel.run.evidence_builder import CellEvidence, EvidenceBuilder
from pytest_lecturecheck.kernel.run.kernel_session import KernelSession
from pytest_lecturecheck.kernel.run.leftovers import LeftoverWatch
from pytest_lecturecheck.kernel.run.observations import (
    cell_error,
    cell_findings,
    disagreeing_reply,
    exit_error,
    line_of_error,
)
from pytest_lecturecheck.kernel.run.printed_errors import printed_error_findings
from pytest_lecturecheck.kernel.run.record_builder import RunRecordBuilder
from pytest_lecturecheck.kernel.run.run_clock import RunClock
from pytest_lecturecheck.model.cell_marks import CellMarks
from pytest_lecturecheck.model.cell_run import CellError, CellRun, CellStatus
from pytest_lecturecheck.model.evidence import Evidence, TimeoutFacts
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.lecture import Cell
from pytest_lecturecheck.model.probe import CellReadings
from pytest_lecturecheck.model.run import Outcome

_INTERRUPT_GRACE_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CellEnd:
    """
    How one cell ended.

    Attributes:
        result: the record of the cell.
        outcome: the outcome of the run if the cell ends it, or ``None``.
        evidence: the evidence of that outcome.
    """

    result: CellRun
    outcome: Outcome | None = None
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunParts:
    """
    The parts of a run that running a cell involves.

    Attributes:
        clock: time limits.
        record: receives findings, and holds the cells so far.
        devices: log of GPUs and compiler.
        evidence: collects the evidence of a bad end.
        leftovers: notes what cells leave on the machine.
        marking: marks where long cells are.
    """

    clock: RunClock
    record: RunRecordBuilder
    devices: DeviceLog
    evidence: EvidenceBuilder
    leftovers: LeftoverWatch
    marking: CellMarking


class CellRunner:
    """
    Runs the cells of one lecture in its kernel.

    Args:
        session: the kernel.
        parts: the parts of the run.
        cells: the lecture's cells.
        folder: the kernel's working folder.
        allow_errors: whether exceptions do not end the run.
        on_sent: called when a cell has been sent to the kernel.

    Attributes:
        marks: the marks of the cell that was run last.
    """

    def __init__(
        self,
        session: KernelSession,
        parts: RunParts,
        *,
        cells: Sequence[Cell],
        folder: Path,
        allow_errors: bool,
        on_sent: Callable[[], None] = lambda: None,
    ) -> None:
        """Run nothing yet."""
        self._session = session
        self._parts = parts
        self._cells = cells
        self._folder = folder
        self._allow_errors = allow_errors
        self._on_sent = on_sent
        self._sent_at = 0.0
        self.marks: CellMarks | None = None

    async def run(self, cell: Cell, notebook_cell: object) -> CellEnd:
        """
        Run a cell.

        Args:
            cell: the cell.
            notebook_cell: the same cell in the notebook that receives outputs.
        """
        session, clock = self._session, self._parts.clock
        total_left = clock.total_left_seconds
        limit = min(clock.cell_limit_seconds, total_left)
        request, measured, has_ended = await self._execute(cell, notebook_cell, limit)
        self._parts.record.history.note_memory(cell.number, measured)
        self._parts.leftovers.look(cell.number)
        self._parts.record.add_findings(stray_error_findings(session, self._cells, cell))
        if has_ended:
            return self._judge(cell, request.reply, measured)
        if session.has_ended or request.no_answer is not None:
            cell_devices = self._parts.devices.note_crash(cell.number, session.crash_record(), session.request_count)
            result = self._result(cell, CellStatus.DIED, measured, cell_devices)
            stack = parse_crash(session.kernel.provisioner.stderr_since_mark, CellFiles(cell, self._cells))
            evidence = self._evidence(cell, measured, cell_devices)
            ended = replace(evidence.exit, crash_stack=stack.frames, no_answer=request.no_answer)
            evidence = replace(evidence, line=cell.file_line(stack.cell_line), exit=ended)
            return CellEnd(result=result, outcome=Outcome.DIED, evidence=evidence)
        is_total = total_left < clock.cell_limit_seconds
        seconds = clock.total_limit_seconds if is_total else clock.cell_limit_seconds
        exceeded = TimeoutFacts(limit_seconds=seconds, kind="lecture" if is_total else "cell")
        return await self._time_out(cell, request, measured, exceeded)

    async def _execute(self, cell: Cell, notebook_cell: object, limit: float) -> tuple[Request, CellReadings, bool]:
        """Send the cell and wait for its end; return the request, the measurements, and whether it ended in time."""
        session, devices = self._session, self._parts.devices
        session.request_count += 1
        self._parts.record.history.note_request(session.request_count, cell.number)
        session.kernel.provisioner.mark_stderr()
        session.probe.begin_cell()
        devices.begin_cell()
        self._sent_at = time.monotonic()
        try:
            request = session.client.begin_cell(notebook_cell, cell.index)
            self._on_sent()
            self._parts.marking.begin(cell)
            has_ended = await session.client.wait_cell(request, None if limit == math.inf else limit)
        finally:
            self.marks = self._parts.marking.end()
            measured = session.probe.end_cell()
            used = devices.end_cell()
        if has_ended:
            await session.client.wait_contradiction(request)
        if used:
            measured = replace(measured, readings={**measured.readings, **used})
        return request, measured, has_ended

    async def _time_out(self, cell: Cell, request: Request, measured: CellReadings, limit: TimeoutFacts) -> CellEnd:
        """Read what the cell is doing, then stop it."""
        session, devices = self._session, self._parts.devices
        crash_record = session.crash_record()
        cell_devices = devices.interpret_crash(crash_record, session.request_count)
        stack = await session.stack(CellFiles(cell, self._cells))
        children = self._children()
        is_here = session.kernel.location.is_here
        wants = await wants_cpu(session.kernel.pid) if is_here else None
        # A cell that does not stop in time is killed with the teardown.
        await interrupt(session.kernel)
        has_stopped = await session.client.wait_cell(request, _INTERRUPT_GRACE_SECONDS)
        evidence = replace(
            self._evidence(cell, measured, cell_devices),
            line=cell.file_line(stack.cell_line),
            timeout=replace(
                limit, stopped_by_interrupt=has_stopped, stack=stack.frames, children=children, wants_cpu=wants
            ),
        )
        if has_stopped:
            cell_devices = devices.note_cell(cell.number, request.reply.payload)
        else:
            cell_devices = devices.note_crash(cell.number, crash_record, session.request_count)
        result = self._result(cell, CellStatus.TIMED_OUT, measured, cell_devices)
        return CellEnd(result=result, outcome=Outcome.TIMED_OUT, evidence=evidence)

    def _children(self) -> tuple[str, ...]:
        kernel = self._session.kernel
        if not kernel.location.is_here:
            return ()
        sent_at = process_clock() - (time.monotonic() - self._sent_at)
        return describe_children(kernel.pid, sent_at)

    def _judge(self, cell: Cell, reply: Reply, measured: CellReadings) -> CellEnd:
        """Determine the status of a cell that has ended."""
        session, record = self._session, self._parts.record
        session.stack_taken = "stack_taken" in reply.payload
        cell_devices = self._parts.devices.note_cell(cell.number, reply.payload)
        record.history.note_threads(cell.number, reply.payload.get("threads", []))
        error = cell_error(reply, session.client.errors, cell)
        if error is None and reply.payload.get("exit_asked"):
            error = exit_error(reply.payload.get("error_line"))
        record.add_findings(disagreeing_reply(reply, session.client.errors, cell))
        text = session.client.text
        record.add_findings(cell_findings(cell, reply, is_cut=text.is_cut, raised=error is not None, output=text.text))
        reported, faults = session.client.reported_values.end_cell(cell)
        record.add_findings(faults)
        status = self._status(cell, error)
        factorisations = reply.payload.get("factorisations", ())
        result = self._result(
            cell, status, measured, cell_devices, error=error, reported_values=reported, factorisations=factorisations
        )
        if status is not CellStatus.FAILED:
            return CellEnd(result=result)
        evidence = replace(
            self._evidence(cell, measured, cell_devices),
            error=error,
            line=line_of_error(cell, error),
            factorisations=factorisations,
            live_buffers=reply.payload.get("live_buffers", ()),
        )
        return CellEnd(result=result, outcome=Outcome.FAILED, evidence=evidence)

    def _status(self, cell: Cell, error: CellError | None) -> CellStatus:
        if error is None:
            return CellStatus.OK
        if cell.expects_error:
            return CellStatus.EXPECTED_ERROR
        return CellStatus.ALLOWED_ERROR if self._allow_errors else CellStatus.FAILED

    def _evidence(self, cell: Cell, measured: CellReadings, cell_devices: CellDevices) -> Evidence:
        earlier = self._parts.record.cells
        running = CellEvidence(cell=cell, measured=measured, devices=cell_devices, earlier=earlier)
        return self._parts.evidence.build(self._session, self._folder, running)

    def _result(
        self, cell: Cell, status: CellStatus, measured: CellReadings, cell_devices: CellDevices, **more: Any
    ) -> CellRun:
        return CellRun(
            number=cell.number,
            index=cell.index,
            line=cell.line,
            opening_line=cell.opening_line,
            status=status,
            readings={**measured.readings, **cell_devices.readings},
            allocators=cell_devices.allocators,
            compilation=cell_devices.compilation,
            start_footprint_bytes=measured.start_footprint_bytes,
            output_extract=self._session.client.text.text,
            marks=self.marks,
            **more,
        )


def stray_error_findings(session: KernelSession, cells: Sequence[Cell], running: Cell) -> Iterator[Finding]:
    """
    Return findings about errors that were printed outside the output of the running cell.

    Args:
        session: the kernel.
        cells: the lecture's cells.
        running: the cell that was running, or that ran last.
    """
    text_by_index, fault_by_index = session.client.take_stray_text(), session.client.take_reply_faults()
    by_index = {cell.index: cell for cell in cells} if text_by_index or fault_by_index else {}
    for index, text in text_by_index:
        cell = by_index.get(index, running) if index is not None else running
        if not cell.expects_error:
            yield from printed_error_findings(text, cell)
    for index, fault in fault_by_index:
        cell = by_index.get(index, running)
        yield Finding(
            kind=FindingKind.KERNEL,
            message=f"{fault}; what is reported of the cell and of the next ones cannot be trusted",
            cell_number=cell.number,
            line=cell.line,
            fails_when_strict=True,
        )
    # Child processes that were not forked write to the kernel's own stderr.
    if not running.expects_error and not session.has_ended:
        yield from printed_error_findings(session.kernel.provisioner.take_new_stderr(), running)
