"""Collect what is known of GPUs and the compiler, cell by cell, and derive readings and findings."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any, Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.kernel.messages.crash_record import CrashRecord
from pytest_lecturecheck.kernel.run.device_readings import (
    cell_readings,
    compile_reading,
    is_preallocated,
    lecture_readings,
    shared_devices,
)
from pytest_lecturecheck.model.cell_run import CellRun
from pytest_lecturecheck.model.device import AllocatorUsage, CompileTimes, DeviceHolder, DeviceUse, HolderKind
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.metric import Measurement, Method, Metric, Reading, Unavailable
from pytest_lecturecheck.model.probe import DeviceProbe
from pytest_lecturecheck.units import MIB, format_duration, format_size

RESERVED_SOURCE: Final = "NVML, reserved by preallocation"
_BACK_BYTES: Final = 64 * 1024**2
"""Rise of the memory in use on a GPU, from before the start to after the teardown, that is reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellDevices:
    """
    GPUs and the compiler in one cell.

    Attributes:
        allocators: usage of the allocators at its end, or from the crash record.
        compilation: compile times, or ``None`` if JAX was not imported.
        readings: the metrics derived from them.
    """

    allocators: tuple[AllocatorUsage, ...] = ()
    compilation: CompileTimes | None = None
    readings: Mapping[Metric, Reading] = field(default_factory=dict)


class DeviceLog:
    """
    Collects the GPU and compiler data of one run.

    Args:
        lecture: name of the lecture.
    """

    def __init__(self, lecture: str) -> None:
        """Start empty."""
        self._lecture = lecture
        self._probe: DeviceProbe | None = None
        self._history: list[tuple[AllocatorUsage, ...]] = []
        self._first: dict[tuple[str, str], AllocatorUsage] = {}
        self._latest: dict[tuple[str, str], AllocatorUsage] = {}
        self._is_complete = True
        self._reported: set[str] = set()
        self.findings: list[Finding] = []

    # -- the devices --------------------------------------------------------------------------------------------------

    def attach(self, probe: DeviceProbe | None) -> None:
        """Use the probe of a newly launched kernel; close that of an earlier try."""
        if self._probe is not None:
            self._probe.close()
        self._probe = probe

    def report_leftovers(self) -> None:
        """Report GPU memory that is still held by lectures that have ended."""
        for use in self._probe.snapshot() if self._probe is not None else ():
            for holder in use.holders:
                if holder.kind is HolderKind.ENDED_LECTURE and holder.was_there_first:
                    self._add_finding(_held_before(use, holder))

    def begin_cell(self) -> None:
        """Open a cell's window."""
        if self._probe is not None:
            self._probe.begin_cell()

    def end_cell(self) -> Mapping[Metric, Reading]:
        """Close the cell's window and give what the devices' probe has to say about it."""
        return self._probe.end_cell() if self._probe is not None else {}

    def snapshot(self) -> tuple[DeviceUse, ...]:
        """Return the current state of the GPUs, for evidence."""
        return tuple(self._mark_use(use) for use in self._probe.snapshot()) if self._probe is not None else ()

    async def close(self) -> tuple[Mapping[Metric, Reading], tuple[DeviceUse, ...]]:
        """Read the GPUs after the teardown, and return the lecture's readings and the GPUs."""
        if self._probe is None:
            return {}, ()
        # In a thread, because closing waits for memory that is released late, and other kernels must go on.
        readings, uses = await asyncio.to_thread(self._probe.close)
        for use in uses:
            self._report_after(use)
        return self.marked(readings), tuple(self._mark_use(use) for use in uses)

    def _report_after(self, use: DeviceUse) -> None:
        if use.fault:
            text = f"{use.device.label} could not be read to the end: {_printable(use.fault)}"
            self._add_finding(f"{text}; its values cover the time until then", FindingKind.MEASURE)
        gone = f"memory of {use.device.label} did not come back after the teardown: "
        for holder in use.leftovers:
            lecture = _printable(holder.lecture or self._lecture)
            self._add_finding(
                f"{gone}{_size_text(holder.used_bytes)} still held by pid {holder.pid}, left over from {lecture}"
            )
        if use.leftovers or use.is_shared or use.after_bytes is None or use.before_bytes is None:
            return
        more_bytes = use.after_bytes - use.before_bytes
        if more_bytes >= _BACK_BYTES:
            more = format_size(more_bytes)
            self._add_finding(f"{gone}{more} more in use than before the lecture, and no process is known to hold it")

    # -- the agent's payload and crash record -------------------------------------------------------------------------

    def note_cell(self, cell_number: int, payload: Mapping[str, Any]) -> CellDevices:
        """Record the agent's payload at the end of a cell."""
        for library, error in payload.get("allocator_errors", {}).items():
            self._add_finding(
                f"the allocator of {library} could not be read ({error}); its memory is missing from the measurements",
                FindingKind.MEASURE,
                cell_number,
            )
        allocators = payload.get("allocators", ())
        readings = cell_readings(self._before(), allocators)
        self._keep(allocators, cell_number)
        return _with_compilation(allocators, payload.get("compilation"), readings)

    def _before(self) -> tuple[AllocatorUsage, ...]:
        """Return the usage at the last cell's end; if an allocator was missing there, only its peaks are known."""
        last = {_key(usage): usage for usage in (self._history[-1] if self._history else ())}
        silent = {key: replace(usage, live_bytes=0, pool_bytes=None) for key, usage in self._latest.items()}
        return tuple({**silent, **last}.values())

    def interpret_crash(self, record: CrashRecord | None, request: int) -> CellDevices:
        """
        Interpret a crash record for the running cell without recording it.

        Args:
            record: the crash record, or ``None``.
            request: number of the cell's request.
        """
        if record is None:
            return CellDevices()
        # The kernel may use more after the last write.
        readings = {
            metric: replace(reading, method=Method.SAMPLED, high=None) if isinstance(reading, Measurement) else reading
            for metric, reading in cell_readings(self._before(), record.allocators).items()
        }
        return _with_compilation(record.allocators, record.compilation_in(request, time.monotonic()), readings)

    def note_crash(self, cell_number: int, record: CrashRecord | None, request: int) -> CellDevices:
        """Record the crash record of a kernel that died or is about to be killed."""
        found = self.interpret_crash(record, request)
        self._is_complete = False
        self._keep(found.allocators, cell_number)
        return found

    def _keep(self, allocators: tuple[AllocatorUsage, ...], cell_number: int) -> None:
        self._history.append(allocators)
        for usage in allocators:
            self._first.setdefault(_key(usage), usage)
            self._latest[_key(usage)] = usage
        for device, libraries in shared_devices(allocators):
            self._add_finding(
                f"{' and '.join(libraries)} share {device}: its values are those of the library that used most, "
                "not a sum",
                FindingKind.MEASURE,
                cell_number,
            )

    def lecture_readings(self, cells: tuple[CellRun, ...]) -> dict[Metric, Reading]:
        """Return the lecture's readings of allocators, and the sum of its compile times."""
        readings = lecture_readings(self._history, is_complete=self._is_complete)
        compiled = [found.value for cell in cells if (found := cell.measured(Metric.COMPILE)) is not None]
        if compiled:
            readings[Metric.COMPILE] = Measurement(
                metric=Metric.COMPILE, value=sum(compiled), method=Method.AGENT, source="jax.monitoring"
            )
        return readings

    # -- preallocation ------------------------------------------------------------------------------------------------

    def marked(self, readings: Mapping[Metric, Reading]) -> dict[Metric, Reading]:
        """Return the readings with preallocated memory marked as such."""
        return {metric: self._mark(reading) for metric, reading in readings.items()}

    def _mark(self, reading: Reading) -> Reading:
        if isinstance(reading, Measurement) and reading.metric is Metric.GPU_USED and self._is_reserved(reading):
            return replace(reading, source=RESERVED_SOURCE)
        return reading

    def _mark_use(self, use: DeviceUse) -> DeviceUse:
        if not self._is_reserved(use.used):
            return use
        return replace(use, is_reserved=True, used=self._mark(use.used))

    def _is_reserved(self, reading: Reading) -> bool:
        if isinstance(reading, Unavailable):
            return False
        first, last = tuple(self._first.values()), tuple(self._latest.values())
        return is_preallocated(first, last, max(reading.value, reading.high or 0))

    # -- findings -----------------------------------------------------------------------------------------------------

    def _add_finding(
        self, message: str, kind: FindingKind = FindingKind.PROCESS, cell_number: int | None = None
    ) -> None:
        """Add a finding once per run."""
        if message not in self._reported:
            self._reported.add(message)
            self.findings.append(Finding(kind=kind, message=message, cell_number=cell_number))


def _key(usage: AllocatorUsage) -> tuple[str, str]:
    return usage.library, usage.device


def _with_compilation(
    allocators: tuple[AllocatorUsage, ...], compilation: object, readings: Mapping[Metric, Reading]
) -> CellDevices:
    if isinstance(compilation, CompileTimes):
        more: dict[Metric, Reading] = {Metric.COMPILE: compile_reading(compilation)}
        return CellDevices(allocators=allocators, compilation=compilation, readings={**readings, **more})
    if isinstance(compilation, str):
        reason = f"jax.monitoring could not be used: {compilation}"
        readings = {**readings, Metric.COMPILE: Unavailable(metric=Metric.COMPILE, reason=reason)}
    return CellDevices(allocators=allocators, readings=readings)


def _held_before(use: DeviceUse, holder: DeviceHolder) -> str:
    verb = "was killed" if holder.was_killed else "ended"
    ended = f" that {verb} {format_duration(holder.ended_seconds)} before" if holder.ended_seconds is not None else ""
    kernel = f"the kernel of {_printable(holder.lecture)}" if holder.lecture else "the kernel of another lecture"
    device = use.device.label
    return f"on {device}, {_size_text(holder.used_bytes)} still held by pid {holder.pid}, {kernel}{ended}"


def _size_text(size_bytes: int | None) -> str:
    # In whole MiB, as the driver's tools print sizes.
    return "memory of unknown size is" if size_bytes is None else f"{size_bytes // MIB} MiB are"


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)
