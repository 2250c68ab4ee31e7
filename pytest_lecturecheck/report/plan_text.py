"""Text about what the compiler planned for a cell, beside what the cell then took. Pure."""

from __future__ import annotations

from typing import Final

from pytest_lecturecheck.model.cell_run import CellRun
from pytest_lecturecheck.model.device import MemoryPlan
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.units import MIB, format_size

_LEAST_SHOWN_BYTES: Final = 64 * MIB
"""Every cell that uses JAX compiles something; programs that plan less than this explain nothing."""


def shown_plan(cell: CellRun) -> MemoryPlan | None:
    """Return the plan of a cell's largest program, or ``None`` where it is unknown or small."""
    plan = cell.compilation.plan if cell.compilation is not None else None
    return plan if plan is not None and plan.total_bytes >= _LEAST_SHOWN_BYTES else None


def taken_text(cell: CellRun) -> str:
    """Describe what the cell took in fact: live memory of the GPU, else how far its footprint rose."""
    live = cell.measured(Metric.GPU_LIVE)
    if live is not None:
        return f"GPU memory live at its peak {live.text}"
    return "" if cell.raised_bytes is None else f"footprint raised by {format_size(cell.raised_bytes)}"


def plan_line(cell: CellRun, plan: MemoryPlan) -> str:
    """Describe a plan and what the cell took, in one line."""
    taken = taken_text(cell)
    return one_line(f"{plan.text}; {taken}" if taken else plan.text)
