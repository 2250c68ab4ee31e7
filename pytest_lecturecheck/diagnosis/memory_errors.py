"""
MemoryError and ENOMEM: a refused request, a limit that was reached, or a library's word for something else.

MemoryError alone never means "needs more memory": the peak that was measured stands beside every statement.
"""

from __future__ import annotations

import errno
import re
from typing import Final

from pytest_lecturecheck.diagnosis.cause import Cause, CauseKind
from pytest_lecturecheck.diagnosis.requests import parse_array_size, parse_request
from pytest_lecturecheck.diagnosis.wording import (
    all_lines,
    both_units,
    error_text,
    had_text,
    in_brackets,
    is_limit_the_cap,
    limit_bytes,
    limit_text,
    peak_bytes,
)
from pytest_lecturecheck.model.evidence import Evidence
from pytest_lecturecheck.units import MIB, format_size

_NAMES: Final = frozenset({"MemoryError", "_ArrayMemoryError"})
_REFUSED_BY_SYSTEM: Final = re.compile(rf"\[Errno {errno.ENOMEM}\] ")
"""How Python shows what the operating system refused: a mapping, or the copy of a process that fork() makes."""
_NEAR_FRACTION: Final = 0.8
_LITTLE_LEFT_FRACTION: Final = 0.05
_FREE_LEAST_BYTES: Final = 256 * MIB
# 30 x stored entries, kept in 32-bit integers by SuperLU's LUMemInit.
_SUPERLU_ENTRIES: Final = 2**31 // 30
_SUPERLU: Final = re.compile(r"\bsplu\b|\bspilu\b|_superlu|gstrf|gssv|_dsolve")
_FRAME: Final = re.compile(r"\s*(?:File |Cell |-+> ?[0-9]+ |Input )")
_LIBRARY_FRAME: Final = re.compile(r"\s*File (?P<path>\S+?)(?::[0-9]+)?(?:,| in |$)")


def is_memory_error(evidence: Evidence) -> bool:
    """
    Return True if the cell raised Python's MemoryError (NumPy's included) and not for the memory of a device.

    An ``OSError`` with ENOMEM counts as one.
    """
    error = evidence.error
    if error is None:
        return False
    if error.name == "OSError":
        return _REFUSED_BY_SYSTEM.match(error.value) is not None
    return error.name.rsplit(".", 1)[-1] in _NAMES and parse_request(error.name, error.value) is None


def _named(evidence: Evidence) -> str:
    is_system = evidence.error is not None and evidence.error.name == "OSError"
    return "OSError (ENOMEM)" if is_system else "MemoryError"


def find_superlu_limit(evidence: Evidence) -> Cause | None:
    """Recognise SuperLU's 32-bit work space (scipy.sparse.linalg.splu), which no amount of memory cures."""
    if not is_memory_error(evidence) or _asked(evidence) is not None or is_near_limit(evidence):
        return None
    if not _names_superlu(evidence):
        return None
    rule = (
        "SuperLU takes 30 x the stored entries as its work space, in 32-bit integers: "
        f"above 2**31 / 30 = {_SUPERLU_ENTRIES:,} stored entries the request overflows"
    )
    lines, advice = [rule], []
    if evidence.host.architecture == "arm64":
        lines.append("on arm64 that overflow saturates, so the cell was expected to go on")
    else:
        advice.append("on arm64 the same cell may go on, and need several times the memory")
    return Cause(
        kind=CauseKind.LIBRARY_LIMIT,
        headline=(
            f"library reported {_named(evidence)}, {_not_exhausted(evidence)} - "
            f"an internal limit, most likely the 32-bit sizes in SuperLU{in_brackets(evidence)}"
        ),
        evidence=(*lines, *all_lines(evidence)),
        advice=(
            "a machine with more memory does not help",
            "drop stored zeros (A.eliminate_zeros()) and count A.nnz again, or use another solver",
            *advice,
        ),
    )


def find_impossible_request(evidence: Evidence) -> Cause | None:
    """Recognise one request that exceeds all the memory there is, or that cannot be compared with anything."""
    if not is_memory_error(evidence):
        return None
    asked, ceiling = _asked(evidence), evidence.memory.available_bytes
    if (limit := limit_bytes(evidence)) is not None:
        # Swap comes on top of RAM; the cap counts it.
        ceiling = limit if is_limit_the_cap(evidence) else limit + (evidence.memory.swap_bytes or 0)
    if asked is None or (ceiling is not None and asked <= ceiling):
        return None
    had = had_text(evidence)
    return Cause(
        kind=CauseKind.REQUEST_REFUSED,
        headline=(
            f"{_named(evidence)}: one request of {_asked_text(asked)} was refused{_clause(had)}{in_brackets(evidence)}"
        ),
        evidence=all_lines(evidence),
    )


def find_exhausted_memory(evidence: Evidence) -> Cause | None:
    """Recognise memory that really ran out: the peak reached the limit, or the request did not fit on top."""
    if not is_memory_error(evidence):
        return None
    peak, asked, limit = peak_bytes(evidence), _asked(evidence), limit_bytes(evidence)
    available = evidence.memory.available_bytes
    on_top = f", a further {format_size(asked)} was refused" if asked is not None else ""
    ceiling = _ceiling(evidence)
    if peak is not None and limit is not None and peak >= _NEAR_FRACTION * limit:
        text = f"memory climbed to {format_size(peak)}, the limit is {limit_text(evidence)}{on_top}"
    elif peak is not None and ceiling is not None and peak >= _NEAR_FRACTION * ceiling:
        text = f"memory climbed to {format_size(peak)} of the {format_size(ceiling)} that others had left{on_top}"
    elif is_near_limit(evidence) and available is not None:
        had = f"; this process had {format_size(peak)}" if peak is not None else ""
        text = f"only {format_size(available)} was left on the machine{had}{on_top}"
    elif None not in (asked, peak, limit) and (asked or 0) + (peak or 0) > (limit or 0):
        text = (
            f"a request of {format_size(asked or 0)} did not fit on top of the {format_size(peak or 0)} "
            f"that the process had; the limit is {limit_text(evidence)}"
        )
    elif asked is not None and available is not None and asked > available:
        text = f"a request of {format_size(asked)} was refused, only {format_size(available)} was left on the machine"
    else:
        return None
    return Cause(
        kind=CauseKind.MEMORY_EXHAUSTED,
        headline=f"{_named(evidence)}: {text}{in_brackets(evidence)}",
        evidence=all_lines(evidence),
    )


def find_limit_while_free(evidence: Evidence) -> Cause | None:
    """Recognise a MemoryError while memory was free: a commit limit, or a limit inside a library."""
    if not is_memory_error(evidence) or is_near_limit(evidence) is not False:
        return None
    asked, library = _asked(evidence), _library(evidence)
    if asked is not None:
        text = f"{_named(evidence)}: a request of {_asked_text(asked)} was refused, {_not_exhausted(evidence)}"
        advice = ("look for a limit on address space or commitments: ulimit -v, ulimit -d, vm.overcommit_memory",)
    elif library:
        text = (
            f"library reported {_named(evidence)}, {_not_exhausted(evidence)} - "
            f"an internal limit of {library}, or one request that was too large"
        )
        advice = ("do not look for a machine with more memory before the size of that request is known",)
    else:
        return None
    return Cause(
        kind=CauseKind.LIBRARY_LIMIT,
        headline=f"{text}{in_brackets(evidence)}",
        evidence=all_lines(evidence),
        advice=advice,
    )


def find_other_memory_error(evidence: Evidence) -> Cause | None:
    """Explain any other MemoryError: a request of unknown size while memory was free, or no measurements at all."""
    if not is_memory_error(evidence) or evidence.error is None:
        return None
    if is_near_limit(evidence) is False:
        return Cause(
            kind=CauseKind.REQUEST_REFUSED,
            headline=(
                f"{_named(evidence)}: one request of unknown size was refused{_clause(had_text(evidence))}"
                f"{in_brackets(evidence)}"
            ),
            # Whoever raised it may have said more than what it was.
            evidence=(*((error_text(evidence.error),) if evidence.error.value else ()), *all_lines(evidence)),
        )
    return Cause(
        kind=CauseKind.CELL_ERROR,
        headline=f"{error_text(evidence.error)}{in_brackets(evidence)}",
        evidence=(
            "a refused request and exhausted memory cannot be told apart: peak and limit are not both known",
            *all_lines(evidence),
        ),
    )


def is_near_limit(evidence: Evidence) -> bool | None:
    """
    Return True if memory had run out or nearly so when the cell failed.

    Returns:
        ``None`` where the figures do not tell.
    """
    peak, limit, available = peak_bytes(evidence), limit_bytes(evidence), evidence.memory.available_bytes
    of_machine = evidence.memory.limit_bytes
    if of_machine is not None and available is not None and available < _LITTLE_LEFT_FRACTION * of_machine:
        return True
    if peak is None:
        return None
    ceilings = [size for size in (limit, _ceiling(evidence)) if size is not None]
    if any(peak >= _NEAR_FRACTION * size for size in ceilings):
        return True
    if limit is not None:
        return False
    if available is not None and available >= max(peak, _FREE_LEAST_BYTES):
        return False
    return None


def _ceiling(evidence: Evidence) -> int | None:
    """Return what this process could have had at most beside the others: what it holds, and what is free."""
    if evidence.memory.available_bytes is None or evidence.memory.last_footprint_bytes is None:
        return None
    return evidence.memory.available_bytes + evidence.memory.last_footprint_bytes


def _asked(evidence: Evidence) -> int | None:
    return parse_array_size(evidence.error.value) if evidence.error is not None else None


def _asked_text(asked_bytes: int) -> str:
    """Format a request as NumPy does, with the other family of units beside it (``72.8 TiB (80 TB)``)."""
    return f"{format_size(asked_bytes)} ({both_units(asked_bytes).split(' (', 1)[0]})"


def _clause(text: str) -> str:
    return f"; {text}" if text else ""


def _not_exhausted(evidence: Evidence) -> str:
    peak, available, limit = peak_bytes(evidence), evidence.memory.available_bytes, limit_bytes(evidence)
    if peak is None:
        return "no figures of memory were had"
    if available is not None:
        return f"memory was not exhausted (peak {format_size(peak)}, {format_size(available)} free)"
    of_limit = f" of {limit_text(evidence)}" if limit is not None else ""
    return f"memory was not exhausted (peak {format_size(peak)}{of_limit})"


def _frames(evidence: Evidence) -> list[str]:
    """Return the lines of the traceback that name a place or the running statement, without the code around it."""
    if evidence.error is None:
        return []
    lines = [line for part in evidence.error.traceback for line in part.splitlines()]
    return [line for line in lines if _FRAME.match(line)]


def _names_superlu(evidence: Evidence) -> bool:
    frames = _frames(evidence)
    text = "\n".join(frames) if frames else evidence.source
    return _SUPERLU.search(text) is not None


def _library(evidence: Evidence) -> str:
    """Name the installed package in which the error was raised, or an empty string for the cell's own code."""
    places = [line for line in _frames(evidence) if not line.lstrip().startswith("-")]
    match = _LIBRARY_FRAME.match(places[-1]) if places else None
    if match is None:
        return ""
    parts = re.split(r"[/\\]", match["path"])
    for folder in ("site-packages", "dist-packages"):
        if folder in parts[:-1]:
            return parts[parts.index(folder) + 1].removesuffix(".py")
    return ""
