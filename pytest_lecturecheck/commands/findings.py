"""``lecturecheck findings``: what kept sessions of any number of machines say together."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_lecturecheck.commands.arguments import add_root, count, width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_lecturecheck.findings.measured import Measured
    from pytest_lecturecheck.verdict.kept_session import KeptSession

HELP: Final = "answer seven questions about devices, precision, concurrency and cost from kept sessions"
DESCRIPTION: Final = """\
Answer seven questions from kept sessions: what float64 costs, from which size on a GPU is faster, how many kernels at
once are safe, how samplers compare, what compiling costs, which machine fits, and how a bad cell fails. Every answer
names the runs it rests on; without such runs it is "not answered". Sessions of several machines may be mixed: copy
their .lecturecheck folders, or name their JSON reports.

  lecturecheck findings                           the kept sessions of this folder, into build/findings
  lecturecheck findings gpu/.lecturecheck cpu.json -o out   sessions of two machines
  lecturecheck findings --values                  the values that [priors] can be compared with
  lecturecheck findings --timeouts t.patch        timeouts from the recorded times, as a patch, and nothing else

It writes findings.md, findings.html, and a CSV file for each table and picture. Prices come from [machines] in the
settings, and what was expected from [priors]. To make the runs: pytest --lecture-runs 6 --lecture-axes
"precision=f32,f64 size=10,1000". Exit status: 0; 2 if something cannot be read."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "sessions",
        nargs="*",
        type=Path,
        metavar="SESSIONS",
        help="a JSON report, or a folder with kept sessions (default: all kept sessions of this folder)",
    )
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("build/findings"), metavar="DIR", help="folder to write into"
    )
    parser.add_argument("--values", action="store_true", help="print the values by name, and write nothing")
    parser.add_argument(
        "--timeouts",
        type=Path,
        metavar="FILE",
        help="write a patch for git apply with timeouts from the recorded times: front matter, _config.yml, workflows",
    )
    parser.add_argument(
        "--builds-per-year", type=count, default=365, metavar="N", help="cadence of the builds (default: 365)"
    )
    add_root(parser)


def run(options: argparse.Namespace) -> tuple[int, list[str]]:
    """
    Write the findings.

    Returns:
        Exit status, and the lines to print.

    Raises:
        LectureCheckError: sessions or settings cannot be read, or the folder cannot be written.
    """
    from pytest_lecturecheck.commands.session_lookup import root_of, sessions_of, warn_skipped  # noqa: PLC0415 - not for help
    from pytest_lecturecheck.config.option_reading import read_settings_file  # noqa: PLC0415 - as above
    from pytest_lecturecheck.errors import LectureCheckError  # noqa: PLC0415 - as above
    from pytest_lecturecheck.findings.answering import Assumptions, answer_questions  # noqa: PLC0415 - as above
    from pytest_lecturecheck.findings.measured import measure  # noqa: PLC0415 - as above
    from pytest_lecturecheck.findings.media import files_of  # noqa: PLC0415 - as above
    from pytest_lecturecheck.report.text import wrap  # noqa: PLC0415 - as above
    from pytest_lecturecheck.store.atomic import write_text_atomically  # noqa: PLC0415 - as above
    from pytest_lecturecheck.store.session_history import read_session, read_sessions, session_files  # noqa: PLC0415 - as above

    sessions = [] if options.sessions else list(sessions_of(options))
    for path in options.sessions:
        if path.is_dir():
            folder = next((item for item in (path / "runs", path / ".lecturecheck" / "runs") if item.is_dir()), path)
            if not session_files(folder):
                msg = f"{path}: holds no kept sessions; expected a folder .lecturecheck, or a JSON report"
                raise LectureCheckError(msg)
            found, faults = read_sessions(folder)
            warn_skipped(faults)
            sessions += found
        else:
            sessions.append(read_session(path))
    sessions, again = _distinct(sessions)
    if options.timeouts is not None:
        return 0, _write_timeouts(options.timeouts, measure(sessions), root_of(options))
    _, settings = read_settings_file(root_of(options))
    assumptions = Assumptions(
        machines=settings.get("machines", ()),
        priors=settings.get("priors", ()),
        builds_per_year=options.builds_per_year,
    )
    document = answer_questions(sessions, assumptions)
    if options.values:
        return 0, [f"{item.key}: {item.value:.6g} ({item.low:.6g} to {item.high:.6g})" for item in document.values]
    try:
        options.output.mkdir(parents=True, exist_ok=True)
        for name, text in files_of(document).items():
            write_text_atomically(options.output / name, text, follows_links=False)
    except OSError as exc:
        msg = f"{options.output}: cannot be written: {exc}"
        raise LectureCheckError(msg) from exc
    lines = []
    for section in document.questions:
        lines += [section.title, *wrap(section.answer, width(), first="  ", rest="  ")]
    return 0, [*lines, "", *again, f"written to {options.output}"]


def _distinct(sessions: Sequence[KeptSession]) -> tuple[list[KeptSession], list[str]]:
    """Return each session once, and a line about the others: a report may be beside the kept session it was made of."""
    found: dict[object, KeptSession] = {}
    for number, session in enumerate(sessions):
        # Documents of older versions do not state the name of their session.
        found.setdefault(session.session or number, session)
    left_out = len(sessions) - len(found)
    text = (
        "1 session was there twice and counts" if left_out == 1 else f"{left_out} sessions were there twice and count"
    )
    return list(found.values()), [f"{text} once"] if left_out else []


def _write_timeouts(target: Path, measured: Measured, root: Path) -> list[str]:
    from pytest_lecturecheck.commands.timeout_patch import timeout_patch  # noqa: PLC0415 - only for a patch
    from pytest_lecturecheck.errors import LectureCheckError  # noqa: PLC0415 - as above
    from pytest_lecturecheck.store.atomic import write_text_atomically  # noqa: PLC0415 - as above

    patch, notes = timeout_patch(measured, root.resolve())
    try:
        write_text_atomically(target, patch, follows_links=False)
    except OSError as exc:
        msg = f"{target}: cannot be written: {exc}"
        raise LectureCheckError(msg) from exc
    return [*notes, f"written to {target}; look at it, and then: git apply {target}" if patch else "nothing to change"]
