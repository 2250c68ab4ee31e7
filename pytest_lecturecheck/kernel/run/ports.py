"""What a run gets from its caller: the plan, the ports to the machine, and a listener for its progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.kernel.launchers.local_launcher import LOCAL
from pytest_lecturecheck.kernel.launchers.port import Launcher
from pytest_lecturecheck.kernel.run.evidence_builder import HostMemory
from pytest_lecturecheck.kernel.run.kernel_probes import ProbeOpener
from pytest_lecturecheck.kernel.run.manifest_log import ManifestSources
from pytest_lecturecheck.kernel.run.oom_watch import OomRecords
from pytest_lecturecheck.kernel.run.shared_memory import LeftoverSources
from pytest_lecturecheck.model.captured_state import CapturedState
from pytest_lecturecheck.model.cell_marks import LineSample
from pytest_lecturecheck.model.device import DeviceMemory
from pytest_lecturecheck.model.executed import ExecutedLecture
from pytest_lecturecheck.model.lecture import Lecture
from pytest_lecturecheck.model.platform import Machine
from pytest_lecturecheck.model.probe import Snapshot
from pytest_lecturecheck.model.profile import ProfileSummary
from pytest_lecturecheck.model.repetition import RepeatRequest
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.model.settings import RunSettings
from pytest_lecturecheck.model.variant import DEFAULT_VARIANT

if TYPE_CHECKING:
    from pytest_lecturecheck.kernel.run.kernel_session import KernelSession
    from pytest_lecturecheck.kernel.run.spare_kernels import SpareKernel


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """
    The progress of a run, for the live line.

    Attributes:
        lecture: name of the lecture.
        number: code cell that is running, or 0 between cells.
        total: number of code cells.
        elapsed_seconds: time since the run began; while it waits, time since it began to wait.
        snapshot: last reading of its memory, or ``None``.
        waits_for: what must be free before the kernel starts ("waits for 3.1 GiB, 2 running", "queued in Slurm").
        is_ending: whether all cells have run and the kernel is about to end.
        devices: memory of the GPUs at their last sample.
        warning: what cannot end well in the cell that is running, or an empty string.
        sample: the last sample of a long cell, or ``None``.
        sample_seconds: time between two samples.
    """

    lecture: str
    number: int
    total: int
    elapsed_seconds: float
    snapshot: Snapshot | None
    waits_for: str = ""
    is_ending: bool = False
    devices: tuple[DeviceMemory, ...] = ()
    warning: str = ""
    sample: LineSample | None = None
    sample_seconds: float = 0.0


class Spares(Protocol):
    """Prepares the process of the next kernel; see :mod:`~pytest_lecturecheck.kernel.run.spare_kernels`."""

    def prepare(self, session: KernelSession) -> None:
        """Prepare a process like the kernel of a session whose last cell has ended."""

    async def take(self, *, has_cap: bool) -> SpareKernel | None:
        """Return the process that was prepared, once, or ``None``."""

    def drop(self, spare: SpareKernel, *, keeps_token: bool) -> None:
        """End a process that was taken and is not used."""


class Reaper(Protocol):
    """
    Ends the runs of a session that was killed.

    A protocol although there is one implementation: that one belongs to the session, which may not be imported here.
    """

    def add(
        self, token: str, *, pid: int, folders: list[str], group: str | None, supervisor_pid: int | None = None
    ) -> None:
        """Register a run: token, kernel and supervisor, folders to remove with it, folder of its memory group."""

    def remove(self, token: str) -> None:
        """Unregister a run of which nothing is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """
    Access of a run to the machine and the session.

    Attributes:
        probes: opens the measurement of a kernel.
        host: reads the machine's memory, load and limits.
        oom: reads records of OOM kills.
        leftovers: finds processes and shared memory that runs leave behind.
        reaper: ends registered runs if the session is killed; ``None`` for none.
        on_progress: called with the progress of the run, on the loop's thread.
        launcher: where kernels run.
        manifest: reads what lies beneath runs.
        on_stopped: called with the record of a run that was cancelled, on the loop's thread.
        spares: prepares processes of kernels ahead; ``None`` for none.
    """

    probes: ProbeOpener
    host: HostMemory
    oom: OomRecords
    leftovers: LeftoverSources
    reaper: Reaper | None
    on_progress: Callable[[RunProgress], None]
    launcher: Launcher = LOCAL
    manifest: ManifestSources = field(default_factory=ManifestSources)
    on_stopped: Callable[[Run], None] = lambda _run: None
    spares: Spares | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracing:
    """
    The cells of a run that are traced with a profiler.

    Attributes:
        cells: numbers of code cells.
        folder: folder for the traces of this run; created with the first trace.
        root: pytest's rootdir, which contains ``folder``.
        read: summarises a traced cell from the folder of its trace and, if known, its wall time. ``trace`` of the
            summary is a file in that folder. Raises LectureCheckError if it cannot.
    """

    cells: frozenset[int]
    folder: Path
    root: Path
    read: Callable[[Path, float | None], ProfileSummary]

    def cell_folder(self, number: int) -> Path:
        """Return the folder of one cell's trace."""
        return self.folder / f"cell-{number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """
    The cell of a run before which the state it reads is saved.

    Attributes:
        cell_number: number of the code cell.
        folder: folder for the state; replaced if it exists.
        root: pytest's rootdir, which contains ``folder``.
        limit_bytes: most bytes to write.
        on_captured: receives what was saved, on the loop's thread.
    """

    cell_number: int
    folder: Path
    root: Path
    limit_bytes: int
    on_captured: Callable[[CapturedState], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """
    What is observed of the memory of a run's cells.

    Attributes:
        root: pytest's rootdir, which contains ``folder``.
        folder: folder for the records of this run; created with the first record.
        levels: whether levels are taken after each cell.
        cells: numbers of code cells that are recorded with memray.
        record_bytes: size of a cell's record at which recording stops.
        limit_bytes: where levels are not taken after each cell: the footprint above which one is taken after a cell
            with a new highest peak, so that a failure shows what was in memory; ``None`` for none.
    """

    root: Path
    folder: Path
    levels: bool = True
    cells: frozenset[int] = frozenset()
    limit_bytes: float | None = None
    record_bytes: int = 256 << 20

    @property
    def changes_measurements(self) -> bool:
        """Return True if times and memory are not those of the lecture alone."""
        return bool(self.cells)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """
    A run to make.

    Attributes:
        lecture: what to run.
        settings: the resolved settings (no attribute that matters here is ``None``).
        platform: platform label, for the record.
        machine: the machine, for the record.
        variant: name of the variant.
        environment: variables for the kernel only.
        repeat: number of this run among the repetitions.
        kernel_count: kernels that the session may run at once, or ``None``.
        pass_fds: descriptors that the kernel keeps as long as it lives (POSIX).
        tracing: cells to trace, or ``None``.
        capture: the cell before which the state is saved, or ``None``.
        until_cell: the last code cell that is to run, or ``None`` for all.
        memory: what is observed of the memory of cells, or ``None``.
        repeats: cells that are run again after the last one, or ``None``.
        memory_bytes: memory that a launcher with a scheduler requests, or ``None`` for its default.
        on_executed: receives the outputs of a lecture that ran to its end, on the loop's thread; ``None`` keeps none.
        is_followed: whether a lecture of the same session comes next, so that its kernel can be prepared.
        label: display name of this run if the lecture's name is ambiguous ("kernel 2 of 3 of a.md").
    """

    lecture: Lecture
    settings: RunSettings
    platform: str
    machine: Machine
    variant: str = DEFAULT_VARIANT
    environment: Mapping[str, str] = field(default_factory=dict)
    repeat: int = 1
    kernel_count: int | None = None
    pass_fds: tuple[int, ...] = ()
    tracing: Tracing | None = None
    capture: Capture | None = None
    until_cell: int | None = None
    memory: MemoryPlan | None = None
    repeats: RepeatRequest | None = None
    memory_bytes: int | None = None
    on_executed: Callable[[ExecutedLecture], None] | None = None
    is_followed: bool = False
    label: str = ""

    @property
    def shown_name(self) -> str:
        """Return the display name of this run."""
        return self.label or self.lecture.name

    @property
    def is_profiled(self) -> bool:
        """Return True if times and memory of the run are compared with nothing."""
        return self.tracing is not None or (self.memory is not None and self.memory.changes_measurements)
