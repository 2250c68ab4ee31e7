"""Build the parts of the evidence of a bad end from the plan, the ports and what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_lecturecheck.kernel.process.cap import Cap
from pytest_lecturecheck.kernel.run.device_log import CellDevices
from pytest_lecturecheck.kernel.run.kernel_session import KernelSession
from pytest_lecturecheck.kernel.run.ports import Ports, RunPlan
from pytest_lecturecheck.model.cell_run import CellRun
from pytest_lecturecheck.model.evidence import CellUsage, HostFacts, MemoryFacts
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.platform import Machine
from pytest_lecturecheck.model.probe import CellReadings
from pytest_lecturecheck.model.run_conditions import RunConditions


def cell_usage(measured: CellReadings | None, seen: CellDevices | None) -> CellUsage:
    """
    Return what the cell that was running had used.

    Args:
        measured: the measurements of the cell's window, or ``None`` between cells.
        seen: what the agent reported about allocators and compiler, or ``None``.
    """
    faults = value_of(measured, Metric.MAJOR_FAULTS)
    return CellUsage(
        wall_seconds=value_of(measured, Metric.WALL),
        cpu_seconds=value_of(measured, Metric.CPU),
        major_faults_count=None if faults is None else round(faults),
        compilation=seen.compilation if seen is not None else None,
    )


def host_facts(plan: RunPlan) -> HostFacts:
    """Return what the evidence needs of the machine."""
    return HostFacts(
        architecture=plan.machine.architecture,
        core_count=plan.machine.core_count,
        session_kernel_count=plan.kernel_count,
    )


def machine_memory(machine: Machine, ports: Ports) -> MemoryFacts:
    """Return the memory of the machine: what is available now, and the smallest limit in force."""
    return MemoryFacts(
        available_bytes=ports.available_memory(),
        limit_bytes=machine.usable_memory_bytes,
        limit_source=machine.usable_memory_source,
        swap_bytes=machine.swap_bytes,
    )


def with_kernel_memory(memory: MemoryFacts, ports: Ports, attached: KernelSession, since: float) -> MemoryFacts:
    """
    Return ``memory`` with what is known of the kernel's processes.

    Args:
        memory: the memory of the machine.
        ports: what reads counters, limits and the system's log.
        attached: the kernel.
        since: start of the run (``time.monotonic``); older lines of the log are about other processes.
    """
    snapshot = attached.probe.snapshot()
    # The limits of a process on another machine are not those of a process here with the same id.
    ulimit = ports.read_ulimit(attached.kernel.pid) if attached.kernel.location.is_here else None
    return replace(
        memory,
        last_footprint_bytes=snapshot.footprint_bytes if snapshot is not None else None,
        last_footprint_age_seconds=snapshot.age_seconds if snapshot is not None else None,
        ulimit_bytes=ulimit[0] if ulimit is not None else None,
        ulimit_source=ulimit[1] if ulimit is not None else "",
        stopped_at_cap=attached.stopped_at_cap,
        oom_kills=attached.oom_kills(ports),
        kernel_log=tuple(ports.read_kernel_log([attached.kernel.pid], since)) if attached.has_ended else (),
    )


def with_cell_memory(memory: MemoryFacts, measured: CellReadings | None, earlier: Sequence[CellRun]) -> MemoryFacts:
    """
    Return ``memory`` with the peak and the growth of swap in the cell that was running.

    Args:
        memory: what is known so far.
        measured: the measurements of the cell's window, or ``None`` between cells.
        earlier: the cells so far.
    """
    peak = value_of(measured, Metric.PEAK_FOOTPRINT)
    return replace(
        memory,
        peak_footprint_bytes=None if peak is None else round(peak),
        swap_growth_bytes=_swap_growth(measured, earlier),
    )


def with_cap(conditions: RunConditions, cap: Cap | None) -> RunConditions:
    """Return ``conditions`` with the memory limit of the run's processes."""
    return conditions if cap is None else replace(conditions, cap_bytes=cap.limit_bytes, cap_method=cap.method)


def value_of(measured: CellReadings | None, metric: Metric) -> float | None:
    """Return the value of a metric in a window, or ``None`` where it has none."""
    reading = measured.readings.get(metric) if measured is not None else None
    return getattr(reading, "value", None)


def _swap_growth(measured: CellReadings | None, earlier: Sequence[CellRun]) -> int | None:
    """Return how far swap rose above the peak of the cell before; swap rose no further than that in this cell."""
    peak = value_of(measured, Metric.PEAK_SWAP)
    if peak is None:
        return None
    found = [reading.value for run in earlier if (reading := run.measured(Metric.PEAK_SWAP)) is not None]
    return max(0, round(peak - (found[-1] if found else 0)))
