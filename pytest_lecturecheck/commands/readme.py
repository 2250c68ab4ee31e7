"""``lecturecheck readme``: paragraphs for a README and for a replication report."""

from __future__ import annotations

import argparse
from typing import Final

from pytest_lecturecheck.commands.arguments import RUN_HELP, add_root
from pytest_lecturecheck.errors import LectureCheckError

HELP: Final = "print what a README says of memory, time and storage, measured"
DESCRIPTION: Final = """\
Print Markdown to paste: under "Memory, Runtime, Storage Requirements" of a package's README (the headings are those of
the Social Science Data Editors' template), and the line on machine and needs with what was noticed, for a replication
report. Everything is measured: upper bounds are rounded up and said as "up to", lower bounds are rounded down and said
as "at least".

  lecturecheck readme                          the last session
  lecturecheck readme last~1 > needs.md"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument("run", nargs="?", default="last", metavar="RUN", help=f"{RUN_HELP} (default: last)")
    add_root(parser)


def run(options: argparse.Namespace) -> tuple[int, list[str]]:
    """
    Render the paragraphs.

    Returns:
        Exit status and what is to be printed.

    Raises:
        LectureCheckError: the session cannot be read, or has run nothing.
    """
    from pytest_lecturecheck.commands.session_lookup import entries_of, session_of  # noqa: PLC0415 - not for help
    from pytest_lecturecheck.report.readme_paragraph import render_readme  # noqa: PLC0415 - as above

    session = session_of(options, options.run)
    entries = entries_of(session)
    if not any(entry.run.cells and any(cell.status.has_run for cell in entry.run.cells) for entry in entries):
        msg = f"{session.title} has run no cell, so there is nothing to tell; choose another session"
        raise LectureCheckError(msg)
    text = render_readme(entries, platform=session.platform, ended=session.ended, version=session.version)
    return 0, text.rstrip("\n").split("\n")
