"""
The ledger's files, and the critical section in which they may be read and changed.

Folder: ``lock`` (held for some milliseconds by whoever looks or changes), one ``lease-*.json`` for each lease and one
``ticket-*.json`` for each waiter (each locked by its owner for as long as it lives), ``journal.jsonl`` (one line for
each admission) and ``bell`` (touched when someone has gone). A file whose lock can be had has lost its owner: whoever
finds it removes it.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from pytest_lecturecheck.errors import LeaseError
from pytest_lecturecheck.lease.admission import Holding
from pytest_lecturecheck.lease.locking import CREATE_FLAGS, PRIVATE_MODE, READ_FLAGS, is_same_file, try_lock
from pytest_lecturecheck.lease.private_folder import make_private_folder
from pytest_lecturecheck.lease.records import (
    Admission,
    Ticket,
    parse_admission,
    parse_holding,
    parse_ticket,
    render_admission,
    render_holding,
    render_ticket,
)

Record: TypeAlias = Holding | Ticket | None
"""What a file says: a lease, a ticket, or a ticket that cannot be read."""

LEASE: Final = "lease"
TICKET: Final = "ticket"
LOCK_SECONDS: Final = 30.0
_LOCK: Final = "lock"
_BELL: Final = "bell"
_JOURNAL: Final = "journal.jsonl"
_JOURNAL_BYTES: Final = 1 << 20
_TAIL_BYTES: Final = 1 << 17
_MOST_BYTES: Final = 2 * _JOURNAL_BYTES
"""More of a file is not read: none that this package wrote is as large."""
_NAME: Final = re.compile(r"(lease|ticket)-([0-9a-f]{16})\.json")
_SHORT_SECONDS: Final = 0.0005
_LONG_SECONDS: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingTicket:
    """
    A ticket whose owner lives.

    Attributes:
        ticket: what it says.
        beat: changes whenever its owner has looked at the ledger.
    """

    ticket: Ticket
    beat: int


@contextlib.contextmanager
def open_desk(folder: Path, known: dict[str, Record], *, lock_seconds: float = LOCK_SECONDS) -> Iterator[LedgerFiles]:
    """
    Enter the critical section of a folder; one process and one thread at a time are in it.

    Args:
        folder: the ledger's folder; made where it is missing.
        known: what the caller has read before, by name; files never change.
        lock_seconds: how long to wait for others.

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
        except FileNotFoundError:  # the folder was removed just now
            continue
        try:
            _wait_for_lock(path, descriptor, deadline, lock_seconds)
        except BaseException:
            os.close(descriptor)
            raise
        # Somebody may have removed the folder meanwhile, and others may hold the lock of a new one.
        if is_same_file(descriptor, path):
            return descriptor
        os.close(descriptor)


def _wait_for_lock(path: Path, descriptor: int, deadline: float, lock_seconds: float) -> None:
    pause = _SHORT_SECONDS
    # Not flock's own waiting: that cannot be given up when the holder was stopped (Ctrl-Z) inside the section.
    while not _try_folder_lock(path, descriptor):
        if time.monotonic() > deadline:
            msg = (
                f"{path}: another process has held this lock for {lock_seconds:g} s, and expected are milliseconds; "
                "continue or end the session that was stopped (Ctrl-Z), or run with --lecture-no-leases"
            )
            raise LeaseError(msg)
        time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - spreads processes, keeps no secret
        pause = min(pause * 2, _LONG_SECONDS)


def _try_folder_lock(path: Path, descriptor: int) -> bool:
    try:
        return try_lock(descriptor)
    except OSError as exc:
        msg = (
            f"{path}: its file system has no locks ({exc.strerror}), so lectures cannot be kept apart; set "
            "XDG_RUNTIME_DIR or TMPDIR to a local folder, or run with --lecture-no-leases"
        )
        raise LeaseError(msg) from exc


def read_bell(folder: Path) -> int:
    """Give a number that changes when someone has gone; it needs no lock."""
    try:
        return (folder / _BELL).stat().st_mtime_ns
    except OSError:
        return 0


class LedgerFiles:
    """What may be done inside the critical section; made by :func:`open_desk`."""

    def __init__(self, folder: Path, known: dict[str, Record]) -> None:
        """Take the folder over."""
        self._folder = folder
        self._known = known

    def leases(self) -> dict[str, Holding]:
        """Give all leases that are alive, by name; others are cleared away."""
        return {name: record for name, (record, _) in self._alive(LEASE).items() if isinstance(record, Holding)}

    def tickets(self) -> dict[str, WaitingTicket]:
        """Give all tickets whose owners live, by name, oldest first; others are cleared away."""
        found = {
            name: WaitingTicket(ticket=record, beat=beat)
            for name, (record, beat) in self._alive(TICKET).items()
            if isinstance(record, Ticket)
        }
        return dict(sorted(found.items(), key=lambda item: (item[1].ticket.place, item[0])))

    def _alive(self, kind: str) -> dict[str, tuple[Record, int]]:
        """Give content and time of change of each file of a kind that somebody holds."""
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
            is_dead = try_lock(descriptor)
            beat = os.fstat(descriptor).st_mtime_ns
            if not is_dead and name not in self._known:
                text = _read(descriptor)
                self._known[name] = parse_holding(text) if kind == LEASE else parse_ticket(text)
        finally:
            os.close(descriptor)
        if is_dead:
            self._remove(kind, name)
            return None
        return self._known[name], beat

    def add_lease(self, holding: Holding, beside: tuple[str, ...]) -> tuple[str, int, int]:
        """
        Write a lease and its line in the journal, both or neither.

        Returns:
            Its name, the descriptor that keeps it, and the number of the admission.
        """
        name, descriptor = self._add(LEASE, render_holding(holding))
        number = self.admission_count() + 1
        try:
            self._append(render_admission(Admission(number=number, lease=name, holding=holding, beside=beside)))
        except BaseException:
            self.drop(LEASE, name, descriptor)
            raise
        return name, descriptor, number

    def add_ticket(self, ticket: Ticket) -> tuple[str, int]:
        """Write a ticket; give its name and the descriptor that keeps it."""
        return self._add(TICKET, render_ticket(ticket))

    def _add(self, kind: str, text: str) -> tuple[str, int]:
        name = secrets.token_hex(8)
        path = self._folder / _file_name(kind, name)
        descriptor = os.open(path, CREATE_FLAGS | os.O_EXCL, PRIVATE_MODE)
        try:
            # Nobody else looks before the section is left; until then a death leaves a file that nobody holds.
            try_lock(descriptor)
            _write_all(descriptor, text.encode("ascii"))
        except BaseException:
            self.drop(kind, name, descriptor)
            raise
        return name, descriptor

    def beat(self, name: str, descriptor: int) -> bool:
        """Show that the owner of a ticket still looks; tell whether the ticket is still there."""
        path = self._folder / _file_name(TICKET, name)
        if not is_same_file(descriptor, path):
            return False
        os.utime(path)
        return True

    def drop(self, kind: str, name: str, descriptor: int) -> None:
        """Give up what this process holds alone, and remove its file."""
        os.close(descriptor)
        self._remove(kind, name)

    def _remove(self, kind: str, name: str) -> None:
        self._known.pop(name, None)
        # On Windows a file that someone reads at this moment stays until the next one looks.
        with contextlib.suppress(FileNotFoundError, PermissionError):
            (self._folder / _file_name(kind, name)).unlink()
        with contextlib.suppress(OSError):
            os.close(os.open(self._folder / _BELL, CREATE_FLAGS, PRIVATE_MODE))
            os.utime(self._folder / _BELL)

    def admissions(self, after: int = 0) -> list[Admission]:
        """Give the journal's admissions of a higher number than ``after``, oldest first."""
        found: list[Admission] = []
        # Numbers only grow. Each lecture asks for the last few, and the journal is thousands of lines long.
        for line in reversed(self._journal_lines(_MOST_BYTES)):
            item = parse_admission(line)
            if item is not None and item.number <= after:
                break
            found += [item] if item is not None else []
        return found[::-1]

    def admission_count(self) -> int:
        """Give the number of the last admission."""
        found = (parse_admission(line) for line in reversed(self._journal_lines(_TAIL_BYTES)))
        return next((item.number for item in found if item is not None), 0)

    def _journal_lines(self, most_bytes: int) -> list[str]:
        """Give the last lines of the journal; a pipe in its place cannot be sought in, and is not waited for."""
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
            # A line that was cut short stays alone on its line.
            _write_all(descriptor, b"\n" * bool(size) + line.encode("ascii") + b"\n")
        finally:
            os.close(descriptor)

    def _shorten(self, path: Path) -> None:
        lines = self._journal_lines(_MOST_BYTES)
        kept = "\n".join(lines[len(lines) // 2 :]) + "\n"
        temporary = path.with_name(f".{_JOURNAL}.tmp")
        temporary.write_text(kept, encoding="ascii", errors="replace")
        temporary.replace(path)


def _file_name(kind: str, name: str) -> str:
    return f"{kind}-{name}.json"


def _read(descriptor: int) -> str:
    # A lecture has the descriptor of its own lease and may make of that file what it likes, a huge one with holes too.
    with os.fdopen(os.dup(descriptor), "rb") as stream:
        return stream.read(_MOST_BYTES).decode("ascii", errors="replace")


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
