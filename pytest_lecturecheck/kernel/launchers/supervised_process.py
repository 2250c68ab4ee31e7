"""A kernel below its supervisor, as the session sees it (Linux)."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import socket
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from pytest_lecturecheck.kernel.launchers import fork_server
from pytest_lecturecheck.kernel.launchers.fork_server import MESSAGE_BYTES

_EXIT_CODE_FIELD: Final = 52
"""``exit_code`` of ``/proc/PID/stat``, as proc(5) counts; 0 for a process that may not be looked at."""
_UNKNOWN_END: Final = -9
"""The kernel of a supervisor that was killed: it is sent SIGKILL by the system (``PR_SET_PDEATHSIG``)."""


class SupervisedProcess:
    """
    A kernel below its supervisor, with what a caller of :class:`subprocess.Popen` uses.

    Attributes:
        pid: process id of the kernel.
        supervisor_pid: process id of its parent, which everything that comes from the kernel stays below.
        returncode: exit status, negative for a signal; ``None`` while the kernel is not known to have ended.
        cpu_seconds: CPU time of the kernel and of its children that it had waited for, once it has ended.
        peak_rss_bytes: most resident memory of the kernel since its peak was last reset, likewise (``ru_maxrss``).
        is_tree_empty: whether nothing was left below the supervisor when the kernel ended.
        has_joined: whether the kernel has joined the memory group that it was given.
        is_forked: whether the kernel was forked, and not executed.
        lost_supervisor: whether the supervisor ended before it could report the kernel's end.
        find_strays: returns the processes that killed supervisors have left, which the server has adopted; ``None`` if
            the server has ended as well, so that nobody has adopted them.
    """

    def __init__(
        self, control: socket.socket, *, pid: int, supervisor_pid: int, find_strays: Callable[[], set[int] | None] = set
    ) -> None:
        """Take over the control socket; closing it ends the tree."""
        self.pid = pid
        self.supervisor_pid = supervisor_pid
        self.find_strays = find_strays
        self.returncode: int | None = None
        self.cpu_seconds: float | None = None
        self.peak_rss_bytes: int | None = None
        self.is_tree_empty = False
        self.lost_supervisor = False
        self.has_joined = self.is_forked = False
        self._control = control
        self._status_seen = 0
        self._pidfd: int | None = None
        # The kernel may have ended already; its number then says nothing any more.
        with suppress(OSError):
            self._pidfd = os.pidfd_open(pid)

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when the supervisor reports the kernel's end."""
        return self._control.fileno()

    @property
    def kernel_descriptor(self) -> int | None:
        """Return the descriptor that becomes readable with the kernel's end, whatever its supervisor does."""
        return self._pidfd

    def poll(self) -> int | None:
        """Return the exit status, or ``None`` while the kernel runs."""
        while self.returncode is None:
            try:
                data = self._control.recv(MESSAGE_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return None
            except OSError:
                data = b""
            self._take(data)
        return self.returncode

    def _take(self, data: bytes) -> None:
        try:
            message = json.loads(data)
            returncode = int(message["exit"])
            self.cpu_seconds, self.peak_rss_bytes = float(message["cpu_seconds"]), int(message["peak_rss_bytes"])
            self.is_tree_empty = not message["has_left"]
        except (ValueError, TypeError, KeyError, RecursionError):
            # The end of the socket, or what a lecture has written to it.
            returncode, self.lost_supervisor = self._status_seen or _UNKNOWN_END, True
        self.returncode = returncode

    def wait(self, timeout: float | None = None) -> int:
        """
        Wait for the kernel's end and return its exit status.

        Raises:
            subprocess.TimeoutExpired: it did not end within ``timeout`` seconds.
        """
        code = self.poll()
        if code is None:
            select.select([self._control], [], [], timeout)
            code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        """Send the kernel a signal; does nothing once it has ended."""
        if self._pidfd is not None and self.poll() is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def terminate(self) -> None:
        """Send the kernel SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send the kernel SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def hand_over(self, request: bytes, descriptors: Sequence[int]) -> bool:
        """Make this spare process the kernel of a request; return False if it has ended or cannot be reached."""
        if self.poll() is not None:
            return False
        try:
            socket.send_fds(self._control, [request], list(descriptors))
        except OSError:
            return False
        return True

    def wake_supervisor(self) -> None:
        """Let the supervisor go on if somebody, such as the lecture, has stopped it; the caller knows that it lives."""
        with suppress(OSError):
            os.kill(self.supervisor_pid, signal.SIGCONT)

    def is_supervisor_halted(self) -> bool:
        """Return True if the supervisor is stopped or traced, so that it reports nothing (``stat``, proc(5))."""
        return _state(self.supervisor_pid)[:1] in ([b"T"], [b"t"])

    def give_up_supervisor(self) -> None:
        """Kill a supervisor that does not report its kernel's end: somebody traces it. Its server adopts the rest."""
        if self.poll() is None:
            self._status_seen = _zombie_status(self.pid)
            with suppress(OSError):
                os.kill(self.supervisor_pid, signal.SIGKILL)

    async def end_tree(self, seconds: float) -> None:
        """Have the supervisor kill whatever is left below it, and wait for at most ``seconds`` until it has."""
        if self._control.fileno() < 0:
            return
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)
        try:
            async with asyncio.timeout(seconds):
                await self._wait_for_supervisor()
        except TimeoutError:
            # Its end of the socket is open, so that it is alive and its number is still its own.
            self._kill_all()
        except OSError:
            # It has ended; its number may belong to another process by now.
            pass
        self.close()

    def _kill_all(self) -> None:
        """Kill the tree and its supervisor, which a lecture may have stopped."""
        for pid in (*sorted(fork_server.descendants(self.supervisor_pid), reverse=True), self.supervisor_pid):
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    async def _wait_for_supervisor(self) -> None:
        loop = asyncio.get_running_loop()
        self._control.setblocking(False)  # noqa: FBT003 - its only parameter
        while data := await loop.sock_recv(self._control, MESSAGE_BYTES):
            if self.returncode is None:
                self._take(data)
        if self.returncode is None:
            self._take(b"")

    def close(self) -> None:
        """Let go of the kernel: its supervisor ends what is left of the tree. Safe to call twice."""
        self._control.close()
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None


def _state(pid: int) -> list[bytes]:
    """Return the fields of ``/proc/PID/stat`` from the process's state on; none for a process that is gone."""
    with suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
        return file.read().rpartition(b")")[2].split()
    return []


def _zombie_status(pid: int) -> int:
    """Return the exit status of a process that nobody has waited for, or 0 if it is not known (``stat``, proc(5))."""
    fields = _state(pid)
    with suppress(ValueError, IndexError):
        return os.waitstatus_to_exitcode(int(fields[_EXIT_CODE_FIELD - 3])) if fields[0] == b"Z" else 0
    return 0
