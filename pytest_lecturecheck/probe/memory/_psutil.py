"""The kernel process as psutil sees it, where the system's own interfaces are not read yet: no tree, no footprint."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

import psutil

from pytest_lecturecheck.metric import Measurement, Method, Metric, Reading, Unavailable
from pytest_lecturecheck.probe.memory._sampler import SHARED_SAMPLER, Sampler
from pytest_lecturecheck.probe.memory._timeline import Timeline
from pytest_lecturecheck.probe.memory._usage import sum_readings
from pytest_lecturecheck.probe.port import CellReadings, Snapshot
from pytest_lecturecheck.timeline import MemorySample

_GONE = "the process had ended before it could be read"


class PsutilProbe:
    """
    One kernel under measurement by samples of its RSS.

    Args:
        pid: process id of the kernel.
        interval_seconds: time between two samples.
        system: name of the operating system, for the reasons given.
        sampler: who calls :meth:`sample`.
    """

    def __init__(self, pid: int, *, interval_seconds: float, system: str, sampler: Sampler = SHARED_SAMPLER) -> None:
        self._lock = threading.Lock()
        self._longest_interval_seconds = interval_seconds
        self._system = system
        self._sampler = sampler
        self._process = self._find(pid)
        self._last: tuple[float, int] | None = None
        self._cell_peak_bytes: int | None = None
        self._peak_bytes: int | None = None
        self._start: tuple[float, float | None] = (time.perf_counter(), None)
        self._timeline = Timeline()
        self._cells: list[Mapping[Metric, Reading]] = []
        self._result: Mapping[Metric, Reading] | None = None
        sampler.add(self, interval_seconds)

    def begin_cell(self) -> None:
        """Open a cell's window."""
        with self._lock:
            self._cell_peak_bytes = None
            self._read_rss()
            self._start = (time.perf_counter(), self._read_cpu_seconds())

    def end_cell(self) -> CellReadings:
        """Close the cell's window."""
        with self._lock:
            ended_at = time.perf_counter()
            self._read_rss()
            started_at, cpu_before = self._start
            wall = Measurement(
                metric=Metric.WALL, value=ended_at - started_at, method=Method.EXACT, source="time.perf_counter"
            )
            cpu = self._cpu_reading(cpu_before, self._read_cpu_seconds())
            readings = {**self._memory_readings(self._cell_peak_bytes), Metric.WALL: wall, Metric.CPU: cpu}
            self._cells.append(readings)
            return CellReadings(readings=readings, start_footprint_bytes=None)

    def snapshot(self) -> Snapshot | None:
        """Give the last RSS read, as the nearest thing to a footprint that is known here."""
        with self._lock:
            if self._last is None or self._peak_bytes is None:
                return None
            read_at, rss_bytes = self._last
            return Snapshot(
                footprint_bytes=rss_bytes,
                peak_footprint_bytes=self._peak_bytes,
                age_seconds=time.perf_counter() - read_at,
            )

    def close(self) -> Mapping[Metric, Reading]:
        """Stop reading and give the lecture's figures."""
        self._sampler.remove(self)
        with self._lock:
            if self._result is None:
                self._read_rss()
                sums = {metric: sum_readings(metric, [cell[metric] for cell in self._cells]) for metric in _SUMMED}
                self._result = {**self._memory_readings(self._peak_bytes), **sums}
            return self._result

    def timeline(self, since: float) -> tuple[MemorySample, ...]:
        """Give the resident size over time so far; there is no footprint here."""
        with self._lock:
            return self._timeline.samples(since)

    def sample(self, interval_seconds: float) -> bool:
        """Take one sample; there is no dearer one."""
        with self._lock:
            self._longest_interval_seconds = max(self._longest_interval_seconds, interval_seconds)
            if self._result is None:
                self._read_rss()
        return False

    def sample_deeply(self) -> None:
        """Do nothing: it is never asked for."""

    @staticmethod
    def _find(pid: int) -> psutil.Process | None:
        try:
            return psutil.Process(pid)
        except psutil.Error:
            return None

    def _read_rss(self) -> int | None:
        try:
            rss_bytes = int(self._process.memory_info().rss) if self._process is not None else 0
        except psutil.Error:
            return None
        if not rss_bytes:
            return None
        self._last = (time.perf_counter(), rss_bytes)
        self._timeline.add(self._last[0], footprint_bytes=None, rss_bytes=rss_bytes, swap_bytes=None)
        self._cell_peak_bytes = max(self._cell_peak_bytes or 0, rss_bytes)
        self._peak_bytes = max(self._peak_bytes or 0, rss_bytes)
        return rss_bytes

    def _read_cpu_seconds(self) -> float | None:
        try:
            times = self._process.cpu_times() if self._process is not None else None
        except psutil.Error:
            return None
        return float(times.user + times.system) if times is not None else None

    def _cpu_reading(self, before: float | None, after: float | None) -> Reading:
        if before is None or after is None:
            return Unavailable(metric=Metric.CPU, reason=_GONE)
        value = max(0.0, after - before)
        return Measurement(metric=Metric.CPU, value=value, method=Method.SAMPLED, source="CPU times of the process")

    def _memory_readings(self, peak_bytes: int | None) -> dict[Metric, Reading]:
        rss: Reading = Unavailable(metric=Metric.PEAK_RSS, reason=_GONE)
        if peak_bytes is not None:
            rss = Measurement(
                metric=Metric.PEAK_RSS,
                value=peak_bytes,
                method=Method.SAMPLED,
                interval_seconds=self._longest_interval_seconds,
                source="RSS of the kernel process",
            )
        reason = f"not implemented on {self._system} yet"
        missing = {metric: Unavailable(metric=metric, reason=reason) for metric in _MISSING}
        return {Metric.PEAK_RSS: rss, **missing}


_SUMMED = (Metric.WALL, Metric.CPU)
_MISSING = (
    Metric.PEAK_FOOTPRINT,
    Metric.PEAK_SWAP,
    Metric.PEAK_COMPRESSED,
    Metric.MAJOR_FAULTS,
    Metric.DISK_WRITTEN,
)
