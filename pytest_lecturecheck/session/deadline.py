"""A time limit that another plugin sets for an item, spread over the item's runs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

from pytest_lecturecheck.model.settings import ItemLimit, RunSettings

_LEAST_SECONDS = 1.0
"""A later run gets at least this much, so that its failure names the limit and not a kernel that never started."""


def limit_total_time(settings: RunSettings, limit: ItemLimit | None, seconds: float) -> RunSettings:
    """Return the settings with ``seconds`` as the lecture's total timeout, unless they have a shorter one."""
    if limit is None or (settings.total_timeout_seconds or math.inf) <= seconds:
        return settings
    origins = {**settings.origins, "total_timeout_seconds": limit.origin}
    return replace(settings, total_timeout_seconds=seconds, origins=origins)


class Deadline:
    """
    The end of the time that all runs of one item have together; it begins with the object.

    Args:
        limit: the limit, or ``None``.
        clock: returns seconds that never decrease.
    """

    def __init__(self, limit: ItemLimit | None, clock: Callable[[], float] = time.monotonic) -> None:
        """Start the clock."""
        self._limit = limit
        self._clock = clock
        self._ends = clock() + limit.seconds if limit is not None else math.inf

    def first(self, settings: RunSettings) -> RunSettings:
        """Return the settings of the first run, which has the whole limit."""
        return limit_total_time(settings, self._limit, self._limit.seconds if self._limit is not None else math.inf)

    def later(self, settings: RunSettings) -> RunSettings:
        """Return the settings of a later run, which has what is left of the limit."""
        return limit_total_time(settings, self._limit, max(_LEAST_SECONDS, self._ends - self._clock()))
