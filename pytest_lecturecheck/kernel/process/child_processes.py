"""Describe the processes that a kernel has started, for a cell that may wait for one of them."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import Final

import psutil

_MOST: Final = 3
_COMMAND_CHARS: Final = 200
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
