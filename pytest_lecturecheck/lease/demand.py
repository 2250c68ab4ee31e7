"""What a lecture will need, from its budget and its settings: the demand that admission decides on."""

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
    Work out what a lecture needs.

    Memory of the machine, the first that is known: what was seen when it was recorded, with the usual tolerance; a
    limit set by hand; what a README declares; for an unknown lecture :func:`default_share_bytes`. Never more than the
    lecture's memory cap, at which it would be stopped.

    GPU: nothing where there is none, where the lecture is pinned to the CPU, or where its recorded runs used none. With
    a recorded live peak that and a CUDA context on any device, with recorded use only that much. Everyone else takes a
    whole device, so that those who may preallocate run one after the other; so does an unknown lecture.

    Args:
        budget: the lecture's budget on this platform, or ``None``.
        settings: the lecture's settings.
        capacity: what all runs together may take.
        worker_count: kernels that the session runs at once.
        label: name of the lecture; the budget's where it is empty.
        core_count: cores that it needs.
        is_exclusive: nothing else may run beside it.
    """
    known = _recorded_bytes(budget, Metric.PEAK_FOOTPRINT) or settings.declared_memory_bytes
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
    Give the memory that an unknown lecture takes: an equal part for each worker, of at least two.

    A single worker does not get all of the machine, so that another session can run beside it. Never less than
    :data:`LEAST_SHARE_BYTES`, unless there is less.
    """
    share = capacity.host_bytes // max(worker_count, _LEAST_DIVISOR)
    return min(capacity.host_bytes, max(share, LEAST_SHARE_BYTES))


def _recorded_bytes(budget: LectureBudget | None, metric: Metric) -> int | None:
    """Give what was seen of a metric with the usual tolerance, or else a limit set by hand, or ``None``."""
    found = budget.metrics.get(metric) if budget is not None else None
    if found is None:
        return None
    if not found.seen:
        return math.ceil(found.limit) if found.limit is not None else None
    # A derived limit says the same; one set by hand may be far above what the lecture takes.
    return math.ceil(Tolerance().limit_for(metric, found.seen)) if max(found.seen) > 0 else 0


def _device_needs(budget: LectureBudget | None, settings: RunSettings, capacity: Capacity) -> tuple[DeviceNeed, ...]:
    if not capacity.devices or settings.gpu is GpuNeed.CPU:
        return ()
    live, used = _recorded_bytes(budget, Metric.GPU_LIVE), _recorded_bytes(budget, Metric.GPU_USED)
    if live:
        return (DeviceNeed(size_bytes=live + CONTEXT_BYTES),)
    if used:
        return (DeviceNeed(size_bytes=used),)
    is_unused = settings.gpu is None and (live, used) != (None, None)
    return () if is_unused else (DeviceNeed(),)
