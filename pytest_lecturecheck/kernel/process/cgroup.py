"""
Create a memory group for a run, where the system permits it.

Version 1 of the cgroup interface (``memory.limit_in_bytes``, also in hybrid trees) and version 2 (``memory.max``);
see the kernel's Documentation/admin-guide/cgroup-v1/memory.rst and cgroup-v2.rst. A process cannot leave its group
without privileges. So the group also identifies the processes of the run, whatever they did to their parentage or
environment.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass

_PREFIX: Final = "lecturecheck-"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryGroup:
    """
    A memory group with a limit.

    Attributes:
        folder: the group's folder in the cgroup file system.
        version: 1 or 2, of the interface.
        limit_bytes: the limit that was set.
    """

    folder: Path
    version: int
    limit_bytes: int

    @property
    def join_file(self) -> str:
        """Return the file to which a process with one thread writes 0 to join the group."""
        # In version 1 a single thread can be moved, which is fast. A process with one thread is that.
        return f"{self.folder}/{'tasks' if self.version == 1 else 'cgroup.procs'}"

    def add(self, pid: int) -> bool:
        """Move a process into the group; its later children follow. Return False if that fails."""
        return _write(self.folder / "cgroup.procs", str(pid))

    def pids(self) -> list[int]:
        """List the processes in the group."""
        text = _read(f"{self.folder}/cgroup.procs") or ""
        return [int(word) for word in text.split() if word.isdigit()]

    def has_lost(self, pid: int, *, proc_root: Path = Path("/proc")) -> bool:
        """Return True if a living process is outside the group; one that is exiting has no memory any more."""
        # The second field of statm, resident pages; see proc(5).
        resident = (_read(proc_root / str(pid) / "statm") or "0 0").split()[1]
        return resident != "0" and pid not in self.pids()

    def is_limit_in_force(self) -> bool:
        """Return True if the group's limit is still no higher than the one that was set."""
        name = "memory.max" if self.version == 2 else "memory.limit_in_bytes"  # noqa: PLR2004 - the version's number
        text = (_read(f"{self.folder}/{name}") or "").strip()
        return text.isdigit() and int(text) <= self.limit_bytes

    def oom_kill_count(self) -> int:
        """Return the number of processes that were killed in the group at its memory limit."""
        name = "memory.events" if self.version == 2 else "memory.oom_control"  # noqa: PLR2004 - the version's number
        return _field(_read(f"{self.folder}/{name}") or "", "oom_kill") or 0

    def footprint_bytes(self) -> int | None:
        """Return the anonymous, shared and swapped pages of the group, shared ones once; ``None`` if unreadable."""
        text = _read(f"{self.folder}/memory.stat") or ""
        names = ("anon", "shmem", "swap") if self.version == 2 else ("rss", "shmem", "swap")  # noqa: PLR2004 - see above
        fields = [_field(text, name) for name in names]
        return None if fields[0] is None else sum(value or 0 for value in fields)

    def remove(self) -> None:
        """Remove the group; it must be empty."""
        with suppress(OSError):
            self.folder.rmdir()


def make_group(
    name: str, limit_bytes: int, *, proc_root: Path = Path("/proc"), sys_root: Path = Path("/sys/fs/cgroup")
) -> MemoryGroup | None:
    """
    Create a group below this process's own group, or return ``None`` if that is not permitted.

    Args:
        name: distinguishes the group; letters and digits.
        limit_bytes: limit for memory, and for memory plus swap if that is accounted.
        proc_root: ``/proc``, or a recorded tree.
        sys_root: where the cgroup file systems are mounted, or a recorded tree.
    """
    for version, parent in _own_groups(proc_root, sys_root):
        folder = parent / f"{_PREFIX}{name}"
        with suppress(OSError):
            folder.mkdir()
        if not folder.is_dir():
            continue
        group = MemoryGroup(folder=folder, version=version, limit_bytes=limit_bytes)
        if _set_limit(group):
            return group
        group.remove()
    return None


def _own_groups(proc_root: Path, sys_root: Path) -> list[tuple[int, Path]]:
    """Return this process's groups that account for memory; in hybrid trees that is version 1, so it comes first."""
    groups: list[tuple[int, Path]] = []
    for line in (_read(proc_root / "self" / "cgroup") or "").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        relative = path.lstrip("/")
        if "memory" in controllers.split(","):
            groups.insert(0, (1, sys_root / "memory" / relative))
        elif number == "0" and not controllers and (sys_root / "cgroup.controllers").exists():
            groups.append((2, sys_root / relative))
    return groups


def version_2_folder(pid: int, *, proc_root: Path, sys_root: Path) -> Path | None:
    """Return the folder of a process's group in the version 2 tree, or ``None``."""
    mount = next((root for root in (sys_root, sys_root / "unified") if (root / "cgroup.controllers").exists()), None)
    for line in (_read(proc_root / str(pid) / "cgroup") or "").splitlines():
        if line.startswith("0::") and mount is not None:
            return mount / line[3:].lstrip("/")
    return None


def _set_limit(group: MemoryGroup) -> bool:
    limit = str(group.limit_bytes)
    if group.version == 1:
        # The second limit must never be below the first. It is missing if swap is not accounted; then the run may swap.
        both, memory = group.folder / "memory.memsw.limit_in_bytes", group.folder / "memory.limit_in_bytes"
        if not _write(memory, limit) and not (_write(both, limit) and _write(memory, limit)):
            return False
        _write(both, limit)
        return True
    if not (group.folder / "memory.max").exists():
        # The controller is not enabled for children of this group, and we must not enable it for its owner.
        return False
    if not _write(group.folder / "memory.max", limit):
        return False
    _write(group.folder / "memory.swap.max", "0")
    return True


def _field(text: str, name: str) -> int | None:
    start = f"\n{text}".find(f"\n{name} ")
    if start < 0:
        return None
    end = text.find("\n", start)
    value = text[start + len(name) : end if end >= 0 else None].strip()
    return int(value) if value.isdigit() else None


def _read(path: Path | str) -> str | None:
    try:
        # Called for every cell and at many samples: a Path and a decoding stream cost more than the read.
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - see above
            return file.read().decode("ascii", "replace")
    except OSError:
        return None


def _write(path: Path, text: str) -> bool:
    try:
        # Not write_text: a file of the cgroup interface expects a single write.
        descriptor = os.open(path, os.O_WRONLY)
    except OSError:
        return False
    try:
        os.write(descriptor, text.encode())
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
