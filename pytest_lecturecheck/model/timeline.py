"""Memory over time: the samples of a run, as values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

from pytest_lecturecheck.deferred_dataclass import dataclass

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySample:
    """
    One moment of a run's memory. What was not measured is ``None``, never 0.

    Attributes:
        seconds: time since the start of the run.
        footprint_bytes: footprint of the process tree, an estimate between two proportional readings; a cell's exact
            peak may lie above every sample.
        rss_bytes: resident size of the kernel process.
        swap_bytes: what is swapped out of the kernel process.
        compressed_bytes: what a compressor holds of it.
    """

    seconds: float
    footprint_bytes: int | None = None
    rss_bytes: int | None = None
    swap_bytes: int | None = None
    compressed_bytes: int | None = None

    @property
    def level_bytes(self) -> int:
        """Return the headline of the sample: the footprint, or the resident size where there is none."""
        return self.footprint_bytes if self.footprint_bytes is not None else self.rss_bytes or 0


def thin(samples: Sequence[_T], most: int, level: Callable[[_T], int]) -> list[_T]:
    """Keep at most ``most`` samples: the first, the last, and the lowest and highest of each interval."""
    if len(samples) <= most:
        return list(samples)
    interval = math.ceil(len(samples) / max(1, (most - 2) // 2))
    kept = {0, len(samples) - 1}
    for start in range(0, len(samples), interval):
        positions = range(start, min(start + interval, len(samples)))
        kept.add(min(positions, key=lambda position: level(samples[position])))
        kept.add(max(positions, key=lambda position: level(samples[position])))
    return [samples[position] for position in sorted(kept)]
