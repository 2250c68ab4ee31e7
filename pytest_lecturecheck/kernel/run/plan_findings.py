"""Findings about what the compiler plans: a program that asks for more memory than there is. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pytest_lecturecheck.model.cell_run import CellRun
from pytest_lecturecheck.model.device import DeviceUse, MemoryPlan
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.platform import Machine
from pytest_lecturecheck.units import format_size


def plan_findings(cells: Iterable[CellRun], machine: Machine, devices: Sequence[DeviceUse]) -> Iterator[Finding]:
    """
    Yield a finding for each cell that compiled a program for which more memory is planned than there is.

    Args:
        cells: the cells of a run.
        machine: the machine.
        devices: its GPUs.
    """
    cards = [use.device.total_bytes for use in devices if use.device.total_bytes]
    for cell in cells:
        plan = cell.compilation.plan if cell.compilation is not None else None
        if plan is None:
            continue
        room, where = machine.usable_memory_bytes, f"{machine.usable_memory_source} of this machine"
        if plan.platform != "cpu":
            if not cards:
                continue
            room, where = min(cards), "memory of the card"
        if plan.total_bytes > room:
            message = f"{_text(plan)}, and the {where} is {format_size(room)}"
            yield Finding(kind=FindingKind.PLAN, message=message, cell_number=cell.number, line=cell.line)


def _text(plan: MemoryPlan) -> str:
    parts = {
        "arguments": plan.argument_bytes,
        "results": plan.output_bytes - plan.alias_bytes,
        "temporaries": plan.temporary_bytes,
        "code": plan.code_bytes,
    }
    listed = ", ".join(f"{format_size(size)} of {name}" for name, size in parts.items() if size > 0)
    return f"the compiled program {plan.program} asks for {format_size(plan.total_bytes)} ({listed})"
