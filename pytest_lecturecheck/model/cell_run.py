"""One code cell of a run: what became of it, and what it took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from enum import StrEnum

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.cell_marks import CellMarks
from pytest_lecturecheck.model.device import AllocatorUsage, CompileTimes
from pytest_lecturecheck.model.factorisation import Factorisation
from pytest_lecturecheck.model.memory_profile import DeviceProfile, MemoryLevels, PeakProfile
from pytest_lecturecheck.model.metric import Measurement, Metric, Reading
from pytest_lecturecheck.model.profile import ProfileSummary
from pytest_lecturecheck.model.repetition import CellRepetitions
from pytest_lecturecheck.model.reported_value import ReportedValue


class CellStatus(StrEnum):
    """What became of one code cell."""

    OK = "ok"
    EXPECTED_ERROR = "expected error"
    ALLOWED_ERROR = "allowed error"
    FAILED = "failed"
    TIMED_OUT = "timed out"
    DIED = "died"
    SKIPPED = "skipped"
    EMPTY = "empty"
    NOT_RUN = "not run"

    @property
    def has_run(self) -> bool:
        """Return True if the cell was sent to the kernel."""
        return self not in {CellStatus.SKIPPED, CellStatus.EMPTY, CellStatus.NOT_RUN}


@dataclass(frozen=True, slots=True, kw_only=True)
class CellError:
    """
    An exception as the kernel reported it.

    Attributes:
        name: class name (``ename``), as the kernel sent it.
        value: message (``evalue``).
        traceback: lines of the kernel's traceback, without terminal control sequences.
        line_in_cell: 1-based line of the cell's source that was running, or ``None``.
    """

    name: str
    value: str
    traceback: tuple[str, ...] = ()
    line_in_cell: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRun:
    """
    One code cell of a run.

    Attributes:
        number: 1-based number among the code cells.
        index: 0-based position in the notebook.
        line: 1-based line in the lecture's file where the cell's source starts, or ``None``.
        opening_line: 1-based line where the cell itself begins (its fence or ``# %%`` mark), or ``None``.
        status: what became of it.
        readings: one reading for each metric taken.
        start_footprint_bytes: footprint when the cell started, or ``None`` if it was not measured. What the cell itself
            raised is its peak less this level.
        error: the exception, if one was reported.
        output_extract: the beginning and end of the cell's text output, cut and marked.
        allocators: what the allocators inside the kernel said at the cell's end, one for each library and device.
        compilation: what JAX's compiler took, or ``None`` where JAX was not imported.
        reported_values: values that the cell reported, the last report of each name.
        memory_levels: what stayed in memory after it, or ``None`` where that was not asked for.
        memory_profile: what held its memory at the peak, or ``None`` where it was not recorded.
        device_profile: what held the devices' memory at its highest level, or ``None`` where it was not recorded.
        marks: where Python was while it ran, or ``None`` for a cell that was short or could not be asked.
        repetitions: what memory did while it was run again, or ``None`` where that was not asked for.
        factorisations: sparse factorisations that the cell made: the largest, and the last that failed.
        profile: what a trace of the cell says, or ``None`` where it was not traced.
        started_seconds: when it was sent to the kernel, after the start of the run; ``None`` where it was not sent.
        ended_seconds: when it had ended, after the start of the run.
    """

    number: int
    index: int
    line: int | None
    status: CellStatus
    readings: Mapping[Metric, Reading] = field(default_factory=dict)
    start_footprint_bytes: int | None = None
    error: CellError | None = None
    output_extract: str = ""
    allocators: tuple[AllocatorUsage, ...] = ()
    compilation: CompileTimes | None = None
    reported_values: tuple[ReportedValue, ...] = ()
    profile: ProfileSummary | None = None
    started_seconds: float | None = None
    ended_seconds: float | None = None
    opening_line: int | None = None
    factorisations: tuple[Factorisation, ...] = ()
    memory_levels: MemoryLevels | None = None
    memory_profile: PeakProfile | None = None
    marks: CellMarks | None = None
    repetitions: CellRepetitions | None = None
    device_profile: DeviceProfile | None = None

    @property
    def first_line(self) -> int | None:
        """Return the line where a reader of the file sees the cell begin."""
        return self.line if self.opening_line is None else self.opening_line

    def measured(self, metric: Metric) -> Measurement | None:
        """Return the measurement of ``metric``, or ``None`` where there is none."""
        reading = self.readings.get(metric)
        return reading if isinstance(reading, Measurement) else None

    def timed(self, started_seconds: float) -> CellRun:
        """Return the cell with its start in the run's time, and with its end, which follows from its wall time."""
        wall = self.measured(Metric.WALL)
        ended_seconds = None if wall is None else round(started_seconds + wall.value, 6)
        return replace(self, started_seconds=round(started_seconds, 6), ended_seconds=ended_seconds)

    @property
    def raised_bytes(self) -> int | None:
        """Return how far the cell's peak footprint rose above the level at its start."""
        peak = self.measured(Metric.PEAK_FOOTPRINT)
        if peak is None or self.start_footprint_bytes is None:
            return None
        return max(0, round(peak.value) - self.start_footprint_bytes)
