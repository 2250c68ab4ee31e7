"""``lecturecheck show``: the history of one lecture."""

from __future__ import annotations

import argparse
import difflib
from typing import Final

from pytest_lecturecheck.commands.arguments import add_root, width
from pytest_lecturecheck.errors import LectureCheckError

HELP: Final = "show a lecture's history over the kept sessions, and whether it drifts"
DESCRIPTION: Final = """\
Show one lecture over all kept sessions: when, verdict, peak, time, and what changed underneath (versions, machine).

  lecturecheck show lectures/nuts.md
  lecturecheck show nuts.md                    enough of its path to know it by

A slow drift is told where a figure changes by 3 % a month or more, over at least 5 sessions and 14 days of the same
platform, the same class of machine and the same method, and where that stands out from the noise. How many sessions are
kept is the setting keep-runs (50)."""
_NEAR: Final = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument("lecture", metavar="LECTURE", help="path from rootdir, or the end of it")
    add_root(parser)


def run(options: argparse.Namespace) -> tuple[int, list[str]]:
    """
    Show the history.

    Returns:
        Exit status and what is to be printed.

    Raises:
        LectureCheckError: no kept session has run such a lecture.
    """
    from pytest_lecturecheck.commands.session_lookup import has_colour, runs_folder, sessions_of  # noqa: PLC0415 - not for help
    from pytest_lecturecheck.report.terminal.lecture_history import render_history  # noqa: PLC0415 - as above

    sessions = sessions_of(options)
    known = sorted({kept.run.lecture for session in sessions for kept in session.runs})
    lecture = _find(options.lecture, known, str(runs_folder(options)))
    return 0, render_history(sessions, lecture, width=width(), colour=has_colour())


def _find(wanted: str, known: list[str], where: str) -> str:
    if wanted in known:
        return wanted
    found = [name for name in known if name.endswith(f"/{wanted.removeprefix('./')}")]
    if len(found) == 1:
        return found[0]
    if found:
        msg = f"{wanted!r} may be any of {', '.join(found)}; write more of its path"
        raise LectureCheckError(msg)
    near = difflib.get_close_matches(wanted, known, n=_NEAR, cutoff=0.5)
    more = f" and {len(known) - _NEAR} more" if len(known) > _NEAR else ""
    rest = f"; perhaps {', '.join(near)}" if near else f"; there are {', '.join(known[:_NEAR])}{more}" if known else ""
    msg = f"{where}: no kept session has run {wanted!r}{rest}"
    raise LectureCheckError(msg)
