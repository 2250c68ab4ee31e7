"""
In which order lectures are best started: a plan of the session by the rule of admission.

A worker that waits with a large lecture can run no small one meanwhile. The largest first, one after the other, would
therefore give every worker one that must wait. So the session is played through: whenever a worker is free, it gets
the largest that fits beside what runs then.
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
    Give the positions of ``demands`` in the order in which they are best started.

    What runs alone comes first, because nothing has to end for it yet. Size is the largest share of anything that
    there is, times the time that it is taken for. The result is advice: admission is what keeps the capacity.

    Args:
        demands: what each lecture needs; what can never fit counts as running alone.
        capacity: what all together may take.
        worker_count: how many run at once at most.
        seconds: how long each is expected to take; ``None`` or none at all where it is not known (then as long as the
            median of the others).
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
        place, holding = found
        index = left.pop(place)
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
    """Give the largest share of anything times the time it is taken for; what runs alone is larger than all."""
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
    """Give the place in ``left`` of the first that fits; what is plainly too large is passed over without asking."""
    free_bytes = capacity.host_bytes - sum(holding.demand.host_bytes for holding in holdings)
    free_cores = capacity.core_count - sum(holding.demand.core_count for holding in holdings)
    refused: set[tuple[DeviceNeed, ...]] = set()
    for place, index in enumerate(left):
        demand = demands[index]
        if demand.host_bytes > free_bytes or demand.core_count > free_cores or demand.devices in refused:
            continue
        if demand.is_exclusive and holdings:
            continue
        decision = admit(demand, capacity, holdings)
        if isinstance(decision, Admitted):
            return place, Holding(demand=decision.demand)
        refused.add(demand.devices)
    return None
