"""Memory over time: the samples of a run, as values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySample:
    """
    One moment of a run's memory. What was not had is ``None``, never 0.

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
        """Give the headline of the sample: the footprint, or the resident size where there is none."""
        return self.footprint_bytes if self.footprint_bytes is not None else self.rss_bytes or 0
