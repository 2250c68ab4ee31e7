"""
Read how much memory is left at this moment: on the machine, and in the tightest control group.

For progress in a log. Linux is read from ``/proc`` and ``/sys`` below a root folder that can be set, other systems
through psutil.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.probe.memory_limits import cgroup_memory_limits, read_text
from pytest_lecturecheck.probe.procfs import parse_sizes

_ROOT: Final = Path("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRoom:
    """Memory that is left of a total, both in bytes."""

    free_bytes: int
    total_bytes: int

    @property
    def free_fraction(self) -> float:
        """Return the share that is left, from 0 to 1."""
        return self.free_bytes / self.total_bytes if self.total_bytes else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryState:
    """
    Memory that is left at one moment.

    Attributes:
        machine: ``MemAvailable`` of the machine's memory, or ``None`` if it cannot be read.
        group: the rest of the control group that has least left, or ``None`` without a limit below the machine's
            memory, or if its use cannot be read.
    """

    machine: MemoryRoom | None = None
    group: MemoryRoom | None = None


def read_memory_state() -> MemoryState:
    """Return how much memory is left now."""
    if sys.platform == "linux":
        return read_linux_memory_state(_ROOT)
    else:  # noqa: RET505 - type checkers take what follows a return under a platform's condition for dead
        import psutil  # noqa: PLC0415 - slow to import, and Linux does without

        memory = psutil.virtual_memory()
        return MemoryState(machine=MemoryRoom(free_bytes=int(memory.available), total_bytes=int(memory.total)))


def read_linux_memory_state(root: Path) -> MemoryState:
    """
    Return how much memory is left on the Linux machine whose ``proc`` and ``sys`` lie below ``root``.

    ``MemAvailable`` counts page cache that the system can take back, as :manpage:`proc(5)` describes it.
    """
    sizes = parse_sizes(read_text(root / "proc" / "meminfo") or "")
    total, available = sizes.get("MemTotal"), sizes.get("MemAvailable")
    machine = MemoryRoom(free_bytes=available, total_bytes=total) if total and available is not None else None
    rooms = [
        MemoryRoom(free_bytes=max(0, limit.limit_bytes - limit.used_bytes), total_bytes=limit.limit_bytes)
        for limit in cgroup_memory_limits(root)
        # cgroup v1 writes a huge number for "no limit".
        if limit.used_bytes is not None and (total is None or limit.limit_bytes < total)
    ]
    return MemoryState(machine=machine, group=min(rooms, key=lambda room: room.free_bytes, default=None))
