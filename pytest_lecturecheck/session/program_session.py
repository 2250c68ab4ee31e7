"""Sessions of plain programs, with pytest and without: each is run, judged and kept like a lecture of one step."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from pytest_lecturecheck.config.options import Mode, SessionSettings
from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.kernel.launchers.local_launcher import close_servers
from pytest_lecturecheck.kernel.run.manifest_log import ManifestSources
from pytest_lecturecheck.kernel.run.ports import Ports
from pytest_lecturecheck.kernel.run.program_run import Program, run_program
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.program import ProgramSpec
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.model.settings import AUTOMATIC_CAP, NO_LIMIT, RunSettings
from pytest_lecturecheck.probe.gpu.accelerators import detect_accelerators
from pytest_lecturecheck.probe.gpu.monitor import open_gpu_monitor
from pytest_lecturecheck.probe.loaded_libraries import read_libraries
from pytest_lecturecheck.probe.machine import detect_machine, detect_platform
from pytest_lecturecheck.probe.machine_facts import read_machine_facts
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.session.earlier_failures import with_joint_notes
from pytest_lecturecheck.session.kernel_ports import MachineLeftovers, MachineMemory, MachineOomRecords, MachineProbes
from pytest_lecturecheck.session.reaper import Reaper
from pytest_lecturecheck.session.results import Results
from pytest_lecturecheck.session.runtime_context import RuntimeContext
from pytest_lecturecheck.verdict import Policy

_KEPT_SESSIONS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramPolicy:
    """
    What a session requires of its programs.

    Attributes:
        declared_memory_bytes: memory that the package declares, or ``None``.
        declared_time_seconds: time that the package declares, or ``None``.
        declared_disk_bytes: disk space that the package declares, or ``None``.
        reports: files to write.
    """

    declared_memory_bytes: int | None = None
    declared_time_seconds: float | None = None
    declared_disk_bytes: int | None = None
    reports: tuple[Path, ...] = ()


class ProgramSession:
    """
    Runs programs and keeps the session.

    Args:
        root: the folder that holds budgets and kept sessions.
        policy: what is required of the programs.
    """

    def __init__(self, root: Path, policy: ProgramPolicy) -> None:
        """
        Read the budgets of this platform.

        Raises:
            BudgetFileError: a budget file cannot be used.
        """
        found = detect_accelerators()
        self._root, self._policy = root, policy
        self._platform = detect_platform(found.model)
        self._machine = found.added_to(detect_machine(accelerators=found.names, driver=found.driver, cuda=found.cuda))
        self.results = Results(root, _settings(root, policy), self._platform)

    def run(self, programs: Sequence[Program], on_output: Callable[[bytes], None]) -> Iterator[Entry]:
        """
        Run programs in order; one that fails does not stop the others.

        Args:
            programs: the programs.
            on_output: receives what they write.
        """
        try:
            with _ports(self._machine.core_count) as ports:
                for program in programs:
                    yield self._run_once(program, ports, on_output)
        finally:
            close_servers()

    def _run_once(self, program: Program, ports: Ports, on_output: Callable[[bytes], None]) -> Entry:
        run = asyncio.run(
            run_program(program, ports, platform=self._platform, machine=self._machine, on_output=on_output)
        )
        policy = Policy(
            declared_memory_bytes=self._policy.declared_memory_bytes,
            declared_time_seconds=self._policy.declared_time_seconds,
            declared_disk_bytes=self._policy.declared_disk_bytes,
            tolerance=self.results.tolerance,
        )
        entry = _judged(run, self.results, policy)
        entry = with_joint_notes(entry, self._root)
        self.results.take([entry])
        return entry

    def finish(self, *, width: int, colour: bool) -> list[str]:
        """Write the reports, keep the session, and return the lines of its summary."""
        self.results.finish(self._machine)
        return self.results.summary_lines(width=width, colour=colour, encoding=sys.stdout.encoding)


@contextmanager
def _ports(core_count: int | None) -> Iterator[Ports]:
    gpus = open_gpu_monitor()
    # On Windows only the program itself watches its parent.
    reaper = None if os.name == "nt" else Reaper()
    try:
        yield Ports(
            probes=MachineProbes(gpus, lambda _pid: None),
            host=MachineMemory(core_count),
            oom=MachineOomRecords(),
            leftovers=MachineLeftovers(),
            reaper=reaper,
            on_progress=lambda _progress: None,
            manifest=ManifestSources(read_machine=read_machine_facts, read_libraries=read_libraries),
        )
    finally:
        gpus.close()
        if reaper is not None:
            reaper.close()


def _settings(root: Path, policy: ProgramPolicy) -> SessionSettings:
    return SessionSettings(
        mode=Mode.CHECK,
        run_count=1,
        budget_folder=root / "lecture-budgets",
        reports=policy.reports,
        tolerance=None,
        command_line=replace(
            RunSettings(),
            declared_memory_bytes=policy.declared_memory_bytes,
            declared_time_seconds=policy.declared_time_seconds,
            declared_disk_bytes=policy.declared_disk_bytes,
        ),
        file=RunSettings(),
        strict=False,
        suffixes=frozenset(),
        exclude=(),
        rerun_failed=False,
        launcher="local",
        keep_runs=_KEPT_SESSIONS,
        cloud_notices=False,
        github=False,
        takes_leases=False,
    )


def run_in_session(spec: ProgramSpec, context: RuntimeContext, *, limit_seconds: float | None) -> Entry:
    """
    Run one program of a session of pytest and judge it; its output is kept and not shown.

    Args:
        spec: the program.
        context: what the runners of this process work with.
        limit_seconds: time limit of another plugin, or ``None``.
    """
    settings = context.settings.for_lecture(RunSettings())
    total = settings.total_timeout_seconds or NO_LIMIT
    cap = settings.memory_cap_bytes
    program = Program(
        name=spec.name,
        argv=spec.argv,
        folder=context.rootdir,
        cap_bytes=AUTOMATIC_CAP if cap is None else cap,
        timeout_seconds=total if limit_seconds is None else min(total, limit_seconds),
        declared_bytes=settings.declared_memory_bytes,
    )
    demand = context.leases.demand(spec.name, settings, context.results.find_budget(spec.name))
    with context.leases.hold(demand, lambda _reason, _seconds: None), _ports(context.machine.core_count) as ports:
        run = asyncio.run(
            run_program(
                program,
                ports,
                platform=context.results.platform,
                machine=context.machine,
                on_output=lambda _data: None,
            )
        )
    policy = Policy(
        declared_memory_bytes=settings.declared_memory_bytes,
        declared_time_seconds=settings.declared_time_seconds,
        declared_disk_bytes=settings.declared_disk_bytes,
        tolerance=context.results.tolerance,
    )
    entry = _judged(run, context.results, policy)
    return with_joint_notes(entry, context.rootdir)


def _judged(run: Run, results: Results, policy: Policy) -> Entry:
    wall = run.measured(Metric.WALL)
    return Entry(
        run=run,
        verdict=results.judge(run, policy),
        budget=results.checked_budget(run.lecture),
        seconds=wall.value if wall is not None else 0.0,
    )
