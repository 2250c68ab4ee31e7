"""Map verdicts and statuses to style classes of the page, which differ by more than their colour."""

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
    """Return the tone of a verdict; a failing one is bad whatever its kind."""
    return BAD if verdict.failed else kind_tone(verdict.kind)


def kind_tone(kind: VerdictKind) -> str:
    """Return the tone of a verdict by its kind alone."""
    if kind.exceeds_limit:
        return BAD
    if kind in _GOOD:
        return GOOD
    return DIM if kind in _DIM else WARN


def cell_tone(status: CellStatus) -> str:
    """Return the tone of a cell's status."""
    if status in _BAD_CELLS:
        return BAD
    if status is CellStatus.ALLOWED_ERROR:
        return WARN
    return DIM if status in _DIM_CELLS else GOOD
