"""``lecturecheck show``: show the history of one lecture."""

from __future__ import annotations

import argparse
import difflib
from typing import Final

from pytest_lecturecheck.commands.arguments import add_history, add_root, width
from pytest_lecturecheck.errors import LectureCheckError

HELP: Final = "show the history of a lecture over the kept sessions and the history file, and slow drifts"
DESCRIPTION: Final = """\
Show one lecture over all kept sessions: date, verdict, peak, time, and changes of versions and machine. The sessions
of the history file (the setting history, or --history) are included; a session that is in both counts once.

  lecturecheck show lectures/nuts.md
  lecturecheck show nuts.md                    the end of its path is enough
  lecturecheck show nuts.md --history h.jsonl  with a history that the settings do not name

A slow drift is reported if a value changes by 3 % a month or more, over at least 5 sessions and 14 days on the same
platform and class of machine with the same method, and if the change exceeds the noise. The setting keep-runs (50)
limits the number of kept sessions; a history is never shortened."""
_NEAR: Final = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("lecture", metavar="LECTURE", help="path from rootdir, or the end of it")
    add_history(parser)
    add_root(parser)


def run(options: argparse.Namespace) -> tuple[int, list[str]]:
    """
    Show the history.

    Returns:
        Exit status, and the lines to print.

    Raises:
        LectureCheckError: no session ran such a lecture.
    """
    from pytest_lecturecheck.commands.session_lookup import has_colour, history_of, runs_folder, sessions_of  # noqa: PLC0415 - not for help
    from pytest_lecturecheck.report.terminal.lecture_history import render_history  # noqa: PLC0415 - as above

    path, history = history_of(options)
    sessions = sessions_of(options, may_be_empty=bool(history))
    known = {kept.run.lecture for session in sessions for kept in session.runs} | {line.lecture for line in history}
    where = str(runs_folder(options)) if path is None else f"{runs_folder(options)} and {path}"
    lecture = _find(options.lecture, sorted(known), where)
    return 0, render_history(sessions, lecture, width=width(), history=history, colour=has_colour())


def _find(wanted: str, known: list[str], where: str) -> str:
    if wanted in known:
        return wanted
    found = [name for name in known if name.endswith(f"/{wanted.removeprefix('./')}")]
    if len(found) == 1:
        return found[0]
    if found:
        msg = f"{wanted!r} matches {', '.join(found)}; write more of its path"
        raise LectureCheckError(msg)
    near = difflib.get_close_matches(wanted, known, n=_NEAR, cutoff=0.5)
    more = f" and {len(known) - _NEAR} more" if len(known) > _NEAR else ""
    rest = f"; perhaps {', '.join(near)}" if near else f"; there are {', '.join(known[:_NEAR])}{more}" if known else ""
    msg = f"{where}: no kept session ran {wanted!r}{rest}"
    raise LectureCheckError(msg)
