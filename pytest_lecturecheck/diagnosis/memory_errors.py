"""
MemoryError and ENOMEM: a refused request, a limit that was reached, or a library's word for something else.

MemoryError alone never means "needs more memory": every statement comes with the peak that was measured.
:mod:`pytest_lecturecheck.diagnosis.headroom` says which limits can make an allocation fail.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Sequence
from typing import Final

from pytest_lecturecheck.diagnosis.cause import Cause, CauseKind
from pytest_lecturecheck.diagnosis.headroom import (
    available_bytes,
    group_lines,
    is_exhausted,
    is_machine_full,
    is_near_any_limit,
    is_share_used,
    left_bytes,
    machine_bytes,
    machine_refuses,
    reached_limit,
    refusing_limits,
)
from pytest_lecturecheck.diagnosis.requests import parse_array_size, parse_request
from pytest_lecturecheck.diagnosis.superlu import MOST_ENTRIES, find_limit
from pytest_lecturecheck.diagnosis.wording import (
    all_lines,
    both_units,
    declared_text,
    error_text,
    had_text,
    has_group_limit,
    in_brackets,
    machine_limit_text,
    peak_bytes,
)
from pytest_lecturecheck.model.evidence import Evidence
from pytest_lecturecheck.units import format_size

_NAMES: Final = frozenset({"MemoryError", "_ArrayMemoryError", "ArrowMemoryError"})
# ERROR_NOT_ENOUGH_MEMORY, ERROR_NO_SYSTEM_RESOURCES and ERROR_COMMITMENT_LIMIT ("the paging file is too small").
_REFUSED_BY_SYSTEM: Final = re.compile(rf"\[(?:Errno {errno.ENOMEM}|WinError (?:8|1450|1455))\] ")
"""How Python shows what the operating system refused: a mapping, or the copy of a process that fork() makes."""
_IN_R: Final = re.compile(r"cannot allocate (?:vector|memory block) of size ")
_SUPERLU: Final = re.compile(r"\bsplu\b|\bspilu\b|_superlu|gstrf|gssv|_dsolve")
_FRAME: Final = re.compile(r"\s*(?:File |Cell |-+> ?[0-9]+ |Input )")
_RAISED_HERE: Final = re.compile(r"\s*-+> ?[0-9]+ +raise\b")
_LIBRARY_FRAME: Final = re.compile(r"\s*File (?P<path>\S+?)(?::[0-9]+)?(?:,| in |$)")


def is_memory_error(evidence: Evidence) -> bool:
    """
    Return True if the cell raised Python's MemoryError (NumPy's included) and not for the memory of a device.

    An ``OSError`` with ENOMEM counts as one, and so does R's error. One that the cell's own code raises does not: it
    says what its author wrote.
    """
    error = evidence.error
    if error is None:
        return False
    if error.name == "OSError":
        return _REFUSED_BY_SYSTEM.match(error.value) is not None
    if parse_array_size(error.value) is not None and _IN_R.search(error.value):
        return True
    if error.name.rsplit(".", 1)[-1] not in _NAMES or parse_request(error.name, error.value) is not None:
        return False
    frames = _frames(evidence)
    return not (frames and _RAISED_HERE.match(frames[-1]) and _is_in_cell(frames))


def _is_in_cell(frames: Sequence[str]) -> bool:
    headings = [line.lstrip() for line in frames if not line.lstrip().startswith("-")]
    return bool(headings) and headings[-1].startswith(("Cell ", "Input "))


def _named(evidence: Evidence) -> str:
    error = evidence.error
    if error is not None and error.name == "OSError":
        return "OSError (ENOMEM)" if error.value.startswith("[Errno ") else "OSError (out of commitments)"
    return "R's error" if error is not None and _IN_R.search(error.value) else "MemoryError"


def find_superlu_limit(evidence: Evidence) -> Cause | None:
    """Recognise SuperLU's 32-bit work space (scipy.sparse.linalg.splu), which no amount of memory cures."""
    if not is_memory_error(evidence) or _asked(evidence) is not None or is_exhausted(evidence):
        return None
    if not _names_superlu(evidence):
        return None
    rule = (
        "SuperLU takes 30 x the stored entries as its work space, in 32-bit integers: "
        f"above 2**31 / 30 = {MOST_ENTRIES:,} stored entries the request overflows"
    )
    lines, advice = [rule], []
    if evidence.host.architecture == "arm64":
        lines.append("on arm64 that overflow saturates, so the cell was expected to go on")
    else:
        advice.append("on arm64 the same cell may go on, and need several times the memory")
    found = find_limit(evidence)
    if found is not None:
        return Cause(
            kind=CauseKind.LIBRARY_LIMIT,
            headline=(
                f"library reported {_named(evidence)}, {_not_exhausted(evidence)} - {found.headline}"
                f"{in_brackets(evidence)}"
            ),
            evidence=(*lines, *found.lines, *_lines(evidence)),
            advice=(*found.advice, *advice),
        )
    return Cause(
        kind=CauseKind.LIBRARY_LIMIT,
        headline=(
            f"library reported {_named(evidence)}, {_not_exhausted(evidence)} - "
            f"an internal limit, most likely the 32-bit sizes in SuperLU{in_brackets(evidence)}"
        ),
        evidence=(*lines, *_lines(evidence)),
        advice=(
            "a machine with more memory does not help",
            "drop stored zeros (A.eliminate_zeros()) and count A.nnz again, or use another solver",
            *advice,
        ),
    )


def find_impossible_request(evidence: Evidence) -> Cause | None:
    """Recognise one request that exceeds all the memory there is, or whose limit is unknown."""
    asked = _asked(evidence)
    if not is_memory_error(evidence) or asked is None:
        return None
    ceilings = [item.size_bytes for item in refusing_limits(evidence)]
    if (machine := machine_bytes(evidence)) is not None:
        ceilings.append(machine)
    elif (available := evidence.memory.available_bytes) is not None:
        ceilings.append(available)
    if ceilings and asked <= min(ceilings):
        return None
    return Cause(
        kind=CauseKind.REQUEST_REFUSED,
        headline=(
            f"{_named(evidence)}: one request of {_asked_text(asked)} was refused{declared_text(evidence, asked)}"
            f"{_clause(had_text(evidence))}{in_brackets(evidence)}"
        ),
        evidence=tuple(_lines(evidence)),
    )


def find_exhausted_memory(evidence: Evidence) -> Cause | None:
    """Recognise memory that really ran out: the peak reached a refusing limit, or the request did not fit on top."""
    if not is_memory_error(evidence):
        return None
    text = _exhausted_text(evidence)
    if not text:
        return None
    asked = _asked(evidence)
    declared = declared_text(evidence, asked) if asked is not None else ""
    return Cause(
        kind=CauseKind.MEMORY_EXHAUSTED,
        headline=f"{_named(evidence)}: {text}{declared}{in_brackets(evidence)}",
        evidence=tuple(_lines(evidence)),
    )


def _exhausted_text(evidence: Evidence) -> str:
    peak, asked, available = peak_bytes(evidence), _asked(evidence), available_bytes(evidence)
    on_top = f", a further {format_size(asked)} was refused" if asked is not None else ""
    if peak is not None and (reached := reached_limit(evidence)) is not None:
        return f"memory climbed to {format_size(peak)}, the limit is {reached.text}{on_top}"
    if peak is not None and is_share_used(evidence):
        left = format_size(left_bytes(evidence) or 0)
        return f"memory climbed to {format_size(peak)} of the {left} that others had left{on_top}"
    if available is not None and is_machine_full(evidence):
        held = f"; this process had {format_size(peak)}" if peak is not None else ""
        return f"only {format_size(available)} was left on the machine{held}{on_top}"
    return _misfit_text(evidence, asked) if asked is not None else ""


def _misfit_text(evidence: Evidence, asked: int) -> str:
    peak, available = peak_bytes(evidence), available_bytes(evidence)
    if peak is not None and (limit := _limit_below(evidence, asked + peak)):
        return (
            f"a request of {format_size(asked)} did not fit on top of the {format_size(peak)} "
            f"that the process had; the limit is {limit}"
        )
    if available is not None and asked > available:
        return f"a request of {format_size(asked)} was refused, only {format_size(available)} was left on the machine"
    return ""


def _limit_below(evidence: Evidence, size_bytes: int) -> str:
    """Name the smallest refusing limit below a size, or return an empty string."""
    limits = [(item.size_bytes, item.text) for item in refusing_limits(evidence)]
    if machine_refuses(evidence) and evidence.memory.limit_bytes is not None:
        limits.append((evidence.memory.limit_bytes, machine_limit_text(evidence)))
    return next((text for limit, text in sorted(limits) if limit < size_bytes), "")


def find_limit_while_free(evidence: Evidence) -> Cause | None:
    """Recognise a MemoryError while memory was free: a commit limit, or a limit inside a library."""
    if not is_memory_error(evidence) or is_exhausted(evidence) is not False:
        return None
    asked, library = _asked(evidence), _library(evidence)
    if asked is not None:
        text = (
            f"{_named(evidence)}: a request of {_asked_text(asked)} was refused, {_not_exhausted(evidence)}"
            f"{declared_text(evidence, asked)}"
        )
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
        evidence=tuple(_lines(evidence)),
        advice=advice,
    )


def find_other_memory_error(evidence: Evidence) -> Cause | None:
    """Explain any other MemoryError: a request of unknown size while memory was free, or no measurements at all."""
    if not is_memory_error(evidence) or evidence.error is None:
        return None
    if is_exhausted(evidence) is False:
        return Cause(
            kind=CauseKind.REQUEST_REFUSED,
            headline=(
                f"{_named(evidence)}: one request of unknown size was refused{_clause(had_text(evidence))}"
                f"{in_brackets(evidence)}"
            ),
            # The code that raised it may have given a message of its own.
            evidence=(*((error_text(evidence.error),) if evidence.error.value else ()), *_lines(evidence)),
        )
    return Cause(
        kind=CauseKind.CELL_ERROR,
        headline=f"{error_text(evidence.error)}{in_brackets(evidence)}",
        evidence=(
            "a refused request and exhausted memory cannot be told apart: peak and limit are not both known",
            *_lines(evidence),
        ),
    )


def _lines(evidence: Evidence) -> Iterator[str]:
    yield from group_lines(evidence)
    yield from all_lines(evidence)


def _asked(evidence: Evidence) -> int | None:
    return parse_array_size(evidence.error.value) if evidence.error is not None else None


def _asked_text(asked_bytes: int) -> str:
    """Format a request as NumPy does, with SI units beside it (``72.8 TiB (80 TB)``)."""
    return f"{format_size(asked_bytes)} ({both_units(asked_bytes).split(' (', 1)[0]})"


def _clause(text: str) -> str:
    return f"; {text}" if text else ""


def _not_exhausted(evidence: Evidence) -> str:
    peak, available = peak_bytes(evidence), evidence.memory.available_bytes
    if peak is None:
        return "memory was not measured"
    if has_group_limit(evidence) and is_near_any_limit(evidence):
        return f"no known limit refuses memory here (peak {format_size(peak)})"
    if available is not None:
        return f"memory was not exhausted (peak {format_size(peak)}, {format_size(available)} free)"
    limit = machine_limit_text(evidence)
    return f"memory was not exhausted (peak {format_size(peak)}{f' of {limit}' if limit else ''})"


def _frames(evidence: Evidence) -> list[str]:
    """Return the lines of the traceback that name a location or the running statement, without the code around it."""
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
