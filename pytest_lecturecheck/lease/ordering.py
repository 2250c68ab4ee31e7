"""
Plan the order in which lectures are started, by simulating the session with the rules of admission.

A worker that waits with a large lecture can run no small one meanwhile. Strictly largest first would therefore give
every worker a lecture that must wait. In the simulation a free worker gets the largest lecture that fits beside those
running at that time.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from statistics import median

from pytest_lecturecheck.lease.admission import Admitted, Capacity, Demand, DeviceNeed, Holding, NeverFits, admit


def order(
    demands: Sequence[Demand],
    capacity: Capacity,
    worker_count: int = 1,
    seconds: Sequence[float | None] = (),
) -> tuple[int, ...]:
    """
    Return the indexes of ``demands`` in the order in which they should be started.

    Exclusive lectures come first, because nothing has to end for them yet. The size of a lecture is its largest share
    of any resource, multiplied by its time. The order is advice; admission guarantees the capacity.

    Args:
        demands: what each lecture needs; a demand that can never fit counts as exclusive.
        capacity: what all together may use.
        worker_count: highest number of lectures that run at once.
        seconds: expected time of each; a missing value or ``None`` stands for the median of the others.
    """
    usable = [_usable(demand, capacity) for demand in demands]
    times = _fill_gaps(seconds, len(usable))
    sizes = [_size(demand, time, capacity) for demand, time in zip(usable, times, strict=True)]
    left = sorted(range(len(usable)), key=lambda index: -sizes[index])
    started: list[int] = []
    running: list[tuple[float, int, Holding]] = []
    now = 0.0
    while left:
        holdings = [holding for _, _, holding in running]
        found = _first_fitting(left, usable, capacity, holdings) if len(running) < max(1, worker_count) else None
        if found is None:
            now = heapq.heappop(running)[0]
            continue
        position, holding = found
        index = left.pop(position)
        started.append(index)
        heapq.heappush(running, (now + times[index], index, holding))
    return tuple(started)


def _usable(demand: Demand, capacity: Capacity) -> Demand:
    return demand.alone(capacity) if isinstance(admit(demand, capacity, ()), NeverFits) else demand


def _fill_gaps(seconds: Sequence[float | None], count: int) -> list[float]:
    padded = [*seconds, *[None] * (count - len(seconds))]
    usual = median([value for value in padded if value is not None] or [1.0])
    return [usual if value is None else value for value in padded]


def _size(demand: Demand, seconds: float, capacity: Capacity) -> float:
    """Return the largest share of any resource multiplied by the time; an exclusive lecture is larger than all."""
    if demand.is_exclusive:
        return math.inf
    shares = [_device_share(need, capacity) for need in demand.devices]
    return max(demand.host_bytes / capacity.host_bytes, demand.core_count / capacity.core_count, *shares, 0.0) * seconds


def _device_share(need: DeviceNeed, capacity: Capacity) -> float:
    total = max(capacity.devices.values()) if need.index is None else capacity.devices[need.index]
    return 1.0 if need.size_bytes is None or need.size_bytes >= total else need.size_bytes / total


def _first_fitting(
    left: Sequence[int], demands: Sequence[Demand], capacity: Capacity, holdings: Sequence[Holding]
) -> tuple[int, Holding] | None:
    """Return the position in ``left`` of the first that fits; those that are plainly too large are skipped quickly."""
    free_bytes = capacity.host_bytes - sum(holding.demand.host_bytes for holding in holdings)
    free_cores = capacity.core_count - sum(holding.demand.core_count for holding in holdings)
    refused: set[tuple[DeviceNeed, ...]] = set()
    for position, index in enumerate(left):
        demand = demands[index]
        if demand.host_bytes > free_bytes or demand.core_count > free_cores or demand.devices in refused:
            continue
        if demand.is_exclusive and holdings:
            continue
        decision = admit(demand, capacity, holdings)
        if isinstance(decision, Admitted):
            return position, Holding(demand=decision.demand)
        refused.add(demand.devices)
    return None
