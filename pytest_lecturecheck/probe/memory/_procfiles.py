"""Files below ``/proc`` that are opened once and read often: opening them each time doubles the cost of a sample."""

from __future__ import annotations

import os
import sys
from typing import Final

from pytest_lecturecheck.probe.procfs import (
    STATUS_START,
    Counters,
    Status,
    are_status_lines_together,
    parse_stat,
    parse_status,
    status_lines,
)

_BUFFER_SIZE: Final = 64 * 1024
# procfs returns long lists in pieces of at most one page, so a nearly full page may be followed by another.
_SHORT_READ: Final = 3800

if sys.platform == "win32":  # tests read recorded trees there

    def read_at(descriptor: int, offset: int) -> bytes:
        """Read from ``offset``."""
        os.lseek(descriptor, offset, os.SEEK_SET)
        return os.read(descriptor, _BUFFER_SIZE)
else:

    def read_at(descriptor: int, offset: int) -> bytes:
        """Read from ``offset``."""
        return os.pread(descriptor, _BUFFER_SIZE, offset)


def read_once(path: str) -> bytes | None:
    """Read a whole file that is not worth keeping open; ``None`` where it cannot be read."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - Path costs more than the read
            return file.read()
    except OSError:
        return None


class KeptFile:
    """
    One file of one process, opened at the first use and kept.

    A descriptor below ``/proc`` belongs to one process. When that has ended, reads fail, even if its process id was
    reused. For that reason the file is never opened a second time.

    Args:
        path: the file.
        writable: open it for writing, too.
    """

    __slots__ = ("_descriptor", "_flags", "_path", "error")

    def __init__(self, path: str, *, writable: bool = False) -> None:
        self._path = path
        self._flags = (os.O_WRONLY if writable else os.O_RDONLY) | getattr(os, "O_CLOEXEC", 0)
        self._descriptor = -1
        self.error: OSError | None = None
        """Why the file can no longer be used; ``None`` while it can."""

    def read(self) -> bytes | None:
        """Read the file from its start; ``None`` where that is not (or no longer) possible."""
        if self._descriptor < 0 and not self._open():
            return None
        try:
            # pread at 0 makes procfs render the file again, without opening it again.
            text = chunk = read_at(self._descriptor, 0)
            while len(chunk) >= _SHORT_READ:
                chunk = read_at(self._descriptor, len(text))
                text += chunk
        except OSError as error:
            self.close(error)
            return None
        return text

    def write(self, text: bytes) -> bool:
        """Write at the start of the file; return False where that is not (or no longer) possible."""
        if self._descriptor < 0 and not self._open():
            return False
        try:
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            os.write(self._descriptor, text)
        except OSError as error:
            self.close(error)
            return False
        return True

    def open(self) -> int | None:
        """Open the file if necessary, and return its descriptor for busy loops; ``None`` without one."""
        return self._descriptor if self._descriptor >= 0 or self._open() else None

    def close(self, error: OSError | None = None) -> None:
        """Close the file for good; safe to call twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1
        self.error = self.error or error or OSError("closed")

    def _open(self) -> bool:
        if self.error is not None:
            return False
        try:
            self._descriptor = os.open(self._path, self._flags)
        except OSError as error:
            self.error = error
            return False
        return True


class StatusFile(KeptFile):
    """
    ``/proc/PID/status`` of one process, parsed again only if one of the lines in use has changed.

    Parsing costs several times as much as the comparison. A kernel that waits, or computes on the memory it has,
    changes none of these lines.
    """

    __slots__ = ("_can_compare", "_lines", "_status")

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._can_compare: bool | None = None
        self._lines = b""
        self._status: Status | None = None

    def read_status(self) -> Status | None:
        """Read the status; ``None`` if reading failed (see :attr:`error`), and for a zombie, which has no memory."""
        text = self.read()
        if text is None:
            return None
        lines = self._lines
        if lines and text.startswith(lines, text.find(STATUS_START)):
            return self._status
        self._status = parse_status(text)
        if self._can_compare is None and self._status is not None:
            self._can_compare = are_status_lines_together(text)
        self._lines = status_lines(text) if self._can_compare else b""
        return self._status


class StatFile(KeptFile):
    """``/proc/PID/stat`` of one process, parsed again only if it has changed."""

    __slots__ = ("_counters", "_text")

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._text: bytes | None = None
        self._counters: Counters | None = None

    def read_counters(self) -> Counters | None:
        """Read the counters; ``None`` where the process is gone."""
        text = self.read()
        if text is None:
            return None
        if text != self._text:
            self._text, self._counters = text, parse_stat(text)
        return self._counters
