"""Comparison of two runs of one lecture, cell by cell: the first cell whose need diverges, and by how much."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.cell_run import CellRun, CellStatus
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.units import MIB

_MEMORY_SLACK_BYTES: Final = 16 * MIB
_MEMORY_FACTOR: Final = 1.2
_TIME_SLACK_SECONDS: Final = 1.0
_TIME_FACTOR: Final = 2.0
_GOOD: Final = frozenset({CellStatus.OK, CellStatus.EXPECTED_ERROR, CellStatus.ALLOWED_ERROR})


class Divergence(StrEnum):
    """In what a cell differs between two runs."""

    NONE = ""
    OUTCOME = "outcome"
    MEMORY = "memory"
    TIME = "time"


@dataclass(frozen=True, slots=True, kw_only=True)
class CellPair:
    """
    One code cell in both runs.

    Attributes:
        number: its number.
        before: the cell in the first run, or ``None`` if that has no such cell.
        after: the cell in the second run, or ``None``.
        divergence: in what the two differ.
    """

    number: int
    before: CellRun | None
    after: CellRun | None
    divergence: Divergence = Divergence.NONE

    @property
    def need_bytes(self) -> tuple[int | None, int | None]:
        """Return how far the cell raised the footprint in each run."""
        first, second = (cell.raised_bytes if cell is not None else None for cell in (self.before, self.after))
        return first, second

    @property
    def difference_bytes(self) -> int | None:
        """Return the difference of both needs, or ``None`` if one is not known."""
        first, second = self.need_bytes
        return None if first is None or second is None else second - first


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPair:
    """
    Two runs of one lecture.

    Attributes:
        before: the first run.
        after: the second run.
        cells: their code cells, by number.
    """

    before: Run
    after: Run
    cells: tuple[CellPair, ...]

    @property
    def first_divergence(self) -> CellPair | None:
        """Return the first cell that differs in outcome or memory, otherwise the first that differs in time."""
        kinds = ((Divergence.OUTCOME, Divergence.MEMORY), (Divergence.TIME,))
        return next((cell for group in kinds for cell in self.cells if cell.divergence in group), None)


def compare_cells(before: Run, after: Run) -> RunPair:
    """Pair the cells of two runs by their numbers."""
    first, second = ({cell.number: cell for cell in run.cells} for run in (before, after))
    same_class = (
        before.machine is not None
        and after.machine is not None
        and before.machine.time_class == after.machine.time_class
    )
    pairs = [
        CellPair(
            number=number,
            before=first.get(number),
            after=second.get(number),
            divergence=_divergence(first.get(number), second.get(number), compares_time=same_class),
        )
        for number in sorted({*first, *second})
    ]
    return RunPair(before=before, after=after, cells=tuple(pairs))


def _divergence(before: CellRun | None, after: CellRun | None, *, compares_time: bool) -> Divergence:
    if before is None or after is None or not (before.status.has_run and after.status.has_run):
        return Divergence.NONE
    if (before.status in _GOOD) is not (after.status in _GOOD):
        return Divergence.OUTCOME
    first, second = before.raised_bytes, after.raised_bytes
    if first is not None and second is not None and _differ(first, second, _MEMORY_SLACK_BYTES, _MEMORY_FACTOR):
        return Divergence.MEMORY
    times = before.measured(Metric.WALL), after.measured(Metric.WALL)
    if compares_time and times[0] is not None and times[1] is not None:
        is_other = _differ(times[0].value, times[1].value, _TIME_SLACK_SECONDS, _TIME_FACTOR)
        return Divergence.TIME if is_other else Divergence.NONE
    return Divergence.NONE


def _differ(first: float, second: float, slack: float, factor: float) -> bool:
    return abs(first - second) > slack and max(first, second) > factor * min(first, second)
