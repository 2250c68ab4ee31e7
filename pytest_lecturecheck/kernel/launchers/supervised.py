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
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.kernel.launchers import fork_server
from pytest_lecturecheck.kernel.launchers.ended import wait_ended
from pytest_lecturecheck.kernel.launchers.fork_server import MESSAGE_BYTES, MOST_DESCRIPTORS, PLACEHOLDERS
from pytest_lecturecheck.kernel.launchers.supervised_process import SupervisedProcess

_MODULE: Final = "ipykernel_launcher"
_MOST_SERVERS: Final = 3
_ANSWER_SECONDS: Final = 30.0
"""A server answers within milliseconds, and within a second while it imports ipykernel; a stopped one never does."""
_CLOSE_SECONDS: Final = 5.0

IS_SUPPORTED: Final = sys.platform == "linux" and hasattr(os, "pidfd_open")


class ServerLostError(Exception):
    """The server ended before it answered; the kernel has to be started in another way."""


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
