"""The processes that belong to a kernel on Linux, and what they hold; cheap enough for forty readings a second."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.probe.memory._procfiles import KeptFile, StatusFile, read_at, read_once
from pytest_lecturecheck.probe.procfs import (
    ProportionalSizes,
    parse_children,
    parse_smaps_rollup,
    parse_stat,
    parse_status,
)

_KEPT_FILES: Final = 64
"""Files kept open of each kind; further ones are opened for every reading, which takes twice the time."""
_ALL_THREADS_EVERY: Final = 4
"""Interval, in walks, of reading the lists of all threads; else only the first thread's, which starts most children."""
_DESCENT_SECONDS: Final = 0.25
"""Time after which grandchildren are searched again although the kernel's own children have not changed."""
_SCAN_SECONDS: Final = 1.0
"""The same where the kernel was built without lists of children, and the parent of every process must be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSum:
    """
    Sums over all processes of the tree but the kernel.

    Attributes:
        bound_bytes: resident and swapped pages; shared ones count several times, so this is an upper bound.
        largest_bytes: the same for the largest process: the tree holds at least that.
        process_count: processes in the sum.
    """

    bound_bytes: int
    largest_bytes: int
    process_count: int


class ProcessTree:
    """
    The descendants of one process, and processes that left the tree.

    A process whose parent has ended becomes a child of the kernel's supervisor if there is one, which is a subreaper
    (``PR_SET_CHILD_SUBREAPER``, see prctl(2)). Without a supervisor it becomes a child of init, and the caller must
    find it and add it.

    Args:
        pid: the process at the root.
        proc_root: ``/proc``, or a recorded tree.
        supervisor_pid: parent of the root that adopts orphans, and has no other children; ``None`` without one. It does
            not belong to the tree itself.
    """

    def __init__(self, pid: int, proc_root: str, *, supervisor_pid: int | None = None) -> None:
        self._pid = pid
        self._root = proc_root
        self._supervisor_pid = supervisor_pid
        self._adopted_file: KeptFile | None = None
        self._is_supervisor_lost = False
        if supervisor_pid is not None:
            # A supervisor has a single thread, so this is the list of all its children.
            self._adopted_file = KeptFile(f"{proc_root}/{supervisor_pid}/task/{supervisor_pid}/children")
        self._threads: dict[int, KeptFile] = {}
        self._descriptors: dict[int, int] = {}
        self._members: dict[int, StatusFile] = {}
        self._zombies: set[int] = set()
        self._strays: set[int] = set()
        self._children: dict[int, tuple[int, ...]] = {}
        self._walk_count = 0
        self._starts: set[int] = set()
        self._walked_at = float("-inf")
        # A mark is inherited: pytest itself carries it if it runs inside a lecture.
        self._excluded = {pid, *self._ancestors()}
        # Lists of children need CONFIG_PROC_CHILDREN, which some container hosts lack.
        own = f"{proc_root}/{pid}/task/{pid}"
        self._has_lists = os.path.exists(f"{own}/children") or not os.path.exists(own)  # noqa: PTH110 - Path costs more

    @property
    def members(self) -> tuple[int, ...]:
        """Return the living processes of the tree without its root, as of the last walk or reading."""
        return tuple(self._members)

    @property
    def is_supervised(self) -> bool:
        """Return True if a supervisor adopts orphans, so that no process can leave the tree."""
        return self._adopted_file is not None and not self._is_supervisor_lost

    def _adopted(self) -> set[int]:
        """Return the orphans that the supervisor has adopted."""
        if self._adopted_file is None or not self._has_lists:
            return set()
        # The list of a process that has ended reads as empty; a living supervisor has the kernel at least.
        text = self._adopted_file.read() or b""
        self._is_supervisor_lost = not text
        return set(parse_children(text)) - self._excluded

    def set_strays(self, pids: Iterable[int]) -> None:
        """Set processes that belong to the tree although their parent does not; ancestors of the root are ignored."""
        self._strays = set(pids) - self._excluded

    def walk(self, thread_count: int, now: float, *, complete: bool = False) -> bool:
        """
        Find the processes of the tree.

        Args:
            thread_count: threads of the root as last read; while it is the same, they are not listed again.
            now: seconds on any clock.
            complete: search for grandchildren even if that was done a moment ago.

        Returns:
            Whether a process was found, even if it is only a new zombie.
        """
        is_due = complete or now - self._walked_at >= (_DESCENT_SECONDS if self._has_lists else _SCAN_SECONDS)
        if not self._has_lists and not is_due:
            return bool(self._members)
        self._walk_count += 1
        all_threads = complete or self._walk_count % _ALL_THREADS_EVERY == 0
        if self._is_still_alone(thread_count, all_threads=all_threads):
            return False
        starts = self._children_of_root(thread_count, all_threads=all_threads) | self._strays | self._adopted()
        if self._is_supervisor_lost:
            # Nobody may have adopted what was found before it was killed.
            starts |= self._members.keys()
        if not is_due and starts == self._starts:
            return bool(self._members)
        self._starts, self._walked_at = starts, now
        return self._take_in(self._descend(starts))

    def _is_still_alone(self, thread_count: int, *, all_threads: bool) -> bool:
        """Return True if there was no process before and no list has one now, which is the usual case."""
        if self._members or self._starts or self._strays or self._zombies or self._children:
            return False
        # Children are listed under the thread that started them, so a new thread needs a new list.
        if len(self._descriptors) != thread_count:
            return False
        try:
            for descriptor in self._descriptors.values():
                if read_at(descriptor, 0):
                    return False
                if not all_threads:
                    break
        except OSError:
            return False
        return not self._adopted()

    def _take_in(self, found: set[int]) -> bool:
        self._zombies &= found
        for pid in self._members.keys() - found:
            self._members.pop(pid).close()
        for pid in found - self._members.keys() - self._zombies:
            self._members[pid] = StatusFile(f"{self._root}/{pid}/status")
        return bool(self._members)

    def read_members(self) -> MemberSum:
        """Read the memory of all members, and remove those that have ended."""
        bound_bytes = largest_bytes = 0
        for index, (pid, file) in enumerate(list(self._members.items())):
            if index < _KEPT_FILES:
                status, is_there = file.read_status(), file.error is None
            else:
                text = read_once(f"{self._root}/{pid}/status")
                status, is_there = parse_status(text or b""), text is not None
            if status is not None:
                bound_bytes += status.rss_bytes + status.swap_bytes
                largest_bytes = max(largest_bytes, status.rss_bytes + status.swap_bytes)
                continue
            if is_there and (thread := self._living_thread(pid)) is not None:
                # The first thread alone has ended, and the others hold the memory.
                file.close()
                self._members[pid] = StatusFile(f"{self._root}/{pid}/task/{thread}/status")
                continue
            if is_there:
                # A zombie holds no memory, and stays in the lists until its parent reaps it.
                self._zombies.add(pid)
            self._strays.discard(pid)
            self._members.pop(pid).close()
        return MemberSum(bound_bytes=bound_bytes, largest_bytes=largest_bytes, process_count=len(self._members))

    def _living_thread(self, pid: int) -> int | None:
        """Return a thread of a process that is listed as a zombie, or ``None`` if it has no other than the first."""
        return next((thread for thread in _numbers_in(f"{self._root}/{pid}/task") if thread != pid), None)

    def close(self) -> None:
        """Close all files; safe to call twice."""
        self._forget_threads()
        for file in self._members.values():
            file.close()
        self._members.clear()
        if self._adopted_file is not None:
            self._adopted_file.close()

    def _children_of_root(self, thread_count: int, *, all_threads: bool) -> set[int]:
        if not self._has_lists:
            return self._children_by_scan()
        if len(self._threads) != thread_count or not self._read_lists(all_threads=all_threads):
            # A thread has ended, and another may have been started.
            self._list_threads()
            if not self._read_lists(all_threads=True):
                # Threads keep ending while they are listed, so none of the open files can be trusted.
                self._forget_threads()
        return {pid for pids in self._children.values() for pid in pids} - self._excluded

    def _forget_threads(self) -> None:
        for file in self._threads.values():
            file.close()
        self._threads.clear()
        self._descriptors.clear()

    def _list_threads(self) -> None:
        folder = f"{self._root}/{self._pid}/task"
        threads = set(_numbers_in(folder))
        for thread in list(self._threads):
            if thread not in threads or self._threads[thread].error is not None:
                self._threads.pop(thread).close()
        for thread in threads - self._threads.keys():
            self._threads[thread] = KeptFile(f"{folder}/{thread}/children")
        # The main thread comes first: see _ALL_THREADS_EVERY.
        kept = sorted(self._threads, key=lambda thread: (thread != self._pid, thread))[:_KEPT_FILES]
        descriptors = {thread: self._threads[thread].open() for thread in kept}
        self._descriptors = {thread: item for thread, item in descriptors.items() if item is not None}

    def _read_lists(self, *, all_threads: bool) -> bool:
        """Read the lists of children, of the first thread or of all; ``False`` where a thread was missing."""
        threads = self._descriptors.items() if all_threads else list(self._descriptors.items())[:1]
        try:
            # Nearly always all lists are empty, and this loop runs for every cell.
            filled = [thread for thread, descriptor in threads if read_at(descriptor, 0)]
        except OSError:
            return False
        texts = {thread: self._threads[thread].read() for thread in filled}
        if all_threads:
            self._children.clear()
            for thread in self._threads.keys() - self._descriptors.keys():
                texts[thread] = read_once(f"{self._root}/{self._pid}/task/{thread}/children")
        else:
            self._children.pop(self._pid, None)
        self._children.update({thread: parse_children(text) for thread, text in texts.items() if text})
        return None not in texts.values()

    def _descend(self, starts: Iterable[int]) -> set[int]:
        found: set[int] = set()
        left = list(starts)
        while left:
            pid = left.pop()
            if pid in found or pid in self._excluded:
                continue
            found.add(pid)
            # A scan has found all generations at once.
            left.extend(self._children_of(pid) if self._has_lists else ())
        return found

    def _children_of(self, pid: int) -> Iterable[int]:
        folder = f"{self._root}/{pid}/task"
        for thread in _numbers_in(folder):
            yield from parse_children(read_once(f"{folder}/{thread}/children") or b"")

    def _children_by_scan(self) -> set[int]:
        parents: dict[int, int] = {}
        for pid in _numbers_in(self._root):
            counters = parse_stat(read_once(f"{self._root}/{pid}/stat") or b"")
            if counters is not None:
                parents[pid] = counters.parent
        tree = {self._pid, *self._strays}
        if self._supervisor_pid is not None:
            tree.add(self._supervisor_pid)
        while grown := {pid for pid, parent in parents.items() if parent in tree} - tree:
            tree |= grown
        return tree - self._excluded

    def _ancestors(self) -> Iterable[int]:
        pid = self._pid
        seen: set[int] = set()
        while pid > 0 and pid not in seen:
            seen.add(pid)
            counters = parse_stat(read_once(f"{self._root}/{pid}/stat") or b"")
            pid = counters.parent if counters is not None else 0
        return seen


def read_proportional_sizes(pids: Iterable[int], proc_root: str) -> ProportionalSizes | None:
    """
    Return the sum of the proportional sizes of processes; ``None`` where it cannot be read.

    Linux walks the page tables for it, which takes about 10 ms for each GiB of small pages. A process that may not be
    read is left out. The processes continue meanwhile, and a page that one of them maps or unmaps can be counted with
    two different shares. The sum is therefore reduced by the change of resident sizes, and dropped if a process ended,
    because its mappings are unknown. The result is never too high.
    """
    before = _plain_sizes(pids, proc_root)
    texts = (read_once(f"{proc_root}/{pid}/smaps_rollup") for pid in before)
    found = [sizes for text in texts if text is not None and (sizes := parse_smaps_rollup(text)) is not None]
    after = _plain_sizes(before, proc_root)
    if not found or after.keys() != before.keys():
        return None
    moved_bytes = sum(abs(after[pid] - before[pid]) for pid in before)
    pss_bytes = sum(item.pss_bytes for item in found)
    return ProportionalSizes(
        pss_bytes=max(0, pss_bytes - moved_bytes), swap_bytes=sum(item.swap_bytes for item in found)
    )


def _plain_sizes(pids: Iterable[int], proc_root: str) -> dict[int, int]:
    statuses = {pid: parse_status(read_once(f"{proc_root}/{pid}/status") or b"") for pid in pids}
    return {pid: status.rss_bytes for pid, status in statuses.items() if status is not None}


def _numbers_in(folder: str) -> list[int]:
    try:
        return [int(name) for name in os.listdir(folder) if name.isdigit()]  # noqa: PTH208 - names only
    except OSError:
        return []
