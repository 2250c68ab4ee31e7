"""One thread that takes the samples of all open probes of this process."""

from __future__ import annotations

import math
import threading
import time
from typing import Final, Protocol

_SHARE: Final = 0.007
"""Share of a core that samples may take before they become rarer; with the cost of thread switches it is below 1 %."""
_SMOOTHING: Final = 0.05
_TOGETHER: Final = 0.25
"""Part of the interval by which a sample may come early, so that several probes are read at one wake-up."""


class Sampled(Protocol):
    """A target of the sampler."""

    def sample(self, interval_seconds: float) -> bool:
        """Take one cheap sample at the given interval, and return True if an expensive one is wanted."""

    def sample_deeply(self) -> None:
        """Take the expensive sample; the target limits its rate."""


class MemorySampler:
    """
    A daemon thread that runs while there is something to sample, and then ends.

    :meth:`remove` never waits for the thread, so a target may be sampled once more after it was removed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Acquiring a held lock with a timeout is the cheapest timer: an Event costs twice as much for each tick.
        self._wake = threading.Lock()
        self._wake.acquire()
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
            # A forked child has this object but not the thread.
            if self._thread is None or not self._thread.is_alive():
                self._round_seconds = 0.0
                self._thread = threading.Thread(target=self._run, name="lecturecheck-sampler", daemon=True)
                self._thread.start()
            self._wake_up()

    def remove(self, target: Sampled) -> None:
        """Stop sampling ``target``; harmless where it is not sampled."""
        with self._lock:
            if self._due.pop(target, None) is not None:
                del self._intervals[target]
                self._wake_up()

    def _wake_up(self) -> None:
        if self._wake.locked():
            self._wake.release()

    def _run(self) -> None:
        used_before = time.thread_time()
        while True:
            with self._lock:
                if not self._due:
                    self._thread = None
                    return
                ready = self._take_ready()
            wanted = [target for target, interval_seconds in ready if target.sample(interval_seconds)]
            self._round_seconds += _SMOOTHING * (time.thread_time() - used_before - self._round_seconds)
            for target in wanted:
                target.sample_deeply()
            used_before = time.thread_time()
            # Adding or removing a target releases the lock, so that a new due time takes effect at once.
            self._wake.acquire(timeout=max(0.0, self._next_at - time.monotonic()))

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
