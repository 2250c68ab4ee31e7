"""
The ledger's files, and the critical section in which they are read and changed.

- ``lock``: held for some milliseconds by the process that reads or changes the folder.
- ``lease-*.json``, ``ticket-*.json``: one file for each lease and for each waiter, locked by its owner while it lives.
- ``journal.jsonl``: one line for each admission.
- ``bell``: touched when a lease or a waiter has gone.

A lease or queue file whose lock is free has lost its owner, and is removed by the process that finds it.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.errors import LeaseError
from pytest_lecturecheck.lease.admission import Holding
from pytest_lecturecheck.lease.locking import CREATE_FLAGS, PRIVATE_MODE, READ_FLAGS, is_same_file, try_lock
from pytest_lecturecheck.lease.private_folder import make_private_folder
from pytest_lecturecheck.lease.records import (
    Admission,
    QueueEntry,
    parse_admission,
    parse_holding,
    parse_queue_entry,
    render_admission,
    render_holding,
    render_queue_entry,
)

Record: TypeAlias = Holding | QueueEntry | None
"""Content of a file: a lease, a queue entry, or ``None`` for a damaged queue entry."""

LEASE: Final = "lease"
QUEUE_ENTRY: Final = "ticket"
LOCK_SECONDS: Final = 30.0
_LOCK: Final = "lock"
_CHANGE_STAMP: Final = "bell"
_JOURNAL: Final = "journal.jsonl"
_JOURNAL_BYTES: Final = 1 << 20
_TAIL_BYTES: Final = 1 << 17
_MOST_BYTES: Final = 2 * _JOURNAL_BYTES
"""Largest part of a file that is read; this package writes no larger one."""
_NAME: Final = re.compile(r"(lease|ticket)-([0-9a-f]{16})\.json")
_SHORT_SECONDS: Final = 0.0005
_LONG_SECONDS: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveQueueEntry:
    """
    A queue entry whose owner lives.

    Attributes:
        entry: the entry.
        checked_ns: time at which its owner last checked the ledger; only a change of it has a meaning.
    """

    entry: QueueEntry
    checked_ns: int


@contextlib.contextmanager
def open_ledger_files(
    folder: Path, known: dict[str, Record], *, lock_seconds: float = LOCK_SECONDS
) -> Iterator[LedgerFiles]:
    """
    Enter the critical section of a folder; only one thread of one process can be in it.

    Args:
        folder: the ledger's folder; created if it is missing.
        known: records that the caller has read before, by name; files are never rewritten.
        lock_seconds: how long to wait for other processes.

    Raises:
        LeaseError: the folder cannot be used, or another process stays in the section.
    """
    descriptor = _enter(folder, time.monotonic() + lock_seconds, lock_seconds)
    try:
        yield LedgerFiles(folder, known)
    finally:
        os.close(descriptor)


def _enter(folder: Path, deadline: float, lock_seconds: float) -> int:
    path = folder / _LOCK
    while True:
        make_private_folder(folder)
        try:
            descriptor = os.open(path, CREATE_FLAGS, PRIVATE_MODE)
        except FileNotFoundError:  # the folder was removed a moment ago
            continue
        try:
            _wait_for_lock(path, descriptor, deadline, lock_seconds)
        except BaseException:
            os.close(descriptor)
            raise
        # The folder may have been removed meanwhile. Then another process may hold the lock file of a new folder.
        if is_same_file(descriptor, path):
            return descriptor
        os.close(descriptor)


def _wait_for_lock(path: Path, descriptor: int, deadline: float, lock_seconds: float) -> None:
    pause = _SHORT_SECONDS
    # A blocking flock could not be abandoned if its holder was suspended (Ctrl-Z) inside the section.
    while not _try_folder_lock(path, descriptor):
        if time.monotonic() > deadline:
            msg = (
                f"{path}: another process has held this lock for {lock_seconds:g} s; expected milliseconds. "
                "Continue or end a session that was suspended (Ctrl-Z), or run with --lecture-no-leases"
            )
            raise LeaseError(msg)
        # Random pauses keep waiters from checking in step.
        time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - spreads processes, no secret
        pause = min(pause * 2, _LONG_SECONDS)


def _try_folder_lock(path: Path, descriptor: int) -> bool:
    try:
        return try_lock(descriptor)
    except OSError as exc:
        msg = (
            f"{path}: the file system has no locks ({exc.strerror}), so lectures cannot wait for each other. Set "
            "XDG_RUNTIME_DIR or TMPDIR to a local folder, or run with --lecture-no-leases"
        )
        raise LeaseError(msg) from exc


def read_change_stamp(folder: Path) -> int:
    """Return a number that changes when a lease or a waiter has gone; needs no lock."""
    try:
        return (folder / _CHANGE_STAMP).stat().st_mtime_ns
    except OSError:
        return 0


class LedgerFiles:
    """Operations inside the critical section; made by :func:`open_ledger_files`."""

    def __init__(self, folder: Path, known: dict[str, Record]) -> None:
        """Use the folder; the caller is inside the critical section."""
        self._folder = folder
        self._known = known

    def leases(self) -> dict[str, Holding]:
        """Return all live leases by name, and remove the files of dead ones."""
        return {name: record for name, (record, _) in self._alive(LEASE).items() if isinstance(record, Holding)}

    def queue(self) -> dict[str, LiveQueueEntry]:
        """Return all live queue entries by name, oldest first, and remove the files of dead ones."""
        found = {
            name: LiveQueueEntry(entry=record, checked_ns=changed_ns)
            for name, (record, changed_ns) in self._alive(QUEUE_ENTRY).items()
            if isinstance(record, QueueEntry)
        }
        return dict(sorted(found.items(), key=lambda item: (item[1].entry.position, item[0])))

    def _alive(self, kind: str) -> dict[str, tuple[Record, int]]:
        """Return content and modification time of each file of a kind whose owner lives."""
        with os.scandir(self._folder) as entries:
            paths = {
                match[2]: entry.path for entry in entries if (match := _NAME.fullmatch(entry.name)) and match[1] == kind
            }
        found = {}
        for name, path in sorted(paths.items()):
            content = self._read_alive(kind, name, path)
            if content is not None:
                found[name] = content
        return found

    def _read_alive(self, kind: str, name: str, path: str) -> tuple[Record, int] | None:
        try:
            descriptor = os.open(path, READ_FLAGS)
        except FileNotFoundError:
            return None
        try:
            # A lecture can replace its file by a pipe, which it keeps locked and which would be read for ever.
            is_dead = not stat.S_ISREG(os.fstat(descriptor).st_mode) or try_lock(descriptor)
            changed_ns = os.fstat(descriptor).st_mtime_ns
            if not is_dead and name not in self._known:
                text = _read(descriptor)
                self._known[name] = parse_holding(text) if kind == LEASE else parse_queue_entry(text)
        finally:
            os.close(descriptor)
        if is_dead:
            self._remove(kind, name)
            return None
        return self._known[name], changed_ns

    def add_lease(self, holding: Holding, beside: tuple[str, ...]) -> tuple[str, int, int]:
        """
        Write a lease and its line in the journal; if one fails, neither is kept.

        Returns:
            Its name, the descriptor that holds its lock, and the number of the admission.
        """
        name, descriptor = self._add(LEASE, render_holding(holding))
        # The lock file is held, so no other process can take the same number.
        number = self.admission_count() + 1
        try:
            self._append(render_admission(Admission(number=number, lease=name, holding=holding, beside=beside)))
        except BaseException:
            self.drop(LEASE, name, descriptor)
            raise
        return name, descriptor, number

    def add_queue_entry(self, entry: QueueEntry) -> tuple[str, int]:
        """Write a queue entry; return its name and the descriptor that holds its lock."""
        return self._add(QUEUE_ENTRY, render_queue_entry(entry))

    def _add(self, kind: str, text: str) -> tuple[str, int]:
        name = secrets.token_hex(8)
        path = self._folder / _file_name(kind, name)
        descriptor = os.open(path, CREATE_FLAGS | os.O_EXCL, PRIVATE_MODE)
        try:
            # Nobody reads the file before the section is left. If this process dies before, the file has no owner.
            try_lock(descriptor)
            _write_all(descriptor, text.encode("ascii"))
        except BaseException:
            self.drop(kind, name, descriptor)
            raise
        return name, descriptor

    def mark_checked(self, name: str, descriptor: int) -> bool:
        """Record that a waiter still checks the ledger; return False if its queue entry was removed."""
        path = self._folder / _file_name(QUEUE_ENTRY, name)
        if not is_same_file(descriptor, path):
            return False
        os.utime(path)
        return True

    def drop(self, kind: str, name: str, descriptor: int) -> None:
        """Release a lease or queue entry that only this process holds, and remove its file."""
        os.close(descriptor)
        self._remove(kind, name)

    def _remove(self, kind: str, name: str) -> None:
        self._known.pop(name, None)
        # Windows refuses to remove a file that another process is reading; the next reader removes it.
        with contextlib.suppress(FileNotFoundError, PermissionError):
            (self._folder / _file_name(kind, name)).unlink()
        with contextlib.suppress(OSError):
            os.close(os.open(self._folder / _CHANGE_STAMP, CREATE_FLAGS, PRIVATE_MODE))
            os.utime(self._folder / _CHANGE_STAMP)

    def admissions(self, after: int = 0) -> list[Admission]:
        """Return the journal's admissions with a number above ``after``, oldest first."""
        found: list[Admission] = []
        # Numbers only grow, and each lecture needs only the last few of thousands of lines.
        for line in reversed(self._journal_lines(_MOST_BYTES)):
            item = parse_admission(line)
            if item is not None and item.number <= after:
                break
            found += [item] if item is not None else []
        return found[::-1]

    def admission_count(self) -> int:
        """Return the number of the last admission."""
        found = (parse_admission(line) for line in reversed(self._journal_lines(_TAIL_BYTES)))
        return next((item.number for item in found if item is not None), 0)

    def _journal_lines(self, most_bytes: int) -> list[str]:
        """Return the last lines of the journal; seeking in a pipe fails, so one in its place is never waited for."""
        try:
            descriptor = os.open(self._folder / _JOURNAL, READ_FLAGS)
        except FileNotFoundError:
            return []
        try:
            os.lseek(descriptor, max(0, os.fstat(descriptor).st_size - most_bytes), os.SEEK_SET)
            return _read(descriptor).splitlines()
        finally:
            os.close(descriptor)

    def _append(self, line: str) -> None:
        path = self._folder / _JOURNAL
        descriptor = os.open(path, CREATE_FLAGS | os.O_APPEND, PRIVATE_MODE)
        try:
            size = os.fstat(descriptor).st_size
            if size > _JOURNAL_BYTES:
                self._shorten(path)
                size = 0
                os.close(descriptor)
                descriptor = os.open(path, CREATE_FLAGS | os.O_APPEND, PRIVATE_MODE)
            # The leading newline keeps a line that was truncated by a full disk apart from this one.
            _write_all(descriptor, b"\n" * bool(size) + line.encode("ascii") + b"\n")
        finally:
            os.close(descriptor)

    def _shorten(self, path: Path) -> None:
        lines = self._journal_lines(_MOST_BYTES)
        kept = "\n".join(lines[len(lines) // 2 :]) + "\n"
        temporary = path.with_name(f".{_JOURNAL}.tmp")
        # A new file: opening a pipe in its place would wait for a reader, with the lock held.
        temporary.unlink(missing_ok=True)
        with temporary.open("x", encoding="ascii", errors="replace") as file:
            file.write(kept)
        temporary.replace(path)


def _file_name(kind: str, name: str) -> str:
    return f"{kind}-{name}.json"


def _read(descriptor: int) -> str:
    # A lecture inherits the descriptor of its lease and may write anything to the file, or make it huge (sparse).
    with os.fdopen(os.dup(descriptor), "rb") as stream:
        return stream.read(_MOST_BYTES).decode("ascii", errors="replace")


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
