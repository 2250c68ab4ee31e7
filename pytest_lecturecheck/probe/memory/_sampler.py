"""One thread that takes the samples of all open probes of this process."""

from __future__ import annotations

import threading
import time
from typing import Final, Protocol


class Sampled(Protocol):
    """What the sampler drives."""

    def sample(self) -> float:
        """Take one sample, and give the seconds to wait before the next one."""


class Sampler:
    """
    A daemon thread that runs while there is something to sample, and ends by itself after.

    Removing never waits for the thread: a sample that is being taken at that moment must find out for itself that it is
    not wanted any more.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._due: dict[Sampled, float] = {}
        self._thread: threading.Thread | None = None

    def add(self, target: Sampled) -> None:
        """Sample ``target`` from now on."""
        with self._lock:
            self._due[target] = 0.0
            # After a fork the child has the object but not the thread.
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="lecturecheck-sampler", daemon=True)
                self._thread.start()
        self._wake.set()

    def remove(self, target: Sampled) -> None:
        """Sample ``target`` no more; harmless where it is not sampled."""
        with self._lock:
            self._due.pop(target, None)
        self._wake.set()

    def _run(self) -> None:
        while True:
            self._wake.clear()
            with self._lock:
                if not self._due:
                    self._thread = None
                    return
                now = time.monotonic()
                ready = [target for target, due in self._due.items() if due <= now]
            for target in ready:
                wait_seconds = target.sample()
                with self._lock:
                    if target in self._due:
                        self._due[target] = time.monotonic() + wait_seconds
            self._wake.wait(self._seconds_to_next())

    def _seconds_to_next(self) -> float:
        with self._lock:
            return max(0.0, min(self._due.values(), default=0.0) - time.monotonic())


SHARED_SAMPLER: Final = Sampler()
"""The one sampler of this process."""
