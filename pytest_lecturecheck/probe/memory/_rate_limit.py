"""Limit the rate of expensive readings. Pure."""

from __future__ import annotations

from typing import Final

_PAUSE_FACTOR: Final = 10


class RateLimiter:
    """
    Keep readings under a share of the elapsed time, and prevent bursts.

    The first reading is allowed at once. A later one is allowed if all readings so far took less than
    ``share_fraction`` of the time since the start. In addition, ten times the length of the last reading must have
    passed since it ended.

    Args:
        now: seconds on any clock.
        share_fraction: share of the time that readings may take.
    """

    def __init__(self, now: float, share_fraction: float = 0.01) -> None:
        self._started_at = now
        self._share_fraction = share_fraction
        self._spent_seconds = 0.0
        self._next_at = now

    def allows(self, now: float) -> bool:
        """Return True if a reading may be taken now."""
        earned_seconds = self._share_fraction * (now - self._started_at)
        return now >= self._next_at and self._spent_seconds <= earned_seconds

    def spend(self, started_at: float, ended_at: float) -> None:
        """Record a reading that was taken."""
        self._spent_seconds += ended_at - started_at
        self._next_at = ended_at + _PAUSE_FACTOR * (ended_at - started_at)
