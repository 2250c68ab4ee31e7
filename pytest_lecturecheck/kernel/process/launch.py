"""
Start a kernel process; this is the only module that does.

Kernels use ipc sockets in a private folder, because TCP ports are picked before they are bound and can be lost to
another process. Windows, and kernels that do not support ipc, use TCP.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import zmq.asyncio
from jupyter_client.launcher import launch_kernel
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from pytest_lecturecheck.errors import KernelStartError
from pytest_lecturecheck.kernel.launchers.local_launcher import LOCAL
from pytest_lecturecheck.kernel.launchers.port import KernelLocation, Launch, Launcher, LaunchRequest, ProcessEnd
from pytest_lecturecheck.kernel.process.cgroup import MemoryGroup
from pytest_lecturecheck.kernel.process.outputs import BoundedText
from pytest_lecturecheck.kernel.process.quiet import quiet_failures
from pytest_lecturecheck.kernel.process.specs import find_spec, spec_manager
from pytest_lecturecheck.kernel.process.stderr import stderr_tail
from pytest_lecturecheck.model.probe import RUN_TOKEN_VARIABLE
from pytest_lecturecheck.model.settings import GpuNeed

# A separate name makes the type checker look at both branches on every system.
_IS_WINDOWS: Final[bool] = os.name == "nt"
_IPC_PATH_LIMIT: Final = 100
_FOLDER_PREFIX: Final = "lc-"


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
        self.popen: subprocess.Popen[bytes] | None = None
        self.pass_fds: tuple[int, ...] = ()
        self.on_queue: Callable[[str], None] = lambda _: None
        self._stderr_mark = 0
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
        try:
            self.popen = launch_kernel(
                self.launch.command(cmd),
                stdin=subprocess.DEVNULL,
                stdout=writer,
                stderr=writer,
                env=self.launch.environment(kwargs.get("env") or {}),
                cwd=kwargs.get("cwd"),
                pass_fds=self.pass_fds,
            )
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        self.process = self.popen
        self.pid = self.popen.pid
        self.pgid = self.popen.pid if not _IS_WINDOWS else None
        self.launch.started(self.popen)
        self._watch_stderr(reader)
        self._watch_exit()
        if self.launch.location is None:
            await self._wait_for_location()
        return self._connection()

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

    def _watch_exit(self) -> None:
        popen, loop = self.popen, asyncio.get_running_loop()
        assert popen is not None  # noqa: S101 - for the type checker; launch_kernel has set it
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

    def _note_exit(self) -> None:
        if self.popen is not None and self.popen.poll() is None:
            return
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

    def mark_stderr(self) -> None:
        """Mark the current end of stderr, before a cell begins."""
        if not _IS_WINDOWS:
            self.read_stderr()
        self._stderr_mark = self.stderr.total_chars

    @property
    def stderr_earlier_count(self) -> int:
        """Return how many lines of :attr:`stderr_tail` were written before the last mark."""
        new_chars = self.stderr.total_chars - self._stderr_mark
        new_lines = stderr_tail(self.stderr.text[-new_chars:]) if new_chars > 0 else ()
        return max(0, len(self.stderr_tail) - len(new_lines))

    async def poll(self) -> int | None:
        """Return the return code, or ``None`` while the process runs."""
        return self.popen.poll() if self.popen is not None else 0

    async def wait(self) -> int | None:
        """Wait for the end of the process without polling."""
        if self.popen is not None:
            await asyncio.wait({self.ended})
        return await self.poll()


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelNeed:
    """What a launcher needs to know about a kernel: lecture, memory to reserve if known, need of a GPU."""

    lecture: str = ""
    memory_bytes: int | None = None
    gpu: GpuNeed | None = None


class Kernel:
    """
    A started kernel: manager, provisioner and the private folder of its connection.

    Attributes:
        manager: jupyter_client's manager of this kernel.
        provisioner: the process behind it.
        spec_name: name of the kernelspec.
        language: language of the kernel, in lower case.
        group: the run's memory group, or ``None``.
        token: value of :data:`~pytest_lecturecheck.model.probe.RUN_TOKEN_VARIABLE` in the kernel's environment.
    """

    def __init__(self, manager: Any, provisioner: LectureProvisioner, spec_name: str, folder: str, token: str) -> None:
        """Store what :func:`start_kernel` created."""
        self.manager = manager
        self.provisioner = provisioner
        self.spec_name = spec_name
        self.language = str(getattr(manager.kernel_spec, "language", "") or "").lower()
        self.token = token
        self.group: MemoryGroup | None = None
        self._folder = folder

    @property
    def location(self) -> KernelLocation:
        """Return where the kernel runs."""
        location = self.provisioner.launch.location
        assert location is not None  # noqa: S101 - a Kernel exists only after the launch
        return location

    @property
    def pid(self) -> int:
        """Return the process id of the kernel or, if it runs on another machine, of its keeper here."""
        if self.location.is_here:
            return self.location.pid
        assert self.provisioner.popen is not None  # noqa: S101 - a Kernel exists only after the launch
        return self.provisioner.popen.pid

    @property
    def folder(self) -> str:
        """Return the private folder of the connection."""
        return self._folder

    def remove_files(self) -> None:
        """Remove the connection file, the sockets and their folder, and the memory group."""
        self.provisioner.close_stderr()
        with suppress(OSError):
            self.manager.cleanup_connection_file()
        self.manager._close_control_socket()  # noqa: SLF001 - jupyter_client closes it only in shutdown_kernel
        shutil.rmtree(self._folder, ignore_errors=True)
        if self.group is not None:
            self.group.remove()


async def start_kernel(  # noqa: PLR0913 - keyword-only, most with a default
    spec_name: str | None,
    *,
    context: zmq.asyncio.Context,
    cwd: Path,
    token: str,
    extra_env: Mapping[str, str] | None = None,
    pass_fds: tuple[int, ...] = (),
    launcher: Launcher = LOCAL,
    need: KernelNeed | None = None,
    on_queue: Callable[[str], None] = lambda _: None,
) -> Kernel:
    """
    Start a kernel process; it is not ready yet.

    Args:
        spec_name: kernelspec to use; ``None`` takes the running interpreter's own.
        context: zmq context of the sockets.
        cwd: the kernel's folder.
        token: identifies the run's processes through their environment.
        extra_env: variables for this kernel only.
        pass_fds: descriptors that the process keeps as long as it lives (POSIX).
        launcher: where the kernel runs.
        need: what the launcher needs to know about it.
        on_queue: called with the queue in which the kernel waits ("Slurm"), and with an empty string afterwards.

    Raises:
        KernelStartError: the kernelspec is not installed or broken, its program is missing, or the launcher did not
            start a kernel.
    """
    spec_name = spec_name or "python3"
    spec = find_spec(spec_name)
    folder = _make_folder(launcher)
    manager = AsyncKernelManager(
        kernel_name=spec_name, kernel_spec_manager=spec_manager(), context=context, transport_encryption="disabled"
    )
    manager.connection_file = str(Path(folder) / "kernel.json")
    socket_stem = str(Path(folder) / "k")
    may_use_ipc = manager.ipykernel and not _IS_WINDOWS and not launcher.needs_tcp
    if may_use_ipc and len(socket_stem) < _IPC_PATH_LIMIT:
        manager.transport = "ipc"
        manager.ip = socket_stem
    launch = launcher.prepare(_request(need or KernelNeed(), token, Path(manager.connection_file), cwd))
    provisioner = LectureProvisioner(launch=launch, kernel_id=token, kernel_spec=spec, parent=manager)
    provisioner.on_queue = on_queue
    provisioner.pass_fds = () if _IS_WINDOWS else pass_fds
    manager.provisioner = provisioner
    # On-disk history costs time in every cell and would be shared by concurrent runs.
    arguments = ["--HistoryManager.hist_file=:memory:"] if manager.ipykernel else []
    try:
        with quiet_failures():
            await manager.start_kernel(cwd=str(cwd), env=_environment(token, extra_env), extra_arguments=arguments)
    except (OSError, ValueError) as exc:
        shutil.rmtree(folder, ignore_errors=True)
        program = spec.argv[0]
        cure = "install the kernel again (python -m ipykernel install) or choose another one with --lecture-kernel NAME"
        what = "does not exist" if isinstance(exc, FileNotFoundError) else f"gave {exc}"
        msg = f"kernel {spec_name!r} could not be started: its program {program!r} {what}; {cure}"
        raise KernelStartError(msg) from exc
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return Kernel(manager, provisioner, spec_name, folder, token)


def _make_folder(launcher: Launcher) -> str:
    """Create a private folder for the connection, where the kernel can reach it."""
    return tempfile.mkdtemp(prefix=_FOLDER_PREFIX, dir=make_shared_folder(launcher))


def make_shared_folder(launcher: Launcher) -> Path | None:
    """Create the folder that kernels share with this session; return ``None`` if temporary folders will do."""
    if launcher.folder is not None:
        launcher.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return launcher.folder


def _request(need: KernelNeed, token: str, connection_file: Path, cwd: Path) -> LaunchRequest:
    return LaunchRequest(
        lecture=need.lecture,
        token=token,
        memory_bytes=need.memory_bytes,
        gpu=need.gpu,
        connection_file=connection_file,
        cwd=cwd,
    )


def _environment(token: str, extra_env: Mapping[str, str] | None) -> dict[str, str]:
    # pytest's own variables change how ipykernel treats its output.
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    env.update(extra_env or {})
    env[RUN_TOKEN_VARIABLE] = token
    return env
