"""
The end of a kernel; compiled in it when its last cell has run.

Like :mod:`~pytest_lecturecheck.kernel.agent.core`, it imports only what a bare kernel has imported.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import sys
import threading


def leave(old_collections: list[int]) -> None:
    """
    Run the exit handlers and end the process without ipykernel's own shutdown, which sometimes hangs.

    Args:
        old_collections: collections of each generation but the youngest before the first cell.
    """
    # Since Python 3.14 a collection of the young generation moves what it likes.
    if sys.version_info < (3, 14):
        _shorten_collection(old_collections)
    # Pools of processes end their workers in these, which Python calls before the exit handlers. Threads need none.
    for end_pool in reversed(getattr(threading, "_threading_atexits", [])):
        if getattr(getattr(end_pool, "func", end_pool), "__module__", "") == "concurrent.futures.thread":
            continue
        with contextlib.suppress(Exception):
            end_pool()
    atexit._run_exitfuncs()  # noqa: SLF001 - only the exit handlers, not the rest of finalisation
    os._exit(0)


def _shorten_collection(old_collections: list[int]) -> None:
    """
    Have IPython's exit handler look for garbage among the lecture's objects only, where they can be told apart.

    It collects all generations, which takes longer than the cells of a short lecture. As long as no collection has
    moved objects to the oldest generation since the first cell, that one holds none of the lecture's.
    """
    original = gc.collect

    def collect(generation: int = 2) -> int:
        is_young = [stats["collections"] for stats in gc.get_stats()[1:]] == old_collections
        return original(min(generation, 1) if is_young else generation)

    gc.collect = collect
