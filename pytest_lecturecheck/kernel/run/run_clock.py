"""The time limits of one run."""

from __future__ import annotations

import asyncio
import math
import time

from pytest_lecturecheck.model.settings import RunSettings


class RunClock:
    """
    Measures a run against its limits, without the time that it spent in queues.

    Args:
        settings: the settings of the lecture; a limit of 0 or ``None`` is no limit.

    Attributes:
        cell_limit_seconds: limit of one cell; infinite for none.
        total_limit_seconds: limit of the lecture; infinite for none.
        startup_limit_seconds: limit of the kernel's start; infinite for none.
        origin: start of the run (``time.perf_counter``), from which the record's times count.
        monotonic_origin: the same moment of ``time.monotonic``, the clock of the system's log.
    """

    def __init__(self, settings: RunSettings) -> None:
        """Start the clock."""
        self.cell_limit_seconds = settings.timeout_seconds or math.inf
        self.total_limit_seconds = settings.total_timeout_seconds or math.inf
        self.startup_limit_seconds = settings.startup_timeout_seconds or math.inf
        self._clock = asyncio.get_running_loop().time
        self._began = self._clock()
        self.origin = time.perf_counter()
        self.monotonic_origin = time.monotonic()

    def exclude(self, seconds: float) -> None:
        """Exclude time that the run spent waiting for others."""
        self._began += seconds

    @property
    def elapsed_seconds(self) -> float:
        """Return the time since the start, without excluded time."""
        return self._clock() - self._began

    @property
    def total_left_seconds(self) -> float:
        """Return what is left of the lecture's limit."""
        return max(0.0, self.total_limit_seconds - self.elapsed_seconds)
