"""
Spare the kernel what it does to flush output streams that hold nothing.

ipykernel flushes both streams twice at the end of each request. Each time the main thread wakes the output thread and
waits for it, mostly in vain. That is a fifth of what the kernel computes for a short request.
"""

from __future__ import annotations

import os
from typing import Any

_NEEDED = ("_buffers", "_flush", "flush", "echo")


def spare_idle_flushes(*streams: Any) -> None:
    """
    Make the flush of a stream return at once where no output waits, none is being sent, and no child was forked.

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

    def flush_what_waits() -> None:
        # What a forked child prints comes through the output thread, too: waiting for it brings that before the
        # end of the cell. The buffers first: they are empty before their content is on its way.
        if not forks and not stream._buffers and not sending and stream.echo is None:  # noqa: SLF001
            return
        flush()

    def send_buffers() -> None:
        sending.append(None)
        try:
            send()
        finally:
            sending.pop()

    stream.flush, stream._flush = flush_what_waits, send_buffers  # noqa: SLF001
