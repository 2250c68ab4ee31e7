"""
Protocols of launchers, which turn a kernel's command into a process that runs somewhere.

A launcher may start kernels through another program such as ``srun``. The process that is started here is then the
kernel's *keeper*: it lives as long as the kernel and forwards its stderr.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.kernel.launchers.supervised_process import SupervisedProcess
from pytest_lecturecheck.model.run_conditions import SchedulerFacts
from pytest_lecturecheck.model.settings import GpuNeed

KernelProcess = subprocess.Popen[bytes] | SupervisedProcess
"""The process that was started here: a child of this process, or a kernel below its supervisor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """
    A request to start one kernel.

    Attributes:
        lecture: the lecture's name, for display; it must never reach a shell.
        token: the run's token, which every process of the kernel must carry in its environment under
            ``LECTURECHECK_RUN``.
        memory_bytes: memory to reserve for the lecture, or ``None`` if unknown.
        gpu: the lecture's need of a GPU, or ``None`` if it states none.
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
    Where a kernel runs.

    Attributes:
        pid: process id of the kernel on its own machine.
        is_here: whether the process is on this machine and can be measured and signalled.
        connection: contents of its connection file, if the launcher has changed the addresses.
        job_step: the scheduler's id of the job step, or an empty string.
    """

    pid: int
    is_here: bool = True
    connection: Mapping[str, Any] | None = None
    job_step: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEnd:
    """
    How a kernel's process ended.

    Attributes:
        exit_code: its exit status, or ``None`` if a signal ended it.
        signal: the signal's number, or ``None``.
        text: an explanation that replaces both in messages, or an empty string.
    """

    exit_code: int | None = None
    signal: int | None = None
    text: str = ""


class Launch(Protocol):
    """
    The launch of one kernel, from the request to its end.

    Attributes:
        location: where it runs; ``None`` while that is not known.
        memory_bytes: memory limit that the launcher enforces, or ``None``.
        holder: who enforces that limit ("Slurm"), or an empty string.
    """

    location: KernelLocation | None
    memory_bytes: int | None
    holder: str

    def command(self, argv: Sequence[str]) -> list[str]:
        """Return the command to start here."""

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of that command."""

    def started(self, process: KernelProcess) -> None:
        """Record the process that was started here."""

    def read(self, text: str, *, is_end: bool = False) -> str:
        """Split text from stderr: keep the launcher's own messages and return the kernel's."""

    def refusal(self) -> str:
        """Explain why the kernel never started, after the process here has ended without a location."""

    def end(self, return_code: int) -> ProcessEnd:
        """Return how the kernel ended, given the return code of the process here."""

    async def interrupt(self) -> bool:
        """Send SIGINT to the kernel; return False to let the caller signal the process group here."""

    async def stop(self) -> None:
        """End the kernel and its keeper; the caller then kills whatever is left here. Safe to call twice."""

    async def look(self) -> None:
        """Query the scheduler about the kernel while it still runs."""

    async def facts(self) -> SchedulerFacts | None:
        """Return the scheduler's facts after the end, or ``None`` if there is no scheduler."""


class Launcher(Protocol):
    """
    Starts kernels.

    Attributes:
        name: its name in ``--lecture-launcher``.
        needs_tcp: whether kernels may run where ipc sockets do not reach.
        folder: folder for connection files that kernels and this session share; ``None`` for a temporary one.
        admits: whether it queues kernels until there is room for them, so that no lease is needed.
        gives_gpu: whether lectures that need a GPU get one although this machine has none.
    """

    name: str
    needs_tcp: bool
    folder: Path | None
    admits: bool
    gives_gpu: bool

    def prepare(self, request: LaunchRequest) -> Launch:
        """Prepare the start of one kernel without starting it."""
