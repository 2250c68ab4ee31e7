"""``lecturecheck report``: write a kept session as HTML, Markdown or JSON."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_lecturecheck.commands.arguments import RUN_HELP, add_root
from pytest_lecturecheck.errors import LectureCheckError

if TYPE_CHECKING:
    from pytest_lecturecheck.verdict.kept_session import KeptRun, KeptSession

HELP: Final = "write a kept session as a report: .html, .md or .json"
DESCRIPTION: Final = """\
Write a kept session as a report, without running anything. The ending of the file name selects the format.

  lecturecheck report                          the last session as report.html
  lecturecheck report last~1 -o before.md      the one before it, for a pull request
  lecturecheck report artifact.json            a file that --lecture-report wrote, for example on another machine

Limits and changes refer to the budgets that the session used."""
_DEFAULT: Final = Path("report.html")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run", nargs="?", default="last", metavar="RUN", help=f"{RUN_HELP} (default: last)")
    parser.add_argument(
        "-o", "--output", type=Path, default=_DEFAULT, metavar="FILE", help=f"file to write (default: {_DEFAULT})"
    )
    add_root(parser)


def run(options: argparse.Namespace) -> tuple[int, list[str]]:
    """
    Write the report.

    Returns:
        Exit status, and the lines to print.

    Raises:
        LectureCheckError: the session cannot be read, or the file cannot be written.
    """
    from pytest_lecturecheck.commands.session_lookup import session_of  # noqa: PLC0415 - not for help
    from pytest_lecturecheck.store.atomic import write_text_atomically  # noqa: PLC0415 - as above

    output: Path = options.output
    if output.suffix.lower() not in {".html", ".md", ".json"}:
        msg = f"-o {output}: unknown report format; expected a name ending in .html, .md or .json"
        raise LectureCheckError(msg)
    session = session_of(options, options.run)
    text = _render(session, output.suffix.lower())
    try:
        write_text_atomically(output, text)
    except OSError as exc:
        msg = f"{output}: cannot be written: {exc.strerror or exc}"
        raise LectureCheckError(msg) from exc
    count = len(session.runs)
    return 0, [f"{output}: {session.title}, {count} run{'' if count == 1 else 's'}"]


def _render(session: KeptSession, form: str) -> str:
    from pytest_lecturecheck.commands.session_lookup import entries_of  # noqa: PLC0415 - not for help

    entries = entries_of(session)
    machine = next((kept.run.machine for kept in session.runs if kept.run.machine is not None), None)
    if form == ".md":
        from pytest_lecturecheck.report.markdown_report import render_markdown  # noqa: PLC0415 - only for Markdown

        return render_markdown(entries, platform=session.platform, machine=machine)
    if form == ".json":
        from pytest_lecturecheck.report.json_report import render_json  # noqa: PLC0415 - only for JSON

        records = [_record(kept) for kept in session.runs]
        ended = session.ended.isoformat(timespec="seconds") if session.ended is not None else ""
        about = {"ended": ended, "mode": session.mode, "version": session.version, "commit": session.commit}
        return render_json(records, entries, platform=session.platform, about=about)
    from pytest_lecturecheck.report.html import render_html  # noqa: PLC0415 - a templating library, only for a page

    return render_html(entries, platform=session.platform, machine=machine)


def _record(kept: KeptRun) -> dict[str, Any]:
    from pytest_lecturecheck.store.runs import entry_to_dict  # noqa: PLC0415 - only for JSON

    return entry_to_dict(kept.run, kept.verdict, seconds=kept.seconds, budget=kept.budget)
