"""Summarise the operations of a trace for one cell. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, Final

from pytest_lecturecheck.model.profile import Bound, DeviceProfile, ProfiledOp, ProfileSummary
from pytest_lecturecheck.trace.events import Line, Op, operations

_PICOSECONDS: Final = 10**12
_TOP: Final = 5
IDLE_FRACTION: Final = 0.5
BUSY_FRACTION: Final = 0.8
SHORT_OP_SECONDS: Final = 20e-6
MANY_LAUNCHES_PER_SECOND: Final = 1_000.0


def summarise(events: Iterable[Mapping[str, Any]], *, cell_seconds: float | None = None) -> ProfileSummary:
    """
    Summarise a traced cell.

    Args:
        events: the trace's events.
        cell_seconds: wall time of the cell while it was traced, or ``None`` where it is not known.

    Raises:
        TraceFileError: an event is malformed, or there are too many.
    """
    found = operations(events)
    # A truncated span says nothing about the rest of the cell.
    whole = None if found.is_cut else cell_seconds
    devices = tuple(_summarise_device(name, found.devices[name], whole) for name in sorted(found.devices))
    return ProfileSummary(devices=devices, cell_seconds=cell_seconds, is_cut=found.is_cut)


def _summarise_device(name: str, lines: Mapping[Line, Sequence[Op]], cell_seconds: float | None) -> DeviceProfile:
    leaves: list[Op] = []
    own: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for ops in lines.values():
        for op, own_time, is_leaf in nest(ops):
            sums = own[op.name]
            sums[0] += own_time
            sums[1] += 1
            if is_leaf:
                leaves.append(op)
    busy, gap = cover(leaves)
    count = launch_count(leaves)
    median_seconds = median(op.end - op.start for op in leaves) / _PICOSECONDS
    longest = sorted(own.items(), key=lambda item: (-item[1][0], item[0]))[:_TOP]
    return DeviceProfile(
        device=name,
        kernel_seconds=busy / _PICOSECONDS,
        gap_seconds=gap / _PICOSECONDS,
        launch_count=count,
        op_count=len(leaves),
        copy_count=sum(op.is_copy for op in leaves),
        median_op_seconds=median_seconds,
        stream_count=len(lines),
        bound=judge_bound(
            busy_seconds=busy / _PICOSECONDS,
            gap_seconds=gap / _PICOSECONDS,
            launch_count=count,
            median_op_seconds=median_seconds,
            cell_seconds=cell_seconds,
        ),
        top_ops=tuple(
            ProfiledOp(name=name, seconds=time / _PICOSECONDS, count=times) for name, (time, times) in longest
        ),
    )


def nest(ops: Sequence[Op]) -> Iterable[tuple[Op, int, bool]]:
    """
    Return each operation of one line with its own time, without that of nested operations.

    A loop on the CPU contains the operations of its body; the time between these is the cost of starting them. On a
    GPU's stream operations are never nested.

    Returns:
        Operation, own time in picoseconds, and whether it has no nested operation.
    """
    ordered = sorted(ops, key=lambda op: (op.start, -op.end, op.name))
    inside = [0] * len(ordered)
    is_leaf = [True] * len(ordered)
    stack: list[int] = []
    for position, op in enumerate(ordered):
        while stack and ordered[stack[-1]].end < op.end:
            stack.pop()
        while stack and op.start >= ordered[stack[-1]].end:
            stack.pop()
        if stack:
            inside[stack[-1]] += op.end - op.start
            is_leaf[stack[-1]] = False
        stack.append(position)
    return [(op, op.end - op.start - inside[position], is_leaf[position]) for position, op in enumerate(ordered)]


def cover(ops: Iterable[Op]) -> tuple[int, int]:
    """Return the time in which at least one operation ran, and the time between operations, in picoseconds."""
    busy = gap = 0
    until: int | None = None
    for op in sorted(ops, key=lambda op: op.start):
        if until is None:
            until = op.start
        gap += max(0, op.start - until)
        busy += max(0, op.end - max(op.start, until))
        until = max(until, op.end)
    return busy, gap


def launch_count(ops: Iterable[Op]) -> int:
    """Return how often the host started work on a device; copies are no launches."""
    single, shared = 0, set()
    for op in ops:
        if op.launch is not None:
            shared.add(op.launch)
        elif not op.is_copy:
            single += 1
    return single + len(shared)


def judge_bound(
    *,
    busy_seconds: float,
    gap_seconds: float,
    launch_count: int,
    median_op_seconds: float,
    cell_seconds: float | None,
) -> Bound:
    """
    Return what probably limits a cell.

    The span lasts from the device's first operation to its last.

    - Launch bound: the device waits more than half of the span, the median operation is shorter than 20 us, and there
      are at least 1,000 launches per second. Starting a kernel takes the host about 5 us on CUDA (NVIDIA's value for an
      empty kernel), and JAX's dispatch of a compiled function 5 to 50 us (its FAQ on benchmarking). Shorter operations
      cannot keep a device busy.
    - Compute bound: the device works more than 80 % of the span.
    - Host bound: the device waits more than half of the span otherwise, or more than half of the cell is outside of it.
    """
    span = busy_seconds + gap_seconds
    busy_fraction = busy_seconds / span if span else 1.0
    is_short = median_op_seconds < SHORT_OP_SECONDS and launch_count >= MANY_LAUNCHES_PER_SECOND * span
    if cell_seconds is not None and span < IDLE_FRACTION * cell_seconds:
        return Bound.HOST
    if busy_fraction < IDLE_FRACTION:
        return Bound.LAUNCH if is_short else Bound.HOST
    return Bound.COMPUTE if busy_fraction > BUSY_FRACTION else Bound.MIXED
