"""The descendants of a kernel as far as they can be sampled, on systems that have no group for them."""

from __future__ import annotations

from pytest_lecturecheck.probe.memory._source import ProcessReading, ProcessSource, Unread


class Descendants:
    """
    The processes that descend from one process.

    A process that was found once stays a member while it lives, even if its parent ends.

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
        """Whether a process ended or could not be read since this was last set to False: its peak is not known."""

    @property
    def members(self) -> list[ProcessReading]:
        """Return the last samples of those that live."""
        return list(self._members.values())

    @property
    def former(self) -> list[ProcessReading]:
        """Return the last samples of those that have ended."""
        return self._former

    @property
    def most_bytes(self) -> int | None:
        """Return a sum that those alive did not exceed since the last reset, or ``None``: not known."""
        if self._unreadable:
            return None
        most = [member.most_bytes for member in self._members.values()]
        known = [item for item in most if item is not None]
        return sum(known) if len(known) == len(most) else None

    def look(self, own: ProcessReading, now: float, *, complete: bool = False) -> None:
        """
        Find and sample all descendants.

        Args:
            own: the present sample of the root.
            now: seconds on any clock.
            complete: search for new ones even if that was done a moment ago.
        """
        # A child that lived between two samples is only visible in the counter of its parent.
        if own.waited_for > self._waited_for and self._looked_at > float("-inf"):
            self.has_lost = True
        self._waited_for = own.waited_for
        pids = set(self._members) | self._unreadable
        if complete or now - self._looked_at >= self._source.texts.look_seconds:
            self._looked_at = now
            found = self._source.descendants({self._pid, *pids})
            if found is None:
                # The OS does not say whether there are any.
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
            # A zombie stays in the lists of children, and is lost only once. A reused process id belongs to a
            # stranger until the next search says otherwise.
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
        """Return True if there is no descendant."""
        return not self._members and not self._unreadable

    def reset_peaks(self) -> None:
        """Reset the peak counters of those alive, where the OS can."""
        for pid in self._members:
            self._source.reset_peak(pid)
