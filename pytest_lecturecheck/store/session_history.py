"""
Kept sessions: one JSON file for each of the latest sessions in ``.lecturecheck/runs``.

The files have the format that ``--lecture-report x.json`` writes. Their names are the time in UTC and a short
id, so that they sort by time.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import heapq
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pytest_lecturecheck.errors import RunFileError
from pytest_lecturecheck.model.cell_run import CellRun, CellStatus
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.model.timeline import thin
from pytest_lecturecheck.store.atomic import write_text_atomically
from pytest_lecturecheck.store.plausibility import check_numbers
from pytest_lecturecheck.store.runs import (
    SCHEMA,
    NewerRunFileError,
    check_schema,
    entry_from_dict,
    parse_json,
    read_text,
)
from pytest_lecturecheck.verdict.kept_session import KeptRun, KeptSession

FOLDER_NAME: Final = "runs"
_NAME: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{6}")
_COMMIT: Final = re.compile(r"[0-9a-f]{7,64}")
_LAST: Final = re.compile(r"last(?:~([0-9]{1,6}))?")
_MOST_SAMPLES: Final = 2000
_LEAST_SAMPLES: Final = 100
_MOST_CELLS: Final = 500
"""Cells of one lecture that are kept with everything that was measured."""
_ALL_SAMPLES: Final = 8000
"""Total number of timeline samples of a session; with more lectures each has fewer, to keep files small."""


def with_short_timelines(runs: Sequence[Run]) -> list[Run]:
    """Return the runs of a session with timelines, and cells, that are short enough to keep."""
    most = min(_MOST_SAMPLES, max(_LEAST_SAMPLES, _ALL_SAMPLES // max(1, len(runs))))
    return [_with_short_timeline(run, most) for run in runs]


def _with_short_timeline(run: Run, most: int) -> Run:
    devices = tuple(
        replace(use, timeline=tuple(thin(use.timeline, most // 2, lambda sample: sample.used_bytes)))
        for use in run.devices
    )
    members = tuple(_with_short_timeline(member, most // len(run.members)) for member in run.members)
    timeline = tuple(thin(run.timeline, most, lambda item: item.level_bytes))
    return replace(run, cells=_without_light_cells(run.cells), timeline=timeline, devices=devices, members=members)


def _without_light_cells(cells: tuple[CellRun, ...]) -> tuple[CellRun, ...]:
    """
    Drop what was measured of the lightest cells of a lecture with very many, each of which takes a kilobyte.

    The cells with the highest peaks, the longest ones, and those that did not end well stay as they are; of the others
    the line, the status and the times.
    """
    if len(cells) <= _MOST_CELLS:
        return cells
    usual = {CellStatus.OK, CellStatus.NOT_RUN}
    whole = {cell.number for cell in cells if cell.status not in usual or cell.reported_values}
    for metric in (Metric.PEAK_FOOTPRINT, Metric.WALL):
        found = [(reading.value, cell.number) for cell in cells if (reading := cell.measured(metric)) is not None]
        whole |= {number for _, number in heapq.nlargest(_MOST_CELLS // 2, found)}
    return tuple(
        cell if cell.number in whole else replace(cell, readings={}, output_extract="", allocators=(), compilation=None)
        for cell in cells
    )


def new_session_name(now: dt.datetime) -> str:
    """Return a name for a session that ends now: its time in UTC and a short id."""
    # Sessions of one second are in order as well; the last digit keeps two of one microsecond apart.
    within_second = f"{now.microsecond:05x}{secrets.token_hex(1)[0]}"
    return f"{now.astimezone(dt.UTC):%Y%m%dT%H%M%SZ}-{within_second}"


def keep_session(folder: Path, text: str, *, now: dt.datetime, most: int, name: str | None = None) -> Path | None:
    """
    Write the document of a session, and remove the oldest documents beyond ``most``.

    Args:
        folder: the folder of kept sessions.
        text: the document.
        now: when the session ended.
        most: number of sessions to keep.
        name: the name that the document states, or ``None`` for a new one.

    Returns:
        The file, or ``None`` if no sessions are kept (existing ones then stay).

    Raises:
        OSError: it cannot be written; no partial file remains.
    """
    if most <= 0:
        return None
    path = folder / f"{name or new_session_name(now)}.json"
    write_text_atomically(path, text)
    for old in session_files(folder)[:-most]:
        # Another session may have been quicker.
        with contextlib.suppress(OSError):
            old.unlink()
    return path


def session_files(folder: Path) -> tuple[Path, ...]:
    """Return the files of kept sessions, the oldest first; other files in the folder are ignored."""
    try:
        named = [path for path in folder.iterdir() if path.suffix == ".json" and _NAME.fullmatch(path.stem)]
    except OSError:
        return ()
    # Opening a pipe would block until somebody writes to it.
    found = [path for path in named if not (path.is_fifo() or path.is_socket() or path.is_char_device())]
    return tuple(sorted(found, key=lambda path: path.name))


def read_session(path: Path) -> KeptSession:
    """
    Read the document of a session, whether kept or written by ``--lecture-report``.

    Raises:
        NewerRunFileError: it was written by a newer version.
        RunFileError: it cannot be read, or is not such a document.
    """
    text = read_text(path)
    try:
        return _session_from_dict(path.stem, parse_json(text))
    except RunFileError as error:
        msg = f"{path}: {error}"
        raise type(error)(msg) from error


def session_from_records(name: str, records: Sequence[Mapping[str, Any]], about: Mapping[str, str]) -> KeptSession:
    """
    Return the session of records that were saved as they finished.

    Raises:
        RunFileError: a record is not what it should be.
    """
    return _session_from_dict(name, {"schema": SCHEMA, **about, "runs": list(records)})


def _session_from_dict(name: str, plain: Any) -> KeptSession:
    check_schema(plain)
    runs = plain.get("runs")
    if not isinstance(runs, list):
        msg = f"found {type(runs).__name__}; expected a list of runs under the key 'runs'"
        raise RunFileError(msg)
    kept = tuple(_kept_from_dict(item, position) for position, item in enumerate(runs, start=1))
    platform = _text(plain, "platform") or (kept[0].run.platform if kept else "")
    return KeptSession(
        name=name,
        platform=platform,
        runs=kept,
        ended=_moment(_text(plain, "ended")),
        mode=_text(plain, "mode"),
        version=_text(plain, "version"),
        commit=_text(plain, "commit"),
        session=_text(plain, "session"),
    )


def _kept_from_dict(plain: object, position: int) -> KeptRun:
    kept = entry_from_dict(plain, f"run {position}")
    for value, part in ((kept.run, ""), (kept.verdict, ": verdict"), (kept.budget, ": budget")):
        check_numbers(value, f"run {position}{part}")
    return kept


def _text(plain: Mapping[str, Any], key: str) -> str:
    found = plain.get(key, "")
    if not isinstance(found, str):
        msg = f"{key}: found {type(found).__name__}; expected text"
        raise RunFileError(msg)
    return found


def _moment(text: str) -> dt.datetime | None:
    if not text:
        return None
    try:
        ended = dt.datetime.fromisoformat(text)
    except ValueError as error:
        msg = f"ended: {text!r} is not a time in ISO 8601"
        raise RunFileError(msg) from error
    return ended if ended.tzinfo is not None else ended.replace(tzinfo=dt.UTC)


def read_sessions(folder: Path) -> tuple[tuple[KeptSession, ...], tuple[str, ...]]:
    """
    Read all kept sessions, the oldest first.

    Returns:
        The sessions, and the faults of files that were skipped.

    Raises:
        NewerRunFileError: a file was written by a newer version, which must not go unnoticed.
    """
    sessions, faults = [], []
    for path in session_files(folder):
        try:
            sessions.append(read_session(path))
        except NewerRunFileError:
            raise
        except RunFileError as error:
            faults.append(str(error))
    return tuple(sessions), tuple(faults)


def find_session(folder: Path, reference: str) -> tuple[KeptSession, tuple[str, ...]]:
    """
    Return a kept session.

    It is named by ``last``, ``last~1`` (the one before) and so on; by the first 7 or more digits of a commit (its last
    session); or by the beginning or the end of its name.

    Returns:
        The session, and the faults of newer files that were skipped.

    Raises:
        RunFileError: no session or several match, or it cannot be read.
    """
    files = session_files(folder)
    if not files:
        msg = (
            f"{folder}: no session is kept here; run pytest --lecture-budget (with keep-runs above 0), or name a file "
            "that --lecture-report wrote"
        )
        raise RunFileError(msg)
    if (match := _LAST.fullmatch(reference)) is not None:
        return _counted_back(folder, files, int(match.group(1) or 0))
    if _COMMIT.fullmatch(reference) and (at_commit := _at_commit(files, reference)) is not None:
        return at_commit
    found = [path for path in files if path.stem.startswith(reference) or path.stem.endswith(reference)]
    if not reference or len(found) != 1:
        what = f"{len(found)} kept sessions are" if len(found) > 1 else "no kept session is"
        msg = f"{folder}: {what} named {reference!r}; expected last, last~1, or one of {_named(found or files)}"
        raise RunFileError(msg)
    return read_session(found[0]), ()


def _newest_first(files: Sequence[Path], faults: list[str]) -> Iterator[KeptSession]:
    """Yield sessions from the last one back; unreadable ones are added to ``faults``, a newer version raises."""
    for path in reversed(files):
        try:
            yield read_session(path)
        except NewerRunFileError:
            raise
        except RunFileError as error:
            faults.append(str(error))


def _counted_back(folder: Path, files: Sequence[Path], back: int) -> tuple[KeptSession, tuple[str, ...]]:
    faults: list[str] = []
    for position, session in enumerate(_newest_first(files, faults)):
        if position == back:
            return session, tuple(faults)
    readable = len(files) - len(faults)
    msg = (
        f"{folder}: there is no session so far back; {readable} kept session{'' if readable == 1 else 's'} can be read"
    )
    raise RunFileError("\n".join([msg, *faults]))


def _at_commit(files: Sequence[Path], commit: str) -> tuple[KeptSession, tuple[str, ...]] | None:
    faults: list[str] = []
    for session in _newest_first(files, faults):
        if session.commit.startswith(commit):
            return session, tuple(faults)
    return None


def _named(files: Sequence[Path]) -> str:
    shown = 5
    names = [path.stem for path in files[-shown:]]
    return ", ".join(names) + (f" and {len(files) - shown} older ones" if len(files) > shown else "")
