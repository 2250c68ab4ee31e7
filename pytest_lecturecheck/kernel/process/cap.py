"""The cap of a run: how much memory its processes may take before they are stopped, and not the machine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pytest_lecturecheck.kernel.process.cgroup import MemoryGroup
from pytest_lecturecheck.model.probe import Probe
from pytest_lecturecheck.units import MIB

_RESERVE_FRACTION: Final = 0.05
_LEAST_RESERVE_BYTES: Final = 256 * MIB
_LEAST_CAP_BYTES: Final = 256 * MIB
_WATCH_SECONDS: Final = 0.02
_MACHINE_ROUNDS: Final = (5, 50)
"""The watchdog also looks at the machine's own memory: every so many rounds at most, and at least."""
_FASTEST_BYTES_PER_ROUND: Final = 256 * MIB
"""More than a machine of a few cores can fill within a round of the watchdog."""


def automatic_cap(usable_bytes: int, available_bytes: int | None) -> int:
    """
    Give what a run may take so that pytest, and what else runs here, is left alone.

    Args:
        usable_bytes: memory of the machine, limits counted.
        available_bytes: what can be had of it now, or ``None`` where that is not known.

    Returns:
        What can be had less a reserve of 5 % (at least 256 MiB); never less than 256 MiB, which a bare kernel needs.
    """
    reserve = max(_LEAST_RESERVE_BYTES, round(usable_bytes * _RESERVE_FRACTION))
    had = usable_bytes if available_bytes is None else min(usable_bytes, available_bytes)
    return max(_LEAST_CAP_BYTES, had - reserve)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cap:
    """
    The limit in force for one run.

    Attributes:
        limit_bytes: the limit.
        group: the memory group that holds it, or ``None`` where the watchdog alone does.
        is_chosen: whether a person chose the limit (otherwise it protects the machine).
        holder: who else holds the run to it ("Slurm"), or an empty string.
    """

    limit_bytes: int
    group: MemoryGroup | None = None
    is_chosen: bool = False
    holder: str = ""

    @property
    def method(self) -> str:
        """Say how the limit is held."""
        if self.holder:
            return self.holder
        return "watchdog" if self.group is None else f"cgroup v{self.group.version}"


async def watch(
    cap: Cap,
    probe: Probe,
    available_memory: Callable[[], int | None],
    kill: Callable[[], None],
    has_left_group: Callable[[], bool] = lambda: False,
) -> None:
    """
    Watch the footprint of a run, and kill it when it exceeds its cap; ends with the kill or by cancellation.

    A group stops most runs by itself. What it cannot see is that several runs together exhaust the machine; so the
    machine's own memory is watched as well, and a run that holds more than what is left of it is stopped before the
    system chooses a victim.

    Args:
        cap: the cap.
        probe: measures the run.
        available_memory: what the machine can give now, in bytes.
        kill: stops the run's processes at once.
        has_left_group: whether the kernel runs outside its group by now, which takes privileges that lectures in
            containers often have.
    """
    floor_bytes = _LEAST_RESERVE_BYTES // 4
    rounds_left = rounds_outside = 0
    while True:
        await asyncio.sleep(_WATCH_SECONDS)
        rounds_left -= 1
        snapshot = probe.snapshot()
        if snapshot is None:
            continue
        # Where a group holds the cap, the group decides: it does not charge the library files that others use as well.
        exceeded = not cap.holder and snapshot.footprint_bytes > cap.limit_bytes
        if exceeded and cap.group is not None:
            # Seen twice: a kernel that the group has just killed leaves it as well.
            rounds_outside = rounds_outside + 1 if has_left_group() else 0
            exceeded = rounds_outside > 1
        if not exceeded and rounds_left <= 0:
            available = available_memory()
            rounds_left = _rounds_to_next_look(available)
            exceeded = available is not None and available < floor_bytes and snapshot.footprint_bytes > available
        if exceeded:
            kill()
            return


def _rounds_to_next_look(available_bytes: int | None) -> int:
    """Look at the machine the less often the more it has to give: finding that out takes more than a sample does."""
    least, most = _MACHINE_ROUNDS
    return most if available_bytes is None else min(most, max(least, available_bytes // _FASTEST_BYTES_PER_ROUND))
