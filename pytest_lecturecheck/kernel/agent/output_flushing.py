"""
Spare the kernel the second of two flushes of an output stream where it has nothing to send.

ipykernel flushes both streams at the end of a request, and again right after its reply. Each time the main thread wakes
the output thread and waits for it. The second time is mostly in vain, and an eighth of what the kernel computes for a
short request. The first flush stays: it gives what arrives through other threads the time to become output of its cell
(of forked children, and of programs that write to the kernel's own descriptors).
"""

from __future__ import annotations

import os
import time
from typing import Any

_NEEDED = ("_buffers", "_flush", "flush", "echo")
_AGAIN_SECONDS = 0.005
"""A flush this soon after another one is in vain if nothing was written meanwhile."""


def spare_idle_flushes(*streams: Any) -> None:
    """
    Make a flush right after another one return at once where no output waits or is being sent, and no child was forked.

    Args:
        streams: ipykernel's output streams; others, and those of versions with other attributes, are left alone.
    """
    forks: set[str] = set()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_parent=lambda: forks.add("forked"))
    for stream in streams:
        if type(stream).__module__.startswith("ipykernel.") and all(hasattr(stream, name) for name in _NEEDED):
            _spare(stream, forks)


def _spare(stream: Any, forks: set[str]) -> None:
    flush, send = stream.flush, stream._flush  # noqa: SLF001 - what the output thread calls
    sending: list[None] = []

    flushed_at = float("-inf")

    def flush_what_waits() -> None:
        nonlocal flushed_at
        # What a forked child prints comes through the output thread, too: waiting for it brings that before the
        # end of the cell. The buffers first: they are empty before their content is on its way.
        is_idle = not forks and not stream._buffers and not sending and stream.echo is None  # noqa: SLF001
        if is_idle and time.monotonic() - flushed_at < _AGAIN_SECONDS:
            return
        flush()
        flushed_at = time.monotonic()

    def send_buffers() -> None:
        sending.append(None)
        try:
            send()
        finally:
            sending.pop()

    stream.flush, stream._flush = flush_what_waits, send_buffers  # noqa: SLF001
