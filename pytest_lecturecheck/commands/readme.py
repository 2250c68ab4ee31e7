"""``lecturecheck readme``: write paragraphs for a README and for a replication report."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_lecturecheck.commands.arguments import RUN_HELP, add_root
from pytest_lecturecheck.errors import LectureCheckError

if TYPE_CHECKING:
    from pytest_lecturecheck.verdict.kept_session import KeptSession

HELP: Final = "write paragraphs on memory, time and storage for a README"
DESCRIPTION: Final = """\
Print Markdown to paste into a package's README, under "Memory, Runtime, Storage Requirements" (the headings are those
of the Social Science Data Editors' template), and into a replication report. No README is read or changed. Everything
is measured: upper bounds are rounded up and marked "up to", lower bounds are rounded down and marked "at least".

  lecturecheck readme                          the latest run of each notebook, from all kept sessions of this platform
  lecturecheck readme last                     the last session only
  lecturecheck readme last~1 > needs.md"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run", nargs="?", metavar="RUN", help=f"{RUN_HELP} (default: the latest run of each notebook)")
    add_root(parser)


def run(options: argparse.Namespace) -> tuple[int, list[str]]:
    """
    Write the paragraphs.

    Returns:
        Exit status, and the lines to print.

    Raises:
        LectureCheckError: the session cannot be read, or ran nothing.
    """
    from pytest_lecturecheck.commands.session_lookup import entries_of, root_of, session_of, sessions_of  # noqa: PLC0415 - not for help
    from pytest_lecturecheck.report.readme_paragraph import render_readme  # noqa: PLC0415 - as above

    if options.run is None:
        sessions = _latest(sessions_of(options), root_of(options))
    else:
        sessions = [session_of(options, options.run)]
    session = sessions[-1]
    entries = [entry for kept in sessions for entry in entries_of(kept)]
    if not any(entry.run.cells and any(cell.status.has_run for cell in entry.run.cells) for entry in entries):
        msg = f"{session.title} ran no cell, so there is nothing to report; choose another session"
        raise LectureCheckError(msg)
    text = render_readme(
        entries, platform=session.platform, ended=session.ended, began=sessions[0].ended, version=session.version
    )
    return 0, text.rstrip("\n").split("\n")


def _latest(sessions: Sequence[KeptSession], root: Path) -> list[KeptSession]:
    """
    Keep of each notebook its runs in the latest session that ran it, so that one re-recorded notebook is no package.

    Sessions of other platforms are left out, and so are notebooks that are gone.
    """
    last = sessions[-1]
    alike = [session for session in sessions if session.platform == last.platform]
    latest: dict[tuple[str, str], str] = {}
    for session in alike:
        for run in (kept.run for kept in session.runs):
            # What the last session names is there; a notebook that was skipped has been measured before, or never.
            is_there = session is last or (root / run.lecture).is_file()
            if is_there and (run.cell_run_count or (run.lecture, run.variant) not in latest):
                latest[run.lecture, run.variant] = session.name
    chosen = []
    for session in alike:
        named = ((kept, latest.get((kept.run.lecture, kept.run.variant))) for kept in session.runs)
        chosen.append(replace(session, runs=tuple(kept for kept, name in named if name == session.name)))
    return [session for session in chosen if session.runs]
