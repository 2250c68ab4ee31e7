"""
The port that measuring devices implement.

A probe is opened once for a kernel, learns where each cell begins and ends, and is closed when the kernel's tree is
gone. It answers ``Measurement | Unavailable`` and never raises for something that a machine merely does not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.device import DeviceUse
from pytest_lecturecheck.model.metric import Metric, Reading
from pytest_lecturecheck.model.timeline import MemorySample

RUN_TOKEN_VARIABLE: Final = "LECTURECHECK_RUN"  # noqa: S105 - the name of a variable, not a secret
"""Environment variable that marks every process of a run, wherever it goes in the tree of processes."""

RUN_LECTURE_VARIABLE: Final = "LECTURECHECK_LECTURE"
"""Environment variable that names the lecture in every process of a run, so that a holder of memory can be named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """
    The last values that a probe read, for the live line and for evidence.

    Attributes:
        footprint_bytes: footprint of the process tree at that moment.
        peak_footprint_bytes: highest footprint so far in this run.
        age_seconds: age of the reading.
        process_count: processes in the tree.
        other_pids: those of them that were found, without the kernel.
    """

    footprint_bytes: int
    peak_footprint_bytes: int
    age_seconds: float
    process_count: int = 1
    other_pids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CellReadings:
    """
    What a probe has to say about one window (a cell).

    Attributes:
        readings: one reading for each of the probe's metrics.
        start_footprint_bytes: footprint when the window opened, or ``None`` if it was not measured.
        mapped_file_bytes: resident pages of mapped files in the highest sample of the kernel process, or ``None``
            if that is not reported.
        was_peak_reset: whether the cell itself reset the counter of its peak, whose value is then only a bound.
    """

    readings: Mapping[Metric, Reading]
    start_footprint_bytes: int | None = None
    mapped_file_bytes: int | None = None
    was_peak_reset: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRule:
    """
    What the system does when more memory is allocated than there is.

    Attributes:
        refuses_when_full: whether allocations fail when memory runs out, or ``None`` if unknown. Where they do not, a
            process is killed when it uses what it was promised.
        limit_bytes: memory that all processes together may reserve, or ``None`` if there is no such limit.
    """

    refuses_when_full: bool | None = None
    limit_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedSegment:
    """
    A segment of shared memory.

    Attributes:
        size_bytes: the size it was made with.
        taken_bytes: the memory it really takes.
        place: where it is.
        is_own_users: whether it belongs to the user of this session; always False for System V.
    """

    size_bytes: int
    taken_bytes: int
    place: str = "/dev/shm"  # noqa: S108 - a text for reports
    is_own_users: bool = False


class Probe(Protocol):
    """One kernel under measurement."""

    def begin_cell(self) -> None:
        """Open a cell's window. What happened since the last one closed still belongs to the earlier window."""

    def end_cell(self) -> CellReadings:
        """Close the cell's window. Works after the process has died, with what was read before."""

    def snapshot(self) -> Snapshot | None:
        """Return the last values read, or ``None`` before the first."""

    def fresh_snapshot(self) -> Snapshot | None:
        """Read the footprint now, at the cost of one sample, and return it; ``None`` as :meth:`snapshot`."""

    def close(self) -> Mapping[Metric, Reading]:
        """Stop reading and return the lecture's measurements; safe to call twice."""

    def timeline(self, since: float) -> tuple[MemorySample, ...]:
        """Return the memory over time, thinned, in seconds after the moment ``since`` of ``time.perf_counter``."""


class DeviceProbe(Protocol):
    """The GPUs as one kernel uses them."""

    def begin_cell(self) -> None:
        """Open a cell's window."""

    def end_cell(self) -> Mapping[Metric, Reading]:
        """Close the cell's window: the ``gpu_used_bytes`` of the device where this run held most."""

    def snapshot(self) -> tuple[DeviceUse, ...]:
        """Return the devices as they stand, for evidence; works after the process has died."""

    def close(self) -> tuple[Mapping[Metric, Reading], tuple[DeviceUse, ...]]:
        """
        Stop sampling after the teardown, and look once more at what is held.

        Returns:
            The lecture's readings, and one value for each device. Safe to call twice.
        """
