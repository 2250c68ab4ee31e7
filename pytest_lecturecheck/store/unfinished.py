"""
Entries of a session on disk as they finish, so that a session that is killed loses none of them.

There is one file for each session: a header, then one line of JSON for each entry. It is locked as long as the session
lives, and removed when the session has written its budgets and reports.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.files import read_plain_bytes
from pytest_lecturecheck.store.journal import is_owner_alive, try_lock

FOLDER_NAME: Final = "unfinished"
SCHEMA: Final = 1
_SUFFIX: Final = ".jsonl"
_MOST_KEPT: Final = 5


class UnfinishedFile:
    """
    The file of this session's entries.

    Args:
        make_folder: creates the folder of such files and returns it; called with the first entry.
        about: what the session's document says of it (``platform``, ``mode``, ``version``).
    """

    def __init__(self, make_folder: Callable[[], Path], about: Mapping[str, str]) -> None:
        """Write nothing yet."""
        self._make_folder = make_folder
        self._about = dict(about)
        self._descriptor: int | None = None
        self._path: Path | None = None
        self._has_failed = False

    def add(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Append entries and force them to the disk; if the disk refuses, the session continues without."""
        if self._has_failed:
            return
        try:
            if self._descriptor is None:
                self._descriptor = self._open()
            lines = [json.dumps(record, separators=(",", ":")) for record in records]
            # One write for each call, so that a reader never sees half an entry followed by another one.
            os.write(self._descriptor, "".join(f"{line}\n" for line in lines).encode("ascii"))
            os.fsync(self._descriptor)
        except OSError:
            self._has_failed = True

    def _open(self) -> int:
        folder = self._make_folder()
        folder.mkdir(exist_ok=True)
        started = dt.datetime.now(dt.UTC)
        self._path = folder / f"{started:%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}{_SUFFIX}"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_BINARY", 0)
        descriptor = os.open(self._path, flags, 0o666)
        head = {
            "event": "unfinished session",
            "time": round(started.timestamp(), 3),
            "schema": SCHEMA,
            "locked": try_lock(descriptor) is True,
            "about": self._about,
        }
        os.write(descriptor, json.dumps(head).encode("ascii") + b"\n")
        return descriptor

    def close(self, *, remove: bool) -> None:
        """Close the file; remove it if everything in it was written elsewhere. Safe to call twice."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        if remove and self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedSession:
    """
    What a session left that did not come to its end.

    Attributes:
        path: its file.
        about: what its document says of it, and ``ended``, when its last entry was written.
        records: its entries, as :func:`~pytest_lecturecheck.store.runs.entry_to_dict` made them.
        damaged_count: lines that could not be read.
    """

    path: Path
    about: Mapping[str, str]
    records: tuple[Mapping[str, Any], ...]
    damaged_count: int = 0


def find_unfinished(folder: Path) -> tuple[UnfinishedSession, ...]:
    """Read what sessions left that did not come to their end, the oldest first; damaged files are skipped."""
    found = []
    for path in sorted(folder.glob(f"*{_SUFFIX}")):
        if is_owner_alive(path):
            continue
        with contextlib.suppress(OSError):
            session = _read(path)
            if session is not None:
                found.append(session)
    return tuple(found)


def forget_old(folder: Path) -> None:
    """Remove the oldest files beyond the last few, which nobody has asked for."""
    abandoned = [path for path in sorted(folder.glob(f"*{_SUFFIX}")) if not is_owner_alive(path)]
    for path in abandoned[:-_MOST_KEPT]:
        with contextlib.suppress(OSError):
            path.unlink()


def _read(path: Path) -> UnfinishedSession | None:
    lines = read_plain_bytes(path).split(b"\n")
    ended = dt.datetime.fromtimestamp(path.stat().st_mtime, dt.UTC)
    head, *rest = (_parse(line) for line in lines if line)
    if head is None or head.get("schema") != SCHEMA:
        return None
    about = {str(key): str(value) for key, value in dict(head.get("about") or {}).items()}
    records = tuple(record for record in rest if record is not None)
    return UnfinishedSession(
        path=path,
        about={**about, "ended": ended.isoformat(timespec="seconds")},
        records=records,
        damaged_count=len(rest) - len(records),
    )


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None
