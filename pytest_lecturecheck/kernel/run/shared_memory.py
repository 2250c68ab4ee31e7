"""Find shared memory that a lecture leaves behind: it stays allocated although no process uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Final, Protocol

from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.probe import SharedSegment
from pytest_lecturecheck.units import format_size

_NAME_CHARS: Final = 120


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
    cell in which it appeared, or (System V) has made it. Any other segment may belong to another program: it is no
    finding.

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

    def look(self, cell_number: int) -> None:
        """Record what appeared during a cell; call this while its processes still exist."""
        new = self._sources.list_shared_memory().keys() - self._known
        if not new:
            return
        self._known |= new
        for name in self._sources.find_mapped(new, self._find_processes()):
            self._cells[name] = cell_number

    def report(self) -> Iterator[Finding]:
        """Report the segments that are left after the run's processes have ended."""
        if not self._cells:
            return
        there = self._sources.list_shared_memory()
        candidates = self._cells.keys() & there.keys()
        # A segment that is still mapped belongs to another program.
        for name in sorted(candidates - self._sources.find_mapped(candidates, None)):
            segment = there[name]
            size = f"{format_size(segment.size_bytes)} in {segment.place}"
            taken = f"{name[:_NAME_CHARS]!r}, {format_size(segment.taken_bytes)} of it written"
            gone = self._sources.remove_shared_memory(name)
            end = "it was removed" if gone else "it stays allocated until it is removed"
            message = f"left {size} ({taken}); {end}"
            yield Finding(kind=FindingKind.SHARED_MEMORY, message=message, cell_number=self._cells[name])
