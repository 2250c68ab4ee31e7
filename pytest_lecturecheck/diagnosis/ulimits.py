"""
Limits of ``ulimit`` that were in force where memory was refused.

Such a limit counts address space (``-v``) or private mappings (``-d``), reserved or used, so it refuses while the
process is small and the machine has memory to spare. Whether it did cannot be read from the error.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pytest_lecturecheck.diagnosis.cause import Cause, CauseKind
from pytest_lecturecheck.diagnosis.wording import in_brackets
from pytest_lecturecheck.model.evidence import Evidence
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.units import format_size

_ABOUT_MEMORY: Final = frozenset(
    {
        CauseKind.REQUEST_REFUSED,
        CauseKind.MEMORY_EXHAUSTED,
        CauseKind.LIBRARY_LIMIT,
        CauseKind.HOST_OUT_OF_MEMORY,
        CauseKind.LIBRARY_OUT_OF_MEMORY,
        CauseKind.NATIVE_OUT_OF_MEMORY,
    }
)
_GENERAL_ADVICE: Final = "look for a limit on address space"
_ADVICE: Final = (
    "that limit counts what is reserved, not only what is in use: raise or lift it before looking for more memory"
)


def with_ulimit(cause: Cause, evidence: Evidence) -> Cause:
    """Name the limit in the headline of an end that it may have brought about."""
    size, source = evidence.memory.ulimit_bytes, one_line(evidence.memory.ulimit_source)
    if size is None or not source or cause.kind not in _ABOUT_MEMORY:
        return cause
    advice = (_ADVICE, *(text for text in cause.advice if not text.startswith(_GENERAL_ADVICE)))
    if source in cause.headline:
        return replace(cause, advice=advice)
    where = in_brackets(evidence)
    start = cause.headline.removesuffix(where) if where else cause.headline
    end = cause.headline[len(start) :]
    return replace(cause, headline=f"{start}; {source} of {format_size(size)} is in force{end}", advice=advice)
