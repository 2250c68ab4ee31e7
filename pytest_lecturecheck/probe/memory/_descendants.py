"""The descendants of a kernel as far as they are seen, where the system has no group for them."""

from __future__ import annotations

from pytest_lecturecheck.probe.memory._source import ProcessReading, ProcessSource, Unread


class Descendants:
    """
    The processes that came from one process. Who was seen once stays a member while it lives, whoever its parent is.

    Args:
        pid: the process at the root.
        source: reads processes.
    """

    def __init__(self, pid: int, source: ProcessSource) -> None:
        self._pid = pid
        self._source = source
        self._members: dict[int, ProcessReading] = {}
        self._waited_for = 0
        self._looked_at = float("-inf")
        self._former: list[ProcessReading] = []
        self._unreadable: set[int] = set()
        self._ended: set[tuple[int, float]] = set()
        self.has_lost = False
        """Whether, since this was last set back, one ended or was never read: nobody knows what it held at the most."""

    @property
    def members(self) -> list[ProcessReading]:
        """Give the last readings of those that live."""
        return list(self._members.values())

    @property
    def former(self) -> list[ProcessReading]:
        """Give the last readings of those that have ended."""
        return self._former

    @property
    def most_bytes(self) -> int | None:
        """Give what all that live did not exceed in sum since they were last reset, or ``None``: not known."""
        if self._unreadable:
            return None
        most = [member.most_bytes for member in self._members.values()]
        known = [item for item in most if item is not None]
        return sum(known) if len(known) == len(most) else None

    def look(self, own: ProcessReading, now: float, *, complete: bool = False) -> None:
        """
        Look who is there, and read them all.

        Args:
            own: the present reading of the root.
            now: seconds on any clock.
            complete: look for new ones, too, however recently that was done.
        """
        if own.waited_for > self._waited_for and self._looked_at > float("-inf"):
            self.has_lost = True
        self._waited_for = own.waited_for
        pids = set(self._members) | self._unreadable
        if complete or now - self._looked_at >= self._source.words.look_seconds:
            self._looked_at = now
            found = self._source.descendants({self._pid, *pids})
            if found is None:
                # Nobody can tell whether there are any.
                self.has_lost = True
            pids |= found or frozenset()
        self._unreadable &= pids
        for pid in pids:
            self._take(pid, self._source.read(pid))

    def _take(self, pid: int, reading: ProcessReading | Unread) -> None:
        before = self._members.get(pid)
        if isinstance(reading, Unread):
            self.has_lost = True
            if reading.is_gone:
                self._drop(pid)
            else:
                self._unreadable.add(pid)
            return
        self._unreadable.discard(pid)
        if reading.has_ended or (before is not None and before.started != reading.started):
            # One that was not waited for stays in the lists; it is news once. A process id that is used again belongs
            # to someone else, until the next look says otherwise.
            self.has_lost = self.has_lost or before is not None or (pid, reading.started) not in self._ended
            self._ended.add((pid, reading.started))
            self._drop(pid)
            return
        if reading.waited_for > (before.waited_for if before is not None else 0):
            self.has_lost = True
        self._members[pid] = reading

    def _drop(self, pid: int) -> None:
        self._unreadable.discard(pid)
        if (member := self._members.pop(pid, None)) is not None:
            self._former.append(member)

    @property
    def is_empty(self) -> bool:
        """Tell whether nobody is there."""
        return not self._members and not self._unreadable

    def reset_peaks(self) -> None:
        """Have the peaks of all that live counted anew, where the system can."""
        for pid in self._members:
            self._source.reset_peak(pid)
