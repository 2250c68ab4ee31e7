"""``lecturecheck report``: write a kept session as HTML, Markdown or JSON."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_lecturecheck.commands.arguments import RUN_HELP, add_root
from pytest_lecturecheck.errors import LectureCheckError, SettingsError

if TYPE_CHECKING:
    from pytest_lecturecheck.config.report_formats import ReportFormat
    from pytest_lecturecheck.report.entry import Entry
    from pytest_lecturecheck.report.exports.series import SessionFacts
    from pytest_lecturecheck.verdict.kept_session import KeptRun, KeptSession

HELP: Final = "write a kept session as a report: .html, .md, .json, or a format of another tool"
DESCRIPTION: Final = """\
Write a kept session as a report, without running anything. The ending of the file name selects the format.

  lecturecheck report                          the last session as report.html
  lecturecheck report last~1 -o before.md      the one before it, for a pull request
  lecturecheck report artifact.json            a file that --lecture-report wrote, for example on another machine

  lecturecheck report last -o metrics.txt      OpenMetrics; also .csv, .bmf.json (Bencher), .benchmark.json
                                               (pytest-benchmark), .customSmallerIsBetter.json, .shields.json

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
    from pytest_lecturecheck.config.report_formats import check_report_name  # noqa: PLC0415 - as above
    from pytest_lecturecheck.store.atomic import write_text_atomically  # noqa: PLC0415 - as above

    output: Path = options.output
    try:
        form = check_report_name(output.name)
    except SettingsError as exc:
        msg = f"-o {output}: {exc}"
        raise LectureCheckError(msg) from exc
    session = session_of(options, options.run)
    text = _render(session, form)
    try:
        write_text_atomically(output, text, follows_links=False)
    except OSError as exc:
        msg = f"{output}: cannot be written: {exc.strerror or exc}"
        raise LectureCheckError(msg) from exc
    count = len(session.runs)
    return 0, [f"{output}: {session.title}, {count} run{'' if count == 1 else 's'}"]


def _render(session: KeptSession, form: ReportFormat) -> str:
    from pytest_lecturecheck.commands.session_lookup import entries_of  # noqa: PLC0415 - not for help
    from pytest_lecturecheck.report.report_file import SessionFacts, render_report  # noqa: PLC0415 - as above

    entries = entries_of(session)
    facts = SessionFacts(
        platform=session.platform,
        session=session.identity,
        ended=session.ended.isoformat(timespec="seconds") if session.ended is not None else "",
        version=session.version,
        commit=session.commit,
        machine=next((kept.run.machine for kept in session.runs if kept.run.machine is not None), None),
    )
    return render_report(form, entries, facts, document=lambda: _document(session, entries, facts))


def _document(session: KeptSession, entries: Sequence[Entry], facts: SessionFacts) -> str:
    from pytest_lecturecheck.report.json_report import render_json  # noqa: PLC0415 - only for JSON

    records = [_record(kept) for kept in session.runs]
    about = {
        "session": facts.session,
        "ended": facts.ended,
        "mode": session.mode,
        "version": facts.version,
        "commit": facts.commit,
    }
    return render_json(records, entries, platform=facts.platform, about=about)


def _record(kept: KeptRun) -> dict[str, Any]:
    from pytest_lecturecheck.store.runs import entry_to_dict  # noqa: PLC0415 - only for JSON

    return entry_to_dict(kept.run, kept.verdict, seconds=kept.seconds, budget=kept.budget)
