"""Files beside the lecture that take the place of a module, because Python looks in the lecture's folder first."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final

from pytest_lecturecheck.diagnosis.cause import Cause, CauseKind
from pytest_lecturecheck.diagnosis.wording import stderr_lines
from pytest_lecturecheck.model.evidence import Evidence
from pytest_lecturecheck.safe_text import one_line

_IMPORT_ERRORS: Final = frozenset({"AttributeError", "ImportError", "ModuleNotFoundError"})
_READ_LENGTH: Final = 4000


def find_shadowing_file(evidence: Evidence) -> Cause | None:
    """Recognise a kernel that ended at its start over a file beside the lecture that took a module's place."""
    if evidence.exit.ready or (evidence.exit.signal is None and evidence.exit.exit_code is None):
        return None
    path = _named_file(evidence, evidence.exit.stderr_tail)
    if path is None:
        return None
    return Cause(
        kind=CauseKind.SHADOWED,
        headline=f"kernel died at start: {_shadow_text(path)}",
        evidence=tuple(stderr_lines(evidence)),
        advice=(f"rename {one_line(path.name)}",),
    )


def shadowing_advice(evidence: Evidence) -> tuple[str, ...]:
    """Return a hint if an import error of the cell is due to such a file."""
    error = evidence.error
    if error is None or error.name.rsplit(".", 1)[-1] not in _IMPORT_ERRORS:
        return ()
    path = _named_file(evidence, (error.value, *(line for part in error.traceback for line in part.splitlines())))
    return (f"{_shadow_text(path)}: rename it",) if path is not None else ()


def _shadow_text(path: PurePosixPath) -> str:
    return f"{one_line(path.name)} beside the lecture takes the place of the module {one_line(path.stem)}"


def _named_file(evidence: Evidence, lines: Iterable[str]) -> PurePosixPath | None:
    """Return the first of the files that a traceback goes through, or whose module an error complains about."""
    kept = [line[:_READ_LENGTH] for line in lines]
    for file in evidence.shadowing_files:
        path = PurePosixPath(file)
        if not one_line(path.name) or not one_line(path.stem):
            continue
        name, stem = re.escape(path.name), re.escape(path.stem)
        through = rf"""(?:^|[/\\\\"'\s]){name}(?:["':/\\\\]|$)"""
        about = rf"""(?:module|from|import of) ['"]{stem}['"]|['"]{stem}['"] is not a package"""
        pattern = re.compile(f"{through}|{about}")
        if any(pattern.search(line) for line in kept):
            return path
    return None
