"""Collect the evidence of a bad end from the machine, the kernel and what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.kernel.process.cap import Cap
from pytest_lecturecheck.kernel.process.shadowing_files import find_shadowing_files
from pytest_lecturecheck.kernel.run.device_log import CellDevices, DeviceLog
from pytest_lecturecheck.kernel.run.kernel_session import KernelSession
from pytest_lecturecheck.model.cell_run import CellRun
from pytest_lecturecheck.model.evidence import CellUsage, Evidence, HostFacts, KernelExit, MemoryFacts
from pytest_lecturecheck.model.lecture import Cell
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.platform import Machine
from pytest_lecturecheck.model.probe import CellReadings, CommitRule
from pytest_lecturecheck.model.run_conditions import RunConditions


class HostMemory(Protocol):
    """Reads the state of the machine."""

    def available_bytes(self) -> int | None:
        """Return the memory that is available now, container limits included."""

    def load_average(self) -> float | None:
        """Return the processes that wanted a core during the last minute."""

    def ulimit(self, pid: int) -> tuple[int, str] | None:
        """Return the smallest limit of ``ulimit`` on a process's memory, and its name."""

    def commit_rule(self) -> CommitRule:
        """Return whether the system refuses allocations when memory runs out, and from which amount on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellEvidence:
    """
    What is known of the cell that was running.

    Attributes:
        cell: the cell.
        measured: the measurements of its window.
        devices: what the agent reported about allocators and compiler.
        earlier: the cells before it.
    """

    cell: Cell
    measured: CellReadings
    devices: CellDevices
    earlier: Sequence[CellRun]


class EvidenceBuilder:
    """
    Collects evidence for one run.

    Args:
        lecture: display name of the run.
        machine: the machine.
        kernel_count: kernels that the session may run at once, or ``None``.
        environment: variables that were set for the kernel only.
        host: reads the machine.
        devices: the run's log of GPUs.
        since: start of the run (``time.monotonic``); older lines of the system's log are about other processes.
        declared_bytes: memory that the lecture's package declares, or ``None``.
    """

    def __init__(  # noqa: PLR0913 - keyword-only
        self,
        *,
        lecture: str,
        machine: Machine,
        kernel_count: int | None,
        environment: Mapping[str, str],
        host: HostMemory,
        devices: DeviceLog,
        since: float,
        declared_bytes: int | None = None,
    ) -> None:
        """Collect nothing yet."""
        self._lecture = lecture
        self._machine = machine
        self._kernel_count = kernel_count
        self._environment = dict(environment)
        self._host = host
        self._devices = devices
        self._since = since
        self._declared_bytes = declared_bytes

    def build(self, session: KernelSession | None, folder: Path, running: CellEvidence | None = None) -> Evidence:
        """
        Return the evidence as of now.

        Args:
            session: the kernel, or ``None`` if none was started.
            folder: the kernel's working folder.
            running: the cell that was running, or ``None`` between cells.
        """
        conditions = RunConditions(environment=self._environment, load_average=self._host.load_average())
        return Evidence(
            lecture=self._lecture,
            cell_number=running.cell.number if running is not None else None,
            line=running.cell.line if running is not None else None,
            source=running.cell.source if running is not None else "",
            exit=session.exit if session is not None else KernelExit(),
            usage=_cell_usage(running) if running is not None else CellUsage(),
            memory=self._memory(session, running),
            devices=self._devices.snapshot(),
            allocators=running.devices.allocators if running is not None else (),
            host=HostFacts(
                architecture=self._machine.architecture,
                core_count=self._machine.core_count,
                session_kernel_count=self._kernel_count,
            ),
            conditions=with_cap(conditions, session.cap if session is not None else None),
            shadowing_files=find_shadowing_files(folder),
        )

    def _memory(self, session: KernelSession | None, running: CellEvidence | None) -> MemoryFacts:
        commit = self._host.commit_rule()
        memory = MemoryFacts(
            ram_bytes=self._machine.ram_bytes,
            refuses_when_full=commit.refuses_when_full,
            commit_limit_bytes=commit.limit_bytes,
            declared_bytes=self._declared_bytes,
            available_bytes=self._host.available_bytes(),
            limit_bytes=self._machine.usable_memory_bytes,
            limit_source=self._machine.usable_memory_source,
            swap_bytes=self._machine.swap_bytes,
        )
        if session is not None:
            memory = self._with_kernel_memory(memory, session)
        if running is not None:
            peak = _value_of(running.measured, Metric.PEAK_FOOTPRINT)
            memory = replace(
                memory,
                peak_footprint_bytes=None if peak is None else round(peak),
                swap_growth_bytes=_swap_growth(running.measured, running.earlier),
            )
        return memory

    def _with_kernel_memory(self, memory: MemoryFacts, session: KernelSession) -> MemoryFacts:
        snapshot = session.probe.snapshot()
        # A process here may have the same id as the kernel on another machine, but not its limits.
        ulimit = self._host.ulimit(session.kernel.pid) if session.kernel.location.is_here else None
        return replace(
            memory,
            last_footprint_bytes=snapshot.footprint_bytes if snapshot is not None else None,
            last_footprint_age_seconds=snapshot.age_seconds if snapshot is not None else None,
            ulimit_bytes=ulimit[0] if ulimit is not None else None,
            ulimit_source=ulimit[1] if ulimit is not None else "",
            stopped_at_cap=session.watchdog_stop is not None,
            watchdog_stop=session.watchdog_stop,
            oom_kills=session.oom.kills(),
            kernel_log=session.oom.log_lines(self._since) if session.has_ended else (),
        )


def with_cap(conditions: RunConditions, cap: Cap | None) -> RunConditions:
    """Return ``conditions`` with the memory limit of the run's processes."""
    return conditions if cap is None else replace(conditions, cap_bytes=cap.limit_bytes, cap_method=cap.method)


def _cell_usage(running: CellEvidence) -> CellUsage:
    faults = _value_of(running.measured, Metric.MAJOR_FAULTS)
    return CellUsage(
        wall_seconds=_value_of(running.measured, Metric.WALL),
        cpu_seconds=_value_of(running.measured, Metric.CPU),
        major_faults_count=None if faults is None else round(faults),
        compilation=running.devices.compilation,
    )


def _value_of(measured: CellReadings, metric: Metric) -> float | None:
    return getattr(measured.readings.get(metric), "value", None)


def _swap_growth(measured: CellReadings, earlier: Sequence[CellRun]) -> int | None:
    """Return how far swap rose above the peak of the cell before; swap rose no further than that in this cell."""
    peak = _value_of(measured, Metric.PEAK_SWAP)
    if peak is None:
        return None
    found = [reading.value for run in earlier if (reading := run.measured(Metric.PEAK_SWAP)) is not None]
    return max(0, round(peak - (found[-1] if found else 0)))
