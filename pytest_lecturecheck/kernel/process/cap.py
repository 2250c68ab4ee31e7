"""Limit the memory of a run, so that a lecture is stopped before it exhausts the machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.kernel.process.cgroup import MemoryGroup
from pytest_lecturecheck.model.evidence import WatchdogReason, WatchdogStop
from pytest_lecturecheck.model.probe import Probe, Snapshot
from pytest_lecturecheck.units import MIB

_RESERVE_FRACTION: Final = 0.05
_LEAST_RESERVE_BYTES: Final = 256 * MIB
_LEAST_CAP_BYTES: Final = 256 * MIB
_WATCH_SECONDS: Final = 0.02
_LEAST_PAUSE_SECONDS: Final = 0.002
_FASTEST_BYTES_PER_SECOND: Final = 4096 * MIB
"""What one thread allocates and fills at most in a second; the watchdog expects it of every run."""
_READING_SHARE: Final = 0.05
"""Share of a core that readings near the cap may take."""
_MACHINE_ROUNDS: Final = (5, 50)
"""The watchdog reads the machine's memory at most and at least once in this many rounds."""
_FASTEST_BYTES_PER_ROUND: Final = 256 * MIB
"""More than a few cores can allocate within one round of the watchdog."""


def automatic_cap(usable_bytes: int, available_bytes: int | None) -> int:
    """
    Return a limit that leaves memory for pytest and other programs on this machine.

    Args:
        usable_bytes: memory of the machine, container limits included.
        available_bytes: memory available now, or ``None`` if unknown.

    Returns:
        The available memory minus a reserve of 5 % (at least 256 MiB); never less than 256 MiB, which a bare kernel
        needs.
    """
    reserve = max(_LEAST_RESERVE_BYTES, round(usable_bytes * _RESERVE_FRACTION))
    available = usable_bytes if available_bytes is None else min(usable_bytes, available_bytes)
    return max(_LEAST_CAP_BYTES, available - reserve)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cap:
    """
    The memory limit of one run.

    Attributes:
        limit_bytes: the limit.
        group: the memory group that enforces it, or ``None`` if only the watchdog does.
        is_chosen: whether a person chose the limit (otherwise it protects the machine).
        holder: the scheduler that enforces it ("Slurm"), or an empty string.
    """

    limit_bytes: int
    group: MemoryGroup | None = None
    is_chosen: bool = False
    holder: str = ""

    @property
    def method(self) -> str:
        """Return how the limit is enforced."""
        if self.holder:
            return self.holder
        return "watchdog" if self.group is None else f"cgroup v{self.group.version}"


async def watch(
    cap: Cap,
    probe: Probe,
    available_memory: Callable[[], int | None],
    kill: Callable[[WatchdogStop], None],
    has_left_group: Callable[[], bool] = lambda: False,
) -> None:
    """
    Watch the footprint of a run and kill it when it exceeds its cap; return after the kill.

    A memory group stops most runs by itself. A lecture with privileges can leave it, or raise its limit; then the
    footprint decides. A group does not notice that several runs together exhaust the machine. So the
    machine's memory is watched as well: a run that holds more than is left is stopped before the system chooses a
    victim.

    Args:
        cap: the cap.
        probe: measures the run.
        available_memory: returns the available memory of the machine, in bytes.
        kill: kills the run's processes at once, for the reason it is given.
        has_left_group: returns whether the kernel runs outside its group. Leaving takes privileges that lectures in
            containers often have.
    """
    floor_bytes = _LEAST_RESERVE_BYTES // 4
    rounds_left, rounds_outside = 0.0, 0
    pace = _Pace(cap)
    while True:
        await asyncio.sleep(pace.seconds)
        rounds_left -= pace.seconds / _WATCH_SECONDS
        snapshot = pace.read(probe)
        if snapshot is None:
            continue
        # A group is the better judge: it does not charge library files that other processes use as well.
        footprint = snapshot.footprint_bytes
        exceeded = not cap.holder and footprint > cap.limit_bytes
        if exceeded and cap.group is not None and cap.group.is_limit_in_force():
            # Two rounds in a row, because a kernel that the group has just killed leaves it as well.
            rounds_outside = rounds_outside + 1 if has_left_group() else 0
            exceeded = rounds_outside > 1
        if exceeded:
            kill(WatchdogStop(reason=WatchdogReason.CAP, footprint_bytes=footprint))
            return
        if rounds_left <= 0:
            available = available_memory()
            rounds_left = _rounds_to_next_read(available)
            if available is not None and available < floor_bytes and footprint > available:
                reason = WatchdogReason.MACHINE
                kill(WatchdogStop(reason=reason, footprint_bytes=footprint, available_bytes=available))
                return


class _Pace:
    """
    The time between two readings of a run that only the watchdog limits: shorter near the cap.

    Args:
        cap: the cap.

    Attributes:
        seconds: time until the next reading.
    """

    def __init__(self, cap: Cap) -> None:
        self.seconds = _WATCH_SECONDS
        self._limit_bytes = cap.limit_bytes
        self._is_alone = cap.group is None and not cap.holder
        self._last_bytes, self._last_at = 0, 0.0

    def read(self, probe: Probe) -> Snapshot | None:
        """Return a reading, a fresh one near the cap, and set the time until the next."""
        if not self._is_alone:
            return probe.snapshot()
        if self.seconds == _WATCH_SECONDS:
            snapshot = probe.snapshot()
            if snapshot is None or self._pause_after(snapshot) == _WATCH_SECONDS:
                return snapshot
        begun_at = time.perf_counter()
        snapshot = probe.fresh_snapshot()
        if snapshot is None:
            return None
        cost_seconds = time.perf_counter() - begun_at
        self.seconds = min(_WATCH_SECONDS, max(self._pause_after(snapshot), cost_seconds / _READING_SHARE))
        return snapshot

    def _pause_after(self, snapshot: Snapshot) -> float:
        now = time.perf_counter() - snapshot.age_seconds
        growth = 0.0
        if now > self._last_at > 0:
            growth = (snapshot.footprint_bytes - self._last_bytes) / (now - self._last_at)
        self._last_bytes, self._last_at = snapshot.footprint_bytes, now
        return pause_seconds(self._limit_bytes - snapshot.footprint_bytes, growth)


def pause_seconds(headroom_bytes: int, bytes_per_second: float) -> float:
    """
    Return the time until the next reading: half of what the fastest run would take to the cap.

    Args:
        headroom_bytes: what the run may still take.
        bytes_per_second: how fast it grew between the last two readings.

    Returns:
        2 to 20 milliseconds.
    """
    fastest = max(bytes_per_second, _FASTEST_BYTES_PER_SECOND)
    return min(_WATCH_SECONDS, max(_LEAST_PAUSE_SECONDS, headroom_bytes / fastest / 2))


def _rounds_to_next_read(available_bytes: int | None) -> int:
    """Return fewer rounds if less memory is available; reading it costs more than a sample."""
    least, most = _MACHINE_ROUNDS
    return most if available_bytes is None else min(most, max(least, available_bytes // _FASTEST_BYTES_PER_ROUND))
