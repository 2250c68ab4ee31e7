"""What the compiler plans, compared with the memory that there is: while a cell runs, and at the end. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pytest_lecturecheck.model.cell_run import CellRun
from pytest_lecturecheck.model.device import AllocatorUsage, DeviceUse, MemoryPlan
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.platform import Machine
from pytest_lecturecheck.units import format_size

_CPU: Final = "cpu"
_COMPILER: Final = "JAX"


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
        message = "" if plan is None else excess_text(plan, machine, cards, cell.allocators)
        if message:
            yield Finding(
                kind=FindingKind.PLAN, message=message, cell_number=cell.number, line=cell.line, may_explain=True
            )


def excess_text(
    plan: MemoryPlan, machine: Machine, cards: Sequence[int], allocators: Sequence[AllocatorUsage] = ()
) -> str:
    """
    Explain that more is planned than there is, or return an empty string.

    Args:
        plan: the plan of one program.
        machine: the machine.
        cards: memory of its GPUs.
        allocators: usage of the allocators in the kernel; JAX takes no more of a card than its own limit.
    """
    if plan.platform == _CPU:
        rooms = [(machine.usable_memory_bytes, f"{machine.usable_memory_source} of this machine")]
    else:
        limits = [usage.limit_bytes for usage in allocators if usage.library == _COMPILER and usage.limit_bytes]
        rooms = [(size, "memory of the card") for size in cards]
        rooms += [(size, "memory that JAX may take of the card") for size in limits]
    if not rooms:
        return ""
    room, where = min(rooms)
    return f"{plan.text}, and the {where} is {format_size(room)}" if plan.total_bytes > room else ""
