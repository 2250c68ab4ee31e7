"""
The port of launchers: what turns a kernel's command into a process that runs somewhere.

A launcher that starts kernels through another program (``srun``) gives that program's command; the process that is
started here is then its *keeper*, which lives as long as the kernel and passes on what it writes to stderr.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pytest_lecturecheck.model.run_conditions import SchedulerFacts
from pytest_lecturecheck.model.settings import GpuNeed


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchOrder:
    """
    One kernel to be started.

    Attributes:
        lecture: the lecture's name, for people; never an argument of a shell.
        token: the run's token, which every process of the kernel must carry in its environment under
            ``LECTURECHECK_RUN``.
        memory_bytes: memory that the lecture is to have, or ``None`` where nothing says so.
        gpu: what the lecture says about GPUs.
        connection_file: the kernel's connection file.
        cwd: the kernel's folder.
    """

    lecture: str
    token: str
    memory_bytes: int | None
    gpu: GpuNeed | None
    connection_file: Path
    cwd: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelLocation:
    """
    Where a kernel has come to run.

    Attributes:
        pid: process id of the kernel, on its own machine.
        is_here: whether that process is one of this machine's, which can be measured and signalled.
        connection: what its connection file says now, where the launcher has chosen other addresses; else empty.
        step: the scheduler's name of it, or an empty string.
    """

    pid: int
    is_here: bool = True
    connection: Mapping[str, Any] | None = None
    step: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEnd:
    """
    How a kernel's process ended.

    Attributes:
        exit_code: its exit status, or ``None`` after an end by a signal.
        signal: the signal's number, or ``None``.
        text: what is to be said instead of either, or an empty string.
    """

    exit_code: int | None = None
    signal: int | None = None
    text: str = ""


class Launch(Protocol):
    """
    One kernel, from the order to its end.

    Attributes:
        place: where it runs; ``None`` while it is waited for.
        memory_bytes: memory that the launcher holds it to, or ``None`` where it holds it to none.
        holder: what holds it to that ("Slurm"), or an empty string.
    """

    place: KernelLocation | None
    memory_bytes: int | None
    holder: str

    def command(self, argv: Sequence[str]) -> list[str]:
        """Give the command to be started here."""

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Give the environment of that command."""

    def started(self, process: subprocess.Popen[bytes]) -> None:
        """Take note of the process that was started here."""

    def read(self, text: str, *, is_end: bool = False) -> str:
        """Take what came on stderr, keep what the launcher itself says, and give the kernel's own words."""

    def refusal(self) -> str:
        """Say why the kernel never started, for people, when the process here has ended without a place."""

    def end(self, return_code: int) -> ProcessEnd:
        """Say how the kernel ended, given how the process here did."""

    async def interrupt(self) -> bool:
        """Send the kernel SIGINT; ``False`` leaves that to the caller, who signals the process group here."""

    async def stop(self) -> None:
        """End a kernel and its keeper in order; the caller then kills whatever is left here. Safe to call twice."""

    async def look(self) -> None:
        """Ask the scheduler about the kernel while it still runs."""

    async def facts(self) -> SchedulerFacts | None:
        """Give what the scheduler says when all has ended; ``None`` where there is no scheduler."""


class Launcher(Protocol):
    """
    Starts kernels.

    Attributes:
        name: its name in ``--lecture-launcher``.
        needs_tcp: whether kernels may run where no ipc socket reaches.
        folder: folder that kernels and this session share, for connection files; ``None`` for the temporary one.
        admits: whether it has kernels wait until there is room for them, so that no lease is needed.
        gives_gpu: whether lectures that need a GPU get one although this machine has none.
    """

    name: str
    needs_tcp: bool
    folder: Path | None
    admits: bool
    gives_gpu: bool

    def order(self, order: LaunchOrder) -> Launch:
        """Prepare the start of one kernel; starts nothing."""
