"""Format devices, their holders and allocators for messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_lecturecheck.diagnosis.gpu.allocator_settings import setting_lines
from pytest_lecturecheck.diagnosis.gpu.holders import others_of, run_bytes, total_bytes
from pytest_lecturecheck.model.device import AllocatorUsage, DeviceHolder, DeviceUse, HolderKind
from pytest_lecturecheck.model.evidence import Evidence
from pytest_lecturecheck.model.metric import Measurement, Method
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.units import MIB, format_duration, format_size

_MOST_HOLDERS: Final = 8
_MEGA: Final = 10**6
_GIGA: Final = 10**9
_LONGEST_NAME: Final = 120


def lecture_name(evidence: Evidence) -> str:
    """Name this run's lecture."""
    return _name(evidence.lecture) or "this lecture"


def mebibytes(size_bytes: float) -> str:
    """Format a size in whole MiB, as nvidia-smi does, so that the sizes of one sentence can be added up."""
    return f"{size_bytes / MIB:.0f} MiB"


def of_card(size_bytes: int, use: DeviceUse) -> str:
    """Format a size beside that of the card (``5000 of 15360 MiB``)."""
    total = total_bytes(use)
    return mebibytes(size_bytes) if total is None else f"{size_bytes / MIB:.0f} of {mebibytes(total)}"


def decimal(size_bytes: int) -> str:
    """Format a size in GB or MB, with one digit after the point."""
    return f"{size_bytes / _GIGA:.1f} GB" if size_bytes >= _GIGA else f"{size_bytes / _MEGA:.1f} MB"


def device_label(use: DeviceUse) -> str:
    """Name a device (``GPU 0 (Tesla T4)``)."""
    return one_line(use.device.label, _LONGEST_NAME)


def which_device(evidence: Evidence, use: DeviceUse) -> str:
    """Return the device (`` of GPU 1``) if the run used several, else an empty string."""
    if len(evidence.devices) <= 1:
        return ""
    return f" of {device_label(use)}" if use.device.is_slice else f" of GPU {use.device.index}"


def holder_text(holder: DeviceHolder) -> str:
    """Describe a holder (``pid 201, the kernel of slow.md that was killed 1 s before this run``)."""
    name = _name(holder.lecture)
    if holder.kind is HolderKind.RUNNING_LECTURE:
        return name or f"another lecture (pid {holder.pid})"
    if holder.kind is HolderKind.FOREIGN:
        return f"pid {holder.pid}, not known as a lecture's"
    of_lecture = name or "a lecture that has ended"
    if holder.was_killed:
        return f"pid {holder.pid}, the kernel of {of_lecture} that was killed{_before(holder)}"
    before = _before(holder)
    ended = f", which ended{before}" if name and before else ""
    return f"pid {holder.pid}, a process left over from {of_lecture}{ended}"


def _before(holder: DeviceHolder) -> str:
    if holder.ended_seconds is None or not holder.ended_seconds >= 0:
        return ""
    return f" {format_duration(holder.ended_seconds)} before this run began"


def _name(text: str) -> str:
    return one_line(text, _LONGEST_NAME)


def device_lines(evidence: Evidence, uses: tuple[DeviceUse, ...]) -> Iterator[str]:
    """Yield the readings of the devices, of their holders and of the allocators, one line each."""
    for use in uses:
        yield _device_line(use)
        yield _run_line(use)
        yield from _holder_lines(use)
    for usage in evidence.allocators:
        yield allocator_line(usage)
    yield from setting_lines(evidence.conditions.environment)


def _device_line(use: DeviceUse) -> str:
    total = total_bytes(use)
    in_all = f"{mebibytes(total)} in all" if total is not None else "its size is not known"
    moments = (
        ("", use.before_bytes, " before the run"),
        ("at most ", use.peak_used_bytes, " while it lasted"),
        ("", use.after_bytes, " after it"),
    )
    parts = [f"{most}{mebibytes(size)}{when}" for most, size, when in moments if size is not None]
    in_use = f"; in use: {', '.join(parts)}" if parts else ""
    return f"{device_label(use)}: {in_all}{in_use}"


def _run_line(use: DeviceUse) -> str:
    used = use.used
    if not isinstance(used, Measurement):
        return f"this run: {one_line(used.text)}"
    if used.method is Method.BRACKET:
        high = used.upper_bound if used.upper_bound is not None else used.value
        return f"this run: at most {mebibytes(high)}, the rise of the device (its processes cannot be told apart)"
    reserved = ", reserved by preallocation" if use.is_reserved else ""
    return f"this run: {mebibytes(run_bytes(use) or 0)}{reserved}"


def _holder_lines(use: DeviceUse) -> Iterator[str]:
    kinds = (HolderKind.RUNNING_LECTURE, HolderKind.ENDED_LECTURE, HolderKind.FOREIGN)
    holders = [holder for kind in kinds for holder in others_of(use, kind)]
    for holder in holders[:_MOST_HOLDERS]:
        who = holder_text(holder)
        if holder.kind is HolderKind.RUNNING_LECTURE and holder.lecture:
            who = f"{who} (pid {holder.pid}), running"
        size = mebibytes(holder.used_bytes) if holder.used_bytes is not None else "how much it held is not known"
        first = ", there before this run's processes" if holder.was_there_first else ""
        yield f"{who}: {size}{first}"
    if len(holders) > _MOST_HOLDERS:
        yield f"and {len(holders) - _MOST_HOLDERS} other processes"


def allocator_line(usage: AllocatorUsage) -> str:
    """Format an allocator's report (``JAX on cuda:0: live 2 GiB (at most 3 GiB), pool 3.3 GiB, limit 3.3 GiB``)."""
    most = f" (at most {format_size(usage.peak_live_bytes)})" if usage.peak_live_bytes is not None else ""
    named = (
        ("pool", usage.pool_bytes),
        ("limit", usage.limit_bytes),
        ("largest free block", usage.largest_free_block_bytes),
    )
    rest = "".join(f", {name} {format_size(size)}" for name, size in named if size is not None)
    on = f" on {device}" if (device := one_line(usage.device, _LONGEST_NAME)) else ""
    library = one_line(usage.library, _LONGEST_NAME) or "allocator"
    return f"{library}{on}: live {format_size(usage.live_bytes)}{most}{rest}"
