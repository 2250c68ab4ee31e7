"""Run a plain program as a lecture of one step: the same probe, cap, evidence, teardown and record."""

from __future__ import annotations

import asyncio
import datetime as dt
import secrets
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.errors import KernelStartError
from pytest_lecturecheck.kernel.process.cap import Cap, automatic_cap, watch
from pytest_lecturecheck.kernel.process.cgroup import MemoryGroup, make_group
from pytest_lecturecheck.kernel.process.child_processes import describe_children, process_clock
from pytest_lecturecheck.kernel.process.interpreter_version import read_interpreter_version
from pytest_lecturecheck.kernel.process.program import RunningProgram, start_program
from pytest_lecturecheck.kernel.process.stderr import stderr_tail
from pytest_lecturecheck.kernel.run.device_log import CellDevices, DeviceLog
from pytest_lecturecheck.kernel.run.evidence_builder import CellEvidence, EvidenceBuilder, with_cap
from pytest_lecturecheck.kernel.run.manifest_log import ManifestSources
from pytest_lecturecheck.kernel.run.ports import Ports
from pytest_lecturecheck.kernel.run.program_errors import find_program_error
from pytest_lecturecheck.model.cell_run import CellRun, CellStatus
from pytest_lecturecheck.model.evidence import Evidence, KernelExit, TimeoutFacts, WatchdogStop
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.lecture import Cell
from pytest_lecturecheck.model.manifest import EnvironmentFacts, Fact, join_manifest
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.platform import Machine
from pytest_lecturecheck.model.probe import CellReadings, Probe
from pytest_lecturecheck.model.run import PROGRAM_LAUNCHER, LaunchFacts, Outcome, Run
from pytest_lecturecheck.model.run_conditions import RunConditions
from pytest_lecturecheck.model.settings import AUTOMATIC_CAP, NO_LIMIT

_LIBRARY_SECONDS: Final = 1.0
_LEFT_NAMED: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """
    A program to run.

    Attributes:
        name: its name in records and reports.
        argv: its command; no shell is involved.
        folder: its working folder.
        cap_bytes: memory that its processes may take; :data:`AUTOMATIC_CAP` works it out, :data:`NO_LIMIT` sets none.
        timeout_seconds: time that it may take; :data:`NO_LIMIT` for none.
        declared_bytes: memory that the package declares, or ``None``.
        environment: variables beside those of this process.
    """

    name: str
    argv: Sequence[str]
    folder: Path
    cap_bytes: float = AUTOMATIC_CAP
    timeout_seconds: float = NO_LIMIT
    declared_bytes: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


async def run_program(
    program: Program, ports: Ports, *, platform: str, machine: Machine, on_output: Callable[[bytes], None]
) -> Run:
    """
    Run a program and return its record, whatever it does; it has one step, which is recorded as one cell.

    Args:
        program: the program.
        ports: access to the machine.
        platform: platform label, for the record.
        machine: the machine, for the record.
        on_output: receives what the program writes, on another thread.
    """
    return await _ProgramRun(program, ports, platform, machine).execute(on_output)


class _ProgramRun:
    """One run of a program, from start to teardown."""

    def __init__(self, program: Program, ports: Ports, platform: str, machine: Machine) -> None:
        self._program, self._ports, self._machine = program, ports, machine
        self._token = secrets.token_hex(8)
        self._origin, self._since = time.perf_counter(), time.monotonic()
        self._cell = Cell(index=0, number=1, source=shlex.join(program.argv), line=None)
        self._stop: WatchdogStop | None = None
        self._cap: Cap | None = None
        self._libraries: Mapping[str, str] = {}
        self._run = Run(
            lecture=program.name,
            platform=platform,
            outcome=Outcome.COMPLETED,
            machine=machine,
            launch=LaunchFacts(
                started=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"), launcher=PROGRAM_LAUNCHER
            ),
            conditions=RunConditions(environment=dict(program.environment)),
        )

    async def execute(self, on_output: Callable[[bytes], None]) -> Run:
        program = self._program
        group = self._set_cap()
        oom = self._ports.oom.read_counters(group.folder if group is not None else None)
        try:
            running = await start_program(
                program.argv,
                folder=program.folder,
                token=self._token,
                environment=program.environment,
                group=group,
                on_output=on_output,
            )
        except KernelStartError as exc:
            if group is not None:
                group.remove()
            return replace(self._run, outcome=Outcome.NOT_STARTED, reason=str(exc))
        if group is not None and not (running.is_in_group or group.add(running.pid)):
            group.remove()
            group = None
        self._cap = replace(self._cap, group=group) if self._cap is not None else None
        if self._ports.reaper is not None:
            group_folder = str(group.folder) if group is not None else None
            self._ports.reaper.add(self._token, pid=running.pid, folders=[running.gate.folder], group=group_folder)
        try:
            return await self._measure(running, group, oom)
        finally:
            if group is not None:
                group.remove()
            if self._ports.reaper is not None:
                self._ports.reaper.remove(self._token)

    def _set_cap(self) -> MemoryGroup | None:
        setting = self._program.cap_bytes
        if setting == NO_LIMIT:
            return None
        limit = round(setting)
        if setting == AUTOMATIC_CAP:
            limit = automatic_cap(self._machine.usable_memory_bytes, self._ports.host.available_bytes())
        group = make_group(self._token, limit)
        self._cap = Cap(limit_bytes=limit, group=group, is_chosen=setting != AUTOMATIC_CAP)
        return group

    async def _measure(self, running: RunningProgram, group: MemoryGroup | None, oom: Any) -> Run:
        read_group = group.footprint_bytes if group is not None else None
        probe = self._ports.probes.open_probe(running.pid, running.token, running.supervisor_pid, read_group)
        probe.begin_cell()
        sent_at, tasks = process_clock(), self._watch(running, probe)
        limit = self._program.timeout_seconds
        left: tuple[str, ...] = ()
        children: tuple[str, ...] = ()
        has_ended = False
        try:
            await running.begin()
            has_ended = await running.wait(None if limit == NO_LIMIT else limit)
            if not has_ended:
                children = describe_children(running.pid, sent_at)
        finally:
            measured = probe.end_cell()
            readings, timeline = probe.close(), probe.timeline(self._origin)
            for task in tasks:
                task.cancel()
            left = await asyncio.shield(running.end_tree())
        self._run = replace(self._run, readings=readings, timeline=timeline, findings=_left_findings(left))
        evidence = None
        if not has_ended or running.process.returncode:
            evidence = self._evidence(running, measured, probe, oom)
        if evidence is not None and not has_ended:
            timeout = TimeoutFacts(limit_seconds=limit, kind="lecture", children=children)
            evidence = replace(evidence, timeout=timeout, exit=KernelExit(stderr_tail=evidence.exit.stderr_tail))
        return self._finish(running, measured, evidence)

    def _watch(self, running: RunningProgram, probe: Probe) -> list[asyncio.Task[None]]:
        tasks = [asyncio.ensure_future(self._read_libraries(running, self._ports.manifest))]
        if self._cap is not None:

            def kill(why: WatchdogStop) -> None:
                self._stop = self._stop or why
                running.kill()

            tasks.append(asyncio.ensure_future(watch(self._cap, probe, self._ports.host.available_bytes, kill)))
        return tasks

    async def _read_libraries(self, running: RunningProgram, sources: ManifestSources) -> None:
        seconds = _LIBRARY_SECONDS
        while True:
            await asyncio.sleep(seconds)
            seconds *= 2
            self._libraries = sources.read_libraries(running.pid) or self._libraries

    def _evidence(self, running: RunningProgram, measured: CellReadings, probe: Probe, oom: Any) -> Evidence:
        program, group_folder = self._program, None
        if self._cap is not None and self._cap.group is not None:
            group_folder = self._cap.group.folder
        builder = EvidenceBuilder(
            lecture=program.name,
            machine=self._machine,
            kernel_count=None,
            environment=program.environment,
            host=self._ports.host,
            devices=DeviceLog(program.name),
            since=self._since,
            declared_bytes=program.declared_bytes,
        )
        step = CellEvidence(cell=self._cell, measured=measured, devices=CellDevices(), earlier=())
        evidence = builder.build(None, program.folder, step)
        end, snapshot = running.end(), probe.snapshot()
        error = find_program_error(running.output.text) if end.signal is None else None
        return replace(
            evidence,
            is_program=True,
            shadowing_files=(),
            error=error,
            exit=KernelExit(
                exit_code=end.exit_code,
                signal=end.signal,  # What it raised is shown as its error.
                stderr_tail=stderr_tail(running.output.text) if error is None else (),
            ),
            conditions=with_cap(evidence.conditions, self._cap),
            memory=replace(
                evidence.memory,
                last_footprint_bytes=snapshot.footprint_bytes if snapshot is not None else None,
                last_footprint_age_seconds=snapshot.age_seconds if snapshot is not None else None,
                stopped_at_cap=self._stop is not None,
                watchdog_stop=self._stop,
                oom_kills=self._ports.oom.compare_counters(oom, self._ports.oom.read_counters(group_folder)),
                kernel_log=tuple(self._ports.oom.read_system_log([running.pid], self._since)),
            ),
        )

    def _facts(self) -> dict[str, str]:
        program = self._program
        version = read_interpreter_version(program.argv[0], program.folder)
        return {**self._ports.manifest.read_machine(), Fact.PROGRAM.value: version}

    def _finish(self, running: RunningProgram, measured: CellReadings, evidence: Evidence | None) -> Run:
        outcome = Outcome.COMPLETED
        if evidence is not None:
            is_dead = evidence.exit.signal is not None or evidence.memory.oom_kills
            outcome = Outcome.DIED if is_dead else Outcome.FAILED
            outcome = Outcome.TIMED_OUT if evidence.timeout.limit_seconds is not None else outcome
        wall = getattr(measured.readings.get(Metric.WALL), "value", None)
        cell = CellRun(
            number=1,
            index=0,
            line=None,
            status=_STATUS[outcome],
            readings=measured.readings,
            start_footprint_bytes=measured.start_footprint_bytes,
            error=evidence.error if evidence is not None else None,
            output_extract=running.output.text,
            started_seconds=0.0,
            ended_seconds=wall,
        )
        return replace(
            self._run,
            outcome=outcome,
            cells=(cell,),
            evidence=evidence,
            conditions=with_cap(replace(self._run.conditions, load_average=self._ports.host.load_average()), self._cap),
            manifest=join_manifest(self._facts(), EnvironmentFacts(), self._libraries),
        )


_STATUS: Final = {
    Outcome.COMPLETED: CellStatus.OK,
    Outcome.FAILED: CellStatus.FAILED,
    Outcome.DIED: CellStatus.DIED,
    Outcome.TIMED_OUT: CellStatus.TIMED_OUT,
}


def _left_findings(names: Sequence[str]) -> tuple[Finding, ...]:
    if not names:
        return ()
    shown = ", ".join(repr(name) for name in names[:_LEFT_NAMED])
    more = f" and {len(names) - _LEFT_NAMED} more" if len(names) > _LEFT_NAMED else ""
    was = "process was" if len(names) == 1 else "processes were"
    message = f"{len(names)} {was} left running by the program and ended: {shown}{more}"
    return (Finding(kind=FindingKind.PROCESS, message=message),)
