"""One call of SuperLU, SciPy's solver for sparse systems, as the agent inside the kernel saw it."""

from __future__ import annotations

from pytest_lecturecheck.deferred_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Factorisation:
    """
    A sparse factorisation by ``splu``, ``spilu``, ``factorized`` or ``spsolve`` of ``scipy.sparse.linalg``.

    Attributes:
        call: the function of SciPy ("splu" stands for ``factorized`` as well).
        size: rows of the square matrix.
        stored_count: its stored entries, zeros included.
        zero_count: stored entries that are zero, or ``None`` if they were not counted.
        ordering: ordering of the columns ("COLAMD"), or an empty string.
        fill_count: entries of both factors, or ``None`` if it failed or does not say.
        error: class of the exception that it raised, or an empty string.
    """

    call: str
    size: int
    stored_count: int
    zero_count: int | None = None
    ordering: str = ""
    fill_count: int | None = None
    error: str = ""
