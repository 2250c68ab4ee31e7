"""``lecturecheck fit``: find the smallest memory with which a lecture passes, by runs under different caps."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_lecturecheck.commands.arguments import width
from pytest_lecturecheck.errors import LectureCheckError, UnitError

if TYPE_CHECKING:
    from pytest_lecturecheck.verdict.smallest_memory import Try

HELP: Final = "find the smallest memory with which a lecture passes"
DESCRIPTION: Final = """\
Run a lecture without a cap, then under caps that halve the interval between the largest that kills it and the smallest
that passes, and at least three times on both sides of the edge. Each try is a session of pytest with
--lecture-memory-cap; its report is kept. Needs a memory group or the watchdog, as --lecture-memory-cap does.

  lecturecheck fit solve.ipynb
  lecturecheck fit --from 2GB --to 24GB solve.ipynb
  lecturecheck fit --step 256MiB --runs 5 --keep tries solve.ipynb
  lecturecheck fit solve.ipynb -- --lecture-timeout 3600          further arguments for pytest
  salloc --mem=8G lecturecheck fit solve.ipynb -- --lecture-launcher slurm
                                                    under Slurm: each try is a step with that --mem

The last line names the edge: "runs with 3.5 GiB, dies with 3.25 GiB, footprint without a cap 3.9 GiB". A smaller cap
that passes where a larger one failed is reported. The edge may be a little below the footprint: pages of library files
count in the footprint, and not always under a cap. Exit status: 0; 1 if no cap passed, or outcomes contradict each
other; 2 if an argument cannot be used."""
_SMALLEST: Final = "128 MiB"
_STEP: Final = "64 MiB"
_RUNS: Final = 3
_ROOM_FACTOR: Final = 1.1
"""A memory group also counts what is no part of the footprint: page tables and files that the lecture has read."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("lecture", metavar="LECTURE", help="file of a lecture")
    parser.add_argument("pytest", nargs="*", metavar="ARGUMENT", help="further arguments for pytest, after --")
    parser.add_argument(
        "--from", dest="least", default=_SMALLEST, metavar="SIZE", help=f"smallest cap to try ({_SMALLEST})"
    )
    parser.add_argument(
        "--to",
        dest="most",
        metavar="SIZE",
        help="largest cap to try (default: 10 %% above the footprint without a cap)",
    )
    parser.add_argument(
        "--step", default=_STEP, metavar="SIZE", help=f"stop when the two caps are this close ({_STEP})"
    )
    parser.add_argument("--runs", type=int, default=_RUNS, metavar="N", help=f"runs on each side of the edge ({_RUNS})")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="folder for the report of each try (default: a new one)"
    )


def run(options: argparse.Namespace) -> tuple[int, list[str]]:
    """
    Find the edge.

    Returns:
        Exit status, and the lines to print.

    Raises:
        LectureCheckError: an argument cannot be used, or the lecture fails without a cap.
    """
    from pytest_lecturecheck.report.text import wrap  # noqa: PLC0415 - as above
    from pytest_lecturecheck.verdict.smallest_memory import MemorySearch, describe  # noqa: PLC0415 - not for help

    if not Path(options.lecture).is_file():
        msg = f"{options.lecture}: there is no such file; expected the file of a lecture"
        raise LectureCheckError(msg)
    if options.runs < 1:
        msg = f"--runs {options.runs}: expected at least 1; the edge is tried three times by default"
        raise LectureCheckError(msg)
    least_bytes, step_bytes = _size(options.least, "--from"), _size(options.step, "--step")
    most_bytes = _size(options.most, "--to") if options.most else None
    if most_bytes is not None and most_bytes < least_bytes:
        msg = f"--to {options.most} is less than --from {options.least}; exchange them"
        raise LectureCheckError(msg)
    folder = options.keep or Path(tempfile.mkdtemp(prefix="lecturecheck-fit-"))
    folder.mkdir(parents=True, exist_ok=True)
    tries = _Tries(options.lecture, options.pytest, folder)
    free = tries.run(None)
    if not free.has_passed:
        msg = f"{options.lecture} fails without a cap ({free.verdict}), so no memory is enough; see {free.report}"
        raise LectureCheckError(msg)
    search = MemorySearch(
        least_bytes=least_bytes,
        most_bytes=most_bytes or round(_ROOM_FACTOR * (free.peak_bytes or 0)) + 1,
        step_bytes=step_bytes,
        runs=options.runs,
    )
    while (cap := search.next_cap()) is not None:
        search.note(tries.run(cap))
    lines = [line for text in describe(search, free) for line in wrap(text, width())]
    return (0 if search.is_conclusive else 1), [*lines, f"reports of the {tries.count} tries: {folder}"]


def _size(text: str, option: str) -> int:
    from pytest_lecturecheck.units import parse_size  # noqa: PLC0415 - not for help

    try:
        return parse_size(text)
    except UnitError as exc:
        msg = f"{option}: {exc}"
        raise LectureCheckError(msg) from exc


class _Tries:
    """Runs the lecture in sessions of pytest, one for each try, and shows the progress."""

    def __init__(self, lecture: str, arguments: Sequence[str], folder: Path) -> None:
        self._lecture, self._arguments, self._folder = lecture, arguments, folder
        self.count = 0

    def run(self, cap_bytes: int | None) -> Try:
        """
        Run the lecture once.

        Raises:
            LectureCheckError: the session ran no lecture.
        """
        from pytest_lecturecheck.store.session_history import read_session  # noqa: PLC0415 - as above
        from pytest_lecturecheck.units import format_size  # noqa: PLC0415 - as above
        from pytest_lecturecheck.verdict.smallest_memory import try_of_run  # noqa: PLC0415 - not for help

        self.count += 1
        report = self._folder / f"try-{self.count:02}.json"
        cap = "off" if cap_bytes is None else f"{cap_bytes} B"
        shown = "no cap" if cap_bytes is None else f"cap {format_size(cap_bytes)}"
        sys.stderr.write(f"try {self.count}: {shown} ... ")
        sys.stderr.flush()
        command = [
            sys.executable,
            "-m",
            "pytest",
            "--lecture-budget",
            "--lecture-rerun-failed",
            "-q",
            "-p",
            "no:cacheprovider",
        ]
        command += [
            "--lecture-memory-cap",
            cap,
            "--lecture-report",
            str(report.resolve()),
            *self._arguments,
            self._lecture,
        ]
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)  # noqa: S603 - pytest
        (self._folder / f"try-{self.count:02}.txt").write_text(ended.stdout + ended.stderr, encoding="utf-8")
        if not report.is_file():
            sys.stderr.write("no report\n")
            tail = "\n".join((ended.stdout + ended.stderr).strip().splitlines()[-5:])
            msg = f"the session wrote no report; pytest said:\n{tail}"
            raise LectureCheckError(msg)
        runs = read_session(report).runs
        if not runs:
            msg = f"{self._lecture}: the session ran no lecture; see {report.with_suffix('.txt')}"
            raise LectureCheckError(msg)
        found = try_of_run(runs[0].run, cap_bytes, str(report))
        peak = f", peak {format_size(found.peak_bytes)}" if found.peak_bytes is not None else ""
        sys.stderr.write(f"{found.verdict}{peak}\n")
        return found
