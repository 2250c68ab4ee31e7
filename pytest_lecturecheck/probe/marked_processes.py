"""Find what a run left behind on Linux: processes that carry its token, and segments of shared memory."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path
from typing import Final

from pytest_lecturecheck.model.probe import RUN_TOKEN_VARIABLE, SharedSegment

PROC_ROOT: Final = Path("/proc")
SHARED_MEMORY_ROOT: Final = Path("/dev/shm")  # noqa: S108 - where Linux keeps POSIX shared memory, not a temporary folder


class MarkedProcesses:
    """
    The processes whose environment holds a run's token, wherever they are in the process tree.

    An unmarked process is read only once: a child of a marked process is marked from its start, because fork copies
    the environment. A later scan therefore reads a listing of ``/proc``, the marked processes and the new ones.

    Args:
        token: value of :data:`~pytest_lecturecheck.model.probe.RUN_TOKEN_VARIABLE`.
        proc_root: ``/proc``, or a recorded tree.
    """

    def __init__(self, token: str, proc_root: Path = PROC_ROOT) -> None:
        self._needle = f"\0{RUN_TOKEN_VARIABLE}={token}\0".encode()
        self._root = os.fspath(proc_root)
        self._unmarked: frozenset[int] = frozenset()

    def scan(self) -> list[int]:
        """Return the ids of all marked processes, in ascending order."""
        try:
            pids = {int(name) for name in os.listdir(self._root) if name.isdigit()}  # noqa: PTH208 - names only
        except OSError:
            return []
        # The newest first: in a chain of processes that fork and exit at once, the last may be gone a moment later.
        marked = {pid for pid in sorted(pids - self._unmarked, reverse=True) if self._is_marked(pid)}
        self._unmarked = frozenset(pids - marked)
        return sorted(marked)

    def _is_marked(self, pid: int) -> bool:
        # Unreadable means ended or owned by another user; the run started neither.
        try:
            with open(f"{self._root}/{pid}/environ", "rb") as file:  # noqa: PTH123 - Path costs more than the read
                return self._needle in b"\0" + file.read() + b"\0"
        except OSError:
            return False


def find_marked(token: str, proc_root: Path = PROC_ROOT) -> list[int]:
    """Return the ids of all processes whose environment holds the run's token, in ascending order."""
    return MarkedProcesses(token, proc_root).scan()


def find_mapped(
    names: AbstractSet[str],
    pids: Iterable[int] | None = None,
    *,
    proc_root: Path = PROC_ROOT,
    shared_memory_root: Path = SHARED_MEMORY_ROOT,
) -> frozenset[str]:
    """
    Return the segments of shared memory that a living process maps, or has open.

    Args:
        names: segments, as :func:`list_shared_memory` names them.
        pids: processes to read; ``None`` reads all.
        proc_root: ``/proc``, or a recorded tree.
        shared_memory_root: folder that holds the segments.
    """
    lines = {name: os.fsencode(f" {shared_memory_root.as_posix()}/{name}\n") for name in names}
    found: set[str] = set()
    asked: Iterable[Path] = proc_root.glob("[0-9]*")
    if pids is not None:
        asked = [proc_root / str(pid) for pid in pids]
    for process in asked:
        if len(found) == len(lines):
            break
        with suppress(OSError):
            text = (process / "maps").read_bytes()
            found.update(name for name, line in lines.items() if line in text)
        found.update(_opened(process, names, f"{shared_memory_root.as_posix()}/"))
    return frozenset(found)


def _opened(process: Path, names: AbstractSet[str], root: str) -> Iterator[str]:
    """Yield the segments that a process has open: one that was created and not mapped yet, or not any more."""
    with suppress(OSError):
        for link in (process / "fd").iterdir():
            with suppress(OSError):
                target = os.fspath(link.readlink())
                if target.startswith(root) and target[len(root) :] in names:
                    yield target[len(root) :]


def remove_shared_memory(name: str, shared_memory_root: Path = SHARED_MEMORY_ROOT) -> bool:
    """Remove a segment by its name in :func:`list_shared_memory`; return True if it no longer exists."""
    try:
        (shared_memory_root / name).unlink(missing_ok=True)
    except OSError:
        return False
    return True


def list_shared_memory(shared_memory_root: Path = SHARED_MEMORY_ROOT) -> dict[str, SharedSegment]:
    """
    List the segments in shared memory by name.

    A segment keeps its memory when no process maps it any more. Systems without such a folder return an empty mapping.
    """
    segments: dict[str, SharedSegment] = {}
    root = os.fspath(shared_memory_root)
    user = os.geteuid() if hasattr(os, "geteuid") else None
    # Listed after every cell, so no Path object is made for each entry.
    for folder, _, names in os.walk(root):
        for name in names:
            path = f"{folder}/{name}"
            try:
                found = os.lstat(path)
            except OSError:
                continue
            if stat.S_ISREG(found.st_mode):
                # Windows has no st_blocks, and no such folder.
                taken = getattr(found, "st_blocks", 0) * 512
                segments[path[len(root) + 1 :]] = SharedSegment(
                    size_bytes=found.st_size, taken_bytes=taken, is_own_users=found.st_uid == user
                )
    return segments
