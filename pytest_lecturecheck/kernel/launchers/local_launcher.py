"""Start kernels as child processes of the session."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pytest_lecturecheck.kernel.launchers.port import KernelLocation, Launch, Launcher, LaunchRequest, ProcessEnd
from pytest_lecturecheck.model.run_conditions import SchedulerFacts

_IS_WINDOWS: Final[bool] = os.name == "nt"


class LocalLaunch:
    """A kernel that is a child of this process."""

    memory_bytes: int | None = None
    holder: str = ""

    def __init__(self) -> None:
        """Create a launch that has not started."""
        self.location: KernelLocation | None = None

    @staticmethod
    def command(argv: Sequence[str]) -> list[str]:
        """Return the kernel's own command."""
        return list(argv)

    @staticmethod
    def environment(variables: Mapping[str, str]) -> dict[str, str]:
        """Return the kernel's own environment."""
        return dict(variables)

    def started(self, process: subprocess.Popen[bytes]) -> None:
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
    """Starts kernels as child processes of the session."""

    name: str = "local"
    needs_tcp: bool = False
    folder: Path | None = None
    admits: bool = False
    gives_gpu: bool = False

    @staticmethod
    def prepare(request: LaunchRequest) -> Launch:  # noqa: ARG004 - the protocol's signature; nothing is reserved
        """Prepare the start of one kernel."""
        return LocalLaunch()


LOCAL: Final[Launcher] = LocalLauncher()
