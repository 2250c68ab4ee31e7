"""
Which limits can make an allocation fail, and how near to one of them a run was.

A memory group (the cap of a run, a container, a Slurm job) kills a process that exceeds it. It never makes an
allocation fail, so its limit is never the reason for a MemoryError. These limits refuse an allocation:

- ``ulimit -v`` (RLIMIT_AS) and ``ulimit -d`` (RLIMIT_DATA), which count what is reserved;
- the system's commit limit: Linux with ``vm.overcommit_memory = 2``, and Windows;
- the machine itself, where the system refuses memory once it has run out (macOS without room for swap);
- RAM and swap together, for a single request that exceeds both (Linux with ``vm.overcommit_memory = 0``).

See proc(5), "overcommit_memory", and ``Documentation/mm/overcommit-accounting`` of Linux.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.diagnosis.wording import (
    has_group_limit,
    is_limit_of_group,
    limit_bytes,
    limit_text,
    machine_limit_text,
    peak_bytes,
)
from pytest_lecturecheck.model.evidence import Evidence
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.units import MIB, format_size

_NEAR_FRACTION: Final = 0.8
_LITTLE_LEFT_FRACTION: Final = 0.05
_FREE_LEAST_BYTES: Final = 256 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusingLimit:
    """
    A limit that makes an allocation fail.

    Attributes:
        size_bytes: the limit.
        text: the limit as messages name it ("3 GiB, ulimit -v (RLIMIT_AS)").
    """

    size_bytes: int
    text: str


def refusing_limits(evidence: Evidence) -> Iterator[RefusingLimit]:
    """Yield the limits other than the machine's own memory that can make an allocation fail."""
    memory = evidence.memory
    if memory.ulimit_bytes is not None:
        yield _named(memory.ulimit_bytes, memory.ulimit_source or "ulimit")
    elif memory.limit_bytes is not None and memory.limit_source.startswith("ulimit"):
        yield _named(memory.limit_bytes, memory.limit_source)
    if memory.commit_limit_bytes is not None:
        yield _named(memory.commit_limit_bytes, "the system's commit limit")


def _named(size_bytes: int, source: str) -> RefusingLimit:
    return RefusingLimit(size_bytes=size_bytes, text=f"{format_size(size_bytes)}, {one_line(source)}")


def machine_bytes(evidence: Evidence) -> int | None:
    """Return RAM and swap together, or ``None`` if RAM is unknown."""
    memory = evidence.memory
    ram = memory.ram_bytes
    if ram is None and not has_group_limit(evidence):
        ram = memory.limit_bytes
    return None if ram is None else ram + (memory.swap_bytes or 0)


def available_bytes(evidence: Evidence) -> int | None:
    """Return the memory that was available on the machine; what a memory group has left is none of it."""
    return None if has_group_limit(evidence) else evidence.memory.available_bytes


def left_bytes(evidence: Evidence) -> int | None:
    """Return what the process could have had at most beside the others: what it holds, and what is available."""
    available, last = available_bytes(evidence), evidence.memory.last_footprint_bytes
    return None if available is None or last is None else available + last


def machine_refuses(evidence: Evidence) -> bool:
    """Return True if the machine may refuse memory when it runs out, so that nearness to its limit is a reason."""
    return evidence.memory.refuses_when_full is not False and not has_group_limit(evidence)


def reached_limit(evidence: Evidence) -> RefusingLimit | None:
    """Return the refusing limit that the peak came near to, or ``None``."""
    peak = peak_bytes(evidence)
    if peak is None:
        return None
    limits = list(refusing_limits(evidence))
    if machine_refuses(evidence) and evidence.memory.limit_bytes is not None:
        limits.append(RefusingLimit(size_bytes=evidence.memory.limit_bytes, text=machine_limit_text(evidence)))
    reached = [item for item in limits if peak >= _NEAR_FRACTION * item.size_bytes]
    return min(reached, key=lambda item: item.size_bytes, default=None)


def is_machine_full(evidence: Evidence) -> bool:
    """Return True if little memory was left on a machine that refuses memory when it runs out."""
    limit, available = evidence.memory.limit_bytes, available_bytes(evidence)
    is_little = limit is not None and available is not None and available < _LITTLE_LEFT_FRACTION * limit
    return is_little and machine_refuses(evidence)


def is_share_used(evidence: Evidence) -> bool:
    """Return True if the process held most of what others had left on a machine that refuses memory."""
    peak, left = peak_bytes(evidence), left_bytes(evidence)
    is_most = peak is not None and left is not None and peak >= _NEAR_FRACTION * left
    return is_most and machine_refuses(evidence)


def is_exhausted(evidence: Evidence) -> bool | None:
    """
    Return True if memory that can be refused had run out, or nearly so, when the cell failed.

    Returns:
        ``None`` if the measurements leave it open.
    """
    if reached_limit(evidence) is not None or is_machine_full(evidence) or is_share_used(evidence):
        return True
    peak, available = peak_bytes(evidence), available_bytes(evidence)
    if peak is None:
        return None
    if evidence.memory.refuses_when_full is False or evidence.memory.limit_bytes is not None:
        return False
    if available is not None and available >= max(peak, _FREE_LEAST_BYTES):
        return False
    return None


def is_near_any_limit(evidence: Evidence) -> bool:
    """Return True if the run was near a limit of any kind, groups included: a reason to be killed, not refused."""
    memory, peak = evidence.memory, peak_bytes(evidence)
    limit, available = memory.limit_bytes, memory.available_bytes
    if limit is not None and available is not None and available < _LITTLE_LEFT_FRACTION * limit:
        return True
    last = memory.last_footprint_bytes
    left = None if available is None or last is None else available + last
    ceilings = [size for size in (limit_bytes(evidence), left) if size is not None]
    return peak is not None and any(peak >= _NEAR_FRACTION * size for size in ceilings)


def group_lines(evidence: Evidence) -> Iterator[str]:
    """Yield why the limit of a group that the run was near to is not the reason for a refused allocation."""
    peak, limit = peak_bytes(evidence), limit_bytes(evidence)
    is_near = peak is not None and limit is not None and peak >= _NEAR_FRACTION * limit
    if is_near and is_limit_of_group(evidence):
        yield f"near {limit_text(evidence)}: such a limit ends a process, it never refuses an allocation"
