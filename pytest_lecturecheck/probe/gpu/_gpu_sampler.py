"""One thread that reads all cards for all open probes of this process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, Protocol

INTERVAL_SECONDS: Final = 0.08
"""Time between two readings: a little faster than 10 Hz, which leaves time for the reading itself."""


class Ticker(Protocol):
    """Takes readings repeatedly while at least one probe wants them."""

    def start(self) -> None:
        """Start readings; every call must be matched by one of :meth:`stop`."""

    def stop(self) -> None:
        """Stop readings when the last probe has stopped; never waits."""

    def look(self, timeout_seconds: float) -> bool:
        """Request one reading now and wait for it; return True if it was taken in time."""

    def wait(self, seconds: float) -> None:
        """Sleep."""


class DeviceSampler:
    """
    A daemon thread that runs while there is something to read, and then ends.

    All readings are taken on it: NVML can block for seconds on a card that has fallen off the bus, and that must not
    block the thread that drives kernels.

    Args:
        sample: takes one reading of all cards.
        interval_seconds: time between two readings.
    """

    def __init__(self, sample: Callable[[], None], interval_seconds: float = INTERVAL_SECONDS) -> None:
        self._sample = sample
        self._interval_seconds = interval_seconds
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._probe_count = 0
        self._requested_count = 0
        self._completed_count = 0

    def start(self) -> None:
        """Start readings."""
        with self._changed:
            self._probe_count += 1
            # A forked child has this object but not the thread.
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="lecturecheck-gpu-sampler", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """Stop readings; the thread ends when no probe is left."""
        with self._changed:
            self._probe_count = max(0, self._probe_count - 1)
            self._changed.notify_all()

    def look(self, timeout_seconds: float) -> bool:
        """Request one reading now; return False if it was not taken in time, or no probe is open."""
        with self._changed:
            if not self._probe_count:
                return False
            self._requested_count += 1
            mine = self._requested_count
            self._changed.notify_all()
            return self._changed.wait_for(lambda: self._completed_count >= mine, timeout_seconds)

    def wait(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._probe_count:
                    self._thread = None
                    return
                requested_count = self._requested_count
            due = time.monotonic() + self._interval_seconds
            self._sample()
            with self._changed:
                self._completed_count = requested_count
                self._changed.notify_all()
                self._changed.wait_for(self._is_wanted, max(0.0, due - time.monotonic()))

    def _is_wanted(self) -> bool:
        return not self._probe_count or self._requested_count > self._completed_count
