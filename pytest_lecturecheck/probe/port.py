"""
The port that measuring devices implement.

A probe is opened once for a kernel, told where each cell begins and ends, and closed when the kernel's tree is gone. It
answers ``Measurement | Unavailable`` and never raises for something that a machine merely does not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from pytest_lecturecheck.metric import Metric, Reading

RUN_TOKEN_VARIABLE: Final = "LECTURECHECK_RUN"  # noqa: S105 - the name of a variable, not a secret
"""Environment variable that marks every process of a run, wherever it goes in the tree of processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """
    The last figures that a probe read, for the live line and for evidence.

    Attributes:
        footprint_bytes: footprint of the process tree at that moment.
        peak_footprint_bytes: highest footprint so far in this run.
        age_seconds: age of the reading.
        process_count: processes in the tree.
    """

    footprint_bytes: int
    peak_footprint_bytes: int
    age_seconds: float
    process_count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CellReadings:
    """
    What a probe has to say about one window (a cell).

    Attributes:
        readings: one reading for each of the probe's metrics.
        start_footprint_bytes: footprint when the window opened, or ``None`` where it was not had.
    """

    readings: Mapping[Metric, Reading]
    start_footprint_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedSegment:
    """A segment of POSIX shared memory: the size it was made with, and the memory it really takes."""

    size_bytes: int
    taken_bytes: int


class Probe(Protocol):
    """One kernel under measurement."""

    def begin_cell(self) -> None:
        """Open a cell's window. What happened since the last one closed still belongs to the earlier window."""

    def end_cell(self) -> CellReadings:
        """Close the cell's window. Works after the process has died, with what was read before."""

    def snapshot(self) -> Snapshot | None:
        """Give the last figures read, or ``None`` before the first."""

    def close(self) -> Mapping[Metric, Reading]:
        """Stop reading and give the lecture's figures; safe to call twice."""
