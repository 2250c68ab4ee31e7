"""Find shared memory that a lecture leaves behind: it stays allocated although no process uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Final, Protocol

from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.probe import SharedSegment
from pytest_lecturecheck.units import format_size

_NAME_CHARS: Final = 120
_LARGE_BYTES: Final = 1024 * 1024
"""Smaller segments of unknown origin are not worth a word: semaphores, and marks of other programs."""
_STAYS: Final = "it stays allocated until it is removed"


class LeftoverSources(Protocol):
    """Finds processes and shared memory of runs on this machine."""

    def find_marked(self, token: str) -> Iterable[int]:
        """Return the processes that carry a run's token in their environment."""

    def list_shared_memory(self) -> Mapping[str, SharedSegment]:
        """Return the segments of shared memory by name."""

    def find_mapped(self, names: AbstractSet[str], pids: Iterable[int] | None) -> AbstractSet[str]:
        """Return those of the named segments that one of these processes maps; ``None`` for any process."""

    def remove_shared_memory(self, name: str) -> bool:
        """Remove a segment; return True if it is gone."""


class SharedMemoryWatch:
    """
    Notes which segments a lecture creates, and which of them still exist at its end.

    A segment has no owner. It belongs to the lecture if a process of the run maps it or has it open at the end of the
    cell in which it appeared, or (System V) has made it. Any other segment may belong to another program. If it is
    large and nobody uses it at the end, the finding says so, and the segment stays: the lecture may have closed it.

    Args:
        sources: lists segments and mappings.
        find_processes: returns the processes of the run.
    """

    def __init__(self, sources: LeftoverSources, find_processes: Callable[[], Iterable[int]]) -> None:
        """Record the segments before the first cell."""
        self._sources = sources
        self._find_processes = find_processes
        self._known = set(sources.list_shared_memory())
        self._cells: dict[str, int] = {}
        self._closed: dict[str, int] = {}

    def look(self, cell_number: int) -> None:
        """Record what appeared during a cell; call this while its processes still exist."""
        new = self._sources.list_shared_memory().keys() - self._known
        if not new:
            return
        self._known |= new
        mapped = self._sources.find_mapped(new, self._find_processes())
        self._cells.update(dict.fromkeys(mapped, cell_number))
        self._closed.update(dict.fromkeys(new - mapped, cell_number))

    def report(self) -> Iterator[Finding]:
        """Report the segments that are left after the run's processes have ended."""
        if not self._cells and not self._closed:
            return
        there = self._sources.list_shared_memory()
        candidates = there.keys() & (self._cells.keys() | {name for name in self._closed if _is_large(there.get(name))})
        # A segment that is still mapped belongs to another program.
        for name in sorted(candidates - self._sources.find_mapped(candidates, None)):
            segment = there[name]
            size = f"{format_size(segment.size_bytes)} in {segment.place}"
            taken = f"{name[:_NAME_CHARS]!r}, {format_size(segment.taken_bytes)} of it written"
            if name in self._cells:
                end = "it was removed" if self._sources.remove_shared_memory(name) else _STAYS
                message = f"left {size} ({taken}); {end}"
            else:
                message = f"left {size} ({taken}; by it, or by what ran beside it); {_STAYS}"
            number = self._cells.get(name, self._closed.get(name))
            yield Finding(kind=FindingKind.SHARED_MEMORY, message=message, cell_number=number)


def _is_large(segment: SharedSegment | None) -> bool:
    return segment is not None and segment.is_own_users and segment.size_bytes >= _LARGE_BYTES
