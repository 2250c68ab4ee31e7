"""What a run needs from outside its room, and what it is asked to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pytest_lecturecheck.kernel.launchers.local_launcher import LOCAL
from pytest_lecturecheck.kernel.launchers.port import Launcher
from pytest_lecturecheck.kernel.process.teardown import FindMarked
from pytest_lecturecheck.model.evidence import OomKill
from pytest_lecturecheck.model.lecture import Lecture
from pytest_lecturecheck.model.platform import Machine
from pytest_lecturecheck.model.probe import DeviceProbe, Probe, SharedSegment, Snapshot
from pytest_lecturecheck.model.profile import ProfileSummary
from pytest_lecturecheck.model.settings import RunSettings
from pytest_lecturecheck.model.variant import DEFAULT_VARIANT


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """
    Where a run stands, for the live line: cell ``number`` of ``total``, elapsed seconds, last figures.

    ``waits_for`` says what has to be free before the kernel starts ("waits for 3.1 GiB, 2 running", "queued in Slurm");
    the elapsed seconds are then those of the waiting. ``is_ending``: its cells are through, and the kernel is to leave.
    """

    lecture: str
    number: int
    total: int
    elapsed_seconds: float
    snapshot: Snapshot | None
    waits_for: str = ""
    is_ending: bool = False


class Reaper(Protocol):
    """Ends runs whose session was killed."""

    def add(self, token: str, *, pid: int, folders: list[str], group: str | None) -> None:
        """Announce a run: its token, its kernel, folders to remove with it, and the folder of its memory group."""

    def remove(self, token: str) -> None:
        """Tell that nothing is left of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """
    What a run needs from outside its room.

    Attributes:
        open_probe: opens the measurement of a kernel, given its process id, the run's token, and what reads the bytes
        of its
            memory group, or ``None``.
        open_device_probe: opens the measurement of the GPUs for a kernel, given its process id and the run's token;
            ``None`` where there is no GPU.
        note_killed: is told the token of a run whose kernel did not end by itself.
        find_marked: finds the processes that carry the run's token.
        list_shared_memory: lists the segments of shared memory by name.
        find_mapped: tells which of these segments a living process maps: one of those given, or any for ``None``.
        remove_shared_memory: removes a segment by name; tells whether it is gone.
        oom_counters: gives the counters of OOM kills as they stand, for processes in the memory group given or in none.
        compare_oom: gives the kills that lie between two states of these counters.
        read_kernel_log: gives what the kernel's log says of the end of these processes since a moment of the monotonic
            clock.
        read_load_average: processes that wanted a core over the last minute, or ``None``.
        warden: is told of runs, so that they end with the session however it ends; ``None`` for none.
        available_memory: bytes of memory that could be had now, limits counted, or ``None``.
        on_progress: is told where the run stands; called on the loop's thread.
        read_ulimit: gives the smallest limit of ``ulimit`` on a process's memory and its name, or ``None``.
        launcher: where kernels run.
        open_remote_probe: opens what stands for a measurement of a kernel that runs on another machine.
    """

    open_probe: Callable[[int, str, Callable[[], int | None] | None], Probe]
    open_device_probe: Callable[[int, str], DeviceProbe | None]
    note_killed: Callable[[str], None]
    find_marked: FindMarked
    list_shared_memory: Callable[[], Mapping[str, SharedSegment]]
    find_mapped: Callable[[AbstractSet[str], Iterable[int] | None], AbstractSet[str]]
    remove_shared_memory: Callable[[str], bool]
    oom_counters: Callable[[Path | None], Any]
    compare_oom: Callable[[Any, Any], tuple[OomKill, ...]]
    read_kernel_log: Callable[[Iterable[int], float], tuple[str, ...]]
    read_load_average: Callable[[], float | None]
    warden: Reaper | None
    available_memory: Callable[[], int | None]
    on_progress: Callable[[RunProgress], None]
    read_ulimit: Callable[[int], tuple[int, str] | None] = lambda _pid: None
    launcher: Launcher = LOCAL
    open_remote_probe: Callable[[], Probe] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracing:
    """
    Which cells of a run are traced with a profiler.

    Attributes:
        cells: numbers of code cells.
        folder: where the traces of this run go; made when the first one is.
        root: pytest's rootdir, which ``folder`` lies below.
        read: gives the figures of a traced cell from the folder of its trace and, where it is known, its wall time;
            their ``trace`` is a file in that folder. Raises LectureCheckError where it cannot.
    """

    cells: frozenset[int]
    folder: Path
    root: Path
    read: Callable[[Path, float | None], ProfileSummary]

    def cell_folder(self, number: int) -> Path:
        """Give the folder of one cell's trace."""
        return self.folder / f"cell-{number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """
    One run to be made.

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
        tracing: cells to be traced, or ``None``.
        memory_bytes: memory that a launcher with a scheduler asks for, or ``None`` for its default.
        label: how others know this run where the lecture's name is not enough ("kernel 2 of 3 of a.md").
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
    memory_bytes: int | None = None
    label: str = ""

    @property
    def shown_name(self) -> str:
        """Give the name by which others know this run."""
        return self.label or self.lecture.name
