"""``lecturecheck recover``: keep the finished runs of sessions that were killed."""

from __future__ import annotations

import argparse
from typing import Final

from pytest_lecturecheck.commands.arguments import add_root

HELP: Final = "keep the finished runs of sessions that were killed"
DESCRIPTION: Final = """\
Turn what a killed session has left into a kept session. A session writes every run to the disk as it finishes, so that
SIGKILL, a lost machine or a full disk costs only the lecture that was running. Nothing is run.

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
    import datetime as dt  # noqa: PLC0415 - not for help
    import sys  # noqa: PLC0415 - as above
    from pathlib import Path  # noqa: PLC0415 - as above

    from pytest_lecturecheck.commands.session_lookup import entries_of, root_of  # noqa: PLC0415 - as above
    from pytest_lecturecheck.config.options import resolve  # noqa: PLC0415 - as above
    from pytest_lecturecheck.errors import RunFileError  # noqa: PLC0415 - as above
    from pytest_lecturecheck.report.json_report import render_json  # noqa: PLC0415 - as above
    from pytest_lecturecheck.store.own_folder import NAME as OWN_FOLDER  # noqa: PLC0415 - as above
    from pytest_lecturecheck.store.path_redaction import hide_places  # noqa: PLC0415 - as above
    from pytest_lecturecheck.store.session_history import FOLDER_NAME, keep_session, session_from_records  # noqa: PLC0415 - as above
    from pytest_lecturecheck.store.unfinished import FOLDER_NAME as UNFINISHED  # noqa: PLC0415 - as above
    from pytest_lecturecheck.store.unfinished import find_unfinished  # noqa: PLC0415 - as above

    root = root_of(options)
    most = max(1, resolve({}, root, root).keep_runs)
    lines = []
    for left in find_unfinished(root / OWN_FOLDER / UNFINISHED):
        name = left.path.name
        if not left.records:
            left.path.unlink()
            continue
        try:
            entries = entries_of(session_from_records(name, left.records, left.about))
        except RunFileError as error:
            msg = f"{left.path}: {error}; the file stays as it is"
            raise RunFileError(msg) from error
        text = render_json(left.records, entries, platform=left.about.get("platform", ""), about=left.about)
        text = hide_places(text, root=root, home=Path.home(), prefix=Path(sys.prefix))
        ended = dt.datetime.fromisoformat(left.about["ended"])
        kept = keep_session(root / OWN_FOLDER / FOLDER_NAME, text, now=ended, most=most)
        left.path.unlink()
        damaged = f"; {left.damaged_count} damaged lines were skipped" if left.damaged_count else ""
        runs = "1 run" if len(left.records) == 1 else f"{len(left.records)} runs"
        lines.append(f"kept {kept.stem if kept is not None else name}: {runs}{damaged}")
    return 0, lines or ["nothing to recover: every session came to its end, or had finished no lecture"]
