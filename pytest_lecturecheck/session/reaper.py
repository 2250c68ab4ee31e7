"""
End the kernels of a session that was killed before it could do so itself.

The reaper is a process of its own, started once per session with the first kernel. It reads from a pipe which runs are
under way. The pipe ends when pytest does, however that happens; the reaper then kills what is left of these runs and
removes their folders. After a session that ended properly nothing is left, and the reaper exits.

The process is :mod:`pytest_lecturecheck.session.reaper_process`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from typing import Final

from pytest_lecturecheck.kernel.launchers.ended import wait_ended
from pytest_lecturecheck.session import reaper_process
from pytest_lecturecheck.session.reaper_process import start_ticks

_CLOSE_SECONDS: Final = 5.0


class Reaper:
    """The session's end of the pipe to the reaper process."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._process: subprocess.Popen[bytes] | None = None
        self._runs: dict[str, str] = {}

    def add(
        self, token: str, *, pid: int, folders: list[str], group: str | None, supervisor_pid: int | None = None
    ) -> None:
        """
        Announce a run.

        Args:
            token: the run's token.
            pid: process id of its kernel, or 0 before it has one.
            folders: folders to remove with it.
            group: folder of its memory group, or ``None``.
            supervisor_pid: parent of the kernel, which ends with the session unless a lecture has stopped it.
        """
        supervisor = None if supervisor_pid is None else (supervisor_pid, start_ticks(supervisor_pid))
        run = json.dumps(
            {"pid": pid, "since": start_ticks(pid), "folders": folders, "group": group, "supervisor": supervisor}
        )
        self._runs[token] = f"+{token} {run}"
        if not self._start():
            self._send(self._runs[token])

    def remove(self, token: str) -> None:
        """Report that nothing is left of a run."""
        self._runs.pop(token, None)
        self._send(f"-{token}")

    def close(self) -> None:
        """End the reaper process; safe to call twice."""
        if self._process is None:
            return
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        wait_ended(self._process, _CLOSE_SECONDS)
        self._process = None

    def _start(self) -> bool:
        """Start the process if there is none (a lecture can kill it), announce all runs, and return True if so."""
        if self._process is not None and self._process.poll() is None:
            return False
        self.close()
        # -P: no module may come from a lecture folder. -S: site takes longer than the process itself.
        # A session of its own: Ctrl-C must not reach the reaper.
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter and a file of ours
            [sys.executable, "-P", "-S", reaper_process.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for run in self._runs.values():
            self._send(run)
        return True

    def _send(self, message: str) -> None:
        if self._process is None or self._process.stdin is None:
            return
        # A reaper that was just killed must not fail the lecture; the next run starts a new one.
        with suppress(OSError):
            self._process.stdin.write(message.encode() + b"\n")
            self._process.stdin.flush()
