"""
Start a kernel process; this is the only module that does.

Kernels use ipc sockets in a private folder, because TCP ports are picked before they are bound and can be lost to
another process. Windows, and kernels that do not support ipc, use TCP.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psutil
import zmq.asyncio
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.errors import KernelStartError
from pytest_lecturecheck.files import remove_tree
from pytest_lecturecheck.kernel.launchers.local_launcher import LOCAL, kernel_environment_of
from pytest_lecturecheck.kernel.launchers.port import KernelLocation, Launch, Launcher, LaunchRequest
from pytest_lecturecheck.kernel.launchers.supervised import SpareProcess
from pytest_lecturecheck.kernel.process.cgroup import MemoryGroup
from pytest_lecturecheck.kernel.process.provisioner import LectureProvisioner
from pytest_lecturecheck.kernel.process.quiet import quiet_failures
from pytest_lecturecheck.kernel.process.specs import find_spec, spec_manager
from pytest_lecturecheck.model.kernel_start import KernelStart
from pytest_lecturecheck.model.probe import RUN_TOKEN_VARIABLE
from pytest_lecturecheck.model.settings import GpuNeed

# A separate name makes the type checker look at both branches on every system.
_IS_WINDOWS: Final[bool] = os.name == "nt"
_IPC_PATH_LIMIT: Final = 100
_FOLDER_PREFIX: Final = "lc-"


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
        self._created = 0.0
        # A kernel that has ended already has no time of its own, and has left nothing in a group either.
        with suppress(psutil.Error):
            self._created = psutil.Process(self.pid).create_time()

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

    def is_older(self, pid: int) -> bool:
        """Return True if a process existed before the kernel, so that the lecture cannot have started it."""
        if pid == os.getpid():
            return True
        with suppress(psutil.Error):
            return psutil.Process(pid).create_time() < self._created
        return False

    def has_descended(self, pid: int) -> bool:
        """Return True if a process that was seen below the kernel is still that one, and alive."""
        with suppress(psutil.Error):
            process = psutil.Process(pid)
            return process.create_time() >= self._created and not has_ended(process)
        return False

    @property
    def process_start(self) -> str:
        """Return how the kernel's process was started here ("fork", "spawn"); empty for one on another machine."""
        if not self.location.is_here:
            return ""
        supervised = self.provisioner.supervised
        is_forked = supervised is not None and supervised.is_forked
        return (KernelStart.FORK if is_forked else KernelStart.SPAWN).value

    @property
    def supervisor_pid(self) -> int | None:
        """Return the process that everything of the run stays below, or ``None`` if there is none."""
        supervised = self.provisioner.supervised
        return supervised.supervisor_pid if supervised is not None else None

    def ask_for_end(self) -> bool:
        """Wake a stopped supervisor; return True if the kernel has ended, so that it will report how."""
        supervised = self.provisioner.supervised
        if supervised is None:
            return False
        supervised.wake_supervisor()
        with suppress(psutil.Error):
            return has_ended(psutil.Process(self.pid))
        return False

    @property
    def is_tree_empty(self) -> bool:
        """Return True if the kernel has ended and its supervisor has seen that nothing is left below it."""
        supervised = self.provisioner.supervised
        return supervised is not None and self.provisioner.ended.done() and supervised.is_tree_empty

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
        remove_tree(self._folder)
        if self.group is not None:
            self.group.remove()


def has_ended(process: psutil.Process) -> bool:
    """
    Return True for a zombie; one whose first thread alone has ended is none.

    Raises:
        psutil.Error: the process is gone.
    """
    return process.status() in {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD} and process.num_threads() <= 1


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
    make_group: Callable[[Launch], MemoryGroup | None] = lambda _: None,
    spare: SpareProcess | None = None,
    on_files: Callable[[str, MemoryGroup | None], None] = lambda _folder, _group: None,
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
        make_group: returns the memory group that the kernel joins if it can do so by itself, or ``None``.
        spare: a process that becomes the kernel if it fits and is in that group; ``None`` for none.
        on_files: called with the private folder and the memory group before the process is started.

    Raises:
        KernelStartError: the kernelspec is not installed or broken, its program is missing, or the launcher did not
            start a kernel.
    """
    spec_name = spec_name or "python3"
    specs = spec_manager()
    spec = find_spec(spec_name, specs)
    folder = _make_folder(launcher)
    manager = AsyncKernelManager(
        kernel_name=spec_name, kernel_spec_manager=specs, context=context, transport_encryption="disabled"
    )
    # Otherwise the manager reads it once more.
    manager._kernel_spec = spec  # noqa: SLF001 - there is no other way to hand it over
    _set_connection(manager, folder, needs_tcp=launcher.needs_tcp)
    launch = launcher.prepare(_request(need or KernelNeed(), token, Path(manager.connection_file), cwd))
    provisioner = LectureProvisioner(launch=launch, kernel_id=token, kernel_spec=spec, parent=manager)
    provisioner.on_queue = on_queue
    provisioner.spare = spare
    provisioner.pass_fds = () if _IS_WINDOWS else pass_fds
    manager.provisioner = provisioner
    # On-disk history costs time in every cell and would be shared by concurrent runs.
    arguments = ["--HistoryManager.hist_file=:memory:"] if manager.ipykernel else []
    try:
        provisioner.group = make_group(launch)
        on_files(folder, provisioner.group)
        with quiet_failures():
            # Without the decorator of jupyter_client, which sleeps for 10 ms after each start.
            start: Any = AsyncKernelManager.start_kernel
            start = getattr(start, "__wrapped__", start)
            await start(manager, cwd=str(cwd), env=_environment(token, extra_env), extra_arguments=arguments)
    except (OSError, ValueError) as exc:
        _remove(folder, provisioner.group)
        raise _start_error(spec_name, spec, exc) from exc
    except BaseException:
        _remove(folder, provisioner.group)
        raise
    return Kernel(manager, provisioner, spec_name, folder, token)


def _remove(folder: str, group: MemoryGroup | None) -> None:
    remove_tree(folder)
    if group is not None:
        group.remove()


def _set_connection(manager: AsyncKernelManager, folder: str, *, needs_tcp: bool) -> None:
    manager.connection_file = str(Path(folder) / "kernel.json")
    socket_stem = str(Path(folder) / "k")
    may_use_ipc = manager.ipykernel and not _IS_WINDOWS and not needs_tcp
    if may_use_ipc and len(socket_stem) < _IPC_PATH_LIMIT:
        manager.transport = "ipc"
        manager.ip = socket_stem


def _start_error(spec_name: str, spec: KernelSpec, exc: Exception) -> KernelStartError:
    program, file = spec.argv[0], Path(spec.resource_dir) / "kernel.json"
    cure = "install the kernel again (python -m ipykernel install) or choose another one with --lecture-kernel NAME"
    what = "does not exist" if isinstance(exc, FileNotFoundError) else f"gave {exc}"
    return KernelStartError(
        f"kernel {spec_name!r} could not be started: its program {program!r}, from {file}, {what}; {cure}"
    )


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
    return {**kernel_environment_of(extra_env or {}), RUN_TOKEN_VARIABLE: token}
