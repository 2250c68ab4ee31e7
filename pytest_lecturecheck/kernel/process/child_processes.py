"""Describe the processes that a kernel has started, for a cell that may wait for one of them."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import suppress
from typing import Final

import psutil

_MOST: Final = 3
_LOOK_SECONDS: Final = 0.02
_RUNNING_FRACTION: Final = 0.2
"""A thread that computes in Python beside others waits for the interpreter's lock part of the time."""
_COMMAND_CHARS: Final = 200
_HAS_STATES: Final = sys.platform != "win32"
_CLOCK_SECONDS: Final = 0.02 if sys.platform == "linux" else 0.1
"""Start times of processes are as exact as the system's clock ticks."""


def process_clock() -> float:
    """
    Return the present moment on the clock of processes' start times.

    On Linux these count from the boot, of which psutil adds the time in whole seconds ("btime" in proc(5)).
    """
    if sys.platform == "linux":
        return float(psutil.boot_time()) + time.clock_gettime(time.CLOCK_BOOTTIME)
    else:  # noqa: RET505 - type checkers treat code after it as unreachable
        return time.time()


async def wants_cpu(kernel_pid: int) -> bool | None:
    """
    Return True if a kernel's main thread or one of its child processes runs, or waits for a core; takes 0.2 s.

    Of a process with several threads the system reports the state of the first one, which in a kernel runs the cells.

    Returns:
        ``None`` where the state of a process cannot be read or says nothing (Windows).
    """
    if not _HAS_STATES:
        return None
    running, looks = 0, 10
    for _ in range(looks):
        try:
            process = psutil.Process(kernel_pid)
            found = [process, *process.children(recursive=True)]
        except psutil.Error:
            return None
        running += any(_is_running(one) for one in found)
        await asyncio.sleep(_LOOK_SECONDS)
    return running >= _RUNNING_FRACTION * looks


def _is_running(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return process.status() in {psutil.STATUS_RUNNING, psutil.STATUS_DISK_SLEEP}
    return False


def describe_children(kernel_pid: int, since: float) -> tuple[str, ...]:
    """
    Return the command lines of living descendants that a kernel started, the newest first.

    Args:
        kernel_pid: process id of the kernel.
        since: start of the cell (:func:`process_clock`); older processes are left out.
    """
    found: list[tuple[float, str]] = []
    with suppress(psutil.Error):
        for process in psutil.Process(kernel_pid).children(recursive=True):
            with suppress(psutil.Error):
                started = process.create_time()
                if started < since - _CLOCK_SECONDS or process.status() == psutil.STATUS_ZOMBIE:
                    continue
                words = process.cmdline() or [process.name()]
                found.append((started, f"pid {process.pid}: {_printable(' '.join(words))}"))
    return tuple(text for _, text in sorted(found, reverse=True)[:_MOST])


def _printable(text: str) -> str:
    shown = " ".join("".join(char if char.isprintable() else " " for char in text[: 2 * _COMMAND_CHARS]).split())
    return shown if len(shown) <= _COMMAND_CHARS else f"{shown[:_COMMAND_CHARS]}..."
