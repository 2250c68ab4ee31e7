"""Find files of a folder that two lectures use and that changed while both ran: each may have disturbed the other."""

from __future__ import annotations

import datetime as dt
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pytest_lecturecheck.files import read_plain_text
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.lecture import Cell, Lecture
from pytest_lecturecheck.model.run import Run

# "data.csv", "out/model.tar.gz"; a name without an extension is not told from other words.
_FILE_NAME: Final = re.compile(r"(?<![\w./-])(?:[\w-]+/)*[\w-]+(?:\.[\w-]+)+")
_REMOVES: Final = re.compile(r"\b(?:remove|unlink|rmtree|rename|replace|move|rm|mv)\b")
_MOST_NAMES: Final = 2000
_SHOWN: Final = 3
_CLOCK_SECONDS: Final = 1.0
"""The start of a run is recorded in whole seconds, and file systems may round as well."""


def shared_file_findings(run: Run, lecture: Lecture, rootdir: Path) -> Iterator[Finding]:
    """
    Yield a finding for each lecture of the same folder that ran beside this one and uses a file that changed meanwhile.

    Args:
        run: the run, with the lectures that ran beside it.
        lecture: the lecture.
        rootdir: pytest's rootdir.
    """
    folder = posixpath.dirname(run.lecture)
    beside = [name for name in run.concurrent_lectures if posixpath.dirname(name) == folder and name != run.lecture]
    own = _places(lecture) if beside else {}
    if not own:
        return
    for name in beside:
        text = _text_of(rootdir / name)
        common = [word for word in own if word in set(_FILE_NAME.findall(text))]
        is_removed = _REMOVES.search(text) is not None
        missed = _missed_file(run)
        changed = [
            word
            for word in common
            if _has_changed(lecture.path.parent / word, run) or (is_removed and posixpath.basename(word) == missed)
        ]
        if changed:
            yield _finding(name, changed, own[changed[0]])


def _finding(beside: str, changed: list[str], cell: Cell) -> Finding:
    names = ", ".join(repr(word) for word in changed[:_SHOWN])
    more = f" and {len(changed) - _SHOWN} more files" if len(changed) > _SHOWN else ""
    message = (
        f"{names}{more} changed while {beside!r} ran in the same folder, which uses it too: the two may disturb each "
        "other; give each a file of its own, or set run-in-temp"
    )
    return Finding(
        kind=FindingKind.FILES,
        message=message,
        cell_number=cell.number,
        line=_line_of(cell, changed[0]),
        may_explain=True,
    )


def _places(lecture: Lecture) -> dict[str, Cell]:
    """Return what looks like the name of a file in the lecture's code, with the first cell that has it."""
    found: dict[str, Cell] = {}
    for cell in lecture.cells:
        for word in () if cell.skip_reason else _FILE_NAME.findall(cell.source):
            found.setdefault(word, cell)
            if len(found) >= _MOST_NAMES:
                return found
    return found


def _line_of(cell: Cell, word: str) -> int | None:
    numbers = (number for number, row in enumerate(cell.source.split("\n"), start=1) if word in row)
    return cell.file_line(next(numbers, None))


def _has_changed(path: Path, run: Run) -> bool:
    """Return True if the file was written after the run began."""
    try:
        return path.stat().st_mtime >= dt.datetime.fromisoformat(run.launch.started).timestamp() - _CLOCK_SECONDS
    except (OSError, ValueError):
        return False


def _missed_file(run: Run) -> str:
    """Return the base name of the file that the run's error did not find, or an empty string."""
    error = run.evidence.error if run.evidence is not None else None
    if error is None or error.name != "FileNotFoundError":
        return ""
    quoted = re.findall(r"'([^']+)'", error.value)
    return re.split(r"[/\\]", quoted[-1])[-1] if quoted else ""


def _text_of(path: Path) -> str:
    try:
        return read_plain_text(path, errors="replace")
    except OSError:
        return ""
