"""``lecturecheck recover``: keep the finished runs of sessions that were killed."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_lecturecheck.commands.arguments import add_root

if TYPE_CHECKING:
    from pytest_lecturecheck.config.options import SessionSettings
    from pytest_lecturecheck.store.unfinished import UnfinishedSession

HELP: Final = "keep the finished runs of sessions that were killed"
DESCRIPTION: Final = """\
Turn what a killed session has left into a kept session. A session writes every run to the disk as it finishes, so that
SIGKILL, a lost machine or a full disk costs only the lecture that was running. The history of the settings gets its
lines, too. Nothing is run.

  lecturecheck recover                         keep what is there, and print its names
  lecturecheck record last                     then write budgets from the last one
  lecturecheck report last -o recovered.html   or look at it"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_root(parser)


def run(options: argparse.Namespace) -> tuple[int, list[str]]:
    """
    Keep the finished runs of sessions that were killed.

    Returns:
        Exit status, and the lines to print.

    Raises:
        LectureCheckError: a run cannot be read, or the settings are wrong.
    """
    from pytest_lecturecheck.commands.session_lookup import root_of  # noqa: PLC0415 - not for help
    from pytest_lecturecheck.config.options import resolve  # noqa: PLC0415 - as above
    from pytest_lecturecheck.store.own_folder import NAME as OWN_FOLDER  # noqa: PLC0415 - as above
    from pytest_lecturecheck.store.unfinished import FOLDER_NAME, find_unfinished  # noqa: PLC0415 - as above

    root = root_of(options)
    settings = resolve({}, root, root)
    lines = []
    for left in find_unfinished(root / OWN_FOLDER / FOLDER_NAME):
        if left.records:
            lines.append(_keep(left, root, settings))
        left.path.unlink()
    return 0, lines or ["nothing to recover: every session came to its end, or had finished no lecture"]


def _keep(left: UnfinishedSession, root: Path, settings: SessionSettings) -> str:
    """Keep one session, and return the line to print."""
    import datetime as dt  # noqa: PLC0415 - not for help
    import sys  # noqa: PLC0415 - as above
    from functools import partial  # noqa: PLC0415 - as above

    from pytest_lecturecheck.commands.session_lookup import entries_of  # noqa: PLC0415 - as above
    from pytest_lecturecheck.errors import RunFileError  # noqa: PLC0415 - as above
    from pytest_lecturecheck.report.json_report import render_json  # noqa: PLC0415 - as above
    from pytest_lecturecheck.store.history import append_history  # noqa: PLC0415 - as above
    from pytest_lecturecheck.store.own_folder import NAME as OWN_FOLDER  # noqa: PLC0415 - as above
    from pytest_lecturecheck.store.path_redaction import hide_places  # noqa: PLC0415 - as above
    from pytest_lecturecheck.store.session_history import (  # noqa: PLC0415 - as above
        FOLDER_NAME,
        keep_session,
        new_session_name,
        session_from_records,
    )
    from pytest_lecturecheck.verdict.history_lines import history_lines  # noqa: PLC0415 - as above

    ended = dt.datetime.fromisoformat(left.about["ended"])
    name = new_session_name(ended)
    about = {"session": name, **left.about}
    try:
        session = session_from_records(name, left.records, about)
    except RunFileError as error:
        msg = f"{left.path}: {error}; the file stays as it is"
        raise RunFileError(msg) from error
    hide = partial(hide_places, root=root, home=Path.home(), prefix=Path(sys.prefix))
    text = render_json(left.records, entries_of(session), platform=left.about.get("platform", ""), about=about)
    keep_session(root / OWN_FOLDER / FOLDER_NAME, hide(text), now=ended, most=max(1, settings.keep_runs), name=name)
    fault = ""
    if settings.history is not None:
        try:
            append_history(settings.history, history_lines(session), hide)
        except OSError as error:
            fault = f"; {settings.history} has no lines of it: {error.strerror or error}"
    damaged = f"; {left.damaged_count} damaged lines were skipped" if left.damaged_count else ""
    runs = "1 run" if len(left.records) == 1 else f"{len(left.records)} runs"
    return f"kept {name}: {runs}{damaged}{fault}"
