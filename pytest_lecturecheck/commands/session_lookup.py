"""Look-up of sessions and budgets by the names that people use on the command line."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from pytest_lecturecheck.config.option_reading import SETTINGS_FILE
from pytest_lecturecheck.config.options import resolve
from pytest_lecturecheck.errors import LectureCheckError, RunFileError
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.safe_text import plain
from pytest_lecturecheck.store.budget_file.files import FOLDER_NAME as BUDGET_FOLDER
from pytest_lecturecheck.store.budget_file.files import load_budgets
from pytest_lecturecheck.store.own_folder import NAME as OWN_FOLDER
from pytest_lecturecheck.store.session_history import (
    FOLDER_NAME,
    find_session,
    read_session,
    read_sessions,
    session_files,
)
from pytest_lecturecheck.verdict.history_lines import HistoryLine
from pytest_lecturecheck.verdict.kept_session import KeptSession
from pytest_lecturecheck.verdict.session_diff import Side, side_of_budgets, side_of_session


def root_of(options: argparse.Namespace) -> Path:
    """Return the folder that contains ``.lecturecheck``."""
    if options.root is not None:
        root: Path = options.root
        return root
    here = Path.cwd()
    # A fresh clone has no kept sessions, but perhaps settings and budgets.
    marks = ((OWN_FOLDER, FOLDER_NAME), (SETTINGS_FILE,), (BUDGET_FOLDER,))
    folders = (folder for mark in marks for folder in (here, *here.parents) if folder.joinpath(*mark).exists())
    return next(folders, here)


def runs_folder(options: argparse.Namespace) -> Path:
    """Return the folder of kept sessions."""
    return root_of(options) / OWN_FOLDER / FOLDER_NAME


def session_of(options: argparse.Namespace, reference: str) -> KeptSession:
    """
    Read a session by its name or file; skipped files are reported on stderr.

    Raises:
        RunFileError: there is no such session, or it cannot be read.
    """
    path = Path(reference)
    if path.suffix == ".json":
        return read_session(path)
    session, faults = find_session(runs_folder(options), reference)
    warn_skipped(faults)
    return session


def sessions_of(options: argparse.Namespace, *, may_be_empty: bool = False) -> tuple[KeptSession, ...]:
    """
    Read all kept sessions; skipped files are reported on stderr.

    Args:
        options: the arguments of the command.
        may_be_empty: whether there is something else to show.

    Raises:
        RunFileError: there are none.
    """
    folder = runs_folder(options)
    if not session_files(folder) and not may_be_empty:
        find_session(folder, "last")
    sessions, faults = read_sessions(folder)
    warn_skipped(faults)
    return sessions


def history_of(options: argparse.Namespace) -> tuple[Path | None, tuple[HistoryLine, ...]]:
    """
    Read the history that the argument or the settings name; skipped lines are reported on stderr.

    Returns:
        The file, or ``None`` if there is none, and its lines.

    Raises:
        LectureCheckError: a named file is missing or cannot be read, or the settings are wrong.
    """
    from pytest_lecturecheck.store.history import read_history  # noqa: PLC0415 - few repositories have one

    path: Path | None = options.history
    if path is None:
        root = root_of(options)
        path = resolve({}, root, root).history
        # The first session will write it.
        if path is None or not path.exists():
            return None, ()
    found = read_history(path)
    warn_skipped(found.faults)
    return path, found.lines


def side_of(options: argparse.Namespace, reference: str) -> Side:
    """
    Return one side of a comparison: a budget file by its path or platform, otherwise a session.

    Raises:
        LectureCheckError: there is no such side, or it cannot be read.
    """
    path = Path(reference)
    if path.suffix != ".toml":
        path = root_of(options) / BUDGET_FOLDER / f"{reference}.toml"
    if path.is_file():
        return side_of_budgets(load_budgets(path), f"budgets of {path.name}")
    if Path(reference).suffix == ".toml":
        msg = f"{reference}: no such budget file; lecturecheck platform prints this machine's label"
        raise LectureCheckError(msg)
    try:
        session = session_of(options, reference)
    except RunFileError as exc:
        if Path(reference).suffix == ".json":
            raise
        known = sorted(found.stem for found in (root_of(options) / BUDGET_FOLDER).glob("*.toml"))
        budgets = f"there are budgets for {', '.join(known)}" if known else "there are no budget files"
        msg = f"{exc}\n{reference!r} is not a platform either: {budgets} in {BUDGET_FOLDER}"
        raise LectureCheckError(msg) from exc
    name = f"{reference}, " if reference != session.name else ""
    return side_of_session(session, f"{name}{session.title}")


def entries_of(session: KeptSession) -> list[Entry]:
    """Return the runs of a session as entries for the reporters."""
    return [
        Entry(run=kept.run, verdict=kept.verdict, budget=kept.budget, seconds=kept.seconds) for kept in session.runs
    ]


def warn_skipped(lines: Iterable[str]) -> None:
    """Report skipped files on stderr."""
    for line in lines:
        sys.stderr.write(f"lecturecheck: skipped: {plain(line)}\n")


def has_colour() -> bool:
    """Return True if the output may have colours; see https://no-color.org."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
