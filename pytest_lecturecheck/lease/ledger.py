"""
Leases: a lecture holds a share of the machine until its last process has ended.

A session admits a lecture only if the leases of all sessions together stay within its own capacity. Sessions may see
different capacities; then one with a larger capacity may admit more. Memory used by other users and programs is not
known here.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pytest_lecturecheck.errors import LeaseError
from pytest_lecturecheck.lease.admission import (
    PATIENCE,
    Admitted,
    Capacity,
    Demand,
    Holding,
    NeverFits,
    Waiter,
    Waits,
    admit,
)
from pytest_lecturecheck.lease.ledger_files import (
    LOCK_SECONDS,
    QUEUE_ENTRY,
    LedgerFiles,
    LiveQueueEntry,
    Record,
    open_ledger_files,
    read_change_stamp,
)
from pytest_lecturecheck.lease.records import QueueEntry

_CHECK_SECONDS: Final = 0.02
_POLL_SECONDS: Final = 0.1
_FIRST_WAITERS: Final = 8
"""Waiters that check as soon as a lease has ended; those behind check periodically, so that not all check at once."""
STALE_SECONDS: Final = 10.0
"""A waiter that has not checked for this long (its session is suspended) keeps its position and delays nobody."""
_ATTEMPTS: Final = 5


class Lease:
    """
    What a lecture holds. It ends when the last process with its descriptor has closed it or ended.

    Pass :meth:`fileno` to the kernel (``pass_fds``, which makes it inheritable there and nowhere else). On Windows
    children do not inherit locks: there the lease ends with this process or at :meth:`release`.

    Attributes:
        holding: what is held; every device in it has an index.
        beside: what others held when it was admitted.
    """

    def __init__(self, ledger: Ledger, name: str, descriptor: int, holding: Holding, number: int) -> None:
        """Own a descriptor; :meth:`Ledger.try_acquire` makes leases."""
        self.holding = holding
        self.beside: tuple[Holding, ...] = ()
        self.name = name
        self.number = number
        self._ledger = ledger
        self._descriptor: int | None = descriptor

    @property
    def demand(self) -> Demand:
        """Return what is held."""
        return self.holding.demand

    @property
    def is_released(self) -> bool:
        """Return True if this process has released it."""
        return self._descriptor is None

    def fileno(self) -> int:
        """
        Return the descriptor that holds the lease.

        Raises:
            ValueError: it was released.
        """
        if self._descriptor is None:
            msg = f"the lease of {self.demand.label!r} was released; its descriptor cannot be passed on"
            raise ValueError(msg)
        return self._descriptor

    def release(self) -> None:
        """Release it; processes that inherited the descriptor keep it. Safe to call twice; never raises."""
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        # Closed, not unlocked: LOCK_UN would release the lock of the children as well.
        os.close(descriptor)
        self._ledger.note_release(self)

    def __enter__(self) -> Self:
        """Return the lease itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Release it."""
        self.release()


class _QueuePosition:
    """A waiter's position in the queue, with the descriptor that holds it."""

    def __init__(self, entry: QueueEntry) -> None:
        self.entry = entry
        self.name = ""
        self.rank = 0
        self.descriptor: int | None = None

    def keep(self, files: LedgerFiles) -> None:
        """Write the queue entry if it is missing, or record that its owner still checks."""
        if self.descriptor is not None:
            if files.mark_checked(self.name, self.descriptor):
                return
            os.close(self.descriptor)
            self.descriptor = None
        self.name, self.descriptor = files.add_queue_entry(self.entry)

    def leave(self, files: LedgerFiles) -> None:
        """Leave the queue."""
        if self.descriptor is not None:
            descriptor, self.descriptor = self.descriptor, None
            files.drop(QUEUE_ENTRY, self.name, descriptor)


class Ledger:
    """
    The ledger of this user on this machine.

    Args:
        folder: its folder (:func:`~pytest_lecturecheck.lease.private_folder.default_folder`).
        capacity: what all runs together may use, according to this session.
        lock_seconds: how long to wait for other processes, which hold the lock for milliseconds.
        stale_seconds: see :data:`STALE_SECONDS`.
    """

    def __init__(
        self,
        folder: Path,
        capacity: Capacity,
        *,
        lock_seconds: float = LOCK_SECONDS,
        stale_seconds: float = STALE_SECONDS,
    ) -> None:
        """Touch no file yet."""
        self.folder = folder
        self.capacity = capacity
        self._lock_seconds = lock_seconds
        self._stale_seconds = stale_seconds
        self._known: dict[str, Record] = {}
        self._own: dict[str, Lease] = {}
        self._checks: dict[str, tuple[int, float]] = {}

    def try_acquire(self, demand: Demand) -> Lease | Waits | NeverFits:
        """
        Try once, without a position in the queue.

        Raises:
            LeaseError: the ledger cannot be used.
        """
        return self._ask(demand, None)

    def acquire(
        self,
        demand: Demand,
        *,
        on_wait: Callable[[Waits], None] = lambda _: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> Lease | NeverFits | None:
        """
        Wait in the queue until the demand is admitted.

        Args:
            demand: what is asked for.
            on_wait: called with the reason for waiting, whenever it changes.
            should_stop: called every 20 ms while waiting.

        Returns:
            The lease; why it can never fit; or ``None`` if ``should_stop`` returned True.

        Raises:
            LeaseError: the ledger cannot be used.
        """
        position = _QueuePosition(QueueEntry(demand=demand, position=0, arrival=0))
        reported = None
        try:
            while not should_stop():
                stamp = read_change_stamp(self.folder)
                answer = self._ask(demand, position)
                if not isinstance(answer, Waits):
                    return answer
                if answer != reported:
                    on_wait(answer)
                    reported = answer
                self._pause(stamp, position.rank, should_stop)
            return None
        finally:
            self._leave(position)

    def running(self) -> tuple[Holding, ...]:
        """
        Return what all sessions of this user hold now.

        Raises:
            LeaseError: the ledger cannot be used.
        """
        with self._files() as files:
            return tuple(self._holdings(files).values())

    def concurrent_holdings(self, lease: Lease) -> tuple[Holding, ...]:
        """
        Return all that ran beside a lease: what was held at its admission, and what was admitted since.

        Call it before or just after the release. The journal keeps at least the last 500 admissions.

        Raises:
            LeaseError: the ledger cannot be used.
        """
        with self._files() as files:
            since = files.admissions(after=lease.number)
        return (*lease.beside, *(item.holding for item in since if item.lease != lease.name))

    def note_release(self, lease: Lease) -> None:
        """Remove the file of a released lease, unless other processes still hold it."""
        self._own.pop(lease.name, None)
        # On failure the next process that reads the ledger removes it.
        with contextlib.suppress(LeaseError), self._files() as files:
            files.leases()

    @contextlib.contextmanager
    def _files(self) -> Iterator[LedgerFiles]:
        try:
            with open_ledger_files(self.folder, self._known, lock_seconds=self._lock_seconds) as files:
                yield files
        except OSError as exc:
            msg = (
                f"{self.folder}: the ledger of leases cannot be used ({exc.strerror or exc}). Free space on its disk, "
                "set XDG_RUNTIME_DIR or TMPDIR to another local folder, or run with --lecture-no-leases"
            )
            raise LeaseError(msg) from exc

    def _ask(self, demand: Demand, position: _QueuePosition | None) -> Lease | Waits | NeverFits:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                with self._files() as files:
                    return self._decide(files, demand, position)
            except LeaseError as exc:
                # The folder was removed between two steps; the next attempt creates it again.
                if not isinstance(exc.__cause__, FileNotFoundError) or attempt == _ATTEMPTS:
                    raise
        raise AssertionError  # pragma: no cover - the last attempt returns or raises

    def _decide(self, files: LedgerFiles, demand: Demand, position: _QueuePosition | None) -> Lease | Waits | NeverFits:
        held = self._holdings(files)
        queue = files.queue()
        count = files.admission_count()
        answer = admit(demand, self.capacity, list(held.values()), self._ahead(queue, count, position))
        if isinstance(answer, Admitted):
            lease = self._grant(files, answer.demand, held)
            if position is not None:
                position.leave(files)
            return lease
        if isinstance(answer, Waits) and position is not None:
            if not position.entry.position:
                last = max((item.entry.position for item in queue.values()), default=0)
                position.entry = QueueEntry(demand=demand, position=last + 1, arrival=count)
            position.keep(files)
            position.rank = list(queue).index(position.name) if position.name in queue else len(queue)
        return answer

    def _grant(self, files: LedgerFiles, demand: Demand, held: Mapping[str, Holding]) -> Lease:
        started = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        holding = Holding(demand=demand, pid=os.getpid(), started=started)
        name, descriptor, number = files.add_lease(holding, tuple(held))
        lease = Lease(self, name, descriptor, holding, number)
        lease.beside = tuple(held.values())
        self._own[name] = lease
        return lease

    def _holdings(self, files: LedgerFiles) -> dict[str, Holding]:
        # Own leases count even if the folder was removed; those of other processes are then unknown.
        own = {name: lease.holding for name, lease in self._own.items() if not lease.is_released}
        return {**own, **files.leases()}

    def _ahead(self, queue: Mapping[str, LiveQueueEntry], count: int, position: _QueuePosition | None) -> list[Waiter]:
        now = time.monotonic()
        checks = {name: self._checks.get(name, (item.checked_ns, now)) for name, item in queue.items()}
        self._checks = {
            name: checks[name] if checks[name][0] == item.checked_ns else (item.checked_ns, now)
            for name, item in queue.items()
        }
        found = []
        for name, item in queue.items():
            if position is not None and name == position.name:
                break
            # Measured by this process's monotonic clock, because file times and the wall clock may jump.
            if now - self._checks[name][1] <= self._stale_seconds:
                found.append(Waiter(demand=item.entry.demand, passed_count=_passed(item.entry, count)))
        return found

    def _pause(self, stamp: int, rank: int, should_stop: Callable[[], bool]) -> None:
        """Wait until a lease has ended, at most for a while: a killed process leaves no change stamp."""
        # Waiters further behind check less often, so that checking does not slow down those in front.
        end = time.monotonic() + _POLL_SECONDS * max(1.0, rank / _FIRST_WAITERS)
        is_near = rank < _FIRST_WAITERS
        while time.monotonic() < end and not should_stop():
            if is_near and read_change_stamp(self.folder) != stamp:
                return
            time.sleep(_CHECK_SECONDS)

    def _leave(self, position: _QueuePosition) -> None:
        if position.descriptor is None:
            return
        try:
            with self._files() as files:
                position.leave(files)
        except LeaseError:
            # Its file stays, and the next process that reads the ledger removes it.
            if position.descriptor is not None:
                os.close(position.descriptor)
                position.descriptor = None


def _passed(entry: QueueEntry, count: int) -> int:
    """Return the number of admissions since a waiter arrived; after a loss of the journal it counts as firm."""
    return count - entry.arrival if count >= entry.arrival else PATIENCE
