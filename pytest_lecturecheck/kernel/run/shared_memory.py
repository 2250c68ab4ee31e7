"""Segments of shared memory that a lecture leaves behind: memory that stays taken although no process holds it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pytest_lecturecheck.kernel.run.ports import Ports
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.units import format_size

_NAME_CHARS: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class _Appearance:
    cell_number: int
    is_ours: bool


class SharedMemoryWatch:
    """
    Notes which segments appear while a lecture runs, and which of them are still there at its end.

    A segment names no owner. One that a process of the run maps when it is first seen is the lecture's; of any other
    one can only be said when it appeared.

    Args:
        ports: lists segments, mappings and the processes of a run.
        token: the run's token.
    """

    def __init__(self, ports: Ports, token: str) -> None:
        """Note what is there before the first cell."""
        self._ports = ports
        self._token = token
        self._known = set(ports.list_shared_memory())
        self._appeared: dict[str, _Appearance] = {}

    def look(self, cell_number: int) -> None:
        """Note what has appeared while a cell ran; to be called while its processes are still there."""
        new = self._ports.list_shared_memory().keys() - self._known
        if not new:
            return
        self._known |= new
        ours = self._ports.find_mapped(new, self._ports.find_marked(self._token))
        for name in new:
            self._appeared[name] = _Appearance(cell_number=cell_number, is_ours=name in ours)

    def left(self) -> Iterator[Finding]:
        """Name what is left when the run's processes have gone."""
        if not self._appeared:
            return
        there = self._ports.list_shared_memory()
        candidates = self._appeared.keys() & there.keys()
        # What is still mapped belongs to another run on this machine.
        for name in sorted(candidates - self._ports.find_mapped(candidates, None)):
            segment, appearance = there[name], self._appeared[name]
            size = f"{format_size(segment.size_bytes)} in /dev/shm"
            taken = f"{name[:_NAME_CHARS]!r}, {format_size(segment.taken_bytes)} of it written"
            if appearance.is_ours:
                gone = self._ports.remove_shared_memory(name)
                end = "it was removed" if gone else "it stays taken until it is unlinked"
                message = f"left {size} ({taken}); {end}"
            else:
                message = f"{size} ({taken}) appeared while this cell ran, perhaps from another program"
            yield Finding(kind=FindingKind.SHARED_MEMORY, message=message, cell_number=appearance.cell_number)
