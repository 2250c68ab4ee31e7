"""
Start kernels through the fork server, and see them as the session does (Linux).

A server has the environment of the kernels that it forks, because an interpreter and the C library read much of it
only when they start. So there is one server for each environment, and the kernels of a session mostly share one.
"""

from __future__ import annotations

import asyncio
import collections
import functools
import importlib.util
import json
import mmap
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from pytest_lecturecheck.kernel.launchers import fork_server
from pytest_lecturecheck.kernel.launchers.ended import wait_ended
from pytest_lecturecheck.kernel.launchers.fork_server import MESSAGE_BYTES, MOST_DESCRIPTORS, PLACEHOLDERS

_MODULE: Final = "ipykernel_launcher"
_MOST_SERVERS: Final = 3
_ANSWER_SECONDS: Final = 30.0
"""A server answers within milliseconds, and within a second while it imports ipykernel; a stopped one never does."""
_CLOSE_SECONDS: Final = 5.0
_EXIT_CODE_FIELD: Final = 52
"""``exit_code`` of ``/proc/PID/stat``, as proc(5) counts; 0 for a process that may not be looked at."""
_UNKNOWN_END: Final = -9
"""The kernel of a supervisor that was killed: it is sent SIGKILL by the system (``PR_SET_PDEATHSIG``)."""

IS_SUPPORTED: Final = sys.platform == "linux" and hasattr(os, "pidfd_open")


def _zombie_status(pid: int) -> int:
    """Return the exit status of a process that nobody has waited for, or 0 if it is not known (``stat``, proc(5))."""
    fields = _state(pid)
    with suppress(ValueError, IndexError):
        return os.waitstatus_to_exitcode(int(fields[_EXIT_CODE_FIELD - 3])) if fields[0] == b"Z" else 0
    return 0


def _state(pid: int) -> list[bytes]:
    """Return the fields of ``/proc/PID/stat`` from the process's state on; none for a process that is gone."""
    with suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
        return file.read().rpartition(b")")[2].split()
    return []


class ServerLostError(Exception):
    """The server ended before it answered; the kernel has to be started in another way."""


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


_Key = tuple[tuple[str, ...], tuple[tuple[str, str], ...]]
"""The command of a server's interpreter, and its environment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpareProcess:
    """
    A fork of a server that waits below its supervisor for the kernel that it is to become.

    Attributes:
        process: the process.
        key: the server's interpreter and environment.
    """

    process: SupervisedProcess
    key: _Key


class _Server:
    """One server process and the socket that it takes requests from."""

    def __init__(self, interpreter: Sequence[str], environment: Mapping[str, str]) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        reserved = {name: "-" * size for name, size in PLACEHOLDERS.items()}
        with theirs:
            self.process = subprocess.Popen(  # noqa: S603 - this interpreter and a file of ours
                [*interpreter, fork_server.__file__, str(theirs.fileno())],
                env={**environment, **reserved},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._requests = ours
        self.has_served = False

    def send(self, request: bytes, descriptors: Sequence[int]) -> None:
        socket.send_fds(self._requests, [request], list(descriptors))

    def let_go(self) -> None:
        """Have the process end."""
        self._requests.close()

    def close(self) -> None:
        """Have the process end, and wait until it has."""
        self.let_go()
        if not wait_ended(self.process, _CLOSE_SECONDS):
            self.process.kill()
            self.process.wait()


class KernelServers:
    """The servers of a session, one for each environment of kernels, the least used one closed first."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._servers: collections.OrderedDict[_Key, _Server] = collections.OrderedDict()
        # A server that ended before it served any kernel would do so again.
        self._broken: set[_Key] = set()
        self._supervisors: set[int] = set()
        self._last_forked: _Key | None = None

    async def start(  # noqa: PLR0913 - what a process needs; all but the command by keyword
        self,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str],
        cwd: str,
        output: int,
        pass_fds: Sequence[int],
        group_file: str = "",
        may_fork: bool = True,
        spare: SpareProcess | None = None,
    ) -> SupervisedProcess:
        """
        Start a kernel below a supervisor of its own.

        Args:
            argv: the kernel's command.
            environment: its whole environment.
            cwd: its folder.
            output: descriptor for its stdout and stderr.
            pass_fds: descriptors that it keeps as long as it lives.
            group_file: file that it writes to in order to join a memory group, or an empty string.
            may_fork: False to execute it in any case.
            spare: a process that :meth:`prepare` made, in the same memory group; it is returned if it fits.

        Raises:
            ServerLostError: no server could be started or reached; nothing runs.
            OSError: the command cannot be executed.
        """
        is_forked = may_fork and is_forkable(argv, environment)
        request = {
            "argv": list(argv),
            "program": _launcher_file() if is_forked else "",
            "is_forked": is_forked,
            "cwd": cwd,
            "group_file": group_file,
            "env": dict(environment),
        }
        key = _key(tuple(argv) if is_forked else (), environment)
        descriptors = [output, *pass_fds]
        is_fitting = spare is not None and is_forked and spare.key == key
        if is_fitting and spare is not None and self._hand_over(spare.process, request, descriptors):
            return spare.process
        process = await self._ask(key, request, descriptors)
        process.is_forked = is_forked
        if is_forked:
            self._last_forked = key
        return process

    @staticmethod
    def _hand_over(process: SupervisedProcess, request: Mapping[str, Any], descriptors: Sequence[int]) -> bool:
        data = json.dumps(request).encode()
        # A folder that is not there is reported by a process that has not started yet.
        can = os.access(request["cwd"], os.X_OK) and len(data) <= MESSAGE_BYTES and len(descriptors) < MOST_DESCRIPTORS
        return can and process.hand_over(data, descriptors)

    async def prepare(self, group_file: str) -> SpareProcess | None:
        """
        Fork a process that can become a kernel like the last forked one; return ``None`` if that is not possible.

        Args:
            group_file: file that it writes to in order to join a memory group, or an empty string.
        """
        key = self._last_forked
        if key is None or key not in self._servers:
            return None
        request = {"is_spare": True, "is_forked": True, "cwd": "/", "group_file": group_file, "env": {}}
        try:
            process = await self._ask(key, request, [])
        except (OSError, ServerLostError):
            return None
        process.is_forked = True
        return SpareProcess(process=process, key=key)

    async def _ask(self, key: _Key, request: Mapping[str, Any], descriptors: Sequence[int]) -> SupervisedProcess:
        data = json.dumps(request).encode()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                server = self._send(key, data, [theirs.fileno(), *descriptors])
            ours.setblocking(False)  # noqa: FBT003 - its only parameter
            answer = await self._receive(ours, server)
            server.has_served = server.has_served or bool(answer)
            if not server.has_served:
                self._broken.add(key)
            message = _read_answer(answer, next(iter(request.get("argv", ())), ""))
            self._supervisors.add(message["supervisor"])
            process = SupervisedProcess(
                ours,
                pid=message["kernel"],
                supervisor_pid=message["supervisor"],
                find_strays=lambda: self._strays(server),
            )
            process.has_joined = message["has_joined"]
        except BaseException:
            # The supervisor ends what it has started when it sees this.
            ours.close()
            raise
        return process

    @staticmethod
    async def _receive(control: socket.socket, server: _Server) -> bytes:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await asyncio.get_running_loop().sock_recv(control, MESSAGE_BYTES)
        except TimeoutError:
            # With it go the descriptors that it has not taken, and what they hold.
            server.process.kill()
            return b""

    def _strays(self, server: _Server) -> set[int] | None:
        if server.process.poll() is not None:
            return None
        orphans = set(fork_server.children(server.process.pid)) - self._supervisors
        return orphans.union(*(fork_server.descendants(pid) for pid in orphans))

    def _send(self, key: _Key, data: bytes, descriptors: Sequence[int]) -> _Server:
        if len(data) > MESSAGE_BYTES or len(descriptors) > MOST_DESCRIPTORS:
            msg = "the request is too large for one message"
            raise ServerLostError(msg)
        if key in self._broken:
            msg = "no server runs in this environment"
            raise ServerLostError(msg)
        try:
            server = self._server(key)
            server.send(data, descriptors)
        except OSError as exc:
            msg = f"no server of kernels can be reached: {exc}"
            raise ServerLostError(msg) from exc
        return server

    def _server(self, key: _Key) -> _Server:
        server = self._servers.pop(key, None)
        if server is not None and server.process.poll() is not None:
            # A lecture may have killed it.
            server.close()
            server = None
        if server is None:
            interpreter, variables = key
            server = _Server(interpreter, dict(variables))
        self._servers[key] = server
        while len(self._servers) > _MOST_SERVERS:
            self._servers.popitem(last=False)[1].close()
        return server

    def expect(self, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start the server of kernels that will probably be asked for; it takes longer than to find out which."""
        if IS_SUPPORTED and is_forkable(argv, environment):
            with suppress(OSError):
                self._server(_key(tuple(argv), environment))

    def close(self) -> None:
        """End the servers; kernels that run go on. Safe to call twice."""
        servers = list(self._servers.values())
        self._servers.clear()
        for server in servers:
            server.let_go()
        for server in servers:
            server.close()


def _read_answer(answer: bytes, program: str) -> dict[str, Any]:
    if not answer:
        msg = "the server of kernels ended"
        raise ServerLostError(msg)
    message: dict[str, Any] = json.loads(answer)
    if "errno" in message:
        raise OSError(message["errno"], os.strerror(message["errno"]), message["path"] or program)
    return message


def _key(forked: tuple[str, ...], environment: Mapping[str, str]) -> _Key:
    own = {*PLACEHOLDERS, "JPY_PARENT_PID"}
    variables = tuple(sorted((name, value) for name, value in environment.items() if name not in own))
    return forked[: forked.index("-m")] if forked else (sys.executable,), variables


def is_forkable(argv: Sequence[str], environment: Mapping[str, str]) -> bool:
    """
    Return True for ipykernel in this interpreter, started as a server can be started too.

    Relative folders on the module search path are looked for below the folder that an interpreter starts in, which
    differs between kernels. The seed of hashes is drawn once for each process that is executed; who sets it gets a
    process of its own.
    """
    if not argv or argv[0] != sys.executable or "-m" not in argv or "PYTHONHASHSEED" in environment:
        return False
    if not _can_take_pages():
        return False
    position = list(argv).index("-m")
    options = argv[1:position]
    if list(argv[position + 1 : position + 2]) != [_MODULE] or not all(option.startswith("-X") for option in options):
        return False
    search_path = environment.get("PYTHONPATH", "")
    return not search_path or all(map(os.path.isabs, search_path.split(os.pathsep)))


@functools.cache
def _can_take_pages() -> bool:
    """Return True if a forked kernel can hold its memory as an executed one does (Linux 5.14)."""
    with mmap.mmap(-1, mmap.PAGESIZE) as page:
        try:
            page.madvise(fork_server.WRITE_PAGES)
        except OSError:
            return False
    return True


@functools.cache
def _launcher_file() -> str:
    """Return what ``sys.argv[0]`` is in a kernel that was executed."""
    spec = importlib.util.find_spec(_MODULE)
    return (spec.origin if spec is not None else None) or _MODULE
