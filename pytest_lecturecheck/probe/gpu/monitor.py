"""The one reader of the GPUs in this process: it supplies all open probes, and remembers the runs that ended."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from pytest_lecturecheck.model.device import Device, DeviceMemory, DeviceUse
from pytest_lecturecheck.model.metric import Measurement, Metric, Reading, Unavailable
from pytest_lecturecheck.model.probe import DeviceProbe
from pytest_lecturecheck.probe.gpu._gpu_sampler import DeviceSampler, Ticker
from pytest_lecturecheck.probe.gpu._holders import EndedRun
from pytest_lecturecheck.probe.gpu._presence import has_device, open_present_cards
from pytest_lecturecheck.probe.gpu._processes import BareProcesses, Processes, ProcProcesses
from pytest_lecturecheck.probe.gpu._readings import CardReading, Cards, Failure
from pytest_lecturecheck.probe.gpu._track import Track
from pytest_lecturecheck.probe.gpu._visible import visible_positions
from pytest_lecturecheck.probe.gpu.accelerators import Accelerators, describe_accelerators

_LOOK_SECONDS: Final = 2.0
_ENVIRON_SECONDS: Final = 0.002
_ENVIRON_LOOKS: Final = 100
"""Time after which a run continues without the answer of a card."""
_RETURN_SECONDS: Final = 1.0
"""Time that the driver has to free memory after the last process of a run has ended."""
_POLL_SECONDS: Final = 0.05
_FRESH_SECONDS: Final = 0.02
"""Highest age of a reading that serves as the end of a cell."""
_LOOK_SHARE: Final = 0.05
"""Share of the time that readings at the ends of cells may take; above it, older readings are used."""
_REMEMBERED: Final = 10_000


class GpuMonitor:
    """
    Reads the cards for all open probes of this process.

    Args:
        cards: the devices, or why there are none to read.
        processes: looks up the processes that the cards list.
        has_card: whether there is a card, readable or not.
        environ: environment that kernels start from, for ``CUDA_VISIBLE_DEVICES``.
        clock: returns monotonic seconds.
        make_ticker: makes the object that calls :meth:`sample` repeatedly.
    """

    def __init__(
        self,
        cards: Cards | Failure,
        processes: Processes,
        *,
        has_card: bool = True,
        environ: Mapping[str, str] = MappingProxyType({}),
        clock: Callable[[], float] = time.monotonic,
        make_ticker: Callable[[Callable[[], None]], Ticker] = DeviceSampler,
    ) -> None:
        self.reason = cards.reason if isinstance(cards, Failure) else ""
        """Why nothing can be read, or an empty string."""
        self._cards = None if isinstance(cards, Failure) else cards
        self.devices: tuple[Device, ...] = self._cards.devices if self._cards is not None else ()
        self.driver = self._cards.driver if self._cards is not None else None
        self.cuda = self._cards.cuda if self._cards is not None else None
        self._has_card = has_card
        self._processes = processes
        self._environ = environ
        self._clock = clock
        self._ticker = make_ticker(self.sample)
        # Held while readings are passed to probes, never while a card is read, which can block for seconds.
        self._lock = threading.Lock()
        self._probes: list[RunProbe] = []
        self._ended: dict[str, EndedRun] = {}
        self._killed: set[str] = set()
        self._pass_seconds = 0.0
        self._read_seconds = float("-inf")
        self._last: dict[int, CardReading] = {}

    @property
    def accelerators(self) -> Accelerators:
        """Describe the devices that kernels may use, for the machine's table and the platform label."""
        return describe_accelerators(self._cards, self._environ, reason=self.reason)

    @property
    def open_tokens(self) -> AbstractSet[str]:
        """Return the tokens of the runs in progress."""
        return {probe.token for probe in self._probes}

    @property
    def ended_runs(self) -> Mapping[str, EndedRun]:
        """Return the runs that have ended."""
        return self._ended

    def note_killed(self, token: str) -> None:
        """
        Record that the kernel of a run was killed.

        Args:
            token: the run's token.
        """
        with self._lock:
            self._killed.add(token)
            if token in self._ended:
                self._ended[token] = replace(self._ended[token], was_killed=True)

    def open_probe(self, pid: int, token: str, *, supervisor_pid: int | None = None) -> DeviceProbe | None:
        """
        Open a probe for a kernel that has just started, and read the cards once.

        Args:
            pid: process id of the kernel.
            token: value of ``LECTURECHECK_RUN`` in its environment.
            supervisor_pid: parent of the kernel that adopts its orphans, or ``None``.

        Returns:
            The probe, or ``None`` where there is no GPU, or none that this kernel may use. For a GPU that cannot be
            read, a probe whose readings explain why.
        """
        if not self._has_card:
            return None
        if self._cards is None:
            return UnreadableProbe(self.reason)
        with self._lock:
            positions = visible_positions(self.devices, self._kernel_environ(pid, token))
            if not positions:
                return None
            tracks = self._tracks(positions, pid, token, supervisor_pid)
            probe = RunProbe(self, kernel_pid=pid, token=token, tracks=tracks)
            self._probes.append(probe)
        self._ticker.start()
        self._ticker.look(_LOOK_SECONDS)
        return probe

    def _kernel_environ(self, pid: int, token: str) -> Mapping[str, str]:
        """Return the kernel's environment if it can be read, else the environment it was started with."""
        facts = self._processes.facts(pid)
        for _ in range(_ENVIRON_LOOKS):
            if facts.token == token or not facts.is_there:
                break
            # A kernel that was forked writes its environment a moment after its start.
            time.sleep(_ENVIRON_SECONDS)
            facts = self._processes.facts(pid)
        return facts.environ if facts.token == token and token else self._environ

    def _tracks(self, positions: Sequence[int], pid: int, token: str, supervisor_pid: int | None) -> dict[int, Track]:
        now = self._clock()
        no_bytes = "no bytes for each process: WDDM" if sys.platform == "win32" else "no bytes for each process: N/A"
        return {
            position: Track(
                self.devices[position],
                self._processes,
                self,
                kernel_pid=pid,
                token=token,
                supervisor_pid=supervisor_pid,
                start_seconds=now,
                no_bytes_reason=no_bytes,
            )
            for position in positions
        }

    def sample(self) -> None:
        """Read every card that an open probe needs once, and pass the readings to the probes."""
        cards = self._cards
        if cards is None:
            return
        with self._lock:
            wanted = sorted({position for probe in self._probes for position in probe.wanted})
        begun = self._clock()
        # Without the lock: NVML can block for seconds, and cells begin and end meanwhile.
        readings = {position: cards.read(position, self._clock()) for position in wanted}
        with self._lock:
            self._read_seconds = self._clock()
            self._pass_seconds = self._read_seconds - begun
            self._last = {at: reading for at, reading in readings.items() if isinstance(reading, CardReading)}
            for probe in self._probes:
                probe.take(readings)

    def memory_in_use(self) -> tuple[DeviceMemory, ...]:
        """Return the memory of the devices at the last sample; nothing is read, so it can be called often."""
        with self._lock:
            if not self._probes:
                return ()
            return tuple(
                DeviceMemory(used_bytes=reading.used_bytes, total_bytes=self.devices[at].total_bytes)
                for at, reading in self._last.items()
            )

    def look_if_stale(self) -> None:
        """Read the cards now, unless the last reading is recent or readings take too much time."""
        with self._lock:
            age_seconds = self._clock() - self._read_seconds
            is_fresh = age_seconds <= max(_FRESH_SECONDS, self._pass_seconds / _LOOK_SHARE)
        if not is_fresh:
            self._ticker.look(_FRESH_SECONDS + 2 * self._pass_seconds)

    def finish(self, probe: RunProbe) -> tuple[DeviceUse, ...]:
        """Read the cards after a run's teardown, wait for the driver to free its memory, and forget the probe."""
        closed_seconds = self._clock()
        is_read = self._ticker.look(_LOOK_SECONDS)
        while is_read and self._is_held(probe) and self._clock() < closed_seconds + _RETURN_SECONDS:
            self._ticker.wait(_POLL_SECONDS)
            is_read = self._ticker.look(_LOOK_SECONDS)
        with self._lock:
            uses = tuple(track.last_use(closed_seconds) for track in probe.tracks.values())
            if probe in self._probes:
                self._probes.remove(probe)
            # Remembered, so that a process of this run that still holds memory later is known as a leftover.
            self._ended[probe.token] = EndedRun(
                seconds=closed_seconds, kernel_pid=probe.kernel_pid, was_killed=probe.token in self._killed
            )
            self._killed.discard(probe.token)
            if len(self._ended) > _REMEMBERED:
                del self._ended[next(iter(self._ended))]
        self._ticker.stop()
        return uses

    def _is_held(self, probe: RunProbe) -> bool:
        with self._lock:
            return any(track.is_held for track in probe.tracks.values())

    @property
    def lock(self) -> threading.Lock:
        """Return the lock that is held while readings are passed to probes."""
        return self._lock

    def close(self) -> None:
        """Shut the library down; safe to call twice. Open probes keep what they have read."""
        cards, self._cards = self._cards, None
        if cards is not None:
            self.reason = "the GPUs are no longer read"
            cards.close()


class RunProbe:
    """The devices as one kernel uses them; see :class:`~pytest_lecturecheck.model.probe.DeviceProbe`."""

    def __init__(self, monitor: GpuMonitor, *, kernel_pid: int, token: str, tracks: dict[int, Track]) -> None:
        self.kernel_pid = kernel_pid
        self.token = token
        self.tracks = tracks
        self._monitor = monitor
        self._closed: tuple[DeviceUse, ...] | None = None

    @property
    def wanted(self) -> tuple[int, ...]:
        """Return the positions of the devices to read."""
        return tuple(position for position, track in self.tracks.items() if not track.is_given_up)

    def take(self, readings: Mapping[int, CardReading | Failure]) -> None:
        """Add readings by position of the device; the caller must hold the monitor's lock."""
        for position, track in self.tracks.items():
            reading = readings.get(position)
            if reading is not None:
                track.take(reading)

    def begin_cell(self) -> None:
        """Open a cell's window."""
        with self._monitor.lock:
            for track in self.tracks.values():
                track.begin_cell()

    def end_cell(self) -> Mapping[Metric, Reading]:
        """Close the cell's window."""
        if self._closed is None:
            self._monitor.look_if_stale()
        with self._monitor.lock:
            return {Metric.GPU_USED: most_used([track.cell_reading() for track in self.tracks.values()])}

    def snapshot(self) -> tuple[DeviceUse, ...]:
        """Return the devices at this moment."""
        with self._monitor.lock:
            return self._closed or tuple(track.use() for track in self.tracks.values())

    def close(self) -> tuple[Mapping[Metric, Reading], tuple[DeviceUse, ...]]:
        """Stop sampling and read once more; takes up to a second where memory is freed slowly."""
        if self._closed is None:
            self._closed = self._monitor.finish(self)
        return {Metric.GPU_USED: most_used([use.used for use in self._closed])}, self._closed


class UnreadableProbe:
    """A probe of cards that cannot be read."""

    def __init__(self, reason: str) -> None:
        self._readings = {Metric.GPU_USED: Unavailable(metric=Metric.GPU_USED, reason=reason)}

    def begin_cell(self) -> None:
        """Do nothing."""

    def end_cell(self) -> Mapping[Metric, Reading]:
        """Return the reason why nothing was measured."""
        return self._readings

    def snapshot(self) -> tuple[DeviceUse, ...]:
        """Return no devices."""
        return ()

    def close(self) -> tuple[Mapping[Metric, Reading], tuple[DeviceUse, ...]]:
        """Return the reason why nothing was measured."""
        return self._readings, ()


def most_used(readings: Sequence[Reading]) -> Reading:
    """
    Return the reading of the device where the run held most.

    A device that could not be read wins over zeros: the run may have held memory there.
    """
    measured = [reading for reading in readings if isinstance(reading, Measurement)]
    best = max(measured, key=lambda item: (item.value, item.upper_bound or 0), default=None)
    unread = next((reading for reading in readings if isinstance(reading, Unavailable)), None)
    if best is not None and (best.value or unread is None):
        return best
    return unread or Unavailable(metric=Metric.GPU_USED, reason="no device was read")


def open_gpu_monitor(
    *,
    environ: Mapping[str, str] = os.environ,
    root: Path = Path("/"),
    find_tree: Callable[[int], AbstractSet[int]] | None = None,
) -> GpuMonitor:
    """
    Open the GPUs of this machine; without one this costs a few checks of paths.

    Args:
        environ: environment that kernels start from.
        root: ``/``, or a recorded tree with ``dev`` and ``proc``.
        find_tree: returns the process ids of a kernel's tree where there is no ``/proc``; without it only the kernel.
    """
    processes: Processes
    if sys.platform == "linux":
        processes = ProcProcesses(root / "proc")
    else:
        processes = BareProcesses() if find_tree is None else BareProcesses(find_tree)
    cards = open_present_cards(root, environ)
    has_card = has_device(root, environ) if isinstance(cards, Failure) else bool(cards.devices)
    return GpuMonitor(cards, processes, has_card=has_card, environ=environ)
