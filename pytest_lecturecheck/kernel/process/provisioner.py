"""The process of a kernel as the session sees it: started, watched, its exit status and stderr kept."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from jupyter_client.launcher import launch_kernel
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from pytest_lecturecheck.errors import KernelStartError
from pytest_lecturecheck.kernel.launchers.local_launcher import LocalLaunch
from pytest_lecturecheck.kernel.launchers.port import KernelProcess, Launch, ProcessEnd
from pytest_lecturecheck.kernel.launchers.supervised import SpareProcess
from pytest_lecturecheck.kernel.launchers.supervised_process import SupervisedProcess
from pytest_lecturecheck.kernel.process.cgroup import MemoryGroup
from pytest_lecturecheck.kernel.process.outputs import BoundedText
from pytest_lecturecheck.kernel.process.stderr import stderr_tail

# A separate name makes the type checker look at both branches on every system.
_IS_WINDOWS: Final[bool] = os.name == "nt"
_REPORT_SECONDS: Final = 5.0
"""Time for the report of a supervisor, which takes a millisecond, on a busy machine."""
_MOST_WAITS: Final = 11


class LectureProvisioner(LocalProvisioner):
    """
    Manages the process of a kernel (or its keeper) and keeps its exit status and stderr.

    jupyter_client's own provisioner forgets the process when it ends, and polls for that every 0.1 s.
    """

    def __init__(self, *, launch: Launch, **kwargs: Any) -> None:
        """Create the provisioner; :meth:`launch_kernel` starts the process."""
        super().__init__(**kwargs)
        self.launch = launch
        self.queued_seconds = 0.0
        self._end: ProcessEnd | None = None
        self._news = asyncio.Event()
        self.popen: KernelProcess | None = None
        self.pass_fds: tuple[int, ...] = ()
        self.group: MemoryGroup | None = None
        self.spare: SpareProcess | None = None
        self.on_queue: Callable[[str], None] = lambda _: None
        self._stderr_mark = self._taken_chars = 0
        self.stderr = BoundedText(head_chars=8_192, tail_chars=32_768)
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pipe: int | None = None
        self._pidfd: int | None = None

    @property
    def has_process(self) -> bool:
        """Return True if the process was started and is not known to have ended."""
        return self.popen is not None and not self.ended.done()

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        """
        Start the process in its own session, with empty stdin and with stderr on a pipe that is read at once.

        Raises:
            KernelStartError: the launcher did not start a kernel.
        """
        reader, writer = os.pipe()
        environment = self.launch.environment(kwargs.get("env") or {})
        try:
            self.popen = await self._start(self.launch.command(cmd), environment, str(kwargs.get("cwd")), writer)
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        process: Any = self.popen
        self.process = process
        self.pid = self.popen.pid
        self.pgid = self.popen.pid if not _IS_WINDOWS else None
        self.launch.started(self.popen)
        self._watch_stderr(reader)
        self._watch_exit()
        if self.launch.location is None:
            await self._wait_for_location()
        return self._connection()

    async def _start(self, argv: list[str], environment: dict[str, str], cwd: str, output: int) -> KernelProcess:
        if isinstance(self.launch, LocalLaunch):
            supervised = await self.launch.start_supervised(
                argv,
                environment=environment,
                cwd=cwd,
                output=output,
                pass_fds=self.pass_fds,
                group_file=self.group.join_file if self.group is not None else "",
                spare=self.spare if self._is_spare_in_group else None,
            )
            if supervised is not None:
                return supervised
        child: subprocess.Popen[bytes] = launch_kernel(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            cwd=cwd,
            pass_fds=self.pass_fds,
        )
        return child

    @property
    def _is_spare_in_group(self) -> bool:
        return self.spare is not None and self.spare.process.has_joined is (self.group is not None)

    @property
    def strays(self) -> set[int]:
        """Return the processes that a killed supervisor has left; empty while there is one."""
        process = self.popen
        if not isinstance(process, SupervisedProcess) or not process.lost_supervisor:
            return set()
        return process.find_strays() or set()

    @property
    def has_lost_server(self) -> bool:
        """Return True if supervisor and server were killed, so that nobody has adopted what the lecture had started."""
        process = self.popen
        return isinstance(process, SupervisedProcess) and process.lost_supervisor and process.find_strays() is None

    @property
    def is_in_group(self) -> bool:
        """Return True if the kernel has joined its memory group by itself."""
        return isinstance(self.popen, SupervisedProcess) and self.popen.has_joined

    @property
    def supervised(self) -> SupervisedProcess | None:
        """Return the process if a supervisor keeps everything that comes from it together."""
        process = self.popen
        return process if isinstance(process, SupervisedProcess) and not process.lost_supervisor else None

    @property
    def has_lost_supervisor(self) -> bool:
        """Return True if the kernel's supervisor was killed, and the kernel with it."""
        return isinstance(self.popen, SupervisedProcess) and self.popen.lost_supervisor

    async def _wait_for_location(self) -> None:
        """Wait until the launcher knows where the kernel runs. A queue may be long, so there is no time limit."""
        begun = asyncio.get_running_loop().time()
        # srun prints nothing while the kernel is queued, so queued and starting kernels look the same.
        self.on_queue(self.launch.holder or "a queue")
        try:
            while self.launch.location is None:
                self._check_refusal()
                self._news.clear()
                await self._news.wait()
        except BaseException:
            # No other object knows the process yet.
            await asyncio.shield(self.launch.stop())
            self.close_stderr()
            raise
        finally:
            self.on_queue("")
        self.queued_seconds = asyncio.get_running_loop().time() - begun

    def _check_refusal(self) -> None:
        if self.ended.done():
            raise KernelStartError(self.launch.refusal())

    def _connection(self) -> Any:
        """Return the connection; the launcher may have changed its addresses."""
        location, manager = self.launch.location, self.parent
        if location is not None and location.connection and manager is not None:
            for name, value in location.connection.items():
                setattr(manager, name, value)
            self.connection_info = manager.get_connection_info()
        return self.connection_info

    def _watch_stderr(self, reader: int) -> None:
        self._pipe = reader
        if sys.platform == "win32":
            # The selector loop reads no pipes there.
            threading.Thread(target=self._read_stderr_blocking, args=(reader,), daemon=True).start()
        else:
            os.set_blocking(reader, False)
            asyncio.get_running_loop().add_reader(reader, self.read_stderr)

    def read_stderr(self) -> None:
        """Read what is on the pipe now; also called once after the end of the process."""
        while self._pipe is not None:
            try:
                data = os.read(self._pipe, 65_536)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            self.stderr.append(self.launch.read(data.decode(errors="replace"), is_end=not data))
            self._news.set()
            if not data:
                self.close_stderr()
                return

    def _read_stderr_blocking(self, reader: int) -> None:
        with suppress(OSError):
            while data := os.read(reader, 65_536):
                self.stderr.append(data.decode(errors="replace"))

    def close_stderr(self) -> None:
        """Close the pipe; a process that outlives the kernel may still hold its other end."""
        if self._pipe is None:
            return
        if not _IS_WINDOWS:
            asyncio.get_running_loop().remove_reader(self._pipe)
        os.close(self._pipe)
        self._pipe = None

    async def end_tree(self, seconds: float) -> None:
        """Have the supervisor, if there is one, kill whatever is left below it, and let go of it."""
        if isinstance(self.popen, SupervisedProcess):
            self._stop_watching_supervisor()
            self._stop_watching_kernel()
            await self.popen.end_tree(seconds)
            self._note_exit()

    def _stop_watching_supervisor(self) -> None:
        # The descriptor is -1 once the supervisor was let go of.
        if isinstance(self.popen, SupervisedProcess) and self.popen.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self.popen.fileno())

    def _watch_exit(self) -> None:
        popen, loop = self.popen, asyncio.get_running_loop()
        assert popen is not None  # noqa: S101 - for the type checker; launch_kernel has set it
        if isinstance(popen, SupervisedProcess):
            # The supervisor has the exit status, and reports it once it has reaped the kernel.
            loop.add_reader(popen.fileno(), self._note_exit)
            if popen.kernel_descriptor is not None:
                loop.add_reader(popen.kernel_descriptor, self._note_kernel_end)
            return
        if hasattr(os, "pidfd_open"):
            try:
                pidfd = os.pidfd_open(popen.pid)
            except OSError:
                pass
            else:
                self._pidfd = pidfd
                loop.add_reader(pidfd, self._note_exit)
                return

        def wait() -> None:
            popen.wait()
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._note_exit)

        threading.Thread(target=wait, daemon=True).start()

    def _note_kernel_end(self) -> None:
        """
        Expect the report of the supervisor, which a lecture may have stopped, or may trace.

        Whoever polls the process takes the report from the socket, which is then not readable any more while something
        of the lecture lives on.
        """
        self._stop_watching_kernel()
        self._note_exit()
        if isinstance(self.popen, SupervisedProcess) and not self.ended.done():
            self.popen.wake_supervisor()
            asyncio.get_running_loop().call_later(_REPORT_SECONDS, self._expect_report, _MOST_WAITS)

    def _expect_report(self, waits: int) -> None:
        if not isinstance(self.popen, SupervisedProcess) or self.ended.done():
            return
        if self.popen.poll() is not None:
            self._note_exit()
        elif waits == 0 or self.popen.is_supervisor_halted():
            self.popen.give_up_supervisor()
        else:
            # It has only had no core on an overloaded machine.
            asyncio.get_running_loop().call_later(_REPORT_SECONDS, self._expect_report, waits - 1)

    def _stop_watching_kernel(self) -> None:
        if isinstance(self.popen, SupervisedProcess) and self.popen.kernel_descriptor is not None:
            asyncio.get_running_loop().remove_reader(self.popen.kernel_descriptor)

    def _note_exit(self) -> None:
        if self.popen is not None and self.popen.poll() is None:
            return
        self._stop_watching_supervisor()
        self._stop_watching_kernel()
        if self._pidfd is not None:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        if not _IS_WINDOWS:
            self.read_stderr()
        if not self.ended.done():
            self.ended.set_result(None)
        self._news.set()

    @property
    def end(self) -> ProcessEnd:
        """Return how the kernel ended; all fields are ``None`` while it runs."""
        code = self.popen.returncode if self.popen is not None else None
        if code is None:
            return ProcessEnd()
        self._end = self._end or self.launch.end(code)
        return self._end

    @property
    def stderr_tail(self) -> tuple[str, ...]:
        """Return the last lines of stderr without ipykernel's own messages."""
        return stderr_tail(self.stderr.text)

    def terminate_process(self) -> None:
        """Send SIGTERM to the process (on Windows: end it)."""
        if self.popen is not None and not self.ended.done():
            with suppress(OSError):
                self.popen.terminate()

    def mark_stderr(self) -> None:
        """Mark the current end of stderr, before a cell begins."""
        if not _IS_WINDOWS:
            self.read_stderr()
        self._stderr_mark = self.stderr.total_chars

    @property
    def stderr_since_mark(self) -> str:
        """Return what was written to stderr since the last mark, as far as it was kept."""
        new_chars = self.stderr.total_chars - self._stderr_mark
        return self.stderr.text[-new_chars:] if new_chars > 0 else ""

    def take_new_stderr(self) -> str:
        """Return what was written to stderr since the last call, as far as it was kept."""
        if not _IS_WINDOWS:
            self.read_stderr()
        new_chars = self.stderr.total_chars - self._taken_chars
        self._taken_chars = self.stderr.total_chars
        return self.stderr.text[-new_chars:] if new_chars > 0 else ""

    @property
    def stderr_earlier_count(self) -> int:
        """Return how many lines of :attr:`stderr_tail` were written before the last mark."""
        return max(0, len(self.stderr_tail) - len(stderr_tail(self.stderr_since_mark)))

    async def poll(self) -> int | None:
        """Return the return code, or ``None`` while the process runs."""
        return self.popen.poll() if self.popen is not None else 0

    async def wait(self) -> int | None:
        """Wait for the end of the process without polling."""
        if self.popen is not None:
            await asyncio.wait({self.ended})
        return await self.poll()
