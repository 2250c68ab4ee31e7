"""``lecturecheck record``: write budgets from a kept session or a report, without running anything."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from pytest_lecturecheck.commands.arguments import RUN_HELP, add_root, width
from pytest_lecturecheck.errors import LectureCheckError

HELP: Final = "write budgets from a kept session or a report"
DESCRIPTION: Final = """\
Record the measurements of a session as budgets, as pytest --lecture-record does, without running anything: after a
recording that was interrupted, from a check whose values are accepted, or from the JSON report of another machine.
The budget file is that of the session's platform. Lectures with a run that did not complete are not recorded, nor are
those that a finding failed under --lecture-strict. For the reports of several jobs: lecturecheck record-from.

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
    from pytest_lecturecheck.commands.session_lookup import root_of, session_of  # noqa: PLC0415 - not for help
    from pytest_lecturecheck.commands.session_recording import plan_recording, save_recording, select_runs  # noqa: PLC0415 - as above
    from pytest_lecturecheck.config.options import resolve  # noqa: PLC0415 - as above
    from pytest_lecturecheck.store.budget_file.files import budget_path  # noqa: PLC0415 - as above

    session = session_of(options, options.run)
    root: Path = root_of(options)
    settings = resolve({}, root, root)
    path = budget_path(settings.budget_folder, session.platform)
    selected = next((item for item in select_runs([session]) if item.platform == session.platform), None)
    if selected is None or not any(kept.speaks for kept in session.runs):
        msg = f"{session.title} has no complete run of a lecture, so there is nothing to record; choose another session"
        raise LectureCheckError(msg)
    plan = plan_recording(path, selected, settings.tolerance)
    shown = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
    lines = plan.lines(width())
    if plan.after == plan.before:
        return 0, [*lines, f"budgets in {shown} are unchanged"]
    if options.dry_run:
        return 0, [*lines, f"nothing written to {shown} (--dry-run)"]
    save_recording(plan, settings.tolerance)
    return 0, [*lines, f"budgets written to {shown}"]
