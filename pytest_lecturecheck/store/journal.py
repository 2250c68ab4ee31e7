"""
Journal: events written to disk as they happen, one file of JSON lines for each process that runs lectures.

The file is removed at the end of the session. If it remains although its process is gone, it tells the next session
what was running when that process stopped. Lines survive the death of the process; only lines that :meth:`Journal.sync`
forced to disk survive a crash of the machine.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import errno
import json
import os
import secrets
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.cell_marks import CellMarks
from pytest_lecturecheck.store.journal_samples import MARK, SampleReader

FOLDER_NAME: Final = "journal"
SCHEMA: Final = 1
_SUFFIX: Final = ".jsonl"
_TOLD_SUFFIX: Final = ".told"
_MOST_TOLD: Final = 5
_LOCK_OFFSET: Final = 1 << 30
"""On Windows a locked byte cannot be read, so one far beyond the end is locked."""
_MOST_BYTES: Final = 64 * 1024**2
_LAST_SECONDS: Final = 253_402_300_799.0
"""The end of the year 9999, the last that ``datetime`` can represent."""
_SYNC_SECONDS: Final = 1.0


class Event:
    """Names of events."""

    SESSION: Final = "session start"
    WAIT: Final = "waiting"
    LECTURE: Final = "lecture start"
    KERNEL: Final = "kernel start"
    CELL: Final = "cell start"
    READING: Final = "reading"
    MARK: Final = MARK
    CELL_END: Final = "cell end"
    LECTURE_END: Final = "lecture end"
    SIGNAL: Final = "signal"
    SESSION_END: Final = "session end"


class Journal:
    """
    The journal of this process.

    Args:
        folder: folder of the journals, created if missing.
        session: identifies the processes of one session.
        worker: name of this worker process, or an empty string.

    Raises:
        OSError: the file cannot be created.
    """

    def __init__(self, folder: Path, *, session: str = "", worker: str = "") -> None:
        """Create and lock the file, and write its first line."""
        folder.mkdir(exist_ok=True)
        started = dt.datetime.now(dt.UTC)
        self.path = folder / f"{started:%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}{_SUFFIX}"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_BINARY", 0)
        self._descriptor: int | None = os.open(self.path, flags, 0o666)
        self._synced = time.monotonic()
        self._is_dirty = False
        locked = try_lock(self._descriptor)
        self.write(
            Event.SESSION,
            schema=SCHEMA,
            session=session,
            worker=worker,
            pid=os.getpid(),
            locked=locked is not None and locked,
        )

    def write(self, event: str, **facts: Any) -> None:
        """Add one line; if the disk is full, the session continues without it."""
        if self._descriptor is None:
            return
        line = json.dumps({"time": round(time.time(), 3), "event": event, **facts}, separators=(",", ":"))
        # A single write, so that lines of two threads never mix and readers never see a partial line.
        with contextlib.suppress(OSError):
            os.write(self._descriptor, line.encode("ascii") + b"\n")
            self._is_dirty = True

    def sync(self) -> None:
        """Force new lines to disk, at most once a second; call it from a thread that may block."""
        now = time.monotonic()
        if self._descriptor is None or not self._is_dirty or now - self._synced < _SYNC_SECONDS:
            return
        self._synced, self._is_dirty = now, False
        with contextlib.suppress(OSError):
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Write the end of the session and remove the file; safe to call twice."""
        if self._descriptor is None:
            return
        self.write(Event.SESSION_END)
        descriptor, self._descriptor = self._descriptor, None
        os.close(descriptor)
        with contextlib.suppress(OSError):
            self.path.unlink()


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    """
    The state that a journal without an end describes.

    Attributes:
        started: start of the process, seconds since the epoch.
        ended: time of the last line.
        session: identifier of the session.
        worker: name of the worker process, or an empty string.
        lecture: the lecture that was running, or an empty string.
        variant: name of the cohort if the lecture ran in several kernels, or an empty string.
        waits_for: what it was waiting for before its kernel started, or an empty string.
        last_lecture: the lecture that ended last, or an empty string.
        signal: the last signal that the process received, described, or an empty string.
        has_begun: whether a code cell of the lecture had been started.
        cell_number: the code cell that was running, or ``None``.
        line: its line in the lecture's file, or ``None``.
        kernel_pid: process id of the kernel, or ``None``.
        cap_bytes: the lecture's limit, or ``None``.
        footprint_bytes: last footprint read, or ``None``.
        peak_footprint_bytes: highest footprint of the lecture until then, or ``None``.
        reading_age_seconds: age of that reading at the time of the last line.
        marks: where a long cell was, or ``None``.
        cell_started_seconds: start of that cell in the time of its marks, or ``None``.
    """

    started: float
    ended: float
    session: str = ""
    worker: str = ""
    lecture: str = ""
    variant: str = ""
    waits_for: str = ""
    last_lecture: str = ""
    signal: str = ""
    has_begun: bool = False
    cell_number: int | None = None
    line: int | None = None
    kernel_pid: int | None = None
    cap_bytes: int | None = None
    footprint_bytes: int | None = None
    peak_footprint_bytes: int | None = None
    reading_age_seconds: float = 0.0
    marks: CellMarks | None = None
    cell_started_seconds: float | None = None


def take_interrupted(folder: Path) -> tuple[Interrupted, ...]:
    """Return the journals of sessions that stopped without an end, each once; only the last few files are kept."""
    taken = []
    for path in sorted(folder.glob(f"*{_SUFFIX}")):
        if is_owner_alive(path):
            continue
        found = _take(path)
        if found is not None:
            taken.append(found)
    for path in sorted(folder.glob(f"*{_SUFFIX}{_TOLD_SUFFIX}"))[:-_MOST_TOLD]:
        with contextlib.suppress(OSError):
            path.unlink()
    return tuple(taken)


def take_worker(folder: Path, *, session: str, worker: str) -> Interrupted | None:
    """Return the journal of a worker that is known to be gone, or ``None`` if it left none."""
    for path in sorted(folder.glob(f"*{_SUFFIX}")):
        found = read_journal(path)
        if found is not None and (found.session, found.worker) == (session, worker):
            return _take(path)
    return None


def _take(path: Path) -> Interrupted | None:
    found = read_journal(path)
    try:
        # Only one of two sessions that start at the same time can rename the file, and only that one reports it.
        path.rename(path.with_name(path.name + _TOLD_SUFFIX))
    except OSError:
        return None
    return found


def read_journal(path: Path) -> Interrupted | None:
    """
    Read a journal in any state; truncated and damaged lines are skipped.

    Returns:
        The state, or ``None`` if the session ended normally or the file is no journal of this version.
    """
    try:
        descriptor = open_own_file(path)
        with os.fdopen(descriptor, "rb") as stream:
            data = stream.read(_MOST_BYTES)
    except OSError:
        return None
    lines = list(_parse_lines(data))
    if not lines or lines[0].get("event") != Event.SESSION or lines[0].get("schema") != SCHEMA:
        return None
    if lines[-1]["event"] == Event.SESSION_END:
        return None
    return _follow(lines)


def _parse_lines(data: bytes) -> Iterator[dict[str, Any]]:
    for row in data.split(b"\n"):
        try:
            line = json.loads(row)
        except (ValueError, RecursionError):
            continue
        if isinstance(line, dict) and isinstance(line.get("event"), str) and _is_moment(line):
            yield line


def _is_moment(line: dict[str, Any]) -> bool:
    seconds = _number(line, "time")
    return seconds is not None and 0 <= seconds <= _LAST_SECONDS


def _follow(lines: list[dict[str, Any]]) -> Interrupted:
    """Replay the lines and return the state at the last one."""
    lecture: dict[str, Any] = {}
    last_lecture, samples = "", SampleReader()
    for line in lines[1:]:
        event = line["event"]
        if event == Event.WAIT:
            lecture |= {key: line.get(key) for key in ("lecture", "variant", "waits")}
        elif event == Event.LECTURE:
            lecture = {key: line.get(key) for key in ("lecture", "variant", "cap")}
        elif event == Event.LECTURE_END:
            last_lecture, lecture = _text(lecture, "lecture"), {}
        elif event == Event.KERNEL:
            lecture |= {"pid": line.get("pid"), "waits": None}
        elif event == Event.CELL:
            lecture |= {"cell": line.get("cell"), "line": line.get("line")}
            lecture["has_begun"] = _whole(line, "cell") is not None
            samples = SampleReader(float(line["time"]))
        elif event == Event.MARK:
            samples.add(line)
        elif event == Event.CELL_END:
            lecture |= {"cell": None, "line": None}
            samples = SampleReader()
        elif event == Event.READING:
            lecture |= {key: line.get(key) for key in ("footprint", "peak", "age", "time")}
    ended = float(lines[-1]["time"])
    read_at = (_number(lecture, "time") or ended) - (_number(lecture, "age") or 0.0)
    return Interrupted(
        started=float(lines[0]["time"]),
        ended=ended,
        session=_text(lines[0], "session"),
        worker=_text(lines[0], "worker"),
        lecture=_text(lecture, "lecture"),
        variant=_text(lecture, "variant"),
        waits_for=_text(lecture, "waits"),
        last_lecture=last_lecture,
        signal=next((_text(line, "signal") for line in reversed(lines) if line["event"] == Event.SIGNAL), ""),
        has_begun=lecture.get("has_begun") is True,
        cell_number=_whole(lecture, "cell"),
        line=_whole(lecture, "line"),
        kernel_pid=_whole(lecture, "pid"),
        cap_bytes=_whole(lecture, "cap"),
        footprint_bytes=_whole(lecture, "footprint"),
        peak_footprint_bytes=_whole(lecture, "peak"),
        reading_age_seconds=max(0.0, ended - read_at),
        marks=samples.marks() if lecture else None,
        cell_started_seconds=samples.cell_started_seconds if lecture else None,
    )


def _text(facts: Mapping[str, Any], key: str) -> str:
    value = facts.get(key)
    return value if isinstance(value, str) else ""


def _number(facts: Mapping[str, Any], key: str) -> float | None:
    value = facts.get(key)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < float(1 << 60) else None  # type: ignore[operator,arg-type]


def _whole(facts: Mapping[str, Any], key: str) -> int | None:
    value = _number(facts, key)
    return None if value is None else round(value)


# -- who is alive -----------------------------------------------------------------------------------------------------


def is_owner_alive(path: Path) -> bool:
    """
    Return True if the process that writes a journal may still be running.

    A running process holds a lock on its file; unlike a process id, a lock cannot be reused. A file without a first
    line belongs to a process that is about to lock it, unless it is old. Without support for locks, a journal counts as
    abandoned if nothing was added for an hour.
    """
    try:
        descriptor = open_own_file(path)
    except OSError:
        # Another session has taken it, or it cannot be read: nothing to report.
        return True
    try:
        age = time.time() - os.fstat(descriptor).st_mtime
        head = next(_parse_lines(os.read(descriptor, 65_536).split(b"\n", 1)[0]), None)
        if head is None:
            return age < _NO_HEAD_SECONDS
        if head.get("locked") is not True:
            return age < _UNLOCKED_SECONDS
        return try_lock(descriptor) is not True
    except OSError:
        return True
    finally:
        os.close(descriptor)


def open_own_file(path: Path) -> int:
    """
    Open a plain file without blocking, whatever a lecture has put there instead.

    Raises:
        OSError: it cannot be opened, or is not a plain file; reading from a pipe might never end.
    """
    # Opening a pipe for reading and writing does not block; opening it for reading would.
    descriptor = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), os.fspath(path))


_NO_HEAD_SECONDS: Final = 60.0
_UNLOCKED_SECONDS: Final = 3600.0

if sys.platform == "win32":
    import msvcrt

    def try_lock(descriptor: int) -> bool | None:
        """Lock a file until it is closed; return False if another process holds the lock."""
        position = os.lseek(descriptor, 0, os.SEEK_CUR)
        try:
            os.lseek(descriptor, _LOCK_OFFSET, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(descriptor, position, os.SEEK_SET)
        return True

else:
    import fcntl

    def try_lock(descriptor: int) -> bool | None:
        """Lock a file until it is closed; return False if another process holds it, None without lock support."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return None
        return True
