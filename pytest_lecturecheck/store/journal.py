"""
Evidence on disk as it comes: one file of JSON lines for each process that runs lectures.

The file is there while the session lasts and is removed at its end. One that is still there although its process is
gone tells the next session what was running when everything stopped. A process that dies loses nothing that it wrote;
only what is forced to the disk outlives a machine that goes down, which :meth:`Journal.sync` does.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FOLDER_NAME: Final = "journal"
SCHEMA: Final = 1
_SUFFIX: Final = ".jsonl"
_TOLD_SUFFIX: Final = ".told"
_MOST_TOLD: Final = 5
_LOCK_OFFSET: Final = 1 << 30
"""Windows locks bytes against reading too: one far behind the end is locked."""
_MOST_BYTES: Final = 64 * 1024**2
_LAST_SECONDS: Final = 253_402_300_799.0
"""The end of the year 9999: dates go no further."""
_SYNC_SECONDS: Final = 1.0


class Event:
    """The words of the lines."""

    SESSION: Final = "session start"
    WAIT: Final = "waiting"
    LECTURE: Final = "lecture start"
    KERNEL: Final = "kernel start"
    CELL: Final = "cell start"
    READING: Final = "reading"
    CELL_END: Final = "cell end"
    LECTURE_END: Final = "lecture end"
    SESSION_END: Final = "session end"


class Journal:
    """
    The journal of this process.

    Args:
        folder: where journals are kept; made where it is missing.
        session: marks the processes of one session.
        worker: name of this process among them, or an empty string.

    Raises:
        OSError: the file cannot be made.
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
        locked = _try_lock(self._descriptor)
        self.write(
            Event.SESSION,
            schema=SCHEMA,
            session=session,
            worker=worker,
            pid=os.getpid(),
            locked=locked is not None and locked,
        )

    def write(self, event: str, **facts: Any) -> None:
        """Add one line; where the disk takes no more, the session goes on without."""
        if self._descriptor is None:
            return
        line = json.dumps({"time": round(time.time(), 3), "event": event, **facts}, separators=(",", ":"))
        # One write: lines of two threads never mix, and a reader never sees half of one.
        with contextlib.suppress(OSError):
            os.write(self._descriptor, line.encode("ascii") + b"\n")
            self._is_dirty = True

    def sync(self) -> None:
        """Force new lines to the disk, at most once a second; called by a thread that may wait for it."""
        now = time.monotonic()
        if self._descriptor is None or not self._is_dirty or now - self._synced < _SYNC_SECONDS:
            return
        self._synced, self._is_dirty = now, False
        with contextlib.suppress(OSError):
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Note that the session came to its end and remove the file; safe to call twice."""
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
    What a journal without an end tells.

    Attributes:
        started: start of the process, seconds since the epoch.
        ended: time of the last line.
        session: mark of the session.
        worker: name of the process among those of the session, or an empty string.
        lecture: the lecture that was running, or an empty string.
        variant: name of the cohort where it was one of several kernels, or an empty string.
        waits_for: what it was waiting for before its kernel could start, or an empty string.
        last_lecture: the lecture that had ended last, or an empty string.
        has_begun: whether a code cell of the lecture had been started.
        cell_number: the code cell that was running, or ``None``.
        line: its line in the lecture's file, or ``None``.
        kernel_pid: process id of the kernel, or ``None``.
        cap_bytes: the lecture's limit, or ``None``.
        footprint_bytes: last footprint read, or ``None``.
        peak_footprint_bytes: highest footprint of the lecture until then, or ``None``.
        reading_age_seconds: how long before the last line that was read.
    """

    started: float
    ended: float
    session: str = ""
    worker: str = ""
    lecture: str = ""
    variant: str = ""
    waits_for: str = ""
    last_lecture: str = ""
    has_begun: bool = False
    cell_number: int | None = None
    line: int | None = None
    kernel_pid: int | None = None
    cap_bytes: int | None = None
    footprint_bytes: int | None = None
    peak_footprint_bytes: int | None = None
    reading_age_seconds: float = 0.0


def take_interrupted(folder: Path) -> tuple[Interrupted, ...]:
    """Read the journals of sessions that are gone without an end, each once, and keep the last few of the files."""
    taken = []
    for path in sorted(folder.glob(f"*{_SUFFIX}")):
        if _is_alive(path):
            continue
        found = _take(path)
        if found is not None:
            taken.append(found)
    for path in sorted(folder.glob(f"*{_SUFFIX}{_TOLD_SUFFIX}"))[:-_MOST_TOLD]:
        with contextlib.suppress(OSError):
            path.unlink()
    return tuple(taken)


def take_worker(folder: Path, *, session: str, worker: str) -> Interrupted | None:
    """Read the journal of a worker that is known to be gone, or give ``None`` where it left none."""
    for path in sorted(folder.glob(f"*{_SUFFIX}")):
        found = read_journal(path)
        if found is not None and (found.session, found.worker) == (session, worker):
            return _take(path)
    return None


def _take(path: Path) -> Interrupted | None:
    found = read_journal(path)
    try:
        # Whoever renames it tells it; of two sessions that start at once the other one finds nothing.
        path.rename(path.with_name(path.name + _TOLD_SUFFIX))
    except OSError:
        return None
    return found


def read_journal(path: Path) -> Interrupted | None:
    """
    Read a journal, whatever state it is in; lines that are cut or damaged are passed over.

    Returns:
        What it tells, or ``None`` where the session came to its end, or the file is not a journal of this version.
    """
    try:
        descriptor = _open_file(path)
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
    """Replay the lines: what holds at the last one is what was going on."""
    lecture: dict[str, Any] = {}
    last_lecture = ""
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
        elif event == Event.CELL_END:
            lecture |= {"cell": None, "line": None}
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
        has_begun=lecture.get("has_begun") is True,
        cell_number=_whole(lecture, "cell"),
        line=_whole(lecture, "line"),
        kernel_pid=_whole(lecture, "pid"),
        cap_bytes=_whole(lecture, "cap"),
        footprint_bytes=_whole(lecture, "footprint"),
        peak_footprint_bytes=_whole(lecture, "peak"),
        reading_age_seconds=max(0.0, ended - read_at),
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


def _is_alive(path: Path) -> bool:
    """
    Tell whether the process that writes a journal may still be there.

    It holds a lock on its file for as long as it lives, which no reused process id can imitate. A file without a first
    line belongs to a process that is about to lock it, unless it is old. Where the file system knows no locks, a
    journal counts as left behind when nothing was added for an hour.
    """
    try:
        descriptor = _open_file(path)
    except OSError:
        # Another one has taken it, or it cannot be read: nothing to tell.
        return True
    try:
        age = time.time() - os.fstat(descriptor).st_mtime
        head = next(_parse_lines(os.read(descriptor, 65_536).split(b"\n", 1)[0]), None)
        if head is None:
            return age < _NO_HEAD_SECONDS
        if head.get("locked") is not True:
            return age < _UNLOCKED_SECONDS
        return _try_lock(descriptor) is not True
    except OSError:
        return True
    finally:
        os.close(descriptor)


def _open_file(path: Path) -> int:
    """
    Open a file; whatever a lecture has put in its place is not waited for.

    Raises:
        OSError: it cannot be opened, or is no file: a read from a pipe might never end.
    """
    # Never waits for the other end of a pipe, as opening it to read would.
    descriptor = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), os.fspath(path))


_NO_HEAD_SECONDS: Final = 60.0
_UNLOCKED_SECONDS: Final = 3600.0

if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> bool | None:
        """Lock a file until it is closed: ``True`` if had, ``False`` if another process has it."""
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

    def _try_lock(descriptor: int) -> bool | None:
        """Lock a file until it is closed: ``True`` if had, ``False`` if another has it, ``None`` if there are none."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return None
        return True
