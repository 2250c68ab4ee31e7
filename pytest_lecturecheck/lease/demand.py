"""Estimate what a lecture will need, from its budget and its settings."""

from __future__ import annotations

import math
from typing import Final

from pytest_lecturecheck.budget.limits import LectureBudget, Tolerance
from pytest_lecturecheck.lease.admission import Capacity, Demand, DeviceNeed
from pytest_lecturecheck.model.device_plan import CONTEXT_BYTES
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.settings import AUTOMATIC_CAP, GpuNeed, RunSettings
from pytest_lecturecheck.units import GIB

LEAST_SHARE_BYTES: Final = GIB
"""What an unknown lecture is given at least, where the machine has it: most need 0.1 to 0.3 GiB."""
_LEAST_DIVISOR: Final = 2


def demand_of(  # noqa: PLR0913 - all of it decides, and only the first four have to be given
    budget: LectureBudget | None,
    settings: RunSettings,
    capacity: Capacity,
    worker_count: int,
    *,
    label: str = "",
    core_count: int = 1,
    is_exclusive: bool = False,
) -> Demand:
    """
    Estimate what a lecture needs.

    Memory of the machine, the first that is known:

    1. the highest recorded value with the usual tolerance;
    2. a limit set by hand;
    3. what a README declares;
    4. :func:`default_share_bytes`.

    It is never more than the lecture's memory cap, at which the lecture would be stopped.

    GPU: nothing if there is none, if the lecture is pinned to the CPU, or if its recorded runs used none. A recorded
    live peak needs that much plus a CUDA context on any device, a recorded use only that much. Any other lecture may
    preallocate, and needs a whole device, so that such lectures run one after the other.

    Args:
        budget: the lecture's budget on this platform, or ``None``.
        settings: the lecture's settings.
        capacity: what all runs together may use.
        worker_count: number of kernels that the session runs at once.
        label: name of the lecture; an empty one is replaced by that in the budget.
        core_count: number of cores that it needs.
        is_exclusive: whether nothing else may run beside it.
    """
    known = recorded_bytes(budget, Metric.PEAK_FOOTPRINT) or settings.declared_memory_bytes
    host_bytes = known if known is not None else default_share_bytes(capacity, worker_count)
    cap = settings.memory_cap_bytes
    if cap is not None and cap != AUTOMATIC_CAP and math.isfinite(cap):
        host_bytes = min(host_bytes, math.ceil(cap))
    return Demand(
        label=label or (budget.lecture if budget is not None else ""),
        host_bytes=host_bytes,
        devices=_device_needs(budget, settings, capacity),
        core_count=core_count,
        is_exclusive=is_exclusive,
    )


def default_share_bytes(capacity: Capacity, worker_count: int) -> int:
    """
    Return the memory for a lecture without a record: an equal part for each worker, of at least two workers.

    A single worker does not get the whole machine, so that another session can run beside it. The share is at least
    :data:`LEAST_SHARE_BYTES`, or the capacity if that is smaller.
    """
    share = capacity.host_bytes // max(worker_count, _LEAST_DIVISOR)
    return min(capacity.host_bytes, max(share, LEAST_SHARE_BYTES))


def recorded_bytes(budget: LectureBudget | None, metric: Metric) -> int | None:
    """Return the highest recorded value with the usual tolerance, or a limit set by hand, or ``None``."""
    found = budget.metrics.get(metric) if budget is not None else None
    if found is None:
        return None
    if not found.seen:
        return math.ceil(found.limit) if found.limit is not None else None
    # A derived limit is the same value. One set by hand may be far above what the lecture needs.
    return math.ceil(Tolerance().limit_for(metric, found.seen)) if max(found.seen) > 0 else 0


def _device_needs(budget: LectureBudget | None, settings: RunSettings, capacity: Capacity) -> tuple[DeviceNeed, ...]:
    if not capacity.devices or settings.gpu is GpuNeed.CPU:
        return ()
    if settings.gpus is not None and settings.gpus > 1:
        # Whole cards, always the first ones: lectures of several cards then run one after the other.
        return tuple(DeviceNeed(index=index) for index in sorted(capacity.devices)[: settings.gpus])
    live, used = recorded_bytes(budget, Metric.GPU_LIVE), recorded_bytes(budget, Metric.GPU_USED)
    if live:
        return (DeviceNeed(size_bytes=live + CONTEXT_BYTES),)
    if used:
        return (DeviceNeed(size_bytes=used),)
    is_unused = settings.gpu is None and (live, used) != (None, None)
    return () if is_unused else (DeviceNeed(),)
