"""Write what lectures wait for where no other progress is shown."""

from __future__ import annotations

import threading
from collections.abc import Callable

from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.terminal.progress import ShownProgress
from pytest_lecturecheck.safe_text import one_line


class WaitLines:
    """
    Writes one line for each new reason for which a lecture waits: a session must never stand still without a word.

    Args:
        write: writes one line at once.
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        """Write nothing yet."""
        self._write = write
        self._reasons: dict[str, str] = {}
        self._pending: list[str] = []
        # Progress is noted on the kernels' thread, or on one of execnet.
        self._lock = threading.Lock()

    def note(self, progress: ShownProgress) -> None:
        """Record the progress of a lecture."""
        with self._lock:
            if progress.waits_for and self._reasons.get(progress.name) != progress.waits_for:
                self._pending.append(one_line(f"{progress.name}: {progress.waits_for}"))
            self._reasons[progress.name] = progress.waits_for

    def announce(self, text: str) -> None:
        """Write a line with the next ones."""
        with self._lock:
            self._pending.append(one_line(text))

    def show(self) -> None:
        """Write what is new."""
        with self._lock:
            lines, self._pending = self._pending, []
        for line in lines:
            self._write(line)

    def end(self, entry: Entry) -> None:
        """Forget a lecture that has ended."""
        with self._lock:
            self._reasons.pop(entry.run.title, None)

    def clear(self) -> None:
        """Do nothing: a log keeps its lines."""
