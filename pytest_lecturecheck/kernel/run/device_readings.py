"""
From an allocator's words to readings: what a cell and a lecture needed of a GPU. Pure.

The peaks that JAX and PyTorch keep are those of the process's life. One that rose in a cell is the cell's; one that did
not only bounds it from above, and what was live at the cell's two ends bounds it from below. Where several devices or
libraries speak, the highest counts: bytes of two libraries are never added, because their peaks need not coincide.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from pytest_lecturecheck.model.device import AllocatorUsage, CompileTimes
from pytest_lecturecheck.model.metric import Measurement, Method, Metric, Reading, Unavailable

_METRICS: Final = (Metric.GPU_LIVE, Metric.GPU_POOL)
_FULL_FRACTION: Final = 0.99
_FAR_UNDER_FRACTION: Final = 0.9
_OVERHEAD_BYTES: Final = 1536 * 1024**2
"""What a process holds of a device beside its allocator's pool: context, code, libraries' work space."""

Figures: TypeAlias = Sequence[AllocatorUsage]
_Key: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bounds:
    """What is known of one allocator's peak: it lies between ``low`` and ``high`` (``None``: no upper end known)."""

    low: int
    high: int | None
    source: str


def cell_readings(before: Figures, after: Figures) -> dict[Metric, Reading]:
    """
    Give ``gpu_live_bytes`` and ``gpu_pool_bytes`` of one cell.

    Args:
        before: the allocators' figures at the end of the cell before; empty where none had spoken.
        after: the figures at the cell's own end.
    """
    if not after:
        return {}
    earlier = {_key(figures): figures for figures in before}
    return {metric: _highest(metric, _cell_bounds(metric, earlier, after)) for metric in _METRICS}


def _cell_bounds(metric: Metric, earlier: Mapping[_Key, AllocatorUsage], after: Figures) -> Iterator[_Bounds]:
    for figures in after:
        now, peak = _now(metric, figures), _peak(metric, figures)
        if now is None:
            continue
        past, source = earlier.get(_key(figures)), _source(figures)
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
            # The lecture has set the peak back; what came before that in the cell is lost.
            yield _Bounds(low=max(low, peak), high=None, source=source)


def lecture_readings(history: Iterable[Figures], *, is_whole: bool) -> dict[Metric, Reading]:
    """
    Give the lecture's ``gpu_live_bytes`` and ``gpu_pool_bytes``.

    Args:
        history: what the allocators said at the end of each cell, in order.
        is_whole: whether the last of them was said at the lecture's end; a kernel that died may have gone higher.
    """
    states = [figures for figures in history if figures]
    if not states:
        return {}
    return {metric: _highest(metric, _life_bounds(metric, states, is_whole=is_whole)) for metric in _METRICS}


def _life_bounds(metric: Metric, states: Sequence[Figures], *, is_whole: bool) -> Iterator[_Bounds]:
    series: dict[_Key, list[AllocatorUsage]] = {}
    for state in states:
        for figures in state:
            series.setdefault(_key(figures), []).append(figures)
    for told in series.values():
        levels = [level for figures in told if (level := _now(metric, figures)) is not None]
        if not levels:
            continue
        peaks = [_peak(metric, figures) for figures in told]
        known = [peak for peak in peaks if peak is not None]
        low = max([*levels, *known])
        # A peak that was set back, or is not kept, bounds nothing.
        is_bound = is_whole and len(known) == len(peaks) and known == sorted(known)
        yield _Bounds(low=low, high=low if is_bound else None, source=_source(told[0]))


def _highest(metric: Metric, bounds: Iterable[_Bounds]) -> Reading:
    """Give the highest of several peaks: no lower than any low end, no higher than the highest high end."""
    found = list(bounds)
    if not found:
        return Unavailable(metric=metric, reason="the allocator does not say what its pool holds")
    top = max(found, key=lambda bound: bound.low)
    highs = [bound.high for bound in found if bound.high is not None]
    if len(highs) < len(found):
        return Measurement(metric=metric, value=top.low, method=Method.SAMPLED, source=top.source)
    high = max(highs)
    if high > top.low:
        return Measurement(metric=metric, value=top.low, method=Method.BRACKET, high=high, source=top.source)
    return Measurement(metric=metric, value=top.low, method=Method.AGENT, source=top.source)


def _now(metric: Metric, figures: AllocatorUsage) -> int | None:
    return figures.live_bytes if metric is Metric.GPU_LIVE else figures.pool_bytes


def _peak(metric: Metric, figures: AllocatorUsage) -> int | None:
    return figures.peak_live_bytes if metric is Metric.GPU_LIVE else figures.peak_pool_bytes


def _key(figures: AllocatorUsage) -> _Key:
    return figures.library, figures.device


def _source(figures: AllocatorUsage) -> str:
    return f"{figures.library} on {figures.device}"


def compile_reading(figures: CompileTimes) -> Measurement:
    """Give ``compile_seconds`` of one cell."""
    return Measurement(metric=Metric.COMPILE, value=figures.seconds, method=Method.AGENT, source="jax.monitoring")


def shared_devices(figures: Figures) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Name the devices that more than one library has memory of, each with its libraries."""
    holders: dict[str, list[AllocatorUsage]] = {}
    for entry in figures:
        number = re.search(r"\d+$", entry.device)
        holders.setdefault(number[0] if number else entry.device, []).append(entry)
    for entries in holders.values():
        libraries = tuple(sorted({entry.library for entry in entries if entry.live_bytes or entry.pool_bytes}))
        if len(libraries) > 1:
            yield entries[0].device, libraries


def is_preallocated(first: Figures, last: Figures, used_bytes: float) -> bool:
    """
    Tell whether what a run holds of a device is JAX's preallocation, which says nothing about need.

    A pool is preallocated where it was as large as its limit as soon as it spoke, and arrays never came near to
    filling it.

    Args:
        first: the first figures of each allocator.
        last: its last figures.
        used_bytes: what NVML says that the run holds of the device. Devices are matched by this size, because NVML's
            indices and JAX's differ where the environment hides or reorders devices.
    """
    at_first = {_key(figures): figures for figures in first}
    return any(
        _fills_device(at_first.get(_key(figures), figures), figures, used_bytes)
        for figures in last
        if figures.library == "JAX"
    )


def _fills_device(first: AllocatorUsage, last: AllocatorUsage, used_bytes: float) -> bool:
    # Old versions of JAX keep no figure of the pool; then it is the size in use on the device that shows it.
    pool, limit = first.pool_bytes if first.pool_bytes is not None else first.limit_bytes, first.limit_bytes
    if not pool or not limit or pool < _FULL_FRACTION * limit:
        return False
    need = max(last.live_bytes, last.peak_live_bytes or 0)
    is_this_device = _FULL_FRACTION * pool <= used_bytes <= pool + _OVERHEAD_BYTES
    return is_this_device and need < _FAR_UNDER_FRACTION * pool
