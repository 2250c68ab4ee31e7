"""A kernel's place in a scheduler's queue: what is told of it, and how long the others of a cohort wait for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

from pytest_lecturecheck.errors import KernelStartError
from pytest_lecturecheck.kernel.launchers.port import Launcher
from pytest_lecturecheck.kernel.run.barrier import BarrierSlot
from pytest_lecturecheck.kernel.run.kernel_session import KernelSession
from pytest_lecturecheck.units import format_duration


class Queueing:
    """
    The way of one run through the queue of a launcher that has one.

    Args:
        launcher: where the kernel is to run.
        seat: its place in a cohort, or ``None``.
        patience_seconds: how long kernels that are ready wait for one that queues.

    Attributes:
        queue: what it queues in now ("Slurm"), or an empty string.
    """

    def __init__(self, launcher: Launcher, seat: BarrierSlot | None, patience_seconds: float) -> None:
        """Queue nowhere yet."""
        self._launcher = launcher
        self._seat = seat
        self._patience_seconds = patience_seconds
        self._since = 0.0
        self.queue = ""

    def note(self, queue: str) -> None:
        """Take what the kernel queues in, or an empty string when it no longer does."""
        if queue and not self.queue:
            self._since = time.monotonic()
        self.queue = queue
        if self._seat is not None:
            self._seat.note_queue(is_queued=bool(queue))

    @property
    def text(self) -> str:
        """Say where it queues, or nothing."""
        return f"queued in {self.queue}" if self.queue else ""

    def elapsed_seconds(self, running_seconds: float) -> float:
        """Give for how long it has queued, or has been running."""
        return time.monotonic() - self._since if self.queue else running_seconds

    async def launch(self, launching: Coroutine[Any, Any, KernelSession]) -> KernelSession:
        """
        Wait for the launch.

        Raises:
            KernelStartError: the launch failed, or the other kernels of the cohort have waited for it in vain.
        """
        if self._seat is None or not self._launcher.admits:
            return await launching
        launch = asyncio.ensure_future(launching)
        patience = asyncio.ensure_future(self._seat.wait_while_stuck(self._patience_seconds))
        try:
            await asyncio.wait({launch, patience}, return_when=asyncio.FIRST_COMPLETED)
            if launch.done():
                return launch.result()
        finally:
            patience.cancel()
            if not launch.done():
                launch.cancel()
                await asyncio.wait({launch})
        msg = (
            f"the kernel was still queued when the others of its cohort had waited for it for "
            f"{format_duration(self._patience_seconds)}: there is no room for all of them at once; get an allocation "
            "that holds them (salloc --ntasks=... --mem=...), or try fewer kernels"
        )
        raise KernelStartError(msg)

    async def wait_for_others(self, limit_seconds: float | None) -> float:
        """
        Wait for the other kernels of a cohort, when this one is ready.

        Args:
            limit_seconds: when to go on without them; where there is a queue, they come or give up by themselves.

        Returns:
            Seconds of it that are no time of this lecture's: others may have queued.
        """
        if self._seat is None:
            return 0.0
        arrived = time.monotonic()
        await self._seat.wait_for_others(None if self._launcher.admits else limit_seconds)
        return time.monotonic() - arrived if self._launcher.admits else 0.0
