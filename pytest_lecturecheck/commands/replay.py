"""``lecturecheck replay``: run one saved cell alone in a fresh kernel, beside what it needed in its lecture."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_lecturecheck.commands.arguments import width
from pytest_lecturecheck.errors import LectureCheckError

if TYPE_CHECKING:
    from pytest_lecturecheck.model.cell_run import CellRun
    from pytest_lecturecheck.store.replay.replay_folder import CellValues, ReplayRecord
    from pytest_lecturecheck.verdict import Verdict
    from pytest_lecturecheck.verdict.kept_session import KeptRun

HELP: Final = "run one saved cell alone in a fresh kernel, beside what it needed in its lecture"
DESCRIPTION: Final = """\
Run the cell of a folder that --lecture-replay-capture wrote: a fresh kernel loads the state that the cell reads, then
the cell runs with all probes. Its values are printed beside those of the original run.

  pytest --lecture-budget --lecture-replay-capture heaviest solve.ipynb
  lecturecheck replay .lecturecheck/replay/solve.ipynb-1a2b3c4d/cell-3
  lecturecheck replay --trust ~/Downloads/cell-3                 a folder from somebody else
  lecturecheck replay FOLDER -- --lecture-memory-cap 24GB        further arguments for pytest

Loading a state runs code of whoever made the folder. A folder without a stamp of this user is therefore refused unless
--trust is given. Exit status: 0 if the cell ends as it did in its lecture, 1 if not, 2 if the folder cannot be used."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="folder of one replay")
    parser.add_argument("pytest", nargs="*", metavar="ARGUMENT", help="further arguments for pytest, after --")
    parser.add_argument(
        "--trust", action="store_true", help="also run a folder that this user has not made: it runs code from it"
    )


def run(options: argparse.Namespace) -> tuple[int, list[str]]:
    """
    Run the replay.

    Returns:
        Exit status, and the lines to print.

    Raises:
        LectureCheckError: the folder cannot be used, or is not trusted.
    """
    from pytest_lecturecheck.store.replay.replay_folder import read_replay, values_of  # noqa: PLC0415 - not for help

    record = read_replay(options.folder)
    if not options.trust:
        _check_stamp(options.folder)
    with tempfile.TemporaryDirectory(prefix="lecturecheck-replay-") as name:
        root = Path(name)
        _lay_out(options.folder.resolve(), root, record)
        kept = _run_notebook(root, options.pytest)
    loading, *rest = kept.run.cells
    if not rest or not loading.status.has_run or loading.status.value != "ok":
        how = _error_of(loading) or loading.status.value
        msg = f"{options.folder}: the state could not be loaded: {how}"
        raise LectureCheckError(msg)
    found = values_of(rest[0])
    return (0 if found.status == record.original.status else 1), list(_lines(record, found, kept.verdict))


def _error_of(cell: CellRun) -> str:
    return f"{cell.error.name}: {cell.error.value}" if cell.error is not None else ""


def _check_stamp(folder: Path) -> None:
    from pytest_lecturecheck.store.replay.stamp import secret_path, why_foreign  # noqa: PLC0415 - as above

    try:
        why = why_foreign(folder, secret_path(os.environ, Path.home()))
    except (OSError, RuntimeError) as exc:
        why = str(exc)
    if why:
        msg = (
            f"{folder} is not known to be yours: {why}. Loading a state runs code of whoever made the folder. If you "
            "trust that person, add --trust"
        )
        raise LectureCheckError(msg)


def _lay_out(folder: Path, root: Path, record: ReplayRecord) -> None:
    """Copy what the kernel runs; nothing else of the folder can be imported by it."""
    from pytest_lecturecheck.files import read_plain_bytes  # noqa: PLC0415 - not for help
    from pytest_lecturecheck.store.replay.replay_folder import DATA  # noqa: PLC0415 - as above

    try:
        for name in record.files:
            target = root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(read_plain_bytes(folder / name, follow_links=False))
        try:
            (root / DATA).symlink_to(folder / DATA, target_is_directory=True)
        except OSError:
            # Windows allows links to few users.
            shutil.copytree(folder / DATA, root / DATA)
    except OSError as exc:
        msg = f"{folder} is not whole: {exc}; expected the files that --lecture-replay-capture wrote"
        raise LectureCheckError(msg) from exc


def _run_notebook(root: Path, arguments: list[str]) -> KeptRun:
    """
    Run the notebook in a session of pytest; return its run.

    Raises:
        LectureCheckError: the session ran no notebook.
    """
    from pytest_lecturecheck.store.replay.replay_folder import NOTEBOOK  # noqa: PLC0415 - as above
    from pytest_lecturecheck.store.session_history import read_session  # noqa: PLC0415 - as above

    report = root / "report.json"
    command = [sys.executable, "-P", "-m", "pytest", "--lecture-budget", "-q", "-p", "no:cacheprovider"]
    command += ["--rootdir", str(root), "--lecture-report", str(report), *arguments, str(root / NOTEBOOK)]
    ended = subprocess.run(  # noqa: S603 - pytest
        command, cwd=root, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
    )
    runs = read_session(report).runs if report.is_file() else ()
    if not runs or not runs[0].run.cells:
        tail = "\n".join((ended.stdout + ended.stderr).strip().splitlines()[-5:])
        msg = f"the session ran no cell; pytest said:\n{tail}"
        raise LectureCheckError(msg)
    return runs[0]


def _lines(record: ReplayRecord, found: CellValues, verdict: Verdict) -> Iterator[str]:
    from pytest_lecturecheck.report.text import wrap  # noqa: PLC0415 - as above
    from pytest_lecturecheck.safe_text import plain  # noqa: PLC0415 - as above

    yield f"replay of {plain(record.title)}"
    rows = [("", "original", "replay"), *_rows(record.original, found)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for name, before, now in rows:
        yield f"  {name:<{widths[0]}}  {before:>{widths[1]}}  {now:>{widths[2]}}"
    for name, why in record.missing.items():
        yield from wrap(f"not saved: {plain(name)} ({plain(why)})", width())
    if verdict.failed:
        # The headline counts the cells of the replay's own notebook.
        yield from wrap(f"the replay (its code cell 2 is the cell): {plain(verdict.headline)}", width())
    if record.original.status != found.status:
        yield from wrap(
            f"The cell ended as {found.status!r}, in its lecture as {record.original.status!r}. What it needs "
            "beside the saved names is not there: a name above, a file, or what earlier cells left in memory.",
            width(),
        )


def _rows(before: CellValues, now: CellValues) -> Iterator[tuple[str, str, str]]:
    yield "end", before.status, now.status
    yield "peak footprint", _size(before.peak_bytes), _size(now.peak_bytes)
    yield "footprint at its start", _size(before.start_bytes), _size(now.start_bytes)
    yield "raised by", _size(_raised(before)), _size(_raised(now))
    yield "time", _time(before.seconds), _time(now.seconds)


def _raised(values: CellValues) -> float | None:
    if values.peak_bytes is None or values.start_bytes is None:
        return None
    return max(0.0, values.peak_bytes - values.start_bytes)


def _size(value: float | None) -> str:
    from pytest_lecturecheck.units import format_size  # noqa: PLC0415 - not for help

    return "not measured" if value is None else format_size(round(value))


def _time(value: float | None) -> str:
    from pytest_lecturecheck.units import format_duration  # noqa: PLC0415 - not for help

    return "not measured" if value is None else format_duration(value)
