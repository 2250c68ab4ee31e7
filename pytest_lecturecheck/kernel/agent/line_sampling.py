"""
Answer where the main thread is, while a cell runs.

The session writes a request into one named pipe, and the answer goes into another. ipykernel's control thread, which
exists anyway, watches the first with its event loop and reads the frames of the main thread. So nothing is traced, no
thread is added, no signal interrupts a system call of the lecture, and no message of the kernel's protocol is needed
(after each of those ipykernel would flush ``sys.stdout``, which may be a file of the lecture).

The thread needs the interpreter's lock. While a call into C holds it, the answer waits, and then names the line of that
call: Python looks for waiting threads as soon as the call returns. faulthandler's signal would not have to wait. But
the signal interrupts ``poll``, ``nanosleep`` and other calls that the kernel does not restart, and its handler reads
frames that may be half made. Once at a timeout that is worth it; thousands of times in a night it is not.

Standard library only, and nothing that a bare kernel has not imported.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any

ASK_PIPE = "line-ask"
"""Name of the pipe for requests in the kernel's private folder."""
ANSWER_PIPE = "line-answer"
"""Name of the pipe for answers."""
TIMED_FILES = frozenset({"<timed exec>", "<timed eval>"})
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)
_MOST_ASKED = 4096
_MOST_FRAMES = 20_000
_MOST_NAMES = 20
_MOST_SOURCES = 500
_MOST_FILE_BYTES = 1 << 22
_TEXT_CHARS = 200
_MOST_COUNTER = 1 << 62


def _frames(frame: Any) -> Any:
    while frame is not None:
        yield frame
        frame = frame.f_back


class LineSampling:
    """
    Answers requests on the control thread.

    Args:
        agent: the agent, which knows how many requests have ended.
        folder: the kernel's private folder.
    """

    def __init__(self, agent: Any, folder: str) -> None:
        self.agent = agent
        self.shell = agent.shell
        self.pid = os.getpid()
        self.main = threading.main_thread().ident
        self.answer_path = f"{folder}/{ANSWER_PIPE}"
        self.asked_path = f"{folder}/{ASK_PIPE}"
        self.sources: dict[tuple[str, int], str] = {}
        self.launchers = {frame.f_code.co_filename for frame in _frames(sys._getframe())}  # noqa: SLF001 - what the inspect module does
        """The files of everything that called this: of the kernel, and of what started it."""
        self.library = f"{os.path.dirname(os.__file__)}/"  # noqa: PTH120 - the agent imports no more than it needs

    def offer(self) -> None:
        """Make the pipes and watch for requests, where the kernel has a control thread."""
        loop = getattr(getattr(self.shell.kernel, "control_thread", None), "io_loop", None)
        make = getattr(os, "mkfifo", None)
        if loop is None or make is None:
            return
        make(self.answer_path, 0o600)
        make(self.asked_path, 0o600)
        # Open for writing as well: without a writer a pipe counts as readable for ever.
        fd = os.open(self.asked_path, os.O_RDWR | _NO_WAIT)
        loop.add_callback(loop.add_handler, fd, self.answer, loop.READ)

    def answer(self, fd: int, _events: int) -> None:
        """Answer the last request; the agent must never be the reason why a lecture fails."""
        try:
            asked = json.loads(os.read(fd, _MOST_ASKED).split(b"\n")[-2])
            found = {"number": asked["number"], "ended": self.agent.request_count, **self.sample(asked["names"])}
            self._send(json.dumps(found).encode("ascii") + b"\n")
        except Exception:  # noqa: BLE001, S110 - the session reports what is missing
            pass

    def _send(self, data: bytes) -> None:
        # The session has the other end open as long as it waits for an answer.
        fd = os.open(self.answer_path, os.O_WRONLY | _NO_WAIT)
        try:
            os.write(fd, data)
        finally:
            os.close(fd)

    def sample(self, names: list[str]) -> dict[str, Any]:
        """Return the innermost line of the lecture, what it called, and the values of the counters ``names``."""
        if os.getpid() != self.pid:
            return {}
        frame = sys._current_frames().get(self.main or 0)  # noqa: SLF001 - documented
        try:
            return {**self._stack(frame), "counters": self._counters(names)}
        finally:
            # A frame that is held keeps all variables of its function alive.
            del frame

    def _stack(self, frame: Any) -> dict[str, Any]:
        cells = getattr(self.shell.compile, "_filename_map", {})
        found: dict[str, Any] = {}
        first, inner, timed = frame, None, None
        for _ in range(_MOST_FRAMES):
            if frame is None:
                break
            code, line = frame.f_code, frame.f_lineno or 0
            file = code.co_filename
            if file in cells:
                # The outermost cell is the one that runs.
                found["cell"] = [file, line]
                # The body of %%time is a file of its own, whose lines follow that of the magic.
                name, number = timed or (code.co_name, 0)
                found.setdefault("own", {"file": file, "line": line + number, "name": name[:_TEXT_CHARS]})
            elif "own" in found or timed is not None:
                pass
            elif file in TIMED_FILES:
                timed = ("<module>", line)
            elif self._is_of_package(file):
                inner = frame
            else:
                own = {"file": os.path.basename(file)[:_TEXT_CHARS], "line": line, "name": code.co_name[:_TEXT_CHARS]}  # noqa: PTH119
                found["own"] = {**own, "source": self._source(file, line)}
            frame = frame.f_back
        if "own" not in found:
            # The lecture waits in an event loop.
            inner = first
        if inner is not None:
            name = getattr(inner.f_code, "co_qualname", inner.f_code.co_name)
            found["called"] = f"{self._shown_file(inner.f_code.co_filename)} in {name}"[:_TEXT_CHARS]
        return found

    def _is_of_package(self, file: str) -> bool:
        # sysconfig knows more folders, and takes half a mebibyte of the lecture's memory to load.
        return file in self.launchers or file.startswith(("<", self.library)) or "-packages/" in file

    def _shown_file(self, file: str) -> str:
        return file.removeprefix(self.library).rpartition("-packages/")[2]

    def _source(self, file: str, line: int) -> str:
        """Return the text of a line; Python's own cache of lines is the lecture's."""
        text = self.sources.get((file, line))
        if text is None:
            text = ""
            try:
                with open(file, "rb") as stream:  # noqa: PTH123 - the agent imports no more than it needs
                    rows = stream.read(_MOST_FILE_BYTES).split(b"\n")
                text = rows[line - 1].decode("utf-8", "replace").strip()[:_TEXT_CHARS] if 0 < line <= len(rows) else ""
            except OSError:
                pass
            if len(self.sources) >= _MOST_SOURCES:
                self.sources.clear()
            self.sources[file, line] = text
        return text

    def _counters(self, names: list[str]) -> dict[str, int]:
        """Return the whole numbers among the variables; nothing else of a lecture's values leaves the kernel."""
        found = {}
        for name in names[:_MOST_NAMES]:
            value = self.shell.user_ns.get(name)
            if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
                value = value.item()
            if type(value) is int and abs(value) < _MOST_COUNTER:
                found[name] = value
        return found
