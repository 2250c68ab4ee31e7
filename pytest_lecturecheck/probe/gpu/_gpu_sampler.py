"""One thread that reads all cards for all open probes of this process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, Protocol

INTERVAL_SECONDS: Final = 0.08
"""Time between two readings: a little better than 10 Hz, with room for the reading itself."""


class Ticker(Protocol):
    """Has readings taken again and again while somebody wants them."""

    def start(self) -> None:
        """Want readings from now on; to be taken back with :meth:`stop` as often."""

    def stop(self) -> None:
        """Want no more; never waits."""

    def look(self, timeout_seconds: float) -> bool:
        """Have one reading taken now, and wait for it; tell whether it was had in time."""

    def wait(self, seconds: float) -> None:
        """Let time pass."""


class DeviceSampler:
    """
    A daemon thread that runs while there is something to read, and ends by itself after.

    All readings are taken on it: a card that has fallen off the bus can hold a reader for seconds, which must not stop
    the thread that drives kernels.

    Args:
        sample: takes one reading of all cards.
        interval_seconds: time between two readings.
    """

    def __init__(self, sample: Callable[[], None], interval_seconds: float = INTERVAL_SECONDS) -> None:
        self._sample = sample
        self._interval_seconds = interval_seconds
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._wanting_count = 0
        self._asked_count = 0
        self._answered_count = 0

    def start(self) -> None:
        """Want readings from now on."""
        with self._changed:
            self._wanting_count += 1
            # After a fork the child has the object but not the thread.
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="lecturecheck-gpu-sampler", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """Want no more; the thread ends when nobody wants any."""
        with self._changed:
            self._wanting_count = max(0, self._wanting_count - 1)
            self._changed.notify_all()

    def look(self, timeout_seconds: float) -> bool:
        """Have one reading taken now; ``False`` where it did not come in time, or where nobody wants readings."""
        with self._changed:
            if not self._wanting_count:
                return False
            self._asked_count += 1
            mine = self._asked_count
            self._changed.notify_all()
            return self._changed.wait_for(lambda: self._answered_count >= mine, timeout_seconds)

    def wait(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._wanting_count:
                    self._thread = None
                    return
                asked_count = self._asked_count
            due = time.monotonic() + self._interval_seconds
            self._sample()
            with self._changed:
                self._answered_count = asked_count
                self._changed.notify_all()
                self._changed.wait_for(self._is_awaited, max(0.0, due - time.monotonic()))

    def _is_awaited(self) -> bool:
        return not self._wanting_count or self._asked_count > self._answered_count
