"""
Read what Linux reports about kills by the OOM killer, and the load of the machine.

- cgroup v2: ``memory.events`` with ``oom_kill`` (processes of the group and the groups below it that any OOM killer
  killed) and ``oom`` (allocations that failed at a limit); ``memory.events.local`` for the group alone (Linux 5.2).
- cgroup v1: ``memory.oom_control`` with ``oom_kill`` (the group's own processes, Linux 4.13), and ``memory.failcnt``.
- ``/proc/vmstat``: ``oom_kill`` counts the kills of every group.

Counters only grow, so only an increase during the run is evidence. Every function reads below a root folder that can be
set.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.evidence import OomKill, OomScope
from pytest_lecturecheck.probe.memory_limits import group_folders, read_number, read_text

_ROOT: Final = Path("/")
_GROUPS: Final = Path("sys/fs/cgroup")
# cgroup v1 writes the largest multiple of a page in a 64-bit integer for "no limit".
_V1_NO_LIMIT: Final = 2**62
_SLURM: Final = re.compile(r"slurm.*|job_[0-9]+|step_.+")
_LOG_BYTES: Final = 8 * 2**20
_LOG_RECORD_BYTES: Final = 16_384
_LOG_LINES: Final = 10
_LOG_LINE_CHARS: Final = 4000
_LOG_RECORD: Final = re.compile(r"(?P<priority>[0-9]+),[0-9]+,(?P<microseconds>[0-9]+),[^;]*;(?P<text>.*)")
_LOG_CLOCK_SECONDS: Final = 300.0
_LOG_KILL: Final = re.compile(
    r"(?:Out of memory(?: \([a-z_]+\))?: |Memory cgroup out of memory: )?Killed process (?P<pid>[0-9]+)[ ,].*"
    r"|oom-kill:.*,pid=(?P<task>[0-9]+),uid=[0-9]+"
)
_FULL_BYTES: Final = 1024**2
"""A group this close to its limit is full, because Linux charges pages in batches."""
_KERNEL_PRIORITIES: Final = range(8)
_FIRST_PID_NAMESPACE: Final = "pid:[4026531836]"


@dataclass(frozen=True, slots=True, kw_only=True)
class OomCounter:
    """
    The counters of one group, or of the machine, at one moment.

    Attributes:
        where: the file that was read ("cgroup v2 /box/job7 memory.events").
        scope: whose limit the group's is.
        kill_count: processes killed.
        own_kill_count: processes killed in the group alone, without the groups below it, or ``None``: not reported.
        limit_hit_count: allocations that failed at the group's limit, or ``None``: not reported.
        limit_bytes: that limit, or ``None`` for none.
        peak_bytes: the most that the group ever held, or ``None``: not reported.
    """

    where: str
    scope: OomScope
    kill_count: int
    own_kill_count: int | None = None
    limit_hit_count: int | None = None
    limit_bytes: int | None = None
    peak_bytes: int | None = None


def read_oom_counters(root: Path = _ROOT, *, cap_folder: Path | None = None) -> tuple[OomCounter, ...]:
    """
    Read every counter that a kill of one of the run's processes raises, from the innermost group to the machine.

    Args:
        root: the folder that holds ``proc`` and ``sys``.
        cap_folder: the group created for this run; ``None`` where its processes stay in the session's own group.
    """
    counters: dict[str, OomCounter] = {}
    folders = group_folders(root, controller="memory") if cap_folder is None else _upwards(root, cap_folder)
    for folder in folders:
        scope = OomScope.CAP if folder == cap_folder else None
        counter = read_group_counter(folder, name=_group_name(root, folder), scope=scope)
        if counter is not None:
            counters.setdefault(counter.where, counter)
    kill_count = _counts(root / "proc" / "vmstat").get("oom_kill")
    if kill_count is not None:
        machine = OomCounter(where="/proc/vmstat", scope=OomScope.MACHINE, kill_count=kill_count)
        counters[machine.where] = machine
    return tuple(counters.values())


def read_group_counter(folder: Path, *, name: str = "", scope: OomScope | None = None) -> OomCounter | None:
    """
    Read the counters of one group, v2 or v1.

    Args:
        folder: the group's folder.
        name: the group's path for people; it also matches the counters of two moments.
        scope: whose limit the group's is; ``None`` derives it from the name.

    Returns:
        ``None`` where the folder has no count of kills.
    """
    scope = scope or _scope(name)
    events = _counts(folder / "memory.events")
    if "oom_kill" in events:
        own = _counts(folder / "memory.events.local")
        return OomCounter(
            where=" ".join(filter(None, ("cgroup v2", name, "memory.events"))),
            scope=scope,
            kill_count=events["oom_kill"],
            own_kill_count=own.get("oom_kill"),
            limit_hit_count=own.get("oom", events.get("oom")),
            limit_bytes=read_number(folder / "memory.max"),
            peak_bytes=read_number(folder / "memory.peak"),
        )
    control = _counts(folder / "memory.oom_control")
    if "oom_kill" in control:
        limit = read_number(folder / "memory.limit_in_bytes")
        # The limit on the sum of memory and swap has its own counter.
        hits = [read_number(folder / file) for file in ("memory.failcnt", "memory.memsw.failcnt")]
        return OomCounter(
            where=" ".join(filter(None, ("cgroup v1", name, "memory.oom_control"))),
            scope=scope,
            kill_count=control["oom_kill"],
            limit_hit_count=None if hits[0] is None else sum(count or 0 for count in hits),
            limit_bytes=limit if limit is not None and limit < _V1_NO_LIMIT else None,
            peak_bytes=read_number(folder / "memory.max_usage_in_bytes"),
        )
    return None


def compare_oom_counters(before: Sequence[OomCounter], after: Sequence[OomCounter]) -> tuple[OomKill, ...]:
    """
    Return the kill that the counters show, and whose limit caused it; pure.

    The run's processes are in the innermost group, which counts the kills of every OOM killer, the machine's included.
    If its counter did not change, a counter further out rose because of somebody else's process. The limit is that of
    the innermost group at which an allocation failed meanwhile.

    Args:
        before: result of :func:`read_oom_counters` at the start, in its order.
        after: the same at the end.

    Returns:
        At most one kill; empty where nothing rose.
    """
    groups = [item for item in before if item.scope is not OomScope.MACHINE]
    later = {item.where: item for item in after}
    pairs = [(item, later[item.where]) for item in groups if item.where in later]
    is_gone = bool(groups) and groups[0].where not in later
    if pairs and (kill := _group_kill(pairs, groups[0] if is_gone else None)) is not None:
        return (kill,)
    if pairs and not is_gone:
        return ()
    return tuple(
        OomKill(
            scope=OomScope.MACHINE,
            before=item.kill_count,
            after=later[item.where].kill_count,
            where=f"{item.where} oom_kill",
        )
        for item in before
        if item.scope is OomScope.MACHINE and item.where in later and item.kill_count < later[item.where].kill_count
    )


def _group_kill(pairs: Sequence[tuple[OomCounter, OomCounter]], gone: OomCounter | None) -> OomKill | None:
    """Compare the groups in order; ``gone`` is the innermost one if it no longer exists."""
    start, end = pairs[0]
    file, first, last = start.where, start.kill_count, end.kill_count
    if gone is None and start.own_kill_count is not None and end.own_kill_count is not None:
        file, first, last = f"{file}.local", start.own_kill_count, end.own_kill_count
    if last <= first:
        return None
    limiting = next((late for early, late in pairs if _was_hit(early, late)), gone)
    if limiting is None and end.limit_hit_count is None and end.limit_bytes is not None:
        limiting = end
    where = f"{file} oom_kill"
    if limiting is None:
        return OomKill(scope=OomScope.OUTER, before=first, after=last, where=where)
    if limiting.where != start.where:
        where = f"{where}; the limit is that of {limiting.where.rpartition(' ')[0]}"
    return OomKill(scope=limiting.scope, before=first, after=last, limit_bytes=limiting.limit_bytes, where=where)


def _was_hit(early: OomCounter, late: OomCounter) -> bool:
    if late.limit_bytes is None:
        return False
    counts = (early.limit_hit_count, late.limit_hit_count)
    if counts[0] is not None and counts[1] is not None and counts[1] > counts[0]:
        return True
    # Recent kernels no longer count failures in groups of cgroup v1. There, a group that reached its limit for the
    # first time is the same evidence.
    return _is_full(late) and not _is_full(early)


def _is_full(counter: OomCounter) -> bool:
    if counter.peak_bytes is None or counter.limit_bytes is None:
        return False
    return counter.peak_bytes >= counter.limit_bytes - _FULL_BYTES


def read_kernel_log(pids: Iterable[int], root: Path = _ROOT, *, since_seconds: float | None = None) -> tuple[str, ...]:
    """
    Read the lines of the kernel log about OOM kills of these processes.

    The source is ``/dev/kmsg`` of Linux, which often requires root; lines written by user space are ignored. The log
    has process ids of the initial PID namespace, so in any other namespace nothing is read.

    Args:
        pids: the processes.
        root: the folder that holds ``dev`` and ``proc``; ``dev/kmsg`` may be a recorded text.
        since_seconds: ``time.monotonic()`` at the start of the run; older lines are about other processes with the same
            id. The clock of the log drifts, so some minutes are tolerated.

    Returns:
        The last lines, oldest first; empty if there are none or the log cannot be read.
    """
    namespace = ""
    with suppress(OSError):
        namespace = str((root / "proc" / "self" / "ns" / "pid").readlink())
    wanted = frozenset(pids)
    if not wanted or namespace not in {"", _FIRST_PID_NAMESPACE}:
        return ()
    oldest = 0.0 if since_seconds is None else (since_seconds - _LOG_CLOCK_SECONDS) * 1e6
    found = []
    for line in _log_text(root / "dev" / "kmsg").splitlines():
        record = _LOG_RECORD.fullmatch(line[:_LOG_LINE_CHARS])
        if record is None or int(record["priority"]) not in _KERNEL_PRIORITIES or int(record["microseconds"]) < oldest:
            continue
        kill = _LOG_KILL.fullmatch(record["text"])
        if kill is not None and int(kill["pid"] or kill["task"]) in wanted:
            found.append(record["text"])
    return tuple(found[-_LOG_LINES:])


def read_load_average(root: Path = _ROOT, *, core_count: int | None = None) -> float | None:
    """
    Return the average number of runnable processes over the last minute.

    Args:
        root: the folder that holds ``proc``.
        core_count: cores that a run can use. If the machine has more, its load says nothing about them: ``None``.
    """
    match = re.match(r"[0-9]+\.[0-9]+(?= )", read_text(root / "proc" / "loadavg") or "")
    if match is None:
        return _system_load() if root == _ROOT else None
    online = len(re.findall(r"^cpu[0-9]+ ", read_text(root / "proc" / "stat") or "", flags=re.MULTILINE))
    return None if core_count is not None and online > core_count else float(match[0])


def _system_load() -> float | None:
    if sys.platform == "linux" or sys.platform == "win32":
        return None
    else:  # noqa: RET505 - type checkers treat code after it as unreachable
        return os.getloadavg()[0]


def _log_text(path: Path) -> str:
    """Read the log to its end. Each read returns one record; without O_NONBLOCK the last read would wait for ever."""
    try:
        source = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        return ""
    try:
        return b"".join(_log_chunks(source)).decode(errors="replace")
    finally:
        os.close(source)


def _log_chunks(source: int) -> Iterator[bytes]:
    size = 0
    while size < _LOG_BYTES:
        try:
            data = os.read(source, _LOG_RECORD_BYTES)
        except BrokenPipeError:
            # EPIPE: records were overwritten before they were read. The next read returns the oldest one left.
            size += 1
            continue
        except OSError:
            return
        if not data:
            return
        size += len(data)
        yield data


def _upwards(root: Path, folder: Path) -> Iterator[Path]:
    yield folder
    mounts = root / _GROUPS
    yield from (parent for parent in folder.parents if parent.is_relative_to(mounts))


def _group_name(root: Path, folder: Path) -> str:
    """Return a group's name as in ``/proc/self/cgroup``; the mount of a hierarchy is ``/``."""
    try:
        parts = folder.relative_to(root / _GROUPS).parts
    except ValueError:
        return folder.name
    is_v1 = (folder / "memory.oom_control").exists()
    return "/" + "/".join(parts[1:] if is_v1 or parts[:1] == ("unified",) else parts)


def _scope(name: str) -> OomScope:
    return OomScope.SCHEDULER if any(map(_SLURM.fullmatch, name.split("/"))) else OomScope.CONTAINER


def _counts(path: Path) -> dict[str, int]:
    """Read lines of a name and an integer."""
    rows = (line.split() for line in (read_text(path) or "").splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and re.fullmatch(r"[0-9]+", row[1])}  # noqa: PLR2004 - name and number
