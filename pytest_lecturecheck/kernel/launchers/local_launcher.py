"""
Start kernels on this machine.

On Linux a kernel is started below a supervisor, so that nothing of a lecture can leave the tree of its processes.
Elsewhere, and where no supervisor can be had, it is a child of this process.
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pytest_lecturecheck.errors import KernelStartError
from pytest_lecturecheck.files import remove_tree
from pytest_lecturecheck.kernel.launchers.port import (
    KernelLocation,
    KernelProcess,
    Launch,
    Launcher,
    LaunchRequest,
    ProcessEnd,
)
from pytest_lecturecheck.kernel.launchers.supervised import (
    IS_SUPPORTED,
    KernelServers,
    ServerLostError,
    SpareProcess,
    is_forkable,
)
from pytest_lecturecheck.kernel.launchers.supervised_process import SupervisedProcess
from pytest_lecturecheck.model.kernel_start import KernelStart
from pytest_lecturecheck.model.run_conditions import SchedulerFacts

_IS_WINDOWS: Final[bool] = os.name == "nt"
_IPYTHON_VARIABLE: Final = "IPYTHONDIR"
_SERVERS: Final = KernelServers()
_NOT_FORKED: Final = (
    "the kernel cannot be forked, which takes Linux 5.14, ipykernel of the interpreter that runs pytest, and an "
    "environment without PYTHONHASHSEED; use --lecture-kernel-start auto"
)


class LocalLaunch:
    """A kernel on this machine, started by this session."""

    memory_bytes: int | None = None
    holder: str = ""

    def __init__(self, start: KernelStart = KernelStart.AUTO) -> None:
        """Create a launch that has not started."""
        self.location: KernelLocation | None = None
        self._start = start

    @staticmethod
    def command(argv: Sequence[str]) -> list[str]:
        """Return the kernel's own command."""
        return list(argv)

    @staticmethod
    def environment(variables: Mapping[str, str]) -> dict[str, str]:
        """Return the kernel's own environment."""
        return dict(variables)

    async def start_supervised(  # noqa: PLR0913 - what a process needs; all but the command by keyword
        self,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str],
        cwd: str,
        output: int,
        pass_fds: Sequence[int],
        group_file: str,
        spare: SpareProcess | None = None,
    ) -> SupervisedProcess | None:
        """
        Start the kernel below a supervisor; return ``None`` if none can be had, and nothing was started.

        Raises:
            OSError: the command cannot be executed.
            KernelStartError: the kernel has to be forked and cannot be.
        """
        must_fork = self._start is KernelStart.FORK
        if must_fork and not (IS_SUPPORTED and is_forkable(argv, environment)):
            raise KernelStartError(_NOT_FORKED)
        if not IS_SUPPORTED:
            return None
        try:
            return await _SERVERS.start(
                argv,
                environment=environment,
                cwd=cwd,
                output=output,
                pass_fds=pass_fds,
                group_file=group_file,
                may_fork=self._start is not KernelStart.SPAWN,
                spare=spare,
            )
        except ServerLostError as exc:
            if must_fork:
                msg = f"the kernel cannot be forked: {exc}; use --lecture-kernel-start auto"
                raise KernelStartError(msg) from exc
            return None

    def started(self, process: KernelProcess) -> None:
        """Record the process, which is the kernel itself."""
        self.location = KernelLocation(pid=process.pid)

    @staticmethod
    def read(text: str, *, is_end: bool = False) -> str:  # noqa: ARG004 - the protocol's signature; nothing is filtered
        """Return the text unchanged: all of it is the kernel's."""
        return text

    @staticmethod
    def refusal() -> str:
        """Return an empty string: a local kernel has a location as soon as it is started."""
        return ""

    @staticmethod
    def end(return_code: int) -> ProcessEnd:
        """Read the return code as :mod:`subprocess` gives it."""
        if return_code < 0 and not _IS_WINDOWS:
            return ProcessEnd(signal=-return_code)
        return ProcessEnd(exit_code=return_code)

    async def interrupt(self) -> bool:
        """Leave it to the caller to interrupt the process."""
        return False

    async def stop(self) -> None:
        """Leave it to the caller to kill the process."""

    async def look(self) -> None:
        """Do nothing: no scheduler is involved."""

    async def facts(self) -> SchedulerFacts | None:
        """Return ``None``: no scheduler is involved."""
        return None


class LocalLauncher:
    """
    Starts kernels on this machine.

    Args:
        start: how their processes are started.
    """

    name: str = "local"
    needs_tcp: bool = False
    folder: Path | None = None
    admits: bool = False
    gives_gpu: bool = False

    def __init__(self, start: KernelStart = KernelStart.AUTO) -> None:
        """Start nothing yet."""
        self.start = start

    def prepare(self, request: LaunchRequest) -> Launch:  # noqa: ARG002 - the protocol's signature; nothing is reserved
        """Prepare the start of one kernel."""
        return LocalLaunch(self.start)


LOCAL: Final[Launcher] = LocalLauncher()


def kernel_environment_of(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a kernel here: that of this process, with these variables of its own."""
    # pytest's own variables change how ipykernel treats its output.
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    env.update(variables)
    if not _has_ipython_folder(env):
        env[_IPYTHON_VARIABLE] = _own_ipython_folder()
    return env


def _has_ipython_folder(env: Mapping[str, str]) -> bool:
    """Return False if IPython would make temporary folders in each kernel, and leave them: HOME cannot be written."""
    home = env.get("HOME")
    if home is None or env.get(_IPYTHON_VARIABLE):
        return True
    folder = Path(home, ".ipython")
    return os.access(folder if folder.is_dir() else home, os.W_OK)


@functools.cache
def _own_ipython_folder() -> str:
    """Create one folder for all kernels, which share a server only if their environment is the same."""
    folder = tempfile.mkdtemp(prefix="lc-")
    atexit.register(remove_tree, folder)
    return folder


def expect_kernels(variables: Mapping[str, str]) -> None:
    """Start what forks kernels of this interpreter, before it is certain that one is asked for with these variables."""
    _SERVERS.expect([sys.executable, "-m", "ipykernel_launcher"], kernel_environment_of(variables))


async def prepare_kernel(group_file: str) -> SpareProcess | None:
    """Fork what can become the next kernel if it is like the last one; return ``None`` if that is not possible."""
    return await _SERVERS.prepare(group_file)


def close_servers() -> None:
    """End the processes that fork kernels; the next start of a kernel makes new ones. Safe to call twice."""
    _SERVERS.close()
