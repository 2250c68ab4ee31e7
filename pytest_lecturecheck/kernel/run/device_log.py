"""What a run learns of GPUs and of the compiler, cell by cell, and what it makes of it at the end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

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
"""How much more may be in use on a device after a teardown than before the start without a word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellDevices:
    """
    What is known of GPUs and the compiler in one cell.

    Attributes:
        allocators: the allocators' figures at its end, or their last words.
        compilation: what the compiler took, or ``None`` where JAX was not imported.
        readings: the metrics that follow from them.
    """

    allocators: tuple[AllocatorUsage, ...] = ()
    compilation: CompileTimes | None = None
    readings: Mapping[Metric, Reading] = field(default_factory=dict)


class DeviceLog:
    """
    Keeps the account of one run.

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
        self._is_whole = True
        self._told: set[str] = set()
        self.findings: list[Finding] = []

    # -- the devices --------------------------------------------------------------------------------------------------

    def attach(self, probe: DeviceProbe | None) -> None:
        """Take the probe of the kernel that was just started; the one of an earlier try is closed."""
        if self._probe is not None:
            self._probe.close()
        self._probe = probe

    def look_before(self) -> None:
        """Say which of the memory that the lecture will miss is left over from lectures that have ended."""
        for use in self._probe.snapshot() if self._probe is not None else ():
            for holder in use.holders:
                if holder.kind is HolderKind.ENDED_LECTURE and holder.was_there_first:
                    self._tell(_held_before(use, holder))

    def begin_cell(self) -> None:
        """Open a cell's window."""
        if self._probe is not None:
            self._probe.begin_cell()

    def end_cell(self) -> Mapping[Metric, Reading]:
        """Close the cell's window and give what the devices' probe has to say about it."""
        return self._probe.end_cell() if self._probe is not None else {}

    def snapshot(self) -> tuple[DeviceUse, ...]:
        """Give the devices as they stand, for evidence."""
        return tuple(self._mark_use(use) for use in self._probe.snapshot()) if self._probe is not None else ()

    async def close(self) -> tuple[Mapping[Metric, Reading], tuple[DeviceUse, ...]]:
        """Look once more at the devices after the teardown, and give the lecture's readings and the devices."""
        if self._probe is None:
            return {}, ()
        # It waits for memory that is slow to come back; the kernels beside this one do not.
        readings, uses = await asyncio.to_thread(self._probe.close)
        for use in uses:
            self._look_after(use)
        return self.marked(readings), tuple(self._mark_use(use) for use in uses)

    def _look_after(self, use: DeviceUse) -> None:
        if use.fault:
            text = f"{use.device.label} could not be read to the end: {_printable(use.fault)}"
            self._tell(f"{text}; its figures are of what was seen until then", FindingKind.MEASURE)
        gone = f"memory of {use.device.label} did not come back after the teardown: "
        for holder in use.leftovers:
            lecture = _printable(holder.lecture or self._lecture)
            self._tell(
                f"{gone}{_size_text(holder.used_bytes)} still held by pid {holder.pid}, left over from {lecture}"
            )
        if use.leftovers or use.is_shared or use.after_bytes is None or use.before_bytes is None:
            return
        more_bytes = use.after_bytes - use.before_bytes
        if more_bytes >= _BACK_BYTES:
            more = format_size(more_bytes)
            self._tell(f"{gone}{more} more in use than before the lecture, and no process is known to hold it")

    # -- words of the kernel ------------------------------------------------------------------------------------------

    def take_words(self, cell_number: int, words: Mapping[str, Any]) -> CellDevices:
        """Take the agent's words at the end of a cell."""
        for library, error in words.get("allocator_errors", {}).items():
            self._tell(
                f"the allocator of {library} could not be asked ({error}); its memory is missing from the figures",
                FindingKind.MEASURE,
                cell_number,
            )
        allocators = words.get("allocators", ())
        readings = cell_readings(self._before(), allocators)
        self._keep(allocators, cell_number)
        return _with_compilation(allocators, words.get("compilation"), readings)

    def _before(self) -> tuple[AllocatorUsage, ...]:
        """Give the figures at the last cell's end; of an allocator that was silent there only its peaks are known."""
        last = {_key(figures): figures for figures in (self._history[-1] if self._history else ())}
        silent = {key: replace(figures, live_bytes=0, pool_bytes=None) for key, figures in self._latest.items()}
        return tuple({**silent, **last}.values())

    def read_last_words(self, words: CrashRecord | None, request: int) -> CellDevices:
        """
        Say what a kernel's last words mean for the cell that runs; nothing is booked yet.

        Args:
            words: what the kernel has written down.
            request: number of the cell's request.
        """
        if words is None:
            return CellDevices()
        # It may go higher, or have gone higher, after its last words.
        readings = {
            metric: replace(reading, method=Method.SAMPLED, high=None) if isinstance(reading, Measurement) else reading
            for metric, reading in cell_readings(self._before(), words.allocators).items()
        }
        return _with_compilation(words.allocators, words.compilation_in(request, time.monotonic()), readings)

    def take_last_words(self, cell_number: int, words: CrashRecord | None, request: int) -> CellDevices:
        """Book what a kernel had written down before it died, or before it was killed."""
        seen = self.read_last_words(words, request)
        self._is_whole = False
        self._keep(seen.allocators, cell_number)
        return seen

    def _keep(self, allocators: tuple[AllocatorUsage, ...], cell_number: int) -> None:
        self._history.append(allocators)
        for figures in allocators:
            self._first.setdefault(_key(figures), figures)
            self._latest[_key(figures)] = figures
        for device, libraries in shared_devices(allocators):
            self._tell(
                f"{' and '.join(libraries)} share {device}: its figures are those of the library that took most, not "
                "a sum",
                FindingKind.MEASURE,
                cell_number,
            )

    def lecture_readings(self, cells: tuple[CellRun, ...]) -> dict[Metric, Reading]:
        """Give the lecture's readings from the kernel's words: allocators, and the sum of what compiling took."""
        readings = lecture_readings(self._history, is_whole=self._is_whole)
        compiled = [found.value for cell in cells if (found := cell.measured(Metric.COMPILE)) is not None]
        if compiled:
            readings[Metric.COMPILE] = Measurement(
                metric=Metric.COMPILE, value=sum(compiled), method=Method.AGENT, source="jax.monitoring"
            )
        return readings

    # -- preallocation ------------------------------------------------------------------------------------------------

    def marked(self, readings: Mapping[Metric, Reading]) -> dict[Metric, Reading]:
        """Give the readings with preallocated memory named as such."""
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

    def _tell(self, message: str, kind: FindingKind = FindingKind.PROCESS, cell_number: int | None = None) -> None:
        """Say something once in a run."""
        if message not in self._told:
            self._told.add(message)
            self.findings.append(Finding(kind=kind, message=message, cell_number=cell_number))


def _key(figures: AllocatorUsage) -> tuple[str, str]:
    return figures.library, figures.device


def _with_compilation(
    allocators: tuple[AllocatorUsage, ...], compilation: object, readings: Mapping[Metric, Reading]
) -> CellDevices:
    if isinstance(compilation, CompileTimes):
        more: dict[Metric, Reading] = {Metric.COMPILE: compile_reading(compilation)}
        return CellDevices(allocators=allocators, compilation=compilation, readings={**readings, **more})
    if isinstance(compilation, str):
        reason = f"jax.monitoring could not be listened to: {compilation}"
        readings = {**readings, Metric.COMPILE: Unavailable(metric=Metric.COMPILE, reason=reason)}
    return CellDevices(allocators=allocators, readings=readings)


def _held_before(use: DeviceUse, holder: DeviceHolder) -> str:
    verb = "was killed" if holder.was_killed else "ended"
    ended = f" that {verb} {format_duration(holder.ended_seconds)} before" if holder.ended_seconds is not None else ""
    kernel = f"the kernel of {_printable(holder.lecture)}" if holder.lecture else "the kernel of another lecture"
    device = use.device.label
    return f"on {device}, {_size_text(holder.used_bytes)} still held by pid {holder.pid}, {kernel}{ended}"


def _size_text(size_bytes: int | None) -> str:
    # Whole MiB, as the driver's own tools print them.
    return "memory of unknown size is" if size_bytes is None else f"{size_bytes // MIB} MiB are"


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)
