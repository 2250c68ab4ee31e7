"""
Start kernels as job steps of a Slurm allocation.

Slurm queues, limits and accounts for kernels. The process started here is ``srun``, which lives as long as the kernel.
It must be ended by SIGTERM, upon which it cancels its job step; SIGKILL would leave the step behind.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from pytest_lecturecheck.config.slurm_settings import ASSUMED_STEP_BYTES, LEAST_STEP_BYTES, SlurmSettings
from pytest_lecturecheck.kernel.launchers import node_entry, slurm_format, srun_parent_watch
from pytest_lecturecheck.kernel.launchers.port import KernelLocation, KernelProcess, LaunchRequest, ProcessEnd
from pytest_lecturecheck.model.probe import RUN_TOKEN_VARIABLE
from pytest_lecturecheck.model.run_conditions import SchedulerFacts

_NAME: Final = "Slurm"
_TERM_SECONDS: Final = 10.0
_CANCEL_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.05
_ASK_SECONDS: Final = 5.0
_ACCOUNT_TRIES: Final = 10
_ACCOUNT_SECONDS: Final = 0.3
_SRUN_VARIABLES: Final = (
    # Properties of the allocation, which srun would take as additional options.
    *("SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU", "SLURM_MEM_PER_NODE", "SLURM_NTASKS", "SLURM_NPROCS"),
    *("SLURM_NTASKS_PER_NODE", "SLURM_CPUS_PER_TASK", "SLURM_TASKS_PER_NODE", "SLURM_DISTRIBUTION"),
    *("SLURM_TRES_PER_TASK", "SLURM_GPUS", "SLURM_GPUS_PER_NODE", "SLURM_GPUS_PER_TASK", "SLURM_EXPORT_ENV"),
)


class SlurmLaunch:
    """
    The launch of one kernel as a job step.

    Args:
        request: the kernel to start.
        settings: the settings of Slurm.
        memory_bytes: memory that the job step requests.
        has_accounting: cache of whether ``sacct`` answers, shared by all launches.
    """

    holder = _NAME

    def __init__(
        self, request: LaunchRequest, settings: SlurmSettings, memory_bytes: int, has_accounting: dict[str, bool]
    ) -> None:
        self.location: KernelLocation | None = None
        self.memory_bytes: int | None = memory_bytes
        self._asked_bytes = memory_bytes
        self._request = request
        self._settings = settings
        self._has_accounting = has_accounting
        self._mark = f"lecturecheck-{secrets.token_hex(8)}"
        self._text = slurm_format.JobStepText(self._mark)
        self._process: subprocess.Popen[bytes] | None = None
        self._max_rss_bytes: int | None = None

    def command(self, argv: Sequence[str]) -> list[str]:
        """Return the command of ``srun``, which ends with this process."""
        python = [sys.executable, "-I"]
        options = slurm_format.step_options(self._request, self._settings, self._asked_bytes)
        on_node = [*python, node_entry.__file__, self._mark, str(self._request.connection_file), *argv]
        return [*python, srun_parent_watch.__file__, str(os.getpid()), "srun", *options, *on_node]

    @staticmethod
    def environment(variables: Mapping[str, str]) -> dict[str, str]:
        """Return the variables without the run's token and without those that ``srun`` takes as options."""
        left_out = {*_SRUN_VARIABLES, RUN_TOKEN_VARIABLE}
        return {name: value for name, value in variables.items() if name not in left_out}

    def started(self, process: KernelProcess) -> None:
        """Record the process of ``srun``."""
        if isinstance(process, subprocess.Popen):
            self._process = process

    def read(self, text: str, *, is_end: bool = False) -> str:
        """Split the labelled output; the first line of the step announces where the kernel is."""
        own = self._text.feed(text, is_end=is_end)
        announced = self._text.announced
        if self.location is None and announced:
            pid, step = int(announced.get("pid", 0)), str(announced.get("step", ""))
            connection = announced.get("connection")
            self.location = KernelLocation(
                pid=pid,
                is_here=announced.get("home") == node_entry.process_home() != "",
                connection=connection if isinstance(connection, dict) else None,
                job_step=step,
            )
        return own

    def refusal(self) -> str:
        """Explain why Slurm created no job step, or that it ended at once."""
        code = self._process.poll() if self._process is not None else None
        return slurm_format.refusal_text(
            self._text.srun_lines, code, memory_bytes=self._asked_bytes, settings=self._settings
        )

    def end(self, return_code: int) -> ProcessEnd:
        """Return how the kernel ended, according to the output and the return code of ``srun``."""
        return self._end(return_code).process

    def _end(self, return_code: int) -> slurm_format.JobStepEnd:
        return slurm_format.read_end(return_code, self._text.srun_lines, self._text.cancelled, self._step)

    @property
    def _step(self) -> str:
        return self.location.job_step if self.location is not None else ""

    async def interrupt(self) -> bool:
        """Send SIGINT to the kernel directly if it is here, else through ``scancel``; never to ``srun``."""
        if self.location is not None and self.location.is_here:
            with suppress(OSError):
                os.kill(self.location.pid, signal.SIGINT)
        elif self._step:
            await _ask(["scancel", "--signal=INT", self._step])
        return True

    async def stop(self) -> None:
        """Let ``srun`` cancel its job step; if that does not help, use ``scancel``."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        with suppress(OSError):
            process.send_signal(signal.SIGTERM)
        if await _ended(process, _TERM_SECONDS):
            return
        if self._step:
            await _ask(["scancel", self._step])
        await _ended(process, _CANCEL_SECONDS)

    async def look(self) -> None:
        """Query the highest resident size of the running step; later only the accounting knows it."""
        if self._step:
            text = await _ask(["sstat", "--parsable2", "--noheader", "--format=JobID,MaxRSS", "--jobs", self._step])
            self._max_rss_bytes = slurm_format.parse_sstat(text or "", self._step) or self._max_rss_bytes

    async def facts(self) -> SchedulerFacts | None:
        """Return how the step ended: from the accounting if there is one, else from the output of ``srun``."""
        code = self._process.poll() if self._process is not None else None
        facts = SchedulerFacts(
            name=_NAME,
            step=self._step,
            state=self._end(code).state if code is not None else "",
            exit=str(code) if code is not None else "",
            memory_bytes=self._asked_bytes,
            max_rss_bytes=self._max_rss_bytes,
            source="srun",
        )
        row = await self._accounted()
        if row is None:
            return facts
        return SchedulerFacts(
            name=_NAME,
            step=facts.step,
            state=slurm_format.choose_state(facts.state, row["state"]),
            exit=row["exit"],
            memory_bytes=facts.memory_bytes,
            max_rss_bytes=slurm_format.parse_memory(row["max_rss"]) or facts.max_rss_bytes,
            source="sacct",
        )

    async def _accounted(self) -> Mapping[str, str] | None:
        """Query ``sacct`` until the step has ended there as well, which takes a moment."""
        columns = "--format=JobID,State,ExitCode,MaxRSS"
        for _ in range(_ACCOUNT_TRIES if self._step else 0):
            if not self._has_accounting.get("sacct", True):
                return None
            text = await _ask(["sacct", "--parsable2", "--noheader", columns, "--jobs", self._step])
            self._has_accounting["sacct"] = text is not None
            if text is not None and (row := slurm_format.parse_sacct(text, self._step)) is not None:
                return row
            await asyncio.sleep(_ACCOUNT_SECONDS)
        return None


class SlurmLauncher:
    """
    Starts kernels as job steps of the allocation in which this session runs.

    Args:
        settings: the settings of Slurm.
        folder: folder for connection files that all nodes share; created with the first kernel.
        environment: the session's environment.
        srun: path of ``srun``, or ``None`` to look it up.

    Raises:
        SettingsError: there is no allocation, or Slurm is not installed.
    """

    name: str = "slurm"
    needs_tcp: bool = True
    admits: bool = True

    def __init__(
        self,
        settings: SlurmSettings,
        folder: Path,
        *,
        environment: Mapping[str, str] | None = None,
        srun: str | None = None,
    ) -> None:
        """Check that job steps can be requested; start nothing."""
        environment = os.environ if environment is None else environment
        default_bytes = slurm_format.default_step_bytes(environment, settings)
        self.folder: Path | None = folder
        self.job = slurm_format.check_allocation(environment, srun or shutil.which("srun"), settings)
        self.gives_gpu: bool = settings.gres is not None
        self._settings = settings
        self._default_bytes = default_bytes or ASSUMED_STEP_BYTES
        self._has_accounting: dict[str, bool] = {}

    def prepare(self, request: LaunchRequest) -> SlurmLaunch:
        """Prepare the job step of one kernel."""
        memory_bytes = max(LEAST_STEP_BYTES, request.memory_bytes or self._default_bytes)
        return SlurmLaunch(request, self._settings, memory_bytes, self._has_accounting)


async def _ended(process: subprocess.Popen[bytes], seconds: float) -> bool:
    for _ in range(round(seconds / _LOOK_SECONDS)):
        if process.poll() is not None:
            return True
        await asyncio.sleep(_LOOK_SECONDS)
    return process.poll() is not None


async def _ask(command: Sequence[str]) -> str | None:
    """Return the output of a Slurm command, or ``None`` if it fails or does not answer."""

    def ask() -> str | None:
        try:
            done = subprocess.run(  # noqa: S603 - a command of Slurm with a step's number
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_ASK_SECONDS,
                encoding="utf-8",
                errors="replace",
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout if done.returncode == 0 else None

    return await asyncio.to_thread(ask)
