"""Track a kernel in a scheduler's queue, and limit how long the other kernels of a cohort wait for it."""

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
    Tracks one run in the queue of its launcher.

    Args:
        launcher: where the kernel runs.
        slot: its slot in a cohort, or ``None``.
        patience_seconds: how long kernels that are ready wait for a queued one.

    Attributes:
        queue: name of the queue in which it waits ("Slurm"), or an empty string.
    """

    def __init__(self, launcher: Launcher, slot: BarrierSlot | None, patience_seconds: float) -> None:
        """Create a run that is not queued."""
        self._launcher = launcher
        self._slot = slot
        self._patience_seconds = patience_seconds
        self._since = 0.0
        self.queue = ""

    def note(self, queue: str) -> None:
        """Record the queue in which the kernel waits, or an empty string when it has left it."""
        if queue and not self.queue:
            self._since = time.monotonic()
        self.queue = queue
        if self._slot is not None:
            self._slot.note_queue(is_queued=bool(queue))

    @property
    def text(self) -> str:
        """Return where it is queued, or an empty string."""
        return f"queued in {self.queue}" if self.queue else ""

    def elapsed_seconds(self, running_seconds: float) -> float:
        """Return how long it has been queued or, if it is not queued, running."""
        return time.monotonic() - self._since if self.queue else running_seconds

    async def launch(self, launching: Coroutine[Any, Any, KernelSession]) -> KernelSession:
        """
        Wait for the launch.

        Raises:
            KernelStartError: the launch failed, or the other kernels of the cohort waited for it too long.
        """
        if self._slot is None or not self._launcher.admits:
            return await launching
        launch = asyncio.ensure_future(launching)
        patience = asyncio.ensure_future(self._slot.wait_while_stuck(self._patience_seconds))
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
            f"the kernel was still queued after the others of its cohort had waited for it for "
            f"{format_duration(self._patience_seconds)}: there is no room for all of them at once; get an allocation "
            "that holds them (salloc --ntasks=... --mem=...), or try fewer kernels"
        )
        raise KernelStartError(msg)

    async def wait_for_others(self, limit_seconds: float | None) -> float:
        """
        Wait for the other kernels of a cohort, when this one is ready.

        Args:
            limit_seconds: when to continue without them. It is ignored if there is a queue, in which they may give up.

        Returns:
            Seconds that do not count as time of this lecture, because others were queued.
        """
        if self._slot is None:
            return 0.0
        arrived = time.monotonic()
        await self._slot.wait_for_others(None if self._launcher.admits else limit_seconds)
        return time.monotonic() - arrived if self._launcher.admits else 0.0
