"""End every process of a run, wherever it went."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import psutil

from pytest_lecturecheck.kernel.process.launch import Kernel

FindMarked = Callable[[str], Iterable[int]]
"""Give the ids of all processes whose environment holds the run's token."""

_IS_WINDOWS: Final[bool] = os.name == "nt"
_KILL_ROUNDS: Final = 50
_KILL_SECONDS: Final = 10.0
"""A killed process has to be given a core before it is gone."""
_ROUND_SECONDS: Final = 0.02
_GRACE_ROUNDS: Final = 15
_BUSY_GRACE_SECONDS: Final = 5.0
"""How long a helper that is not asleep may take: it is about to end, and a busy machine lets it wait."""
_REAP_SECONDS: Final = 5.0
_SWEEP_SECONDS: Final = 0.2
_GONE: Final = frozenset({psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD})
_MOST_NAMED: Final = 100
"""So many processes are asked for their names before they are killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A process of the lecture that was still there when its kernel had ended: id, name and resident bytes."""

    pid: int
    name: str
    rss_bytes: int


async def kill_tree(kernel: Kernel, find_marked: FindMarked) -> tuple[Leftover, ...]:
    """
    Kill the kernel and every process that came from it.

    Found by parentage and, for those that left the tree, by the token in their environment and by the run's memory
    group, where it has one. Repeated until a round
    finds none, because a process may fork while it is looked for.

    Args:
        kernel: the kernel; it may have ended.
        find_marked: finds processes by the run's token.

    Returns:
        The processes other than the kernel that had to be killed.
    """
    leftovers: dict[int, Leftover] = {}
    kernel_pid = kernel.pid
    suspects: set[int] = set()
    await _let_helpers_end(kernel, find_marked)
    if not kernel.provisioner.ended.done():
        # A keeper ends its kernel in order; killed itself, it would leave that behind.
        await kernel.provisioner.launch.stop()
    clock = asyncio.get_running_loop().time
    round_count, deadline = 0, clock() + _KILL_SECONDS
    # Rounds count as well: where this process was held up itself, time alone would leave none.
    while round_count < _KILL_ROUNDS or clock() < deadline:
        marked = set(find_marked(kernel.token))
        found = _living(kernel, marked, suspects)
        # Of a chain that forks on, what was marked a moment ago may be gone by now, and its child goes on.
        if not found and not marked:
            break
        round_count += 1
        for process in found:
            if process.pid != kernel_pid and process.pid not in leftovers:
                is_named = len(leftovers) < _MOST_NAMED
                leftovers[process.pid] = (
                    _describe(process) if is_named else Leftover(pid=process.pid, name="?", rss_bytes=0)
                )
            suspects.add(process.pid)
            with suppress(psutil.Error):
                process.kill()
        _sweep(kernel, find_marked)
        await asyncio.sleep(_ROUND_SECONDS)
    await wait_exit(kernel, _REAP_SECONDS)
    return tuple(leftovers.values())


async def _let_helpers_end(kernel: Kernel, find_marked: FindMarked) -> None:
    """Give helper processes that end by themselves with the kernel (multiprocessing's resource tracker) the time to."""
    if not kernel.provisioner.ended.done():
        return
    clock = asyncio.get_running_loop().time
    round_count, deadline = 0, clock() + _BUSY_GRACE_SECONDS
    while living := _living(kernel, set(find_marked(kernel.token)), set()):
        if round_count >= _GRACE_ROUNDS and (clock() >= deadline or all(map(_is_asleep, living))):
            return
        round_count += 1
        await asyncio.sleep(_ROUND_SECONDS)


def _is_asleep(process: psutil.Process) -> bool:
    try:
        return bool(process.status() in {psutil.STATUS_SLEEPING, psutil.STATUS_IDLE})
    except psutil.Error:
        return True


def _living(kernel: Kernel, marked: set[int], suspects: set[int]) -> list[psutil.Process]:
    pids = marked | _descendants(suspects)
    if kernel.group is not None:
        pids |= set(kernel.group.pids())
    if not kernel.provisioner.ended.done():
        pids |= {kernel.pid} | _descendants({kernel.pid})
    living = []
    for pid in pids:
        with suppress(psutil.Error):
            process = psutil.Process(pid)
            if process.status() not in _GONE:
                living.append(process)
    return living


def _descendants(pids: Iterable[int]) -> set[int]:
    found = set()
    for pid in pids:
        with suppress(psutil.Error):
            process = psutil.Process(pid)
            # The dead have no children any more, and to look for those goes through all processes of the machine.
            if process.status() not in _GONE:
                found |= {child.pid for child in process.children(recursive=True)}
    return found


def _sweep(kernel: Kernel, find_marked: FindMarked) -> None:
    """
    Kill without looking twice, the newest first, until nothing is left or the time is over.

    A chain of processes of which each forks at once is always ahead of a round that asks psutil about every link. Who
    has been sent SIGKILL forks no more (fork(2) gives way to it), so it takes one look that is as quick as a fork.
    """
    if _IS_WINDOWS:
        return
    number = getattr(signal, "SIGKILL", signal.SIGTERM)
    deadline = time.monotonic() + _SWEEP_SECONDS
    while pids := _branded(kernel, find_marked):
        for pid in sorted(pids, reverse=True):
            with suppress(OSError):
                os.kill(pid, number)
        if time.monotonic() > deadline:
            return


def _branded(kernel: Kernel, find_marked: FindMarked) -> set[int]:
    """Give the living that carry the run's token or are in its group; the dead have neither."""
    if kernel.group is None:
        return set(find_marked(kernel.token))
    return set(kernel.group.pids()) or set(find_marked(kernel.token))


def _describe(process: psutil.Process) -> Leftover:
    name, rss_bytes = "?", 0
    with suppress(psutil.Error):
        name, rss_bytes = process.name(), process.memory_info().rss
    return Leftover(pid=process.pid, name=name, rss_bytes=rss_bytes)


def kill_now(kernel: Kernel) -> None:
    """Kill the kernel and its present descendants at once, without waiting; :func:`kill_tree` does the rest."""
    if not kernel.place.is_here:
        with suppress(psutil.Error):
            psutil.Process(kernel.pid).terminate()
        return
    pids = {kernel.pid, *_descendants({kernel.pid})}
    if kernel.group is not None:
        pids |= set(kernel.group.pids())
    for pid in pids:
        with suppress(psutil.Error):
            psutil.Process(pid).kill()


async def interrupt(kernel: Kernel) -> None:
    """Ask the kernel to stop its cell, in the way its kernelspec and its launcher have."""
    if _IS_WINDOWS or kernel.manager.kernel_spec.interrupt_mode == "message":
        await kernel.manager.interrupt_kernel()
        return
    if await kernel.provisioner.launch.interrupt():
        return
    with suppress(OSError):
        await kernel.provisioner.send_signal(signal.SIGINT)


async def wait_exit(kernel: Kernel, seconds: float) -> bool:
    """Wait until the kernel's process has ended; tell whether it did within ``seconds``."""
    await asyncio.wait({kernel.provisioner.ended}, timeout=seconds)
    return kernel.provisioner.ended.done()
