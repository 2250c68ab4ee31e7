"""
Whose memory filled a card: the holders of a device, weighed against what this run got of it.

A holder is named as the cause only where the card was really short of memory, this run's processes were (or may have
been) on it, and the holder's part made the difference.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.diagnosis.gpu.allocator_settings import is_without_preallocation, set_fraction
from pytest_lecturecheck.diagnosis.gpu.ends import DeviceEnd
from pytest_lecturecheck.model.device import AllocatorUsage, DeviceHolder, DeviceUse, HolderKind
from pytest_lecturecheck.model.device_plan import CONTEXT_BYTES, DEFAULT_FRACTION
from pytest_lecturecheck.model.evidence import Evidence
from pytest_lecturecheck.model.metric import Measurement, Method

_MOST_OF_CARD: Final = 0.6
_FULL: Final = 0.9
_NOTABLE: Final = 0.1
_LEAST: Final = 0.05
_NEAR_FRACTION: Final = 0.05
_SAME_TIME_SLACK: Final = 1.02
_FULL_SHARE: Final = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldMemory:
    """
    What others held of a device, where that made the difference.

    Attributes:
        use: the device.
        kind: what the holders are to this run.
        holders: they, the largest first; empty where nobody is known.
        held_bytes: what they held together.
        is_race: it was one holder that had most of the card, as a preallocation has.
    """

    use: DeviceUse
    kind: HolderKind
    holders: tuple[DeviceHolder, ...]
    held_bytes: int
    is_race: bool = False


def run_bytes(use: DeviceUse) -> int | None:
    """Return what this run's processes held of a device, or ``None`` if they cannot be distinguished from others."""
    used = use.used
    if not isinstance(used, Measurement) or used.method is Method.BRACKET:
        return None
    return round(used.value)


def total_bytes(use: DeviceUse) -> int | None:
    """Return the size of the card, or ``None`` where it is not known."""
    total = use.device.total_bytes
    return total if total is not None and total > 0 else None


def share(size_bytes: int, use: DeviceUse) -> float | None:
    """Return a size as a share of the card (0..1), or ``None`` where the card's size is not known."""
    total = total_bytes(use)
    return size_bytes / total if total is not None else None


def is_default_share(size_bytes: int, use: DeviceUse) -> bool:
    """Return True if the size is what a JAX process holds by default: 75 % of the card and its CUDA context."""
    total = total_bytes(use)
    if total is None:
        return False
    low, high = (DEFAULT_FRACTION - _NEAR_FRACTION) * total, (DEFAULT_FRACTION + 0.01) * total + CONTEXT_BYTES
    return low <= size_bytes <= high


def is_set_share(size_bytes: int, use: DeviceUse, evidence: Evidence) -> bool:
    """Return True if the size is what the kernels are set to reserve."""
    fraction, held = set_fraction(evidence.conditions.environment), share(size_bytes, use)
    return fraction is not None and held is not None and abs(held - fraction) <= _NEAR_FRACTION


def devices_of(evidence: Evidence, end: DeviceEnd) -> tuple[DeviceUse, ...]:
    """
    Return the devices that the end may be about.

    Those that this run's processes were on; where none is known, and the last message mentions memory, those that they
    may have been on; every device where the message names one.
    """
    known = tuple(use for use in evidence.devices if (run_bytes(use) or 0) > 0)
    if known or not end.speaks_of_memory:
        return known
    if end.names_device:
        return evidence.devices
    return tuple(use for use in evidence.devices if run_bytes(use) is None and _may_hold(use))


def _may_hold(use: DeviceUse) -> bool:
    return isinstance(use.used, Measurement) and (use.used.upper_bound or 0) > 0


def others_of(use: DeviceUse, kind: HolderKind) -> tuple[DeviceHolder, ...]:
    """Return the holders of a kind, the largest first, those of unknown size last."""
    found = (holder for holder in use.holders if holder.kind is kind)
    return tuple(sorted(found, key=lambda holder: -1 if holder.used_bytes is None else holder.used_bytes, reverse=True))


def sum_bytes(holders: Iterable[DeviceHolder]) -> int:
    """Add up what is known."""
    return sum(max(0, holder.used_bytes or 0) for holder in holders)


def others_bytes(use: DeviceUse) -> int | None:
    """Return the most that others are known to have held of a device, or ``None`` where that is not known."""
    known = [] if use.others_peak_bytes is None else [use.others_peak_bytes]
    if any(holder.used_bytes is not None for holder in use.holders):
        known.append(max(max(0, holder.used_bytes or 0) for holder in use.holders))
    return max(known, default=None)


def most_used_bytes(use: DeviceUse) -> int | None:
    """Return the most that is known to have been in use on a device at once, or ``None``."""
    run, others = run_bytes(use), others_bytes(use)
    if use.peak_used_bytes is None and use.before_bytes is None and run is None and others is None:
        return None
    beside = max(use.before_bytes or 0, others or 0)
    return max(use.peak_used_bytes or 0, beside + (run or 0) if use.peak_used_bytes is None else beside)


def find_holding(evidence: Evidence, end: DeviceEnd) -> HeldMemory | None:
    """Find what others held of a device and this run lacked; ``None`` where that is not what the evidence says."""
    if end.has_own_limit or _had_full_share(evidence):
        return None
    found = [
        holding
        for use in devices_of(evidence, end)
        if is_short(use, end) and not _is_beyond(use, end)
        for holding in (*_named(evidence, end, use), *_nameless(use, end))
    ]
    return max(found, key=lambda holding: (holding.held_bytes, holding.kind is HolderKind.ENDED_LECTURE), default=None)


def _named(evidence: Evidence, end: DeviceEnd, use: DeviceUse) -> Iterable[HeldMemory]:
    """Return the holders of each kind whose memory made the difference."""
    race = _find_race(evidence, use)
    if race is not None:
        yield race
    for kind in (HolderKind.ENDED_LECTURE, HolderKind.FOREIGN):
        holders = others_of(use, kind)
        if race is not None and race.holders[0] in holders:
            continue
        held = sum_bytes(holders)
        if held > 0 and _matters(use, end, held):
            yield HeldMemory(use=use, kind=kind, holders=holders, held_bytes=held)


def _nameless(use: DeviceUse, end: DeviceEnd) -> Iterable[HeldMemory]:
    """Return the memory in use before the run that no known holder accounts for, with the possible holders."""
    if use.before_bytes is None:
        return
    first = tuple(holder for holder in use.holders if holder.was_there_first)
    held, silent = use.before_bytes - sum_bytes(first), tuple(holder for holder in first if holder.used_bytes is None)
    kinds = {holder.kind for holder in silent}
    if held <= 0 or HolderKind.RUNNING_LECTURE in kinds or not _matters(use, end, held):
        return
    if len(kinds) == 1:
        yield HeldMemory(use=use, kind=silent[0].kind, holders=silent, held_bytes=held)
    elif (share(held, use) or 0) >= _MOST_OF_CARD:
        yield HeldMemory(use=use, kind=HolderKind.FOREIGN, holders=(), held_bytes=held)


def _find_race(evidence: Evidence, use: DeviceUse) -> HeldMemory | None:
    """Find one holder with most of the card, as a preallocation has it, beside which this run got only the rest."""
    running = (
        () if is_without_preallocation(evidence.conditions.environment) else others_of(use, HolderKind.RUNNING_LECTURE)
    )
    foreign = (
        holder
        for holder in others_of(use, HolderKind.FOREIGN)
        if holder.was_there_first and is_default_share(holder.used_bytes or 0, use)
    )
    total = total_bytes(use)
    for holder in (*running[:1], *foreign):
        held = holder.used_bytes or 0
        is_most = (share(held, use) or 0) >= _MOST_OF_CARD or is_default_share(held, use)
        if is_most and total is not None and (run_bytes(use) or 0) + held <= _SAME_TIME_SLACK * total:
            return HeldMemory(use=use, kind=holder.kind, holders=(holder,), held_bytes=held, is_race=True)
    return None


def is_short(use: DeviceUse, end: DeviceEnd) -> bool:
    """Return True if the card was short of memory for this run. Samples are lower bounds, so "no" is never certain."""
    total, used = total_bytes(use), most_used_bytes(use)
    if total is None or used is None:
        return end.speaks_of_memory
    if used >= _FULL * total:
        return True
    if not end.speaks_of_memory:
        return False
    if end.size_bytes is not None:
        return used + end.size_bytes > total
    return used >= _MOST_OF_CARD * total


def _is_beyond(use: DeviceUse, end: DeviceEnd) -> bool:
    """Return True if the request exceeds the whole card, so that nobody else on it matters."""
    total = total_bytes(use)
    return total is not None and end.size_bytes is not None and end.size_bytes > total


def _matters(use: DeviceUse, end: DeviceEnd, held_bytes: int) -> bool:
    """Return True if the run would have had enough without what others held."""
    part, total, used = share(held_bytes, use), total_bytes(use), most_used_bytes(use)
    if part is None or total is None:
        return False
    if end.size_bytes is None or used is None:
        return part >= _NOTABLE
    return part >= _LEAST and end.size_bytes <= max(0, total - used) + held_bytes


def _had_full_share(evidence: Evidence) -> bool:
    """Return True if JAX's pool had all that it may take of the card: then others took nothing from it."""
    jax = [usage for usage in evidence.allocators if usage.library == "JAX"]
    totals = [total for use in evidence.devices if (total := total_bytes(use)) is not None]
    if not jax or not totals:
        return False
    full = _FULL_SHARE * (set_fraction(evidence.conditions.environment) or DEFAULT_FRACTION) * min(totals)
    return all(_pool(usage) >= full for usage in jax)


def _pool(usage: AllocatorUsage) -> int:
    return max(usage.pool_bytes or 0, usage.peak_pool_bytes or 0)
