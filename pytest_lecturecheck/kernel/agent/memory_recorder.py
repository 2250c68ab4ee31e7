"""
Record one cell with memray inside the kernel.

Standard library only, and memray where it is installed. memray writes all allocations, not their sums: a fork that ends
without exit handlers, and a kernel that is killed, leave their record.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any


def begin(answer: str, capture: str, shell: Any, state: dict[str, Any]) -> None:
    """
    Record the next cell.

    Args:
        answer: file for the result.
        capture: file for the record; forks write files of their own beside it.
        shell: IPython's shell.
        state: keeps the recorder between calls.
    """
    _tell(answer, lambda: _begin(capture, shell, state))


def end(answer: str, state: dict[str, Any]) -> None:
    """Report whether the record is complete."""
    _tell(answer, lambda: _end(state))


def _begin(capture: str, shell: Any, state: dict[str, Any]) -> str:
    try:
        import memray  # type: ignore[import-not-found, import-untyped, unused-ignore]  # noqa: PLC0415 - optional
    except ImportError:
        return "no memray"
    original = shell.run_ast_nodes
    state["record"] = "waits"

    # memray loses the frames of a thread that returns from the function in which recording began. This one calls
    # everything that a cell runs, and nothing else that IPython has calls all statements of a cell.
    async def run_ast_nodes(*args: Any, **kwargs: Any) -> Any:
        del shell.run_ast_nodes
        state["record"] = "runs"
        with memray.Tracker(capture, native_traces=True, follow_fork=True):
            result = await original(*args, **kwargs)
        state["record"] = "stopped"
        return result

    shell.run_ast_nodes = run_ast_nodes
    return "started"


def _end(state: dict[str, Any]) -> str:
    return str(state.pop("record"))


def _tell(answer: str, act: Any) -> None:
    text = ""
    try:
        state = act()
    except Exception as exc:  # noqa: BLE001 - a record must never be the reason why a lecture fails
        state, text = "error", f"{type(exc).__name__}: {exc}"[:500]
    with contextlib.suppress(OSError):
        # A file that is there is not ours.
        fd = os.open(answer, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(json.dumps({"state": state, "text": text}))
