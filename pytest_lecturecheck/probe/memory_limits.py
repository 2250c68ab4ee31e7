"""
Find the memory and CPU limits that apply to this process on Linux: control groups, ulimit, Slurm.

Every function reads below a root folder that can be set, so that tests can use recorded trees.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.units import KIB, MIB

_ULIMITS: Final = {"Max address space": "ulimit -v (RLIMIT_AS)", "Max data size": "ulimit -d (RLIMIT_DATA)"}
_ULIMIT_LINE: Final = re.compile(r"(Max [a-z ]+?)\s{2,}(\S+)\s+(\S+)(?:\s+\S+)?\s*")
_SLURM_SIZE: Final = re.compile(r"([0-9]+)([KMGT]?)")
_SLURM_UNITS: Final = {"K": KIB, "": MIB, "M": MIB, "G": 1024 * MIB, "T": 1024**2 * MIB}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLimit:
    """
    One limit on memory.

    Attributes:
        limit_bytes: the limit.
        source: description of what sets it.
        used_bytes: memory in use that cannot be reclaimed, or ``None`` where that is not known.
    """

    limit_bytes: int
    source: str
    used_bytes: int | None = None


def smallest_memory_limit(root: Path, environ: Mapping[str, str], ram_bytes: int) -> MemoryLimit | None:
    """
    Find the smallest limit that applies to this process.

    Args:
        root: the folder that holds ``proc`` and ``sys``.
        environ: environment variables; only Slurm's are read.
        ram_bytes: physical memory; larger limits are ignored (cgroup v1 writes a huge number for "none").
    """
    limits = [*cgroup_memory_limits(root), *_ulimits(root), *_slurm_limits(environ)]
    return min(
        (item for item in limits if item.limit_bytes < ram_bytes), key=lambda item: item.limit_bytes, default=None
    )


def cgroup_memory_limits(root: Path) -> Iterator[MemoryLimit]:
    """Find the memory limits of this process's control groups and all their ancestors, in v1, v2 and hybrid trees."""
    for folder in group_folders(root, controller="memory"):
        limit = read_number(folder / "memory.max")
        if limit is not None:
            used = _unreclaimable(folder, "memory.current", "inactive_file")
            yield MemoryLimit(limit_bytes=limit, source="container (cgroup v2 memory.max)", used_bytes=used)
        limit = read_number(folder / "memory.limit_in_bytes")
        if limit is not None:
            used = _unreclaimable(folder, "memory.usage_in_bytes", "total_inactive_file")
            yield MemoryLimit(limit_bytes=limit, source="container (cgroup v1 memory.limit_in_bytes)", used_bytes=used)


def cpu_quota_cores(root: Path) -> float | None:
    """Find the smallest CPU quota of this process's control groups and their ancestors, in cores."""
    quotas = [quota for folder in group_folders(root, controller="cpu") for quota in _cpu_quotas(folder)]
    return min(quotas, default=None)


def _cpu_quotas(folder: Path) -> Iterator[float]:
    fields = (read_text(folder / "cpu.max") or "").split()
    if len(fields) == 2 and fields[0].isdigit() and fields[1].isdigit() and int(fields[1]):  # noqa: PLR2004 - quota, period
        yield int(fields[0]) / int(fields[1])
    quota = read_number(folder / "cpu.cfs_quota_us")
    period = read_number(folder / "cpu.cfs_period_us")
    if quota and period:
        yield quota / period


def read_group_peak(root: Path, pid: int, *, has_swap: bool) -> int | None:
    """
    Read the most that a process's own memory group ever held, swap included.

    cgroup v2 ``memory.peak`` (Linux 5.19) and ``memory.swap.peak`` (6.5), v1 ``memory.memsw.max_usage_in_bytes``. All
    count page cache as well, so the value is an upper bound.

    Args:
        root: the folder that holds ``proc`` and ``sys``.
        pid: the process.
        has_swap: whether the machine has swap space; without it, counters of memory alone are enough.

    Returns:
        ``None`` if the process is in the same group as this one, or the group has no such counters.
    """
    mounts = root / "sys" / "fs" / "cgroup"
    own, other = (read_text(root / "proc" / name / "cgroup") or "" for name in ("self", str(pid)))
    for line in other.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if line in own.splitlines() or ".." in PurePosixPath(path).parts:
            continue
        if "memory" in controllers.split(","):
            folder = mounts / controllers / path.lstrip("/")
            names = ["memory.memsw.max_usage_in_bytes" if has_swap else "memory.max_usage_in_bytes"]
        elif not controllers:
            folder = mounts / path.lstrip("/")
            names = ["memory.peak", "memory.swap.peak"] if has_swap else ["memory.peak"]
        else:
            continue
        peaks = [read_number(folder / name) for name in names]
        known = [peak for peak in peaks if peak is not None]
        if len(known) == len(peaks):
            # The two peaks of version 2 need not be of one moment: their sum is still an upper bound.
            return sum(known)
    return None


def group_folders(root: Path, *, controller: str) -> Iterator[Path]:
    """Yield the folders of this process's groups for ``controller``, from the innermost to the mount itself."""
    mounts = root / "sys" / "fs" / "cgroup"
    for line in (read_text(root / "proc" / "self" / "cgroup") or "").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            yield from _ancestors(mounts, path)
            yield from _ancestors(mounts / "unified", path)
        elif controller in controllers.split(","):
            yield from _ancestors(mounts / controllers, path)
            if controllers != controller:
                yield from _ancestors(mounts / controller, path)


def _ancestors(mount: Path, path: str) -> Iterator[Path]:
    # In a container the path may be the host's, or contain "..". Folders that do not exist here are skipped; the mount
    # itself is then the container's own group.
    parts = PurePosixPath(path).parts[1:]
    if ".." not in parts:
        for count in range(len(parts), 0, -1):
            yield mount.joinpath(*parts[:count])
    yield mount


def _unreclaimable(folder: Path, usage_name: str, cache_key: str) -> int | None:
    usage = read_number(folder / usage_name)
    if usage is None:
        return None
    lines = (read_text(folder / "memory.stat") or "").splitlines()
    cache = next((line.split()[1] for line in lines if line.startswith(f"{cache_key} ")), "0")
    return max(0, usage - int(cache)) if cache.isdigit() else usage


def smallest_ulimit(root: Path, pid: int) -> MemoryLimit | None:
    """
    Find the smallest ``ulimit`` on a process's memory, even if it exceeds the machine's memory.

    Args:
        root: the folder that holds ``proc``.
        pid: the process; if it has ended, this process's limits are used, which it had inherited.
    """
    process = str(pid) if read_text(root / "proc" / str(pid) / "limits") else "self"
    return min(_ulimits(root, process), key=lambda item: item.limit_bytes, default=None)


def _ulimits(root: Path, process: str = "self") -> Iterator[MemoryLimit]:
    for line in (read_text(root / "proc" / process / "limits") or "").splitlines():
        match = _ULIMIT_LINE.fullmatch(line)
        if match is not None and match[1] in _ULIMITS and match[2].isdigit():
            yield MemoryLimit(limit_bytes=int(match[2]), source=_ULIMITS[match[1]])


def _slurm_limits(environ: Mapping[str, str]) -> Iterator[MemoryLimit]:
    # Slurm's sizes without a unit are MiB, and 0 means all memory of the node.
    per_node = _slurm_size(environ.get("SLURM_MEM_PER_NODE", ""))
    if per_node:
        yield MemoryLimit(limit_bytes=per_node, source="Slurm (SLURM_MEM_PER_NODE)")
    per_cpu = _slurm_size(environ.get("SLURM_MEM_PER_CPU", ""))
    cpus = environ.get("SLURM_CPUS_ON_NODE", "")
    if per_cpu and re.fullmatch(r"[1-9][0-9]{0,5}", cpus):
        yield MemoryLimit(limit_bytes=per_cpu * int(cpus), source=f"Slurm (SLURM_MEM_PER_CPU x {cpus} CPUs)")


def _slurm_size(text: str) -> int | None:
    match = _SLURM_SIZE.fullmatch(text.strip())
    return int(match[1]) * _SLURM_UNITS[match[2]] if match is not None else None


def read_number(path: Path) -> int | None:
    """Return the integer in a file, or ``None``, also for "max" and a missing file."""
    text = (read_text(path) or "").strip()
    return int(text) if re.fullmatch(r"[0-9]+", text) else None


def read_text(path: Path) -> str | None:
    """Return a file's text, or ``None`` where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
