"""
Record one cell with memray inside the kernel.

Standard library only, and memray where it is installed. memray writes all allocations, not their sums: a fork that ends
without exit handlers, and a kernel that is killed, leave their record. A thread stops the record at a size.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import sys
import threading
from typing import Any

LOOK_SECONDS = 0.1


class Recorder:
    """
    One record, in this process and in the forks that it makes.

    Args:
        memray: the package.
        capture: file for the record; forks write files of their own beside it.
        most_bytes: size of all these files together at which the record is stopped.
    """

    def __init__(self, memray: Any, capture: str, most_bytes: int) -> None:
        """Record nothing yet."""
        destination = memray.FileDestination(capture, overwrite=True, compress_on_exit=False)
        self.tracker = memray.Tracker(destination=destination, native_traces=True, follow_fork=True)
        self.files = f"{glob.escape(capture)}*"
        self.most_bytes = most_bytes
        self.is_on = self.is_full = False

    def begin(self) -> None:
        """Begin the record."""
        self.previous = sys.getprofile()
        # Windows has no fork.
        at_fork: Any = getattr(os, "register_at_fork", None)
        if at_fork is not None:
            at_fork(after_in_child=self._watch)
        self.tracker.__enter__()
        self.is_on = True
        self._watch()

    def end(self) -> None:
        """Stop the record, if it is not stopped yet."""
        self.has_ended.set()
        self.watcher.join()
        self._stop()
        # The thread that stopped a record could not do this for the one that began it.
        sys.setprofile(self.previous)

    def _watch(self) -> None:
        """Watch the size of the files; in a fork, which has no threads but its own, once more."""
        if not self.is_on:
            return
        self.has_ended = threading.Event()
        self.watcher = threading.Thread(target=self._look, name="lecturecheck-record", daemon=True)
        self.watcher.start()

    def _look(self) -> None:
        while not self.has_ended.wait(LOOK_SECONDS):
            if sum(map(_size_of, glob.glob(self.files))) > self.most_bytes:  # noqa: PTH207 - no import more than needed
                self.is_full = True
                self._stop()
                return

    def _stop(self) -> None:
        if self.is_on:
            self.is_on = False
            self.tracker.__exit__(None, None, None)


def _size_of(path: str) -> int:
    try:
        return os.path.getsize(path)  # noqa: PTH202 - as above
    except OSError:
        return 0


def begin(answer: str, capture: str, most_bytes: int, shell: Any, state: dict[str, Any]) -> None:
    """
    Record the next cell.

    Args:
        answer: file for the result.
        capture: file for the record; forks write files of their own beside it.
        most_bytes: size of the record at which it is stopped.
        shell: IPython's shell.
        state: keeps the recorder between calls.
    """
    _tell(answer, lambda: _begin(capture, most_bytes, shell, state))


def end(answer: str, state: dict[str, Any]) -> None:
    """Report whether the record is complete: ``stopped``, or ``full`` where it was stopped at its size."""
    _tell(answer, lambda: _end(state))


def _begin(capture: str, most_bytes: int, shell: Any, state: dict[str, Any]) -> str:
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
        recorder = Recorder(memray, capture, most_bytes)
        recorder.begin()
        try:
            result = await original(*args, **kwargs)
        finally:
            recorder.end()
        state["record"] = "full" if recorder.is_full else "stopped"
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
