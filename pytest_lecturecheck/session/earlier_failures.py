"""Read a failure together with the kept runs of the same lecture. Loaded at the first failure only."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from pytest_lecturecheck.errors import RunFileError
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.store.own_folder import NAME as OWN_FOLDER
from pytest_lecturecheck.store.session_history import FOLDER_NAME, read_session, session_files
from pytest_lecturecheck.verdict import VerdictKind
from pytest_lecturecheck.verdict.joint_failures import JOINT_NOTE, read_together

_MOST_SESSIONS: Final = 12
"""The newest ones; reading one takes about a millisecond for each lecture in it."""


def with_joint_notes(entry: Entry, rootdir: Path) -> Entry:
    """
    Return an entry with what its failure and the kept runs of its lecture say together.

    Args:
        entry: an entry; one without a failure is returned unchanged.
        rootdir: pytest's rootdir, which holds the kept sessions.
    """
    if not entry.verdict.failed or entry.run.evidence is None or entry.run.members:
        return entry
    notes = read_together([*_earlier_runs(entry.run, rootdir), entry.run])
    verdict = replace(entry.verdict, notes=(*entry.verdict.notes, *(f"{JOINT_NOTE}{note}" for note in notes)))
    return replace(entry, verdict=verdict) if notes else entry


def _earlier_runs(run: Run, rootdir: Path) -> list[Run]:
    found: list[Run] = []
    for path in session_files(rootdir / OWN_FOLDER / FOLDER_NAME)[-_MOST_SESSIONS:]:
        try:
            session = read_session(path)
        except RunFileError:
            continue
        found += [
            kept.run
            for kept in session.of(run.lecture)
            if kept.run.variant == run.variant and kept.verdict.kind is not VerdictKind.FAILED_BEFORE
        ]
    return found
