"""``lecturecheck run``: run any program as a lecture of one step, without pytest."""

from __future__ import annotations

import argparse
import math
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_lecturecheck.commands.arguments import add_root, width
from pytest_lecturecheck.errors import LectureCheckError

if TYPE_CHECKING:
    from pytest_lecturecheck.model.settings import RunSettings
    from pytest_lecturecheck.report.entry import Entry

HELP: Final = "run a program (Rscript, python, make, ...) with the same probe, cap, diagnosis and record as a lecture"
DESCRIPTION: Final = """\
Run a program as a lecture of one step: its processes are measured together, stopped at the cap, ended with it, and a
bad end is diagnosed. What it writes is shown as it comes. The session is kept for show, compare and readme.

  lecturecheck run -- Rscript main.R
  lecturecheck run --declared-memory "24 GB" --declared-time "12 hours" -- python main.py
  lecturecheck run --cap "4 GB" --report run.json -- make all
  lecturecheck run --name tables -- sh -c "sort in.csv | head > out.csv"

What [declared] of the settings file states counts here as well; arguments replace it. No shell is involved: write one
in the command where you need it. Exit status: 0; 1 if the program failed, or needs more
than is declared or budgeted; 2 if an argument cannot be used."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("program", nargs="+", metavar="PROGRAM", help="the program and its arguments, after --")
    parser.add_argument(
        "--name", help="its name in records (default: its last argument that is a file, or its command)"
    )
    parser.add_argument("--cap", metavar="SIZE", help="no more memory than this; 'off' for no cap (default: automatic)")
    parser.add_argument(
        "--timeout", metavar="TIME", help="no more time than this, such as '12 hours' (default: no limit)"
    )
    parser.add_argument("--declared-memory", metavar="SIZE", help="memory that the package declares")
    parser.add_argument("--declared-time", metavar="TIME", help="time that the package declares")
    parser.add_argument("--enforce-declared", action="store_true", help="run under the declared memory and time")
    parser.add_argument(
        "--report",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="also write a report (.json, .html, .md)",
    )
    add_root(parser)


def run(options: argparse.Namespace) -> tuple[int, list[str]]:
    """
    Run the program.

    Returns:
        Exit status, and the lines to print.

    Raises:
        LectureCheckError: an argument cannot be used.
    """
    from pytest_lecturecheck.commands.session_lookup import has_colour, root_of  # noqa: PLC0415 - not for help
    from pytest_lecturecheck.config.report_formats import check_report_name  # noqa: PLC0415 - as above
    from pytest_lecturecheck.kernel.run.program_run import Program  # noqa: PLC0415 - as above
    from pytest_lecturecheck.model.settings import AUTOMATIC_CAP, NO_LIMIT  # noqa: PLC0415 - as above
    from pytest_lecturecheck.session.program_session import ProgramPolicy, ProgramSession  # noqa: PLC0415 - as above

    root = root_of(options)
    declared = _declared(options, root)
    memory, time = declared.declared_memory_bytes, declared.declared_time_seconds
    if declared.enforce_declared and memory is None and time is None:
        msg = "--enforce-declared has nothing to enforce; add --declared-memory or --declared-time"
        raise LectureCheckError(msg)
    for path in options.report:
        # A program may run for hours; a name that cannot be used is refused before.
        check_report_name(str(path))
    cap = NO_LIMIT if options.cap == "off" else _size(options.cap, "--cap") or AUTOMATIC_CAP
    timeout = _time(options.timeout, "--timeout") or NO_LIMIT
    if declared.enforce_declared:
        cap = memory if memory is not None and cap == AUTOMATIC_CAP else cap
        timeout = min(timeout, time if time is not None else math.inf)
    program = Program(
        name=options.name or name_of(options.program),
        argv=options.program,
        folder=Path.cwd(),
        cap_bytes=cap,
        timeout_seconds=timeout,
        declared_bytes=memory,
    )
    policy = ProgramPolicy(
        declared_memory_bytes=memory,
        declared_time_seconds=time,
        declared_disk_bytes=declared.declared_disk_bytes,
        reports=tuple(path.resolve() for path in options.report),
    )
    session = ProgramSession(root, policy)
    lines: list[str] = []
    for entry in session.run([program], _show):
        lines += _failure(entry, has_colour=has_colour())
    lines += session.finish(width=width(), colour=has_colour())
    return int(any(entry.verdict.failed for entry in session.results.entries)), lines


def _declared(options: argparse.Namespace, root: Path) -> RunSettings:
    """Return what is declared: the command line first, then ``[declared]`` of the settings file."""
    from pytest_lecturecheck.config.options import resolve  # noqa: PLC0415 - as above

    stated = resolve({}, root, root).for_all_lectures
    memory, time = _size(options.declared_memory, "--declared-memory"), _time(options.declared_time, "--declared-time")
    return replace(
        stated,
        declared_memory_bytes=stated.declared_memory_bytes if memory is None else memory,
        declared_time_seconds=stated.declared_time_seconds if time is None else time,
        enforce_declared=options.enforce_declared or stated.enforce_declared,
    )


def name_of(argv: list[str]) -> str:
    """Return the name of a program in records: its last argument that is a file here, otherwise its command."""
    files = [
        word for word in argv[1:] if not word.startswith("-") and not Path(word).is_absolute() and Path(word).is_file()
    ]
    return Path(files[-1]).as_posix() if files else shlex.join([Path(argv[0]).name, *argv[1:]])[:80]


def _show(data: bytes) -> None:
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is not None:
        buffer.write(data)
        buffer.flush()
    else:
        sys.stdout.write(data.decode("utf-8", "replace"))


def _failure(entry: Entry, *, has_colour: bool) -> list[str]:
    if not entry.verdict.failed:
        return [""]
    from pytest_lecturecheck.report.terminal.failure import render_failure  # noqa: PLC0415 - only where something failed

    return ["", *render_failure(entry, colour=has_colour, width=width()).split("\n"), ""]


def _size(text: str | None, option: str) -> int | None:
    from pytest_lecturecheck.errors import UnitError  # noqa: PLC0415 - not for help
    from pytest_lecturecheck.units import parse_size  # noqa: PLC0415 - as above

    try:
        return None if text is None else parse_size(text)
    except UnitError as exc:
        msg = f"{option}: {exc}"
        raise LectureCheckError(msg) from exc


def _time(text: str | None, option: str) -> float | None:
    from pytest_lecturecheck.errors import UnitError  # noqa: PLC0415 - not for help
    from pytest_lecturecheck.units import parse_duration  # noqa: PLC0415 - as above

    try:
        return None if text is None else parse_duration(text)
    except UnitError as exc:
        msg = f"{option}: {exc}"
        raise LectureCheckError(msg) from exc
