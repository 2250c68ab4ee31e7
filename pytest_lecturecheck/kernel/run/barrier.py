"""Where the kernels of a cohort wait for each other, so that their first cells start at the same moment."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Final, Protocol

from pytest_lecturecheck.model.probe import Probe, Snapshot

_LOOK_SECONDS: Final = 0.1


class WatchedKernel(Protocol):
    """What a cohort has to know of a kernel."""

    @property
    def probe(self) -> Probe:
        """Give what measures it."""

    @property
    def devices_since(self) -> float:
        """Give when its devices' timelines begin, of ``time.perf_counter``."""

    @property
    def has_ended(self) -> bool:
        """Tell whether its process has ended."""

    def stop(self) -> None:
        """Kill it because of its memory."""


class Barrier:
    """
    Opens when every kernel that will be ready is; one that ends before holds nobody up. For one event loop.

    Args:
        count: kernels that are waited for.
    """

    def __init__(self, count: int) -> None:
        """Wait for all of them."""
        self._missing = count
        self._queued = 0
        self._count = count
        self._open = asyncio.Event()
        self.opened_at: float | None = None
        """When it opened, of ``time.perf_counter``; ``None`` while it is shut."""

    def settle(self) -> None:
        """Count one kernel as arrived, or as one that never will."""
        self._missing -= 1
        if self._missing <= 0 and self.opened_at is None:
            self.opened_at = time.perf_counter()
            self._open.set()

    def note_queue(self, change: int) -> None:
        """Count kernels that queue for room before they start."""
        self._queued += change

    async def wait_while_stuck(self, limit_seconds: float) -> None:
        """
        Wait until, for so long, nobody could come any more but kernels that queue, while others wait for them.

        Those that wait hold room and will not give it up: whoever queues for that very room would queue for ever.
        """
        clock = asyncio.get_running_loop().time
        since = clock()
        while clock() - since < limit_seconds:
            await asyncio.sleep(_LOOK_SECONDS)
            if not 0 < self._missing == self._queued < self._count:
                since = clock()

    async def wait(self, limit_seconds: float | None) -> None:
        """Wait until it opens, or until the time is over: then the kernel goes on by itself."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_seconds):
                await self._open.wait()


class BarrierSlot:
    """
    One kernel's place in a cohort: what its run tells the others.

    Args:
        barrier: where the kernels wait for each other.

    Attributes:
        origin: start of the run, of ``time.perf_counter``; its record's times count from there.
        device_origin: when the devices' timelines of its record begin, on the same clock.
        first_cell_at: when its first cell was sent to the kernel, on the same clock, or ``None``.
    """

    def __init__(self, barrier: Barrier) -> None:
        """Take a place; the kernel is not there yet."""
        self._barrier = barrier
        self._is_settled = self._is_queued = False
        self._kernel: WatchedKernel | None = None
        self.origin = self.device_origin = time.perf_counter()
        self.first_cell_at: float | None = None

    def note_kernel(self, kernel: WatchedKernel) -> None:
        """Say which kernel has been launched."""
        self._kernel, self.device_origin = kernel, kernel.devices_since

    async def wait_for_others(self, limit_seconds: float | None) -> None:
        """Say that this kernel is ready, and wait for the others."""
        self._settle()
        await self._barrier.wait(limit_seconds)

    def note_queue(self, *, is_queued: bool) -> None:
        """Say whether this kernel queues for room before it starts."""
        if is_queued is not self._is_queued:
            self._is_queued = is_queued
            self._barrier.note_queue(1 if is_queued else -1)

    async def wait_while_stuck(self, limit_seconds: float) -> None:
        """Wait until the others have waited so long for kernels that queue, and for nothing else."""
        await self._barrier.wait_while_stuck(limit_seconds)

    def note_sent(self) -> None:
        """Note that a cell was sent to the kernel; the first one counts."""
        if self.first_cell_at is None:
            self.first_cell_at = time.perf_counter()

    def leave(self) -> None:
        """Say that nothing of this kernel is left, or that it never came to be."""
        self._settle()
        self._kernel = None

    def _settle(self) -> None:
        if not self._is_settled:
            self._is_settled = True
            self._barrier.settle()

    @property
    def last_snapshot(self) -> Snapshot | None:
        """Give the kernel's last figures; ``None`` before the first and after its end."""
        kernel = self._kernel
        return None if kernel is None or kernel.has_ended else kernel.probe.snapshot()

    def stop(self) -> None:
        """Kill the kernel at once."""
        if self._kernel is not None:
            self._kernel.stop()
