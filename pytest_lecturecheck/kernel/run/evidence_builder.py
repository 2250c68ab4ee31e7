"""Gather what was observed of a cell and of the machine, by the names that evidence has for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytest_lecturecheck.kernel.run.device_log import CellDevices
from pytest_lecturecheck.kernel.run.kernel_session import KernelSession
from pytest_lecturecheck.kernel.run.ports import Ports
from pytest_lecturecheck.model.cell_run import CellRun
from pytest_lecturecheck.model.lecture import Cell
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.platform import Machine
from pytest_lecturecheck.model.probe import CellReadings, Snapshot


def cell_facts(
    cell: Cell | None, measured: CellReadings | None, seen: CellDevices | None, earlier: Sequence[CellRun]
) -> dict[str, Any]:
    """
    Give what is known of the cell that was running.

    Args:
        cell: the cell, or ``None`` between cells.
        measured: what its window measured, or ``None``.
        seen: what the agent said of allocators and compiler, or ``None``.
        earlier: the cells so far.
    """
    peak, faults = value_of(measured, Metric.PEAK_FOOTPRINT), value_of(measured, Metric.MAJOR_FAULTS)
    return {
        "cell_number": cell.number if cell is not None else None,
        "line": cell.line if cell is not None else None,
        "source": cell.source if cell is not None else "",
        "wall_seconds": value_of(measured, Metric.WALL),
        "cpu_seconds": value_of(measured, Metric.CPU),
        "major_faults_count": None if faults is None else round(faults),
        "peak_footprint_bytes": None if peak is None else round(peak),
        "swap_growth_bytes": _swap_growth(measured, earlier) if cell is not None else None,
        "allocators": seen.allocators if seen is not None else (),
        "compilation": seen.compilation if seen is not None else None,
    }


def machine_facts(machine: Machine, ports: Ports, snapshot: Snapshot | None) -> dict[str, Any]:
    """Give what the machine has, and what the last reading of the run was."""
    return {
        "last_footprint_bytes": snapshot.footprint_bytes if snapshot is not None else None,
        "last_footprint_age_seconds": snapshot.age_seconds if snapshot is not None else None,
        "available_memory_bytes": ports.available_memory(),
        "limit_memory_bytes": machine.usable_memory_bytes,
        "limit_source": machine.usable_memory_source,
        "swap_bytes": machine.swap_bytes,
        "machine": machine.architecture,
        "load_average": ports.read_load_average(),
        "core_count": machine.core_count,
    }


def ulimit_facts(ports: Ports, attached: KernelSession | None) -> dict[str, Any]:
    """Give the limit of ``ulimit`` that holds for the kernel; one on another machine is not looked at."""
    if attached is None or not attached.kernel.place.is_here:
        return {}
    found = ports.read_ulimit(attached.kernel.pid)
    return {"ulimit_bytes": found[0], "ulimit_source": found[1]} if found is not None else {}


def value_of(measured: CellReadings | None, metric: Metric) -> float | None:
    """Give the value of a metric in a window, or ``None`` where it has none."""
    reading = measured.readings.get(metric) if measured is not None else None
    return getattr(reading, "value", None)


def _swap_growth(measured: CellReadings | None, earlier: Sequence[CellRun]) -> int | None:
    """Give how far swap rose above the highest that the cell before had seen: no more than it rose in this cell."""
    peak = value_of(measured, Metric.PEAK_SWAP)
    if peak is None:
        return None
    found = [reading.value for run in earlier if (reading := run.measured(Metric.PEAK_SWAP)) is not None]
    return max(0, round(peak - (found[-1] if found else 0)))
