"""Watch how much memory is left on the machine while lectures run, for progress in a log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.probe.memory_state import MemoryRoom, MemoryState, read_memory_state
from pytest_lecturecheck.units import format_size

_LOW_FRACTION: Final = 0.10
_ENOUGH_FRACTION: Final = 0.15
"""Memory has to rise above this before it can be low again; otherwise every swing would be a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineReading:
    """
    The machine at one moment.

    Attributes:
        memory: memory that is left.
        load: processes that wanted a core, on average over the last minute, or ``None``.
    """

    memory: MemoryState
    load: float | None = None

    @property
    def rooms(self) -> tuple[tuple[str, MemoryRoom], ...]:
        """Return the memory of the machine and of the tightest group, as far as they are known."""
        named = (("machine", self.memory.machine), ("memory group", self.memory.group))
        return tuple((name, room) for name, room in named if room is not None)


def read_machine() -> MachineReading:
    """Read the machine now."""
    from pytest_lecturecheck.probe.oom import read_load_average  # noqa: PLC0415 - only where a log has progress

    return MachineReading(memory=read_memory_state(), load=read_load_average())


def render_machine(reading: MachineReading) -> str:
    """Render the machine (``machine 9.8 GiB free of 16 GiB; memory group 2 GiB free of 4 GiB; load 1.9``)."""
    parts = [
        f"{name} {format_size(room.free_bytes)} free of {format_size(room.total_bytes)}" for name, room in reading.rooms
    ]
    if reading.load is not None:
        parts.append(f"load {reading.load:.1f}")
    return "; ".join(parts)


class LowMemoryWatch:
    """Notices when less than a tenth of the memory is left, once until it has recovered."""

    def __init__(self) -> None:
        """Notice nothing yet."""
        self._low: set[str] = set()

    def check(self, reading: MachineReading) -> Iterator[str]:
        """Yield a line for each memory that has become low."""
        for name, room in reading.rooms:
            if room.free_fraction >= _ENOUGH_FRACTION:
                self._low.discard(name)
            elif room.free_fraction < _LOW_FRACTION and name not in self._low:
                self._low.add(name)
                share = f"{100 * room.free_fraction:.0f} %"
                yield (
                    f"memory is low: {format_size(room.free_bytes)} of {format_size(room.total_bytes)} free "
                    f"({share}), {name}"
                )
