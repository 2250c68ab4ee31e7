"""End every process of a run, also those that left the process tree."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import psutil

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.kernel.launchers.fork_server import descendants
from pytest_lecturecheck.kernel.process.launch import Kernel, has_ended

FindMarked = Callable[[str], Iterable[int]]
"""Returns the ids of all processes whose environment holds the run's token."""

_IS_WINDOWS: Final[bool] = os.name == "nt"
_KILL_ROUNDS: Final = 50
_KILL_SECONDS: Final = 10.0
"""A killed process needs a core before it can exit, which takes time on a busy machine."""
_ROUND_SECONDS: Final = 0.02
GRACE_SECONDS: Final = 0.3
"""Time for helper processes of a Python kernel to end after it."""
_BUSY_GRACE_SECONDS: Final = 5.0
"""Time for a helper that is not asleep: it is probably exiting, but the machine is busy."""
_REAP_SECONDS: Final = 5.0
_SWEEP_SECONDS: Final = 0.2
_MOST_NAMED: Final = 100
"""Maximum number of processes that are described before they are killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """
    A process of the lecture that was still running after its kernel had ended.

    Attributes:
        pid: its number.
        name: of its program.
        rss_bytes: resident memory.
        other_user: the user that it has become (sudo), so that this session may not end it; ``None`` if it was killed.
    """

    pid: int
    name: str
    rss_bytes: int
    other_user: str | None = None


async def kill_tree(
    kernel: Kernel, find_marked: FindMarked, *, grace_seconds: float = GRACE_SECONDS
) -> tuple[Leftover, ...]:
    """
    Kill the kernel and every process that came from it.

    Below a supervisor all of them are its descendants, whatever they did, and it ends them. Otherwise they are found by
    parentage, by the token in their environment and by the run's memory group, if there is one. This is repeated until
    a round finds none, because processes may fork meanwhile.

    Args:
        kernel: the kernel; it may have ended.
        find_marked: finds processes by the run's token.
        grace_seconds: time for helper processes to end after a kernel that has ended.

    Returns:
        The processes other than the kernel that had to be killed, or would have to be.
    """
    if kernel.is_tree_empty:
        await kernel.provisioner.end_tree(_KILL_SECONDS)
        return ()
    leftovers: dict[int, Leftover] = {}
    kernel_pid = kernel.pid
    kernel.ask_for_end()
    killed: set[int] = set()
    refused: set[int] = set()
    find_marked = find_run_processes(kernel, find_marked)
    await _let_helpers_end(kernel, find_marked, grace_seconds)
    if not kernel.provisioner.ended.done():
        # A keeper ends its kernel in an orderly way; if it were killed, its kernel would be left behind.
        await kernel.provisioner.launch.stop()
    clock = asyncio.get_running_loop().time
    round_count, deadline = 0, clock() + _KILL_SECONDS
    # Rounds count as well as time: this process may itself have been suspended for the whole time.
    while round_count < _KILL_ROUNDS or clock() < deadline:
        marked = set(find_marked(kernel.token)) - refused
        found = [process for process in _living(kernel, marked, killed) if process.pid not in refused]
        # In a chain of forks a process that was marked a moment ago may be gone while its child continues.
        if not found and not marked:
            break
        round_count += 1
        for process in found:
            if process.pid != kernel_pid and process.pid not in leftovers:
                is_named = len(leftovers) < _MOST_NAMED
                leftovers[process.pid] = (
                    _describe(process) if is_named else Leftover(pid=process.pid, name="?", rss_bytes=0)
                )
            killed.add(process.pid)
            try:
                process.kill()
            except psutil.AccessDenied:
                refused.add(process.pid)
                leftovers[process.pid] = replace(_describe(process), other_user=_user(process))
            except psutil.Error:
                pass
        _sweep(kernel, find_marked, refused)
        await asyncio.sleep(_ROUND_SECONDS)
    # Last, because the supervisor sees what a chain of forks has made since this process looked.
    await kernel.provisioner.end_tree(_KILL_SECONDS)
    await wait_exit(kernel, _REAP_SECONDS)
    return tuple(leftovers.values())


def find_run_processes(kernel: Kernel, find_marked: FindMarked) -> FindMarked:
    """Return what finds the run's processes: below a supervisor its descendants, otherwise the marked processes."""

    def find(token: str) -> Iterable[int]:
        supervisor_pid = kernel.supervisor_pid
        if supervisor_pid is not None:
            return descendants(supervisor_pid)
        # A lecture can write its mark into the environment of any process of its user, this one included.
        marked = (pid for pid in find_marked(token) if not kernel.is_older(pid))
        return {*marked, *kernel.provisioner.strays}

    return find


async def _let_helpers_end(kernel: Kernel, find_marked: FindMarked, grace_seconds: float) -> None:
    """Wait for helpers that end by themselves after the kernel, such as multiprocessing's resource tracker."""
    if not kernel.provisioner.ended.done():
        return
    clock = asyncio.get_running_loop().time
    round_count, deadline = 0, clock() + _BUSY_GRACE_SECONDS
    while living := _living(kernel, set(find_marked(kernel.token)), set()):
        if round_count * _ROUND_SECONDS >= grace_seconds and (clock() >= deadline or all(map(_is_asleep, living))):
            return
        round_count += 1
        await asyncio.sleep(_ROUND_SECONDS)


def _is_asleep(process: psutil.Process) -> bool:
    try:
        return bool(process.status() in {psutil.STATUS_SLEEPING, psutil.STATUS_IDLE})
    except psutil.Error:
        return True


def _living(kernel: Kernel, marked: set[int], killed: set[int]) -> list[psutil.Process]:
    pids = set(marked)
    if kernel.supervisor_pid is None:
        pids |= _group_pids(kernel) | _descendants(killed)
        if not kernel.provisioner.ended.done():
            pids |= {kernel.pid} | _descendants({kernel.pid})
    living = []
    for pid in pids:
        with suppress(psutil.Error):
            process = psutil.Process(pid)
            if not has_ended(process):
                living.append(process)
    return living


def _group_pids(kernel: Kernel) -> set[int]:
    """
    Return the processes in the run's memory group that the lecture can have started.

    With privileges a lecture can write any process into the group, and whatever is in it would be killed at the end. So
    this process, its ancestors and processes that are older than the kernel are left out.
    """
    if kernel.group is None:
        return set()
    return {pid for pid in kernel.group.pids() if not kernel.is_older(pid)}


def _descendants(pids: Iterable[int]) -> set[int]:
    found = set()
    for pid in pids:
        with suppress(psutil.Error):
            process = psutil.Process(pid)
            # A dead process has no children, and searching for them reads all processes of the machine.
            if not has_ended(process):
                found |= {child.pid for child in process.children(recursive=True)}
    return found


def _sweep(kernel: Kernel, find_marked: FindMarked, refused: AbstractSet[int]) -> None:
    """
    Kill all processes of the run as fast as possible, the newest first, until none is left or the time is over.

    A chain of processes that each fork at once always outruns a round that queries psutil about every process. A
    process with a pending SIGKILL cannot fork any more (fork(2) fails), so one scan as fast as a fork is enough.
    """
    if _IS_WINDOWS:
        return
    number = getattr(signal, "SIGKILL", signal.SIGTERM)
    deadline = time.monotonic() + _SWEEP_SECONDS
    while pids := _run_pids(kernel, find_marked) - refused:
        for pid in sorted(pids, reverse=True):
            with suppress(OSError):
                os.kill(pid, number)
        if time.monotonic() > deadline:
            return


def _run_pids(kernel: Kernel, find_marked: FindMarked) -> set[int]:
    """Return the ids of living processes that carry the run's token or are in its group."""
    own = set() if kernel.supervisor_pid is not None else _group_pids(kernel)
    return own or set(find_marked(kernel.token))


def _describe(process: psutil.Process) -> Leftover:
    name, rss_bytes = "?", 0
    with suppress(psutil.Error):
        name, rss_bytes = process.name(), process.memory_info().rss
    return Leftover(pid=process.pid, name=name, rss_bytes=rss_bytes)


def _user(process: psutil.Process) -> str:
    """Return whose process it is; names of users are in no record."""
    # Windows has no such ids.
    uids: Any = getattr(process, "uids", None)
    with suppress(psutil.Error):
        return "root" if uids is not None and uids().real == 0 else "another user"
    return "another user"


def kill_kernel(kernel: Kernel) -> None:
    """Kill the process of a kernel and leave its descendants alone."""
    with suppress(psutil.Error):
        psutil.Process(kernel.pid).kill()


def kill_now(kernel: Kernel) -> None:
    """Kill the kernel and its current descendants without waiting; :func:`kill_tree` does the rest."""
    if not kernel.location.is_here:
        with suppress(psutil.Error):
            psutil.Process(kernel.pid).terminate()
        return
    supervisor_pid = kernel.supervisor_pid
    if supervisor_pid is None:
        pids = {kernel.pid, *_descendants({kernel.pid})} | _group_pids(kernel)
    else:
        pids = descendants(supervisor_pid)
    for pid in pids:
        with suppress(psutil.Error):
            psutil.Process(pid).kill()


async def interrupt(kernel: Kernel) -> None:
    """Interrupt the running cell, in the way that the kernelspec and the launcher require."""
    if _IS_WINDOWS or kernel.manager.kernel_spec.interrupt_mode == "message":
        await kernel.manager.interrupt_kernel()
        return
    if await kernel.provisioner.launch.interrupt():
        return
    with suppress(OSError):
        await kernel.provisioner.send_signal(signal.SIGINT)


async def wait_exit(kernel: Kernel, seconds: float) -> bool:
    """Wait for the end of the kernel's process; return True if it ended within ``seconds``."""
    await asyncio.wait({kernel.provisioner.ended}, timeout=seconds)
    return kernel.provisioner.ended.done()
