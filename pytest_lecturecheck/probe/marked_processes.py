"""Find what a run left behind on Linux: processes that carry its mark, segments in shared memory."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final

from pytest_lecturecheck.model.probe import RUN_TOKEN_VARIABLE, SharedSegment

PROC_ROOT: Final = Path("/proc")
SHARED_MEMORY_ROOT: Final = Path("/dev/shm")  # noqa: S108 - where Linux keeps POSIX shared memory, not a temporary folder


class MarkedProcesses:
    """
    The processes whose environment holds a run's token, wherever they have gone in the tree of processes.

    An unmarked process is looked at once: a child of a marked process is marked from its first moment, because fork
    copies the environment. So a later scan costs a listing of ``/proc``, the marked and the new processes.

    Args:
        token: value of :data:`~pytest_lecturecheck.model.probe.RUN_TOKEN_VARIABLE`.
        proc_root: ``/proc``, or a recorded tree.
    """

    def __init__(self, token: str, proc_root: Path = PROC_ROOT) -> None:
        self._needle = f"\0{RUN_TOKEN_VARIABLE}={token}\0".encode()
        self._root = os.fspath(proc_root)
        self._unmarked: frozenset[int] = frozenset()

    def scan(self) -> list[int]:
        """Give the ids of all marked processes that are there now, in ascending order."""
        try:
            pids = {int(name) for name in os.listdir(self._root) if name.isdigit()}  # noqa: PTH208 - names only
        except OSError:
            return []
        # The newest first: the last of a chain of processes that fork at once may be gone a moment later.
        marked = {pid for pid in sorted(pids - self._unmarked, reverse=True) if self._is_marked(pid)}
        self._unmarked = frozenset(pids - marked)
        return sorted(marked)

    def _is_marked(self, pid: int) -> bool:
        # Unreadable: gone, or another user's; neither was started by the run.
        try:
            with open(f"{self._root}/{pid}/environ", "rb") as file:  # noqa: PTH123 - Path costs more than the read
                return self._needle in b"\0" + file.read() + b"\0"
        except OSError:
            return False


def find_marked(token: str, proc_root: Path = PROC_ROOT) -> list[int]:
    """Give the ids of all processes whose environment holds the run's token, in ascending order."""
    return MarkedProcesses(token, proc_root).scan()


def find_mapped(
    names: AbstractSet[str],
    pids: Iterable[int] | None = None,
    *,
    proc_root: Path = PROC_ROOT,
    shared_memory_root: Path = SHARED_MEMORY_ROOT,
) -> frozenset[str]:
    """
    Tell which segments of shared memory a living process maps.

    Args:
        names: segments, as :func:`list_shared_memory` names them.
        pids: the processes to ask; ``None`` asks all.
        proc_root: ``/proc``, or a recorded tree.
        shared_memory_root: folder that holds the segments.
    """
    lines = {name: os.fsencode(f" {shared_memory_root.as_posix()}/{name}\n") for name in names}
    found: set[str] = set()
    asked: Iterable[Path] = proc_root.glob("[0-9]*/maps")
    if pids is not None:
        asked = [proc_root / str(pid) / "maps" for pid in pids]
    for maps in asked:
        if len(found) == len(lines):
            break
        try:
            text = maps.read_bytes()
        except OSError:
            continue
        found.update(name for name, line in lines.items() if line in text)
    return frozenset(found)


def remove_shared_memory(name: str, shared_memory_root: Path = SHARED_MEMORY_ROOT) -> bool:
    """Remove a segment by the name that :func:`list_shared_memory` gives it; tell whether it is gone now."""
    try:
        (shared_memory_root / name).unlink(missing_ok=True)
    except OSError:
        return False
    return True


def list_shared_memory(shared_memory_root: Path = SHARED_MEMORY_ROOT) -> dict[str, SharedSegment]:
    """
    List the segments in shared memory by name.

    What is there after a run and was not there before stays taken although no process owns it. Systems without such a
    folder give an empty mapping.
    """
    segments: dict[str, SharedSegment] = {}
    root = os.fspath(shared_memory_root)
    # Listed after every cell: no Path for each entry.
    for folder, _, names in os.walk(root):
        for name in names:
            path = f"{folder}/{name}"
            try:
                found = os.lstat(path)
            except OSError:
                continue
            if stat.S_ISREG(found.st_mode):
                # Blocks are absent on Windows, where no such folder exists either.
                taken = getattr(found, "st_blocks", 0) * 512
                segments[path[len(root) + 1 :]] = SharedSegment(size_bytes=found.st_size, taken_bytes=taken)
    return segments
