"""
Start and stop a trace of ``jax.profiler`` inside the kernel, in silent requests around one cell.

Standard library only; JAX is looked up in ``sys.modules`` and never imported. The result is written to a small file: a
silent request has no output, and an exception would overwrite the lecture's ``sys.last_value``.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import Any


def begin(answer: str, folder: str, sets_up: bool) -> None:  # noqa: FBT001 - called by text
    """
    Start a trace in ``folder``.

    Args:
        answer: file for the result.
        folder: folder for the trace.
        sets_up: whether the cell configures JAX's devices. Starting a trace would fix them before the cell runs.
    """
    _tell(answer, lambda: _begin(folder, sets_up))


def end(answer: str) -> None:
    """Stop the trace once the cell's work on the devices is done."""
    _tell(answer, _end)


def look(answer: str) -> None:
    """Report whether JAX has been imported by now."""
    _tell(answer, lambda: "no jax" if sys.modules.get("jax") is None else "jax")


def _begin(folder: str, sets_up: bool) -> str:  # noqa: FBT001 - as above
    jax = sys.modules.get("jax")
    profiler = getattr(jax, "profiler", None)
    if profiler is None:
        return "no jax"
    if sets_up and not _has_backends():
        return "sets up"
    more: dict[str, Any] = {}
    if (options := getattr(profiler, "ProfileOptions", None)) is not None:
        # Python's own calls fill a trace, and slow a loop down by more than what is looked for.
        more["profiler_options"] = options()
        more["profiler_options"].python_tracer_level = 0
    profiler.start_trace(folder, **more)
    return "started"


def _has_backends() -> bool:
    bridge = sys.modules.get("jax._src.xla_bridge")
    return bool(getattr(bridge, "_backends", True))


def _end() -> str:
    jax: Any = sys.modules["jax"]
    # Work that a cell has set going and not waited for is the cell's as well.
    for array in jax.live_arrays():
        # Deleted, donated, or the result of something that failed: the lecture's own affair.
        with contextlib.suppress(Exception):
            array.block_until_ready()
    jax.profiler.stop_trace()
    return "stopped"


def _tell(answer: str, act: Any) -> None:
    text = ""
    try:
        state = act()
    except Exception as exc:  # noqa: BLE001 - a trace must never be the reason why a lecture fails
        state, text = "error", f"{type(exc).__name__}: {exc}"[:500]
    with contextlib.suppress(OSError):
        # A file that is there is not ours.
        fd = os.open(answer, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(json.dumps({"state": state, "text": text}))
