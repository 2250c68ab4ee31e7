"""
Derive the GPU readings of a cell and a lecture from the usage that allocators report. Pure.

JAX and PyTorch keep the peak of the process's lifetime. A peak that rose during a cell is the cell's peak. Otherwise it
is an upper bound, and the live bytes at both ends of the cell are a lower bound. Of several devices or libraries the
highest value counts. Values of two libraries are never added, because their peaks need not coincide.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.device import AllocatorUsage, CompileTimes
from pytest_lecturecheck.model.metric import Measurement, Method, Metric, Reading, Unavailable

_METRICS: Final = (Metric.GPU_LIVE, Metric.GPU_POOL)
_FULL_FRACTION: Final = 0.99
_FAR_UNDER_FRACTION: Final = 0.9
_OVERHEAD_BYTES: Final = 1536 * 1024**2
"""Memory of a process on a GPU outside its allocator's pool: context, code, work space of libraries."""

Usages: TypeAlias = Sequence[AllocatorUsage]
_Key: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bounds:
    """Bounds of one allocator's peak; ``high`` is ``None`` if there is no upper bound."""

    low: int
    high: int | None
    source: str


def cell_readings(before: Usages, after: Usages) -> dict[Metric, Reading]:
    """
    Return ``gpu_live_bytes`` and ``gpu_pool_bytes`` of one cell.

    Args:
        before: the allocators' usage at the end of the cell before; empty if none was reported.
        after: the usage at the end of this cell.
    """
    if not after:
        return {}
    earlier = {_key(usage): usage for usage in before}
    return {metric: _highest(metric, _cell_bounds(metric, earlier, after)) for metric in _METRICS}


def _cell_bounds(metric: Metric, earlier: Mapping[_Key, AllocatorUsage], after: Usages) -> Iterator[_Bounds]:
    for usage in after:
        now, peak = _now(metric, usage), _peak(metric, usage)
        if now is None:
            continue
        past, source = earlier.get(_key(usage)), _source(usage)
        past_now = (_now(metric, past) if past is not None else None) or 0
        past_peak = _peak(metric, past) if past is not None else 0
        low = max(now, past_now)
        if peak is None or past_peak is None:
            yield _Bounds(low=low, high=None, source=source)
        elif peak > past_peak:
            yield _Bounds(low=max(low, peak), high=max(low, peak), source=source)
        elif peak == past_peak:
            yield _Bounds(low=low, high=max(low, peak), source=source)
        else:
            # The lecture has reset the peak; the usage before the reset is unknown.
            yield _Bounds(low=max(low, peak), high=None, source=source)


def lecture_readings(history: Iterable[Usages], *, is_complete: bool) -> dict[Metric, Reading]:
    """
    Return the lecture's ``gpu_live_bytes`` and ``gpu_pool_bytes``.

    Args:
        history: the allocators' usage at the end of each cell, in order.
        is_complete: whether the last entry is from the end of the lecture; a kernel that died may have used more.
    """
    states = [usage for usage in history if usage]
    if not states:
        return {}
    return {metric: _highest(metric, _life_bounds(metric, states, is_complete=is_complete)) for metric in _METRICS}


def _life_bounds(metric: Metric, states: Sequence[Usages], *, is_complete: bool) -> Iterator[_Bounds]:
    series: dict[_Key, list[AllocatorUsage]] = {}
    for state in states:
        for usage in state:
            series.setdefault(_key(usage), []).append(usage)
    for usages in series.values():
        levels = [level for usage in usages if (level := _now(metric, usage)) is not None]
        if not levels:
            continue
        peaks = [_peak(metric, usage) for usage in usages]
        known = [peak for peak in peaks if peak is not None]
        low = max([*levels, *known])
        # A peak that was reset or is not kept is no bound.
        is_bound = is_complete and len(known) == len(peaks) and known == sorted(known)
        yield _Bounds(low=low, high=low if is_bound else None, source=_source(usages[0]))


def _highest(metric: Metric, bounds: Iterable[_Bounds]) -> Reading:
    """Return the highest of several peaks, with bounds."""
    found = list(bounds)
    if not found:
        return Unavailable(metric=metric, reason="the allocator does not report the size of its pool")
    top = max(found, key=lambda bound: bound.low)
    highs = [bound.high for bound in found if bound.high is not None]
    if len(highs) < len(found):
        return Measurement(metric=metric, value=top.low, method=Method.SAMPLED, source=top.source)
    high = max(highs)
    if high > top.low:
        return Measurement(metric=metric, value=top.low, method=Method.BRACKET, high=high, source=top.source)
    return Measurement(metric=metric, value=top.low, method=Method.AGENT, source=top.source)


def _now(metric: Metric, usage: AllocatorUsage) -> int | None:
    return usage.live_bytes if metric is Metric.GPU_LIVE else usage.pool_bytes


def _peak(metric: Metric, usage: AllocatorUsage) -> int | None:
    return usage.peak_live_bytes if metric is Metric.GPU_LIVE else usage.peak_pool_bytes


def _key(usage: AllocatorUsage) -> _Key:
    return usage.library, usage.device


def _source(usage: AllocatorUsage) -> str:
    return f"{usage.library} on {usage.device}"


def compile_reading(times: CompileTimes) -> Measurement:
    """Return ``compile_seconds`` of one cell."""
    return Measurement(metric=Metric.COMPILE, value=times.seconds, method=Method.AGENT, source="jax.monitoring")


def shared_devices(usages: Usages) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Return the devices on which more than one library holds memory, each with its libraries."""
    holders: dict[str, list[AllocatorUsage]] = {}
    for entry in usages:
        number = re.search(r"\d+$", entry.device)
        holders.setdefault(number[0] if number else entry.device, []).append(entry)
    for entries in holders.values():
        libraries = tuple(sorted({entry.library for entry in entries if entry.live_bytes or entry.pool_bytes}))
        if len(libraries) > 1:
            yield entries[0].device, libraries


def is_preallocated(first: Usages, last: Usages, used_bytes: float) -> bool:
    """
    Return True if the memory of a run on a device is JAX's preallocation, which says nothing about need.

    A pool is preallocated if it was as large as its limit from the first report on, and arrays never nearly filled it.

    Args:
        first: the first usage of each allocator.
        last: its last usage.
        used_bytes: memory of the run on the device according to NVML. Devices are matched by this size, because the
            indices of NVML and JAX differ if the environment hides or reorders devices.
    """
    at_first = {_key(usage): usage for usage in first}
    return any(
        _fills_device(at_first.get(_key(usage), usage), usage, used_bytes) for usage in last if usage.library == "JAX"
    )


def _fills_device(first: AllocatorUsage, last: AllocatorUsage, used_bytes: float) -> bool:
    # Old versions of JAX do not report the pool; then only the memory in use on the device shows it.
    pool, limit = first.pool_bytes if first.pool_bytes is not None else first.limit_bytes, first.limit_bytes
    if not pool or not limit or pool < _FULL_FRACTION * limit:
        return False
    need = max(last.live_bytes, last.peak_live_bytes or 0)
    is_this_device = _FULL_FRACTION * pool <= used_bytes <= pool + _OVERHEAD_BYTES
    return is_this_device and need < _FAR_UNDER_FRACTION * pool
