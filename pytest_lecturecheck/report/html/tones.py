"""Words for how a thing looks: the page's style knows each as a class, and says it by more than a colour."""

from __future__ import annotations

from typing import Final

from pytest_lecturecheck.model.cell_run import CellStatus
from pytest_lecturecheck.verdict import Verdict, VerdictKind

BAD: Final = "bad"
WARN: Final = "warn"
GOOD: Final = "good"
DIM: Final = "dim"

_GOOD: Final = frozenset({VerdictKind.WITHIN, VerdictKind.FITS, VerdictKind.RECORDED})
_DIM: Final = frozenset({VerdictKind.SKIPPED, VerdictKind.NOTHING_TO_RUN})
_BAD_CELLS: Final = frozenset({CellStatus.FAILED, CellStatus.TIMED_OUT, CellStatus.DIED})
_DIM_CELLS: Final = frozenset({CellStatus.SKIPPED, CellStatus.EMPTY, CellStatus.NOT_RUN})


def verdict_tone(verdict: Verdict) -> str:
    """Give the tone of a verdict: what fails is bad, whatever its word is."""
    if verdict.failed:
        return BAD
    if verdict.kind in _GOOD:
        return GOOD
    return DIM if verdict.kind in _DIM else WARN


def cell_tone(status: CellStatus) -> str:
    """Give the tone of a cell's status."""
    if status in _BAD_CELLS:
        return BAD
    if status is CellStatus.ALLOWED_ERROR:
        return WARN
    return DIM if status in _DIM_CELLS else GOOD
