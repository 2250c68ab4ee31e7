"""Let the kernels of a cohort wait for each other, so that their first cells start at the same moment."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Final, Protocol

from pytest_lecturecheck.kernel.run.kernel_probes import KernelProbes
from pytest_lecturecheck.model.evidence import WatchdogStop
from pytest_lecturecheck.model.probe import Snapshot

_LOOK_SECONDS: Final = 0.1


class WatchedKernel(Protocol):
    """A kernel as its cohort uses it."""

    @property
    def probes(self) -> KernelProbes:
        """Return its probes."""

    @property
    def has_ended(self) -> bool:
        """Return True if its process has ended."""

    def stop(self, why: WatchdogStop) -> None:
        """Kill it because of its memory."""


class Barrier:
    """
    Opens when every kernel is ready or has ended. Not thread-safe: for one event loop.

    Args:
        count: number of kernels.
    """

    def __init__(self, count: int) -> None:
        """Start closed."""
        self._missing = count
        self._queued = 0
        self._count = count
        self._open = asyncio.Event()
        self.opened_at: float | None = None
        """When it opened (``time.perf_counter``); ``None`` while it is closed."""

    def settle(self) -> None:
        """Count one kernel that is ready, or that will never be."""
        self._missing -= 1
        if self._missing <= 0 and self.opened_at is None:
            self.opened_at = time.perf_counter()
            self._open.set()

    def note_queue(self, change: int) -> None:
        """Change the number of kernels that queue before they start."""
        self._queued += change

    async def wait_while_stuck(self, limit_seconds: float) -> None:
        """
        Wait until all missing kernels have been queueing for this long while others were ready.

        The ready kernels hold room that they will not give up. A kernel that queues for that room would queue for ever.
        """
        clock = asyncio.get_running_loop().time
        since = clock()
        while clock() - since < limit_seconds:
            await asyncio.sleep(_LOOK_SECONDS)
            if not 0 < self._missing == self._queued < self._count:
                since = clock()

    async def wait(self, limit_seconds: float | None) -> None:
        """Wait until it opens, or until the time is over; then the kernel continues alone."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_seconds):
                await self._open.wait()


class BarrierSlot:
    """
    One kernel's slot in a cohort, through which its run and the cohort communicate.

    Args:
        barrier: the barrier of the cohort.

    Attributes:
        origin: start of the run (``time.perf_counter``), from which its record's times count.
        device_origin: when the GPUs' timelines of its record begin (same clock).
        first_cell_at: when its first cell was sent to the kernel (same clock), or ``None``.
    """

    def __init__(self, barrier: Barrier) -> None:
        """Create a slot without a kernel."""
        self._barrier = barrier
        self._is_settled = self._is_queued = False
        self._kernel: WatchedKernel | None = None
        self.origin = self.device_origin = time.perf_counter()
        self.first_cell_at: float | None = None

    def note_kernel(self, kernel: WatchedKernel) -> None:
        """Record the kernel that was launched."""
        self._kernel, self.device_origin = kernel, kernel.probes.devices_since

    async def wait_for_others(self, limit_seconds: float | None) -> None:
        """Report that this kernel is ready, and wait for the others."""
        self._settle()
        await self._barrier.wait(limit_seconds)

    def note_queue(self, *, is_queued: bool) -> None:
        """Record whether this kernel queues before it starts."""
        if is_queued is not self._is_queued:
            self._is_queued = is_queued
            self._barrier.note_queue(1 if is_queued else -1)

    async def wait_while_stuck(self, limit_seconds: float) -> None:
        """Wait until the others have waited this long for queued kernels only."""
        await self._barrier.wait_while_stuck(limit_seconds)

    def note_sent(self) -> None:
        """Record that a cell was sent to the kernel; only the first one counts."""
        if self.first_cell_at is None:
            self.first_cell_at = time.perf_counter()

    def leave(self) -> None:
        """Report that this kernel has ended, or will never start."""
        self._settle()
        self._kernel = None

    def _settle(self) -> None:
        if not self._is_settled:
            self._is_settled = True
            self._barrier.settle()

    @property
    def last_snapshot(self) -> Snapshot | None:
        """Return the kernel's last reading; ``None`` before the first one and after its end."""
        kernel = self._kernel
        return None if kernel is None or kernel.has_ended else kernel.probes.memory.snapshot()

    def stop(self, why: WatchdogStop) -> None:
        """Kill the kernel at once."""
        if self._kernel is not None:
            self._kernel.stop(why)
