"""One thread that takes the samples of all open probes of this process."""

from __future__ import annotations

import math
import threading
import time
from typing import Final, Protocol

_SHARE: Final = 0.007
"""Share of a core that samples may take; beyond, they become rarer. With what this clock does not show, below 1 %."""
_SMOOTHING: Final = 0.05
_TOGETHER: Final = 0.25
"""Part of the interval by which a sample may come early, so that several probes are read in one go."""


class Sampled(Protocol):
    """What the sampler drives."""

    def sample(self, interval_seconds: float) -> bool:
        """Take one cheap sample; ``interval_seconds`` is the present interval. Tell whether a dear one is wanted."""

    def sample_deeply(self) -> None:
        """Take the dear sample, which is rationed by who asks for it."""


class MemorySampler:
    """
    A daemon thread that runs while there is something to sample, and ends by itself after.

    Removing never waits for the thread: a sample that is being taken at that moment must find out for itself that it is
    not wanted any more.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # A lock that is held is the cheapest alarm clock: an Event costs twice the time for each tick.
        self._alarm = threading.Lock()
        self._alarm.acquire()
        self._intervals: dict[Sampled, float] = {}
        self._due: dict[Sampled, float] = {}
        self._thread: threading.Thread | None = None
        self._round_seconds = 0.0
        self._next_at = 0.0

    def add(self, target: Sampled, interval_seconds: float) -> None:
        """Sample ``target`` from now on."""
        with self._lock:
            self._intervals[target] = interval_seconds
            self._due[target] = 0.0
            # After a fork the child has the object but not the thread.
            if self._thread is None or not self._thread.is_alive():
                self._round_seconds = 0.0
                self._thread = threading.Thread(target=self._run, name="lecturecheck-sampler", daemon=True)
                self._thread.start()
            self._ring()

    def remove(self, target: Sampled) -> None:
        """Sample ``target`` no more; harmless where it is not sampled."""
        with self._lock:
            if self._due.pop(target, None) is not None:
                del self._intervals[target]
                self._ring()

    def _ring(self) -> None:
        if self._alarm.locked():
            self._alarm.release()

    def _run(self) -> None:
        used_before = time.thread_time()
        while True:
            with self._lock:
                if not self._due:
                    self._thread = None
                    return
                ready = self._take_ready()
            wanting = [target for target, interval_seconds in ready if target.sample(interval_seconds)]
            self._round_seconds += _SMOOTHING * (time.thread_time() - used_before - self._round_seconds)
            for target in wanting:
                target.sample_deeply()
            used_before = time.thread_time()
            # Whoever is added or removed meanwhile rings, so that what was found due before still holds here.
            self._alarm.acquire(timeout=max(0.0, self._next_at - time.monotonic()))

    def _take_ready(self) -> list[tuple[Sampled, float]]:
        now = time.monotonic()
        ready = []
        next_at = math.inf
        for target, nominal_seconds in self._intervals.items():
            if self._due[target] <= now + _TOGETHER * nominal_seconds:
                interval_seconds = max(nominal_seconds, self._round_seconds / _SHARE)
                self._due[target] = now + interval_seconds
                ready.append((target, interval_seconds))
            next_at = min(next_at, self._due[target])
        self._next_at = next_at
        return ready


SHARED_SAMPLER: Final = MemorySampler()
"""The one sampler of this process."""
