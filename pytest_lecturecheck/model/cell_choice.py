"""Cells of a lecture that a person names by number, or by what kept sessions say about them."""

from __future__ import annotations

from enum import StrEnum

from pytest_lecturecheck.deferred_dataclass import dataclass


class CellWord(StrEnum):
    """A cell that is looked up in the kept sessions of its lecture."""

    HEAVIEST = "heaviest"
    """The cell with the highest peak of memory."""
    FAILING = "failing"
    """The cell in which the lecture ended badly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellChoice:
    """
    The choice of one cell of each lecture.

    Attributes:
        number: number of a code cell (1-based), or ``None`` where a word chooses it.
        word: what chooses the cell, or ``None``.
    """

    number: int | None = None
    word: CellWord | None = None
