"""
Divide a device's memory between a run and others. Pure.

The run's share is that of its processes where NVML's process ids are those of this PID namespace. In a container NVML
may list process ids of the host, no process, or all processes with 0 bytes. A run whose processes are never listed has
used nothing only if the namespace is known to be the same. Otherwise the device's rise is an upper bound of its share.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.metric import Measurement, Method, Metric, Unavailable
from pytest_lecturecheck.probe.gpu._readings import CardReading, ProcessUse
from pytest_lecturecheck.units import MIB

PID_NAMESPACE: Final = "PID namespace"
_NO_BYTES: Final = "no bytes for each process: N/A"
_NOT_LISTED: Final = "held by no listed process"
_MORE_THAN_LISTED: Final = "more is in use than processes are listed with, as with managed memory"
SAMPLED_SOURCE: Final = "NVML, the run's processes"
UNLISTED_BYTES: Final = 32 * MIB
"""Memory that drivers use without listing it. The context alone of a process that computes needs more."""
_MANAGED_BYTES: Final = 256 * MIB
"""Unlisted memory beside listed processes that counts as the run's. Driver overhead for each context is less."""
_MANAGED_SHARE: Final = 0.05
"""The same, as a share of what is listed."""
_LINGERING_COUNT: Final = 15
"""Readings over which memory must stay unlisted: an ending process leaves the list before its memory is freed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """
    The run's share of a device in one reading.

    Attributes:
        run_bytes: memory of the run's processes, or ``None`` where it cannot be separated from that of others.
        known_bytes: lower bound of the run's memory.
        upper_bytes: upper bound of the run's memory.
        others_bytes: memory of other processes, or ``None`` where it cannot be separated.
        doubt: why it cannot be separated, or an empty string.
    """

    run_bytes: int | None
    known_bytes: int
    upper_bytes: int
    others_bytes: int | None
    doubt: str = ""


@dataclass(slots=True, kw_only=True)
class DevicePeak:
    """
    The highest of several shares: of a cell, or of the whole run.

    Attributes:
        count: number of shares.
        known_bytes: highest lower bound of the run's memory.
        others_bytes: the most that others held, or ``None``.
        doubted_bytes: highest upper bound of the shares with each doubt.
    """

    count: int = 0
    known_bytes: int = 0
    others_bytes: int | None = None
    doubted_bytes: dict[str, int] = field(default_factory=dict)

    def add(self, share: Share) -> None:
        """Add a share."""
        self.count += 1
        self.known_bytes = max(self.known_bytes, share.known_bytes)
        if share.others_bytes is not None:
            self.others_bytes = max(self.others_bytes or 0, share.others_bytes)
        if share.doubt:
            self.doubted_bytes[share.doubt] = max(self.doubted_bytes.get(share.doubt, 0), share.upper_bytes)


class Attribution:
    """
    Divides what a device holds between a run and others, reading after reading.

    Args:
        first: the device before the run's processes could hold any of it. A process listed there is not the run's. If
            its id is that of a process of the run, the list has ids of another namespace.
        same_namespace: whether NVML's process ids are known to be those of this PID namespace.
        no_bytes_reason: text for processes that are listed without their bytes.
    """

    def __init__(self, first: CardReading, *, same_namespace: bool, no_bytes_reason: str = _NO_BYTES) -> None:
        self._no_bytes_reason = no_bytes_reason
        self._before = {process.pid: process.used_bytes for process in first.processes or ()}
        self._first_used_bytes = first.used_bytes
        self._lowest_used_bytes = first.used_bytes
        self._same_namespace = same_namespace
        self._own_were_listed = False
        self._unlisted: deque[int] = deque(maxlen=_LINGERING_COUNT)
        self.peak = DevicePeak()
        """The highest shares of the whole run."""

    @property
    def before(self) -> AbstractSet[int]:
        """Return the processes that held memory before the run."""
        return self._before.keys()

    @property
    def is_namespace_known(self) -> bool:
        """Return True if NVML's process ids are known to be those of this PID namespace."""
        return self._same_namespace or self._own_were_listed

    @property
    def is_separated(self) -> bool:
        """Return True if the run's value is that of its processes, and not the device's rise."""
        return not self._doubts(self.peak)

    def own(self, reading: CardReading, ours: AbstractSet[int]) -> tuple[ProcessUse, ...]:
        """Return the run's listed processes: those of ``ours`` that were not listed before the run."""
        listed = reading.processes or ()
        return tuple(process for process in listed if process.pid in ours and process.pid not in self._before)

    def add(self, reading: CardReading, ours: AbstractSet[int]) -> Share:
        """
        Add a reading, and return the run's share.

        Args:
            reading: the device, read after all readings before.
            ours: process ids that belong to the run.
        """
        own = self.own(reading, ours)
        held = {process.pid: process.used_bytes for process in own}
        known_bytes = sum(used or 0 for used in held.values())
        self._own_were_listed = self._own_were_listed or known_bytes > 0
        # Others may free memory without being listed; a rise counts from the lowest level since the start.
        self._lowest_used_bytes = min(self._lowest_used_bytes, reading.used_bytes)
        upper_bytes = max(known_bytes, self._rise(reading, held.keys()))
        self._unlisted.append(upper_bytes - known_bytes)
        doubt = self._doubt(reading, list(held.values()))
        if doubt in {_NOT_LISTED, _MORE_THAN_LISTED}:
            upper_bytes = known_bytes + min(self._unlisted)
        others: list[int | None] = [
            process.used_bytes for process in reading.processes or () if process.pid not in held
        ]
        share = Share(
            run_bytes=None if doubt else known_bytes,
            known_bytes=known_bytes,
            upper_bytes=upper_bytes,
            others_bytes=None if doubt or None in others else sum(used or 0 for used in others),
            doubt=doubt,
        )
        self.peak.add(share)
        return share

    def _rise(self, reading: CardReading, own: AbstractSet[int]) -> int:
        """
        Return an upper bound of the run's memory: what was added since the start, without what others added.

        Memory that was in use before and is known to be freed lowers the level from which the rise counts.
        """
        now = {process.pid: process.used_bytes for process in reading.processes or ()}
        level = self._first_used_bytes
        if reading.processes is not None:
            level -= sum(max(0, (used or 0) - (now.get(pid) or 0)) for pid, used in self._before.items())
        level = min(level, self._lowest_used_bytes)
        others = self._before.keys() if not self.is_namespace_known else now.keys() - own
        growth = sum(max(0, (now.get(pid) or 0) - (self._before.get(pid) or 0)) for pid in others)
        return max(0, reading.used_bytes - level - growth)

    def _doubt(self, reading: CardReading, used: Sequence[int | None]) -> str:
        """Explain why the bytes listed for the run are not its value; an empty string where they are."""
        if reading.processes is None:
            return reading.no_list_reason or "no list of processes"
        if None in used:
            return self._no_bytes_reason
        if any(used):
            # CUDA's managed memory is in use on the card, but not listed for the process that has allocated it.
            least_bytes = max(_MANAGED_BYTES, round(_MANAGED_SHARE * sum(item or 0 for item in used)))
            return _MORE_THAN_LISTED if self._stays_unlisted(least_bytes) else ""
        if not self.is_namespace_known:
            return PID_NAMESPACE
        if used and self._unlisted[-1] > UNLISTED_BYTES:
            # Some drivers list a container's processes with 0 bytes.
            return PID_NAMESPACE
        return _NOT_LISTED if self._stays_unlisted(UNLISTED_BYTES) else ""

    def _stays_unlisted(self, least_bytes: int) -> bool:
        return len(self._unlisted) == _LINGERING_COUNT and min(self._unlisted) > least_bytes

    def _doubts(self, peak: DevicePeak) -> dict[str, int]:
        # Once the run's processes were listed with bytes, their earlier absence meant that they held none.
        settled = {PID_NAMESPACE} if self._own_were_listed else set()
        return {
            doubt: high
            for doubt, high in peak.doubted_bytes.items()
            if doubt not in settled and (high > peak.known_bytes or not peak.known_bytes)
        }

    def reading(
        self, peak: DevicePeak, *, interval_seconds: float | None, failure: str = ""
    ) -> Measurement | Unavailable:
        """
        Return the value of a cell or of the run.

        Args:
            peak: the highest shares.
            interval_seconds: time between two readings.
            failure: why reading stopped before the end of the run, or an empty string.
        """
        if not peak.count:
            return Unavailable(metric=Metric.GPU_USED, reason=failure or "the device was not read in this time")
        doubts = self._doubts(peak)
        ending = f", until: {failure}" if failure else ""
        if not doubts:
            return Measurement(
                metric=Metric.GPU_USED,
                value=peak.known_bytes,
                method=Method.SAMPLED,
                interval_seconds=interval_seconds,
                source=f"{SAMPLED_SOURCE}{ending}",
            )
        doubt = max(doubts, key=lambda item: doubts[item])
        if failure:
            # An upper bound would have to hold for the time without readings as well.
            reason = f"{doubt}, and then: {failure}"
            return Unavailable(metric=Metric.GPU_USED, reason=reason)
        return Measurement(
            metric=Metric.GPU_USED,
            value=peak.known_bytes,
            method=Method.BRACKET,
            high=max(peak.known_bytes, doubts[doubt]),
            interval_seconds=interval_seconds,
            source=f"per process not available ({doubt}): the device's rise, an upper bound",
        )
