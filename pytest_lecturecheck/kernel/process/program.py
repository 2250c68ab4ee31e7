"""
Start a program that is no kernel, below a supervisor where there is one, and read what it writes.

The program gets no input. What it writes is handed on at once, and its end is kept.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from pytest_lecturecheck.errors import KernelStartError
from pytest_lecturecheck.files import remove_tree
from pytest_lecturecheck.kernel.launchers.local_launcher import LocalLaunch
from pytest_lecturecheck.kernel.launchers.port import KernelProcess, ProcessEnd
from pytest_lecturecheck.kernel.launchers.supervised_process import SupervisedProcess
from pytest_lecturecheck.kernel.process.cgroup import MemoryGroup
from pytest_lecturecheck.kernel.process.outputs import BoundedText
from pytest_lecturecheck.model.probe import RUN_TOKEN_VARIABLE

_END_SECONDS: Final = 10.0
_GATE_SECONDS: Final = 0.001
_WAIT: Final = 'read -r _ < "$0"; exec "$@"'
_READ_BYTES: Final = 65_536
_NO_WAIT: Final[int] = getattr(os, "O_NONBLOCK", 0)
_LAST_OUTPUT_SECONDS: Final = 5.0


class Gate:
    """
    Holds a program back until it is measured: a shell waits at a named pipe, and then becomes the program.

    Windows has no such pipes; the program begins at once there.
    """

    def __init__(self) -> None:
        """Create the pipe in a private folder."""
        self.folder = ""
        make_pipe = getattr(os, "mkfifo", None)
        if make_pipe is not None:
            self.folder = tempfile.mkdtemp(prefix="lc-")
            make_pipe(f"{self.folder}/gate", 0o600)

    def command(self, argv: Sequence[str]) -> list[str]:
        """Return the command that waits and then becomes the program."""
        return ["/bin/sh", "-c", _WAIT, f"{self.folder}/gate", *argv] if self.folder else list(argv)

    async def open(self, has_ended: Callable[[], bool]) -> None:
        """Let the program begin."""
        while self.folder and not has_ended():
            try:
                pipe = os.open(f"{self.folder}/gate", os.O_WRONLY | _NO_WAIT)
            except OSError:
                # The shell has not come to the pipe yet.
                await asyncio.sleep(_GATE_SECONDS)
                continue
            os.write(pipe, b"\n")
            os.close(pipe)
            break
        self.remove()

    def remove(self) -> None:
        """Remove the pipe; safe to call twice."""
        if self.folder:
            remove_tree(self.folder)


class RunningProgram:
    """
    A program that was started.

    Attributes:
        process: the process, which waits until :meth:`begin`.
        gate: where it waits.
        output: beginning and end of what it has written.
        token: marks its processes in their environment.
    """

    def __init__(
        self, process: KernelProcess, reader: int, token: str, gate: Gate, on_output: Callable[[bytes], None]
    ) -> None:
        """Begin to read its output."""
        self.process = process
        self.gate = gate
        self.token = token
        self.output = BoundedText(head_chars=8_192, tail_chars=32_768)
        self._on_output = on_output
        self._reading = threading.Thread(target=self._read, args=(reader,), daemon=True)
        self._reading.start()

    def _read(self, reader: int) -> None:
        with os.fdopen(reader, "rb", buffering=0) as pipe:
            while data := pipe.read(_READ_BYTES):
                self.output.append(data.decode("utf-8", "replace"))
                # A closed terminal must not stop the program.
                with suppress(OSError, ValueError):
                    self._on_output(data)

    @property
    def pid(self) -> int:
        """Return its process id."""
        return self.process.pid

    @property
    def supervisor_pid(self) -> int | None:
        """Return the process that everything it starts stays below, or ``None``."""
        return self.process.supervisor_pid if isinstance(self.process, SupervisedProcess) else None

    @property
    def is_in_group(self) -> bool:
        """Return True if it has joined its memory group by itself."""
        return isinstance(self.process, SupervisedProcess) and self.process.has_joined

    async def begin(self) -> None:
        """Let the program begin, which has waited until now."""
        await self.gate.open(lambda: self.process.poll() is not None)

    async def wait(self, seconds: float | None) -> bool:
        """Wait for its end; return True if it ended within ``seconds``."""
        waiting = asyncio.ensure_future(asyncio.to_thread(self.process.wait))
        await asyncio.wait({waiting}, timeout=seconds)
        return waiting.done()

    def end(self) -> ProcessEnd:
        """Return how it ended; its exit status must be known."""
        return LocalLaunch.end(self.process.returncode or 0)

    def kill(self) -> None:
        """Kill the program and its present descendants at once; :meth:`end_tree` does the rest."""
        for process in self._descendants():
            with suppress(psutil.Error):
                process.kill()
        with suppress(OSError):
            self.process.kill()

    def _descendants(self) -> list[psutil.Process]:
        top = self.supervisor_pid or self.pid
        with suppress(psutil.Error):
            return psutil.Process(top).children(recursive=True)
        return []

    async def end_tree(self) -> tuple[str, ...]:
        """End whatever is left of it; return the names of processes that were still running after its end."""
        self.gate.remove()
        left = []
        for process in self._descendants():
            with suppress(psutil.Error):
                if process.pid != self.pid and process.status() != psutil.STATUS_ZOMBIE:
                    left.append(process.name())
        if isinstance(self.process, SupervisedProcess):
            await self.process.end_tree(_END_SECONDS)
        else:
            self.kill()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_END_SECONDS)
        # A process that has escaped may hold the pipe open.
        await asyncio.to_thread(self._reading.join, _LAST_OUTPUT_SECONDS)
        return tuple(left)


async def start_program(
    argv: Sequence[str],
    *,
    folder: Path,
    token: str,
    environment: Mapping[str, str],
    group: MemoryGroup | None,
    on_output: Callable[[bytes], None],
) -> RunningProgram:
    """
    Start a program, which waits until :meth:`RunningProgram.begin`.

    Args:
        argv: its command; no shell is involved.
        folder: its working folder.
        token: marks its processes in their environment.
        environment: variables beside those of this process.
        group: the memory group that it joins, or ``None``.
        on_output: receives what it writes, on another thread.

    Raises:
        KernelStartError: it cannot be executed.
    """
    _check_program(argv[0], folder)
    env = {**os.environ, **environment, RUN_TOKEN_VARIABLE: token}
    gate = Gate()
    reader, writer = os.pipe()
    try:
        process: KernelProcess | None = await LocalLaunch().start_supervised(
            gate.command(argv),
            environment=env,
            cwd=str(folder),
            output=writer,
            pass_fds=(),
            group_file=group.join_file if group is not None else "",
        )
        if process is None:
            process = _start_child(gate.command(argv), env, folder, writer)
    except OSError as exc:
        os.close(reader)
        gate.remove()
        msg = f"{argv[0]!r} cannot be run: {exc.strerror or exc}; give a program that is on PATH, and its arguments"
        raise KernelStartError(msg) from exc
    finally:
        os.close(writer)
    return RunningProgram(process, reader, token, gate, on_output)


def _check_program(program: str, folder: Path) -> None:
    found = shutil.which(str(folder / program) if os.path.dirname(program) else program)  # noqa: PTH120 - as a shell does
    if found is None:
        msg = f"{program!r} cannot be run: there is no such program on PATH, or it is not executable"
        raise KernelStartError(msg)


def _start_child(argv: Sequence[str], env: Mapping[str, str], folder: Path, output: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - the command that the user gave
        list(argv), stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env, cwd=folder
    )
