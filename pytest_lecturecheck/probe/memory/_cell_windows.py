"""The windows of a memory probe: which one is open, and which cell or lecture a window belongs to."""

from __future__ import annotations

import abc
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, Protocol, TypeVar

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.metric import Measurement, Method, Metric, Reading
from pytest_lecturecheck.model.probe import CellReadings, Snapshot
from pytest_lecturecheck.model.timeline import MemorySample
from pytest_lecturecheck.probe.memory._memory_sampler import MemorySampler
from pytest_lecturecheck.probe.memory._memory_timeline import MemoryTimeline
from pytest_lecturecheck.probe.memory._usage import USAGE_METRICS, Usage, sum_readings

_SUMMED: Final = (Metric.WALL, *USAGE_METRICS)

AnyWindow = TypeVar("AnyWindow")
AnyWindow_contra = TypeVar("AnyWindow_contra", contravariant=True)


class LectureSum(Protocol[AnyWindow_contra]):
    """The windows of a lecture, added up."""

    def add(self, window: AnyWindow_contra) -> None:
        """Add a window that has been closed."""

    def add_last(self, window: AnyWindow_contra) -> None:
        """Add the window after the last cell, in which the kernel shuts down."""


AnyLecture = TypeVar("AnyLecture", bound=LectureSum[Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowStart:
    """
    What was known when a window was opened.

    Attributes:
        at: time, of the probe's clock.
        usage: counters of the tree, or ``None`` where they could not be read.
        footprint_bytes: footprint of the tree, or ``None`` likewise.
    """

    at: float
    usage: Usage | None = None
    footprint_bytes: int | None = None


class CellWindows(abc.ABC, Generic[AnyWindow, AnyLecture]):
    """
    Common base of the memory probes.

    Windows follow each other without a gap: cells and the time between them. All attributes are guarded by one lock,
    because samples are taken by the sampler's thread.

    Args:
        interval_seconds: time between two samples.
        sampler: calls :meth:`sample`.
        clock: returns seconds; ``time.perf_counter`` where the timeline is compared with other times.
        make_lecture: makes an empty sum of windows.
    """

    def __init__(
        self,
        *,
        interval_seconds: float,
        sampler: MemorySampler,
        clock: Callable[[], float],
        make_lecture: Callable[[], AnyLecture],
    ) -> None:
        self._lock = threading.Lock()
        self._sampler, self._clock = sampler, clock
        self._interval_seconds = self._longest_interval_seconds = interval_seconds
        self._make_lecture = make_lecture
        self._lecture = make_lecture()
        self._timeline = MemoryTimeline()
        self._start = WindowStart(at=clock())
        self._is_in_cell = False
        self._cells: list[Mapping[Metric, Reading]] = []
        self._result: Mapping[Metric, Reading] | None = None
        self._window: AnyWindow

    def begin_cell(self) -> None:
        """Open a cell's window."""
        with self._lock:
            if self._result is not None:
                return
            if not self._cells:
                self._prepare_first_cell()
            self._finish_window(complete=False)
            self._lecture.add(self._window)
            if not self._cells:
                # What the kernel and its helpers needed to start is not the lecture's.
                self._lecture = self._make_lecture()
            self._open_window(is_cell=True)
            self._is_in_cell = True

    def end_cell(self) -> CellReadings:
        """Close the cell's window."""
        with self._lock:
            ended_at = self._clock()
            start, window = self._start, self._window
            if self._result is None:
                self._finish_window(complete=True)
                self._lecture.add(window)
                self._open_window(is_cell=False)
                self._is_in_cell = False
            wall = Measurement(
                metric=Metric.WALL, value=ended_at - start.at, method=Method.EXACT, source="time.perf_counter"
            )
            readings = {
                **self._cell_memory(window),
                Metric.WALL: wall,
                **self._cell_usage(window, start.usage),
            }
            self._cells.append(readings)
            return CellReadings(
                readings=readings,
                start_footprint_bytes=start.footprint_bytes,
                mapped_file_bytes=self._mapped_file_bytes(window),
                was_peak_reset=self._was_peak_reset(window),
            )

    def close(self) -> Mapping[Metric, Reading]:
        """Stop reading and return the lecture's measurements; safe to call twice."""
        # Before the lock: the sampler may be waiting for it.
        self._sampler.remove(self)
        with self._lock:
            if self._result is None:
                self._finish_window(complete=False)
                # A kernel that died in a cell ends within that cell's window.
                add = self._lecture.add if self._is_in_cell else self._lecture.add_last
                add(self._window)
                sums = {metric: sum_readings(metric, [cell[metric] for cell in self._cells]) for metric in _SUMMED}
                self._result = {**self._lecture_memory(), **sums}
                self._release()
            return self._result

    def timeline(self, since: float) -> tuple[MemorySample, ...]:
        """Return the memory over time so far, in seconds after the time ``since``."""
        with self._lock:
            return self._timeline.samples(since)

    @abc.abstractmethod
    def snapshot(self) -> Snapshot | None:
        """Return the last values read, or ``None`` before the first."""

    def fresh_snapshot(self) -> Snapshot | None:
        """Read the footprint now, and return it; ``None`` before the first reading."""
        with self._lock:
            if self._result is None:
                self._read_footprint()
        return self.snapshot()

    @abc.abstractmethod
    def _read_footprint(self) -> None:
        """Read what the tree holds, at the cost of one sample."""

    @abc.abstractmethod
    def sample(self, interval_seconds: float) -> bool:
        """Take one cheap sample, and return True if an expensive one is wanted."""

    @abc.abstractmethod
    def sample_deeply(self) -> None:
        """Take one expensive sample."""

    @abc.abstractmethod
    def _finish_window(self, *, complete: bool) -> None:
        """Read what belongs to the open window; ``complete`` allows no reading from before."""

    @abc.abstractmethod
    def _open_window(self, *, is_cell: bool) -> None:
        """Replace the window by a new one, and note its start if it is a cell's."""

    @abc.abstractmethod
    def _cell_memory(self, window: AnyWindow) -> dict[Metric, Reading]:
        """Return the memory of a cell."""

    @abc.abstractmethod
    def _cell_usage(self, window: AnyWindow, before: Usage | None) -> dict[Metric, Reading]:
        """Return what a cell used since ``before``."""

    @abc.abstractmethod
    def _lecture_memory(self) -> dict[Metric, Reading]:
        """Return the memory of the lecture."""

    def _mapped_file_bytes(self, window: AnyWindow) -> int | None:  # noqa: ARG002 - for those that know it
        """Return the resident pages of mapped files at the highest sample, or ``None`` where that is not known."""
        return None

    def _was_peak_reset(self, window: AnyWindow) -> bool:  # noqa: ARG002 - for those that can notice it
        """Return True if somebody else has reset the counter of the peak within the window."""
        return False

    def _prepare_first_cell(self) -> None:
        """Do what the first cell needs; the kernel is ready now."""

    def _release(self) -> None:
        """Close files."""
