"""
SuperLU's limits, with the values of the matrix that met them.

``LUMemInit`` of SuperLU asks for 30 x the stored entries before it starts, and keeps that number in a 32-bit integer.
Fill-in comes later: a matrix below that line can still need more entries than an integer can count.
"""

from __future__ import annotations

from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.evidence import Evidence
from pytest_lecturecheck.model.factorisation import Factorisation
from pytest_lecturecheck.units import format_fraction

WORK_FACTOR: Final = 30
_INTEGERS: Final = 2**31
MOST_ENTRIES: Final = _INTEGERS // WORK_FACTOR
"""Largest number of stored entries whose work space a 32-bit integer can count."""
_OTHER_SOLVERS: Final = (
    "use a solver with 64-bit sizes (UMFPACK of scikit-umfpack, CHOLMOD of scikit-sparse, PARDISO), "
    "an iterative one (scipy.sparse.linalg.gmres, cg), or solve in blocks"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SuperLuLimit:
    """
    Which limit a factorisation met.

    Attributes:
        headline: the limit, as the end of a sentence.
        lines: the values that show it.
        advice: what would help.
    """

    headline: str
    lines: tuple[str, ...]
    advice: tuple[str, ...]


def find_limit(evidence: Evidence) -> SuperLuLimit | None:
    """Return the limit that the failed factorisation met, or ``None`` if the agent noted none."""
    failed = next((item for item in evidence.factorisations if item.error and item.call != "spilu"), None)
    if failed is None:
        return None
    return _work_space(failed) if failed.stored_count > MOST_ENTRIES else _fill_in(failed)


def _matrix_line(item: Factorisation) -> str:
    text = f"{item.call} was given {item.size:,} x {item.size:,} with {item.stored_count:,} stored entries"
    if not item.zero_count:
        return text if item.zero_count is None else f"{text}, none of them zero"
    share = item.zero_count / item.stored_count
    return f"{text}, {item.zero_count:,} of them zeros ({format_fraction(share).lstrip('+')})"


def _work_space(item: Factorisation) -> SuperLuLimit:
    request = WORK_FACTOR * item.stored_count
    lines = [
        _matrix_line(item),
        f"{WORK_FACTOR} x {item.stored_count:,} = {request:,}; a 32-bit integer holds less than 2**31 = {_INTEGERS:,}",
    ]
    advice = ["a machine with more memory does not help"]
    if item.zero_count:
        left = item.stored_count - item.zero_count
        if left > MOST_ENTRIES:
            lines.append(f"without the zeros, {_both(left)[0]} stored entries are still above {_both(left)[1]}")
            advice.append("dropping the stored zeros (A.eliminate_zeros()) is not enough by itself")
        else:
            share = format_fraction(left / MOST_ENTRIES).lstrip("+")
            lines.append(f"without the zeros, {_millions(left)} stored entries are {share} of what fits")
            advice.append("drop the stored zeros before the call: A.eliminate_zeros()")
    if item.ordering:
        lines.append(f"the ordering ({item.ordering}) cannot matter: the request is made before fill-in starts")
    stored, most = _both(item.stored_count)
    return SuperLuLimit(
        headline=f"{stored} stored entries are above the {most} of SuperLU's 32-bit work space",
        lines=tuple(lines),
        advice=(*advice, _OTHER_SOLVERS),
    )


def _fill_in(item: Factorisation) -> SuperLuLimit:
    lines = [
        _matrix_line(item),
        f"{WORK_FACTOR} x {item.stored_count:,} fits into 32 bits: the work space was granted, and fill-in exceeded it",
    ]
    drop = ("drop the stored zeros before the call: A.eliminate_zeros()",) if item.zero_count else ()
    other = "MMD_AT_PLUS_A" if item.ordering == "COLAMD" else "COLAMD"
    return SuperLuLimit(
        headline="fill-in exceeded what SuperLU could extend its work space to",
        lines=tuple(lines),
        advice=(*drop, f'try another ordering (permc_spec="{other}"): here it decides about fill-in', _OTHER_SOLVERS),
    )


def _both(count: int) -> tuple[str, str]:
    """Format a count and the largest possible one so that they look different."""
    texts = _millions(count), _millions(MOST_ENTRIES)
    return texts if texts[0] != texts[1] else (f"{count:,}", f"{MOST_ENTRIES:,}")


def _millions(count: int) -> str:
    return f"{count / 1e6:,.1f} million"
