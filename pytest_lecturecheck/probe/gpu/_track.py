"""One device as one run uses it: readings in, a ``DeviceUse`` out. No clock, no thread."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pytest_lecturecheck.model.device import Device, DeviceHolder, DeviceSample, DeviceUse, HolderKind
from pytest_lecturecheck.model.metric import Metric, Reading, Unavailable
from pytest_lecturecheck.probe.gpu._attribution import UNLISTED_BYTES, Attribution, DevicePeak, Share
from pytest_lecturecheck.probe.gpu._gpu_timeline import device_timeline
from pytest_lecturecheck.probe.gpu._holders import Holders, KnownRuns
from pytest_lecturecheck.probe.gpu._processes import Processes
from pytest_lecturecheck.probe.gpu._readings import CardReading, Failure, ProcessUse

_NEVER_READ: Final = "the device was not read"


class Track:
    """
    Follows a device for a run.

    Args:
        device: the device.
        processes: looks up processes.
        runs: the runs of this process.
        kernel_pid: process id of the kernel.
        token: the run's token.
        supervisor_pid: parent of the kernel that adopts its orphans, or ``None``.
        start_seconds: when the run began, on the clock of the readings.
        no_bytes_reason: text for processes that are listed without their bytes.
    """

    def __init__(  # noqa: PLR0913 - six values describe the run
        self,
        device: Device,
        processes: Processes,
        runs: KnownRuns,
        *,
        kernel_pid: int,
        token: str,
        supervisor_pid: int | None = None,
        start_seconds: float,
        no_bytes_reason: str,
    ) -> None:
        self.device = device
        self.failure: Failure | None = None
        self._processes = processes
        self._kernel_pid = kernel_pid
        self._token = token
        self._supervisor_pid = supervisor_pid
        self._start_seconds = start_seconds
        self._no_bytes_reason = no_bytes_reason
        self._holders = Holders(processes.facts, runs, token=token, start_seconds=start_seconds)
        self._timeline = device_timeline()
        self._attribution: Attribution | None = None
        self._window = DevicePeak()
        self._share: Share | None = None
        self._own: tuple[ProcessUse, ...] = ()
        self._own_holds_memory = False
        self._use = DeviceUse(device=device)
        self._count = 0
        self._first_seconds = self._last_seconds = start_seconds
        self._last_used_bytes = 0

    @property
    def is_given_up(self) -> bool:
        """Return True if the device cannot be read any more within this run."""
        return self.failure is not None and self.failure.is_lasting

    @property
    def is_held(self) -> bool:
        """Return True if memory that the run held, as far as can be known, is not freed yet."""
        return self._was_used and self._share is not None and self._share.upper_bytes > UNLISTED_BYTES

    @property
    def _was_used(self) -> bool:
        if self._attribution is None:
            return False
        peak = self._attribution.peak
        return max(peak.known_bytes, *peak.doubted_bytes.values(), 0) > 0

    def take(self, reading: CardReading | Failure) -> None:
        """Add a reading."""
        if isinstance(reading, Failure):
            self.failure = reading
            return
        self.failure = None
        if self._attribution is None:
            self._attribution = self._begin(reading)
        listed = reading.processes or ()
        ours = self._processes.find_own(
            [process.pid for process in listed],
            kernel_pid=self._kernel_pid,
            token=self._token,
            supervisor_pid=self._supervisor_pid,
        )
        self._share = self._attribution.add(reading, ours)
        self._window.add(self._share)
        self._own = self._attribution.own(reading, ours)
        self._own_holds_memory = self._own_holds_memory or any(process.used_bytes != 0 for process in self._own)
        self._note_others(self._attribution, listed)
        self._note_reading(reading, self._share)

    def _begin(self, reading: CardReading) -> Attribution:
        self._first_seconds = reading.seconds
        self._use = replace(self._use, before_bytes=reading.used_bytes)
        return Attribution(
            reading, same_namespace=self._processes.same_namespace, no_bytes_reason=self._no_bytes_reason
        )

    def _note_others(self, attribution: Attribution, listed: tuple[ProcessUse, ...]) -> None:
        own = {process.pid for process in self._own}
        for process in listed:
            if process.pid in own:
                continue
            was_before = process.pid in attribution.before
            # A later id that no process here has may be an id of the run itself in the host's namespace.
            if was_before or attribution.is_namespace_known or self._processes.facts(process.pid).is_there:
                self._holders.add([process], was_there_first=was_before or not self._own_holds_memory)

    def _note_reading(self, reading: CardReading, share: Share) -> None:
        self._count += 1
        self._last_seconds, self._last_used_bytes = reading.seconds, reading.used_bytes
        use, utilisation = self._use, reading.utilisation_fraction
        highest = max(reading.used_bytes, use.peak_used_bytes or 0)
        busiest = use.peak_utilisation_fraction
        if utilisation is not None:
            busiest = max(utilisation, busiest or 0.0)
        self._use = replace(use, peak_used_bytes=highest, peak_utilisation_fraction=busiest)
        self._timeline.add(
            DeviceSample(
                seconds=reading.seconds - self._start_seconds,
                used_bytes=reading.used_bytes,
                run_bytes=share.run_bytes,
                utilisation_fraction=utilisation,
            )
        )

    def begin_cell(self) -> None:
        """Open a cell's window."""
        self._window = DevicePeak()

    def cell_reading(self) -> Reading:
        """Return the cell's value; a cell too short for a reading has the value of the last reading before its end."""
        if not self._window.count and self._share is not None and self.failure is None:
            self._window.add(self._share)
        return self._reading(self._window)

    def run_reading(self) -> Reading:
        """Return the run's value."""
        return self._reading(self._attribution.peak if self._attribution is not None else DevicePeak())

    def _reading(self, peak: DevicePeak) -> Reading:
        failure = self.failure.reason if self.failure is not None else ""
        if self._attribution is None:
            return Unavailable(metric=Metric.GPU_USED, reason=failure or _NEVER_READ)
        return self._attribution.reading(peak, interval_seconds=self._interval_seconds, failure=failure)

    @property
    def _interval_seconds(self) -> float | None:
        elapsed_seconds = self._last_seconds - self._first_seconds
        return elapsed_seconds / (self._count - 1) if self._count > 1 and elapsed_seconds > 0 else None

    @property
    def _fault(self) -> str:
        return self.failure.reason if self.failure is not None else ""

    def use(self) -> DeviceUse:
        """Return the device at this moment."""
        attribution, holders = self._attribution, self._holders.all()
        if attribution is None:
            return replace(self._use, used=self.run_reading(), fault=self._fault)
        return replace(
            self._use,
            used=self.run_reading(),
            fault=self._fault,
            others_peak_bytes=attribution.peak.others_bytes,
            is_shared=bool(holders) or not attribution.is_separated,
            holders=holders,
            timeline=self._timeline.points(),
            interval_seconds=self._interval_seconds,
        )

    def last_use(self, closed_seconds: float) -> DeviceUse:
        """Return the device after the teardown, which was complete at ``closed_seconds``."""
        if self._count == 0 or self._last_seconds < closed_seconds:
            return self.use()
        return replace(self.use(), after_bytes=self._last_used_bytes, leftovers=self._leftovers())

    def _leftovers(self) -> tuple[DeviceHolder, ...]:
        lecture = self._processes.facts(self._kernel_pid).lecture
        return tuple(
            DeviceHolder(
                pid=process.pid,
                used_bytes=process.used_bytes,
                kind=HolderKind.ENDED_LECTURE,
                lecture=self._processes.facts(process.pid).lecture or lecture,
            )
            for process in self._own
            if process.used_bytes != 0
        )
