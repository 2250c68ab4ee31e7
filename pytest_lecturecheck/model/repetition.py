"""Cells that are run again in the same kernel: which ones, what memory did, and whether it grows each time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.lecture import Cell
from pytest_lecturecheck.model.memory_profile import GrownType, PartKind

LEAST_REPETITIONS: Final = 5
"""The first repetition fills caches. Cells that compile raise memory up to three times in a row by chance."""
LEAST_GROWTH_BYTES: Final = 256 << 10
"""Less than this for each repetition is not told apart from the noise of allocators."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatRequest:
    """
    Which cells are run again, and how often.

    Attributes:
        count: repetitions of each.
        cells: numbers of code cells.
        tags: tags of cells; without numbers and tags all cells are chosen.
    """

    count: int
    cells: frozenset[int] = frozenset()
    tags: frozenset[str] = frozenset()

    def chooses(self, cell: Cell) -> bool:
        """Return True if the request is about a cell."""
        return not (self.cells or self.tags) or cell.number in self.cells or bool(self.tags & cell.tags)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowingPart:
    """
    One kind of memory that grows with each repetition.

    Attributes:
        kind: what it is.
        growth_bytes: how much it grows each time.
        name: the lecture's name for it, a file's name, or an empty string.
    """

    kind: PartKind
    growth_bytes: int
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRepetitions:
    """
    What memory did while one cell was run again.

    Attributes:
        count: repetitions that ended well.
        level_bytes: resident memory after each of them, garbage collected and free memory returned before.
        parts: what grows each time, the fastest first.
        types: where no name holds what grows: the classes with the most new objects in the last repetition.
        native_growth_bytes: how much more the C library's allocator has handed out each time, or ``None``.
        cleared_level_bytes: where memory grows and JAX is loaded: resident memory after JAX has dropped its compiled
            programs, and after each of two more repetitions, with the programs dropped again.
        reason: why it was not run as often as asked, or why nothing is known; otherwise an empty string.
    """

    count: int
    level_bytes: tuple[int, ...] = ()
    parts: tuple[GrowingPart, ...] = ()
    types: tuple[GrownType, ...] = ()
    native_growth_bytes: int | None = None
    cleared_level_bytes: tuple[int, ...] = ()
    reason: str = ""

    @property
    def growth_bytes(self) -> int | None:
        """Return how much memory grows with each repetition; 0 if it does not, ``None`` after too few of them."""
        return None if len(self.level_bytes) < LEAST_REPETITIONS else steady_growth(self.level_bytes)

    @property
    def grows(self) -> bool:
        """Return True if memory grows each time."""
        return bool(self.growth_bytes)

    @property
    def is_compiled(self) -> bool:
        """Return True if what grows are compiled programs: without them, less than half of it stays each time."""
        steps = [later - earlier for earlier, later in pairwise(self.cleared_level_bytes)]
        return len(steps) > 1 and 2 * min(steps) < (self.growth_bytes or 0)

    @property
    def compiled_bytes(self) -> int:
        """Return what was freed when JAX dropped its compiled programs."""
        return max(0, self.level_bytes[-1] - self.cleared_level_bytes[0]) if self.cleared_level_bytes else 0

    @property
    def is_named(self) -> bool:
        """Return True if the parts that grow are at least half of the growth."""
        return 2 * sum(part.growth_bytes for part in self.parts) >= (self.growth_bytes or 0)


def steady_growth(values: Sequence[int], least: int = LEAST_GROWTH_BYTES) -> int:
    """
    Return the median step (of two the lower) of values that grow each time, and 0 for values that do not.

    The first value is the one after the first repetition, so that what is filled once (caches, compiled code) is in it.
    Each step has to reach half of the median: growth that comes to an end, a jump, and noise are no leak.
    """
    steps = [later - earlier for earlier, later in pairwise(values)]
    if len(steps) < LEAST_REPETITIONS - 1:
        return 0
    middle = sorted(steps)[(len(steps) - 1) // 2]
    if middle < least:
        return 0
    return middle if 2 * min(steps) >= middle else 0
