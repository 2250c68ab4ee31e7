"""
Leases: a lecture's processes hold memory of the machine for as long as one of them lives.

Each session judges by its own capacity and counts what all hold, so two sessions that see different capacities share
the smaller one as long as the session with the smaller one is not alone. What other users or other programs take is
not known here.
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
    TICKET,
    LedgerFiles,
    Record,
    WaitingTicket,
    open_desk,
    read_bell,
)
from pytest_lecturecheck.lease.records import Ticket

_LOOK_SECONDS: Final = 0.02
_POLL_SECONDS: Final = 0.1
_LISTENERS: Final = 8
"""Waiters that look as soon as somebody has gone; those behind them look from time to time, lest all look at once."""
STALE_SECONDS: Final = 10.0
"""A waiter that has not looked for so long (its session was stopped) keeps its place and holds up nobody."""
_ATTEMPTS: Final = 5


class Lease:
    """
    What a lecture holds. It ends when the last process that has its descriptor has closed it or ended.

    Hand :meth:`fileno` to the kernel (``pass_fds``, which makes it inheritable there and nowhere else). On Windows
    descriptors carry no locks to children: there the lease ends with this process or at :meth:`release`.

    Attributes:
        holding: what is held; every device in it is named.
        beside: what others held when it was admitted.
    """

    def __init__(self, ledger: Ledger, name: str, descriptor: int, holding: Holding, number: int) -> None:
        """Take over a descriptor; :meth:`Ledger.try_acquire` makes leases."""
        self.holding = holding
        self.beside: tuple[Holding, ...] = ()
        self.name = name
        self.number = number
        self._ledger = ledger
        self._descriptor: int | None = descriptor

    @property
    def demand(self) -> Demand:
        """Give what is held."""
        return self.holding.demand

    @property
    def is_released(self) -> bool:
        """Tell whether this process has let go of it."""
        return self._descriptor is None

    def fileno(self) -> int:
        """
        Give the descriptor that keeps the lease.

        Raises:
            ValueError: it was released.
        """
        if self._descriptor is None:
            msg = f"the lease of {self.demand.label!r} was released; its descriptor cannot be handed on"
            raise ValueError(msg)
        return self._descriptor

    def release(self) -> None:
        """Let go of it; it lives on in processes that were given the descriptor. Safe to call twice; never raises."""
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        # Closed, not unlocked: unlocking would end it for the children as well.
        os.close(descriptor)
        self._ledger.note_release(self)

    def __enter__(self) -> Self:
        """Hold it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Let go of it."""
        self.release()


class _Place:
    """A waiter's place in the queue, with the descriptor that keeps it."""

    def __init__(self, ticket: Ticket) -> None:
        self.ticket = ticket
        self.name = ""
        self.rank = 0
        self.descriptor: int | None = None

    def keep(self, desk: LedgerFiles) -> None:
        """Write the ticket where it is not there (any more), or show that its owner still looks."""
        if self.descriptor is not None:
            if desk.beat(self.name, self.descriptor):
                return
            os.close(self.descriptor)
            self.descriptor = None
        self.name, self.descriptor = desk.add_ticket(self.ticket)

    def leave(self, desk: LedgerFiles) -> None:
        """Give the place up."""
        if self.descriptor is not None:
            descriptor, self.descriptor = self.descriptor, None
            desk.drop(TICKET, self.name, descriptor)


class Ledger:
    """
    The ledger of this user on this machine.

    Args:
        folder: where it lies (:func:`~pytest_lecturecheck.lease.private_folder.default_folder`).
        capacity: what all runs together may take, as this session sees it.
        lock_seconds: how long to wait for other processes that look or change, which takes them milliseconds.
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
        """Touch nothing yet."""
        self.folder = folder
        self.capacity = capacity
        self._lock_seconds = lock_seconds
        self._stale_seconds = stale_seconds
        self._known: dict[str, Record] = {}
        self._own: dict[str, Lease] = {}
        self._beats: dict[str, tuple[int, float]] = {}

    def try_acquire(self, demand: Demand) -> Lease | Waits | NeverFits:
        """
        Ask once, without a place in the queue.

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
            on_wait: is told why it waits, again whenever the reason changes.
            should_stop: asked every 20 ms while waiting.

        Returns:
            The lease; what can never fit; or ``None`` when ``should_stop`` said so.

        Raises:
            LeaseError: the ledger cannot be used.
        """
        place = _Place(Ticket(demand=demand, place=0, arrival=0))
        told = None
        try:
            while not should_stop():
                bell = read_bell(self.folder)
                answer = self._ask(demand, place)
                if not isinstance(answer, Waits):
                    return answer
                if answer != told:
                    on_wait(answer)
                    told = answer
                self._pause(bell, place.rank, should_stop)
            return None
        finally:
            self._leave(place)

    def running(self) -> tuple[Holding, ...]:
        """
        Give what is held now on the machine, by every session of this user.

        Raises:
            LeaseError: the ledger cannot be used.
        """
        with self._desk() as desk:
            return tuple(self._holdings(desk).values())

    def company(self, lease: Lease) -> tuple[Holding, ...]:
        """
        Give all that ran beside a lease from its admission until now: what was held then, and what came since.

        To be asked before or just after the release. The journal keeps at least the last 500 admissions.

        Raises:
            LeaseError: the ledger cannot be used.
        """
        with self._desk() as desk:
            since = desk.admissions(after=lease.number)
        return (*lease.beside, *(item.holding for item in since if item.lease != lease.name))

    def note_release(self, lease: Lease) -> None:
        """Clear away a lease that this process let go of, unless others still hold it."""
        self._own.pop(lease.name, None)
        # Whoever looks next clears it away as well.
        with contextlib.suppress(LeaseError), self._desk() as desk:
            desk.leases()

    @contextlib.contextmanager
    def _desk(self) -> Iterator[LedgerFiles]:
        try:
            with open_desk(self.folder, self._known, lock_seconds=self._lock_seconds) as desk:
                yield desk
        except OSError as exc:
            msg = (
                f"{self.folder}: the ledger of leases cannot be used ({exc.strerror or exc}); free its disk or set "
                "XDG_RUNTIME_DIR or TMPDIR to another local folder, or run with --lecture-no-leases"
            )
            raise LeaseError(msg) from exc

    def _ask(self, demand: Demand, place: _Place | None) -> Lease | Waits | NeverFits:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                with self._desk() as desk:
                    return self._decide(desk, demand, place)
            except LeaseError as exc:
                # The folder was removed between two steps: it is made again.
                if not isinstance(exc.__cause__, FileNotFoundError) or attempt == _ATTEMPTS:
                    raise
        raise AssertionError  # pragma: no cover - the last attempt returns or raises

    def _decide(self, desk: LedgerFiles, demand: Demand, place: _Place | None) -> Lease | Waits | NeverFits:
        held = self._holdings(desk)
        tickets = desk.tickets()
        count = desk.admission_count()
        answer = admit(demand, self.capacity, list(held.values()), self._ahead(tickets, count, place))
        if isinstance(answer, Admitted):
            lease = self._grant(desk, answer.demand, held)
            if place is not None:
                place.leave(desk)
            return lease
        if isinstance(answer, Waits) and place is not None:
            if not place.ticket.place:
                last = max((item.ticket.place for item in tickets.values()), default=0)
                place.ticket = Ticket(demand=demand, place=last + 1, arrival=count)
            place.keep(desk)
            place.rank = list(tickets).index(place.name) if place.name in tickets else len(tickets)
        return answer

    def _grant(self, desk: LedgerFiles, demand: Demand, held: Mapping[str, Holding]) -> Lease:
        started = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        holding = Holding(demand=demand, pid=os.getpid(), started=started)
        name, descriptor, number = desk.add_lease(holding, tuple(held))
        lease = Lease(self, name, descriptor, holding, number)
        lease.beside = tuple(held.values())
        self._own[name] = lease
        return lease

    def _holdings(self, desk: LedgerFiles) -> dict[str, Holding]:
        # Own leases count even when somebody removed the folder; those of others are then unknown.
        own = {name: lease.holding for name, lease in self._own.items() if not lease.is_released}
        return {**own, **desk.leases()}

    def _ahead(self, tickets: Mapping[str, WaitingTicket], count: int, place: _Place | None) -> list[Waiter]:
        now = time.monotonic()
        seen = {name: self._beats.get(name, (item.beat, now)) for name, item in tickets.items()}
        self._beats = {
            name: seen[name] if seen[name][0] == item.beat else (item.beat, now) for name, item in tickets.items()
        }
        found = []
        for name, item in tickets.items():
            if place is not None and name == place.name:
                break
            # By this process's own clock: the times of files and of the day may jump.
            if now - self._beats[name][1] <= self._stale_seconds:
                found.append(Waiter(demand=item.ticket.demand, passed_count=_passed(item.ticket, count)))
        return found

    def _pause(self, bell: int, rank: int, should_stop: Callable[[], bool]) -> None:
        """Wait until someone has gone, or for a while: those who are killed ring no bell."""
        # The further behind, the less often it looks, so that the looking itself takes no time from those in front.
        end = time.monotonic() + _POLL_SECONDS * max(1.0, rank / _LISTENERS)
        is_near = rank < _LISTENERS
        while time.monotonic() < end and not should_stop():
            if is_near and read_bell(self.folder) != bell:
                return
            time.sleep(_LOOK_SECONDS)

    def _leave(self, place: _Place) -> None:
        if place.descriptor is None:
            return
        try:
            with self._desk() as desk:
                place.leave(desk)
        except LeaseError:
            # Its file stays, and whoever looks next finds that nobody holds it.
            if place.descriptor is not None:
                os.close(place.descriptor)
                place.descriptor = None


def _passed(ticket: Ticket, count: int) -> int:
    """Count the admissions since a waiter arrived; where the journal began anew, it has waited long enough."""
    return count - ticket.arrival if count >= ticket.arrival else PATIENCE
