"""``lecturecheck record``: write budgets from a kept session or a report, without running anything."""

from __future__ import annotations

import argparse
import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_lecturecheck.commands.arguments import RUN_HELP, add_root, width
from pytest_lecturecheck.errors import LectureCheckError

if TYPE_CHECKING:
    from pytest_lecturecheck.verdict.kept_session import KeptSession

HELP: Final = "write budgets from a kept session or a report"
DESCRIPTION: Final = """\
Record the measurements of a session as budgets, as pytest --lecture-record does, without running anything: after a
recording that was interrupted, from a check whose values are accepted, or from the JSON report of another machine.
The budget file is that of the session's platform. Lectures with a run that did not complete are not recorded.

  lecturecheck record                          the last session
  lecturecheck record last~1                   the one before it
  lecturecheck record artifact.json            a report from another machine, into the budgets of its platform
  lecturecheck record last --dry-run           show the changes, and write nothing"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run", nargs="?", default="last", metavar="RUN", help=f"{RUN_HELP} (default: last)")
    parser.add_argument("--dry-run", action="store_true", help="show the changes, and write nothing")
    add_root(parser)


def run(options: argparse.Namespace) -> tuple[int, list[str]]:
    """
    Record a session.

    Returns:
        Exit status, and the lines to print.

    Raises:
        LectureCheckError: the session has no complete run, or the budgets cannot be read or written.
    """
    from pytest_lecturecheck.budget.recording import record  # noqa: PLC0415 - not for help
    from pytest_lecturecheck.commands.session_lookup import root_of, session_of  # noqa: PLC0415 - as above
    from pytest_lecturecheck.config.options import resolve  # noqa: PLC0415 - as above
    from pytest_lecturecheck.report.terminal.budget_diff import render_changes, render_unrecorded  # noqa: PLC0415 - as above
    from pytest_lecturecheck.store.atomic import locked  # noqa: PLC0415 - as above
    from pytest_lecturecheck.store.budget_file.files import budget_path, load_budgets, save_budgets  # noqa: PLC0415 - as above

    session = session_of(options, options.run)
    root: Path = root_of(options)
    settings = resolve({}, root, root)
    path = budget_path(settings.budget_folder, session.platform)
    runs = [kept.run for kept in session.runs if kept.speaks or not kept.is_complete]
    if not any(kept.speaks for kept in session.runs):
        msg = f"{session.title} has no complete run of a lecture, so there is nothing to record; choose another session"
        raise LectureCheckError(msg)
    before = load_budgets(path)
    budgets, changes = record(before, runs, today=_day_of(session), tolerance=settings.tolerance)
    shown = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
    lines = [*render_changes(changes, width=width()), *render_unrecorded(runs, width=width())]
    if budgets == before:
        return 0, [*lines, f"budgets in {shown} are unchanged"]
    if options.dry_run:
        return 0, [*lines, f"nothing written to {shown} (--dry-run)"]
    with locked(path.parent):
        # Somebody may have changed the file in the meantime.
        budgets, _ = record(load_budgets(path), runs, today=_day_of(session), tolerance=settings.tolerance)
        save_budgets(path, budgets)
    return 0, [*lines, f"budgets written to {shown}"]


def _day_of(session: KeptSession) -> dt.date:
    """Return the date of the session: that of the measurements, not of this command."""
    return (session.ended or dt.datetime.now(dt.UTC)).astimezone(dt.UTC).date()
