"""
Notice that a kernel will never answer a request, long before the time limit of its cell.

A cell that computes, sleeps, or waits for a child or for the network looks the same from outside as a kernel that has
lost a reply. So only what cannot be true of a running cell counts: the agent's note that the request has ended, an idle
status for the request without a reply, or sockets that nobody listens on any more. Nothing is sent to the kernel.
"""

from __future__ import annotations

import json
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psutil

from pytest_lecturecheck.kernel.agent.core import LOST_REPLY_FILE
from pytest_lecturecheck.kernel.messages.crash_record import read_private_file
from pytest_lecturecheck.kernel.process.launch import Kernel
from pytest_lecturecheck.model.evidence import NoAnswer, NoAnswerReason

LOOK_SECONDS: Final = 2.0
"""Time between two looks at a kernel that has not answered."""
_IDLE_SECONDS: Final = 10.0
"""Time for a reply that follows the idle status: some kernels send it later."""
_IDLE_CPU_FRACTION: Final = 0.05
_LONGEST_NOTE_BYTES: Final = 16_384
_TEXT_CHARS: Final = 1_000
_MOST_LOOKS_APART: Final = 16
_CONNECT_SECONDS: Final = 0.1


class AnswerWatch:
    """
    Looks at a kernel that owes a reply to one request.

    Args:
        kernel: the kernel.
        channels: jupyter_client's client, for the addresses of the sockets.
        msg_id: id of the request's message.
    """

    def __init__(self, kernel: Kernel, channels: Any, msg_id: str) -> None:
        """Look at nothing yet."""
        self._kernel = kernel
        self._channels = channels
        self._msg_id = msg_id
        self._look_count = 0
        self._next_connection = 1
        self._has_lost_reply = self._is_refused = False
        self._idle_since: tuple[float, float, int] | None = None

    def look(self, *, is_idle: bool, message_count: int) -> NoAnswer | None:
        """
        Return why there will be no reply, or ``None`` as long as there can be one.

        Everything has to be found in two looks, because a reply may be on its way.

        Args:
            is_idle: whether the kernel has published the idle status of the request.
            message_count: messages about the request so far.
        """
        self._look_count += 1
        return self._find_lost_reply() or self._find_idle(message_count, is_idle=is_idle) or self._find_replaced()

    def _find_lost_reply(self) -> NoAnswer | None:
        note = _read_note(Path(self._kernel.folder) / LOST_REPLY_FILE)
        had_note, self._has_lost_reply = self._has_lost_reply, note.get("msg_id") == self._msg_id
        if not (had_note and self._has_lost_reply):
            return None
        return NoAnswer(reason=NoAnswerReason.LOST_REPLY, text=str(note.get("error", ""))[:_TEXT_CHARS])

    def _find_idle(self, message_count: int, *, is_idle: bool) -> NoAnswer | None:
        cpu_seconds = _cpu_seconds(self._kernel) if is_idle else None
        if cpu_seconds is None:
            return None
        now = time.monotonic()
        if self._idle_since is None or self._idle_since[2] != message_count:
            self._idle_since = (now, cpu_seconds, message_count)
        waited, used = now - self._idle_since[0], cpu_seconds - self._idle_since[1]
        if waited < _IDLE_SECONDS:
            return None
        if used > _IDLE_CPU_FRACTION * waited:
            self._idle_since = None
            return None
        return NoAnswer(reason=NoAnswerReason.IDLE)

    def _find_replaced(self) -> NoAnswer | None:
        if self._look_count < self._next_connection or not self._kernel.location.is_here:
            return None
        was_refused, self._is_refused = self._is_refused, _is_refused(self._channels)
        if self._is_refused and self._kernel.ask_for_end():
            return None
        if was_refused and self._is_refused:
            return NoAnswer(reason=NoAnswerReason.SOCKETS_CLOSED, text=_program(self._kernel.pid)[:_TEXT_CHARS])
        step = 1 if self._is_refused else min(self._look_count, _MOST_LOOKS_APART)
        self._next_connection = self._look_count + step
        return None


def _read_note(path: Path) -> dict[str, Any]:
    data = read_private_file(path, _LONGEST_NOTE_BYTES)
    with suppress(ValueError, RecursionError):
        note = json.loads(data)
        if isinstance(note, dict):
            return note
    return {}


def _is_refused(channels: Any) -> bool:
    """Return True if nobody listens on the kernel's shell socket; a busy or stopped kernel does."""
    try:
        if channels.transport != "ipc":
            with socket.create_connection((channels.ip, channels.shell_port), timeout=_CONNECT_SECONDS):
                return False
        # Windows, where kernels use TCP, has no such family.
        with socket.socket(getattr(socket, "AF_UNIX", socket.AF_INET)) as connection:
            connection.settimeout(_CONNECT_SECONDS)
            connection.connect(f"{channels.ip}-{channels.shell_port}")
    except ConnectionRefusedError:
        return True
    except OSError:
        # A lecture may have removed the socket's file, or have too many connections: no sign of an end.
        pass
    return False


def _cpu_seconds(kernel: Kernel) -> float | None:
    if kernel.location.is_here:
        with suppress(psutil.Error):
            times = psutil.Process(kernel.pid).cpu_times()
            return float(times.user + times.system)
    return None


def _program(pid: int) -> str:
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        return " ".join(process.cmdline()) or process.name()
    return ""
