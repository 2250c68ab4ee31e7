"""Where kernels and probes meet: a lecture with its settings becomes a run, several at once become a cohort's run."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Final

import zmq
import zmq.asyncio

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.files import remove_tree
from pytest_lecturecheck.kernel.launchers.local_launcher import LOCAL, close_servers
from pytest_lecturecheck.kernel.launchers.port import Launcher
from pytest_lecturecheck.kernel.run.cohort_kernels import WATCH_SECONDS, CohortEnd, run_cohort
from pytest_lecturecheck.kernel.run.loop import KernelLoop
from pytest_lecturecheck.kernel.run.manifest_log import ManifestSources
from pytest_lecturecheck.kernel.run.ports import Capture, MemoryPlan, Ports, RunPlan, RunProgress, Tracing
from pytest_lecturecheck.kernel.run.runner import run_lecture
from pytest_lecturecheck.kernel.run.spare_kernels import SpareKernels
from pytest_lecturecheck.model.cohort import CohortSpec
from pytest_lecturecheck.model.cohort_record import join_runs, member_labels
from pytest_lecturecheck.model.executed import ExecutedLecture
from pytest_lecturecheck.model.lecture import Lecture
from pytest_lecturecheck.model.platform import Machine
from pytest_lecturecheck.model.repetition import RepeatRequest
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.model.settings import RunSettings
from pytest_lecturecheck.model.variant import DEFAULT_VARIANT
from pytest_lecturecheck.probe.gpu.monitor import open_gpu_monitor
from pytest_lecturecheck.probe.loaded_libraries import read_libraries
from pytest_lecturecheck.probe.machine_facts import read_machine_facts
from pytest_lecturecheck.session.kernel_ports import MachineLeftovers, MachineMemory, MachineOomRecords, MachineProbes
from pytest_lecturecheck.session.reaper import Reaper

_RECONNECT_MILLISECONDS: Final = 4
"""libzmq retries an ipc socket that is not bound yet after 100 ms by default, a third of a kernel's start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelJob:
    """
    The work of one kernel of a cohort.

    Attributes:
        lecture: the lecture.
        settings: its resolved settings.
        environment: variables for its kernel only.
        memory_bytes: memory that a launcher with a scheduler asks for, or ``None`` for its default.
    """

    lecture: Lecture
    settings: RunSettings
    environment: Mapping[str, str] = field(default_factory=dict)
    memory_bytes: int | None = None


class Workbench:
    """
    Runs lectures, one after the other.

    Args:
        platform: platform label of the session.
        machine: the machine.
        on_kernel: receives the process id of every kernel that starts; called on the kernels' thread.
        on_progress: receives the progress of runs; called on the kernels' thread.
        on_wait: is called about twice a second on the calling thread while a lecture runs.
        kernel_count: kernels that the session may run at once, or ``None``.
        launcher: starts kernels.
    """

    def __init__(  # noqa: PLR0913 - all of it by keyword
        self,
        *,
        platform: str,
        machine: Machine,
        on_kernel: Callable[[int], None],
        on_progress: Callable[[RunProgress], None],
        on_wait: Callable[[], None],
        kernel_count: int | None = None,
        launcher: Launcher = LOCAL,
    ) -> None:
        """Start nothing yet."""
        self._kernel_count = kernel_count
        self._platform = platform
        self._machine = machine
        self._loop = KernelLoop(on_wait)
        self._context: zmq.asyncio.Context | None = None
        self._stopped: Run | None = None
        self._gpus = open_gpu_monitor()
        # On Windows only the kernel itself watches its parent.
        self._reaper = None if os.name == "nt" else Reaper()
        self._folders: list[Path] = []
        self._spares = SpareKernels(self._reaper)
        self._ports = Ports(
            probes=MachineProbes(self._gpus, on_kernel),
            host=MachineMemory(machine.core_count),
            oom=MachineOomRecords(),
            leftovers=MachineLeftovers(),
            reaper=self._reaper,
            on_progress=lambda progress: on_progress(replace(progress, devices=self._gpus.memory_in_use())),
            launcher=launcher,
            manifest=ManifestSources(read_machine=functools.cache(read_machine_facts), read_libraries=read_libraries),
            on_stopped=self._note_stopped,
            spares=self._spares,
        )

    def _note_stopped(self, run: Run) -> None:
        self._stopped = run

    def take_stopped(self) -> Run | None:
        """Return the record of the run that an interruption has stopped, once; ``None`` if there is none."""
        run, self._stopped = self._stopped, None
        return run

    def run(  # noqa: PLR0913 - one run has that many parts; all but four by keyword
        self,
        lecture: Lecture,
        settings: RunSettings,
        repeat: int,
        environment: Mapping[str, str] | None = None,
        *,
        variant: str = DEFAULT_VARIANT,
        tracing: Tracing | None = None,
        capture: Capture | None = None,
        until_cell: int | None = None,
        memory: MemoryPlan | None = None,
        repeats: RepeatRequest | None = None,
        pass_fds: tuple[int, ...] = (),
        memory_bytes: int | None = None,
        on_executed: Callable[[ExecutedLecture], None] | None = None,
        is_followed: bool = False,
    ) -> Run:
        """
        Run ``lecture`` once and return the record.

        Args:
            lecture: the lecture.
            settings: its resolved settings.
            repeat: number of this run among the repetitions.
            environment: variables for its kernel only.
            variant: name of the lecture's variant.
            tracing: cells to trace, or ``None``.
            capture: the cell before which state is saved, or ``None``.
            until_cell: the last code cell to run, or ``None`` for all.
            memory: what is observed of the memory of cells, or ``None``.
            repeats: cells that are run again after the last one, or ``None``.
            pass_fds: descriptors that its kernel keeps as long as it lives.
            memory_bytes: memory that a launcher with a scheduler asks for, or ``None`` for its default.
            on_executed: receives the outputs of a lecture that ran to its end; ``None`` keeps none.
            is_followed: whether another lecture comes next, so that its kernel can be prepared.
        """
        plan = RunPlan(
            lecture=lecture,
            settings=settings,
            platform=self._platform,
            machine=self._machine,
            variant=variant,
            repeat=repeat,
            environment=environment or {},
            kernel_count=self._kernel_count,
            pass_fds=pass_fds,
            tracing=tracing,
            capture=capture,
            until_cell=until_cell,
            memory=memory,
            repeats=repeats,
            memory_bytes=memory_bytes,
            on_executed=on_executed,
            is_followed=is_followed,
        )
        return self._loop.run(run_lecture(plan, self._ports, self._zmq()))

    def run_cohort(
        self,
        spec: CohortSpec,
        jobs: Sequence[KernelJob],
        *,
        name: str,
        repeat: int,
        kernel_count: int,
        pass_fds: tuple[int, ...] = (),
    ) -> Run:
        """
        Run a cohort once and return the record of all its kernels.

        Args:
            spec: what runs at once.
            jobs: what each kernel does, in the order of the spec.
            name: name of the cohort, for progress.
            repeat: number of this run among the repetitions.
            kernel_count: kernels that may run at once, these and others.
            pass_fds: descriptors that every kernel keeps as long as it lives.
        """
        plans = [
            RunPlan(
                lecture=job.lecture,
                settings=job.settings,
                platform=self._platform,
                machine=self._machine,
                repeat=repeat,
                environment=job.environment,
                kernel_count=kernel_count,
                pass_fds=pass_fds,
                memory_bytes=job.memory_bytes,
                label=label,
            )
            for job, label in zip(jobs, member_labels(spec.lectures), strict=True)
        ]
        self._end_spares()
        return _join(spec, self._loop.run(run_cohort(plans, self._ports, self._zmq(), name)))

    def _end_spares(self) -> None:
        if self._spares.has_one:
            self._loop.run(self._spares.close())

    def _zmq(self) -> zmq.asyncio.Context:
        if self._context is None:
            context = zmq.asyncio.Context()
            context.setsockopt(zmq.RECONNECT_IVL, _RECONNECT_MILLISECONDS)
            # A full queue would drop output, and with it the message that a cell has ended.
            context.setsockopt(zmq.RCVHWM, 0)
            context.setsockopt(zmq.LINGER, 0)
            self._context = context
        return self._context

    def guard(self, folder: Path) -> None:
        """Have a folder for kernels removed with this bench, or by the reaper if the session is killed before."""
        self._folders.append(folder)
        if self._reaper is not None:
            self._reaper.add(folder.name, pid=0, folders=[str(folder)], group=None)

    def close(self) -> None:
        """Stop the loop and its sockets, and remove the folders that are guarded; safe to call twice."""
        self._end_spares()
        self._loop.close()
        close_servers()
        self._gpus.close()
        for folder in self._folders:
            remove_tree(folder)
            if self._reaper is not None:
                self._reaper.remove(folder.name)
        if self._reaper is not None:
            self._reaper.close()
        if self._context is not None:
            self._context.destroy(linger=0)
            self._context = None


def _join(spec: CohortSpec, end: CohortEnd) -> Run:
    """Return one record of a cohort; times count from the common start of its kernels."""
    starts = [item.first_cell_seconds for item in end.members if item.first_cell_seconds is not None]
    first = min(starts, default=0.0)
    runs = [
        item.run
        if item.first_cell_seconds is None
        else replace(item.run, first_cell_seconds=round(item.first_cell_seconds - first, 6))
        for item in end.members
    ]
    ends = [
        item.origin_seconds + cell.ended_seconds
        for item in end.members
        for cell in item.run.cells
        if cell.ended_seconds is not None
    ]
    began = first if end.opened_seconds is None else min(first, end.opened_seconds)
    return join_runs(
        spec,
        runs,
        wall_seconds=max(0.0, max(ends) - began) if starts and ends else None,
        together=end.together,
        interval_seconds=WATCH_SECONDS,
        device_starts_seconds=[item.device_origin_seconds for item in end.members],
    )
