"""Kernels as children of this process."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pytest_lecturecheck.kernel.launchers.port import KernelLocation, Launch, Launcher, LaunchOrder, ProcessEnd
from pytest_lecturecheck.model.run_conditions import SchedulerFacts

_IS_WINDOWS: Final[bool] = os.name == "nt"


class LocalLaunch:
    """A kernel that is a child of this process."""

    memory_bytes: int | None = None
    holder: str = ""

    def __init__(self) -> None:
        """Know nothing yet."""
        self.place: KernelLocation | None = None

    @staticmethod
    def command(argv: Sequence[str]) -> list[str]:
        """Give the kernel's own command."""
        return list(argv)

    @staticmethod
    def environment(variables: Mapping[str, str]) -> dict[str, str]:
        """Give the kernel's own environment."""
        return dict(variables)

    def started(self, process: subprocess.Popen[bytes]) -> None:
        """Take note: the process is the kernel."""
        self.place = KernelLocation(pid=process.pid)

    @staticmethod
    def read(text: str, *, is_end: bool = False) -> str:  # noqa: ARG004 - nothing is held back, and nothing comes late
        """Give the text: all of it is the kernel's."""
        return text

    @staticmethod
    def refusal() -> str:
        """Say nothing: a kernel that was started has a place."""
        return ""

    @staticmethod
    def end(return_code: int) -> ProcessEnd:
        """Read the return code as :mod:`subprocess` gives it."""
        if return_code < 0 and not _IS_WINDOWS:
            return ProcessEnd(signal=-return_code)
        return ProcessEnd(exit_code=return_code)

    async def interrupt(self) -> bool:
        """Leave it to the caller."""
        return False

    async def stop(self) -> None:
        """Leave it to the caller."""

    async def look(self) -> None:
        """Ask nobody."""

    async def facts(self) -> SchedulerFacts | None:
        """Give nothing: no scheduler is involved."""
        return None


class LocalLauncher:
    """Starts kernels as children of this process."""

    name: str = "local"
    needs_tcp: bool = False
    folder: Path | None = None
    admits: bool = False
    gives_gpu: bool = False

    @staticmethod
    def order(order: LaunchOrder) -> Launch:  # noqa: ARG004 - the port's signature; nothing has to be asked for
        """Prepare the start of one kernel."""
        return LocalLaunch()


LOCAL: Final[Launcher] = LocalLauncher()
