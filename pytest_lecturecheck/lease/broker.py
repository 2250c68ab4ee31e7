"""Take a lease for a lecture before its kernels start, so that concurrent lectures share the machine."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

from pytest_lecturecheck.budget.limits import LectureBudget
from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.errors import LeaseError
from pytest_lecturecheck.lease.admission import Capacity, Demand, NeverFits, Waits
from pytest_lecturecheck.lease.demand import demand_of
from pytest_lecturecheck.model.device import Device
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.platform import Machine
from pytest_lecturecheck.model.probe import RUN_TOKEN_VARIABLE
from pytest_lecturecheck.model.settings import RunSettings
from pytest_lecturecheck.units import MIB

if TYPE_CHECKING:
    from pytest_lecturecheck.lease.ledger import Lease, Ledger

_RESERVE_FRACTION: Final = 0.05
_LEAST_RESERVE_BYTES: Final = 256 * MIB
_MOST_CONCURRENT_LABELS: Final = 20
_REPORT_SECONDS: Final = 0.5
_BUSY_FRACTION: Final = 0.5


def machine_capacity(machine: Machine, devices: Sequence[Device], host_bytes: int | None = None) -> Capacity:
    """
    Return what all lectures together may use of a machine.

    Args:
        machine: the machine and its limits.
        devices: its GPUs; those of unknown size are left out.
        host_bytes: memory from the settings; by default all minus a reserve of 5 % (at least 256 MiB).
    """
    usable = machine.usable_memory_bytes
    reserve = reserved_bytes(usable)
    return Capacity(
        host_bytes=max(_LEAST_RESERVE_BYTES, usable - reserve) if host_bytes is None else host_bytes,
        devices={device.index: device.total_bytes for device in devices if device.total_bytes},
        core_count=machine.core_count,
    )


def reserved_bytes(memory_bytes: int) -> int:
    """Return the memory of a machine that lectures do not get: 5 %, and at least 256 MiB."""
    return max(_LEAST_RESERVE_BYTES, round(memory_bytes * _RESERVE_FRACTION))


@dataclass(slots=True, kw_only=True)
class HeldLease:
    """
    The lease of a lecture, taken before it runs.

    Attributes:
        lease: the lease, or ``None`` where none is needed.
        refusal: why the lecture must not run, or an empty string.
        warning: text to show beside its verdict, or an empty string.
    """

    lease: Lease | None = None
    refusal: str = ""
    warning: str = ""
    _ledger: Ledger | None = field(default=None, repr=False)

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Return the descriptors that the kernel must inherit."""
        return (self.lease.fileno(),) if self.lease is not None else ()

    @property
    def concurrent_lectures(self) -> tuple[str, ...]:
        """
        Return the names of the lectures of all sessions that ran beside it so far; each once, at most twenty.

        If the ledger was lost meanwhile, the lectures that ran when it was admitted.
        """
        if self.lease is None or self._ledger is None:
            return ()
        try:
            beside = self._ledger.concurrent_holdings(self.lease)
        except LeaseError:
            beside = self.lease.beside
        return tuple(dict.fromkeys(holding.demand.label for holding in beside))[:_MOST_CONCURRENT_LABELS]

    def device_variables(self, devices: Sequence[Device]) -> dict[str, str]:
        """Return the variables that restrict a lecture on a machine with several GPUs to those of its lease."""
        given = [need.index for need in self.lease.demand.devices] if self.lease is not None else []
        if len(devices) < 2 or not given:  # noqa: PLR2004 - a single GPU needs no restriction
            return {}
        names = {device.index: device.uuid or str(device.index) for device in devices}
        return {"CUDA_VISIBLE_DEVICES": ",".join(names[index] for index in given if index is not None)}


def is_covered(environ: Mapping[str, str]) -> bool:
    """
    Return True if a process belongs to a lecture that is being run.

    The lecture's lease covers all processes that it starts. A session inside it that took another lease would wait for
    the lecture that waits for it.
    """
    return bool(environ.get(RUN_TOKEN_VARIABLE))


class _WaitReport:
    """Reports periodically what a lecture waits for."""

    def __init__(self, on_wait: Callable[[str, float], None]) -> None:
        self._on_wait = on_wait
        self._reason = ""
        self._since = self._reported = time.monotonic()

    def note(self, waits: Waits) -> None:
        """Report a new reason."""
        self._reason = waits.reason
        self._reported = time.monotonic()
        self._on_wait(self._reason, self._reported - self._since)

    def repeat_when_due(self) -> bool:
        """Report the reason again if it is time; called often. Return False: waiting is never abandoned."""
        now = time.monotonic()
        if self._reason and now - self._reported >= _REPORT_SECONDS:
            self._reported = now
            self._on_wait(self._reason, now - self._since)
        return False


class LeaseBroker:
    """
    Takes leases for the lectures of one process.

    Args:
        capacity: what all lectures together may use.
        worker_count: number of kernels that the session may run at once.
        is_on: whether leases are taken at all.
        is_strict: whether to refuse a lecture that can never fit, instead of running it alone.
        takes_all: whether every lecture runs alone (while recording).
        has_queue: whether a scheduler allocates memory; then leases are only taken for exclusive lectures.
    """

    def __init__(
        self,
        capacity: Capacity,
        *,
        worker_count: int,
        is_on: bool,
        is_strict: bool,
        takes_all: bool,
        has_queue: bool = False,
    ) -> None:
        """Open no file yet."""
        self._has_queue = has_queue
        self.capacity = capacity
        self._worker_count = worker_count
        self._is_on = is_on
        self._is_strict = is_strict
        self._takes_all = takes_all
        self._ledger: Ledger | None = None
        self._fault = ""

    @property
    def is_on(self) -> bool:
        """Return True if leases are taken."""
        return self._is_on

    @property
    def gives_room(self) -> bool:
        """Return True if leases, not a scheduler, decide when there is room for a lecture."""
        return self._is_on and not self._has_queue

    def demand(self, label: str, settings: RunSettings, budget: LectureBudget | None) -> Demand:
        """Return what a lecture needs of this machine."""
        if self._has_queue:
            return Demand(label=label, core_count=0, is_exclusive=bool(settings.exclusive))
        found = demand_of(
            budget,
            settings,
            self.capacity,
            self._worker_count,
            label=label,
            core_count=min(self.capacity.core_count, recorded_cores(budget)),
            is_exclusive=bool(settings.exclusive),
        )
        return found.alone(self.capacity) if self._takes_all else found

    @contextmanager
    def hold(self, demand: Demand, on_wait: Callable[[str, float], None]) -> Iterator[HeldLease]:
        """
        Wait until there is room for a lecture, and hold a lease; processes that inherited the lease keep it.

        Args:
            demand: what it needs.
            on_wait: called with the reason and the time waited, when the reason changes and about twice a second.
        """
        held = self._acquire(demand, on_wait) if self._is_on else HeldLease()
        try:
            yield held
        finally:
            if held.lease is not None:
                held.lease.release()

    def _acquire(self, demand: Demand, on_wait: Callable[[str, float], None]) -> HeldLease:
        waiting = _WaitReport(on_wait)
        try:
            ledger = self._open()
            found = ledger.acquire(demand, on_wait=waiting.note, should_stop=waiting.repeat_when_due)
            if found is not None and not isinstance(found, NeverFits):
                # Under a scheduler the ledger does not know which lectures run beside each other.
                return HeldLease(lease=found, _ledger=None if self._has_queue else ledger)
            if isinstance(found, NeverFits) and self._is_strict:
                return HeldLease(refusal=found.reason)
            reason = found.reason if isinstance(found, NeverFits) else ""
            alone = ledger.acquire(
                demand.alone(self.capacity), on_wait=waiting.note, should_stop=waiting.repeat_when_due
            )
        except LeaseError as exc:
            # Without leases two sessions may use too much memory together, which is better than running nothing.
            self._is_on = False
            return HeldLease(warning=f"concurrent lectures do not wait for each other: {exc}")
        lease = None if isinstance(alone, NeverFits) else alone
        return HeldLease(lease=lease, warning=f"it runs alone: {reason}", _ledger=ledger)

    def _open(self) -> Ledger:
        if self._ledger is None:
            # A session that only collects, or passes lectures to workers, takes no lease.
            from pytest_lecturecheck.lease.ledger import Ledger  # noqa: PLC0415 - see above
            from pytest_lecturecheck.lease.private_folder import default_folder  # noqa: PLC0415 - see above

            self._ledger = Ledger(default_folder(os.environ), self.capacity)
        return self._ledger


def read_capacity(plain: Mapping[str, Any]) -> Capacity:
    """Return a capacity from JSON values, where keys of objects are strings."""
    devices = {int(index): size for index, size in plain["devices"].items()}
    return Capacity(host_bytes=plain["host_bytes"], devices=devices, core_count=plain["core_count"])


def plan_order(budgets: Sequence[LectureBudget | None], capacity: Capacity, worker_count: int) -> tuple[int, ...]:
    """
    Return the indexes of lectures in the order in which they should be started.

    Args:
        budgets: the budget of each lecture, or ``None``.
        capacity: what all together may use; all workers must use the same, so that they agree on the order.
        worker_count: number of lectures that run at once.
    """
    from pytest_lecturecheck.lease.ordering import order  # noqa: PLC0415 - only workers plan

    plain = RunSettings()
    demands = [
        demand_of(budget, plain, capacity, worker_count, core_count=min(capacity.core_count, recorded_cores(budget)))
        for budget in budgets
    ]
    return order(demands, capacity, worker_count, [recorded_seconds(budget) for budget in budgets])


def shard_of(budgets: Mapping[tuple[str, str], LectureBudget | None], part: int, count: int) -> frozenset[str]:
    """
    Return the lectures of one of several parts that take about equally long.

    Every machine that has the same lectures and budgets finds the same parts. All variants of a lecture are in one.

    Args:
        budgets: the budget of each lecture and variant, or ``None``.
        part: the part, from 1 on.
        count: number of parts.
    """
    from statistics import median  # noqa: PLC0415 - only for parts

    from pytest_lecturecheck.lease.fleet_plan import split_by_cost  # noqa: PLC0415 - only for parts

    known = [seconds for budget in budgets.values() if (seconds := recorded_seconds(budget)) is not None]
    usual = median(known) if known else 1.0
    costs: dict[str, tuple[float, float]] = {}
    for (lecture, _), budget in budgets.items():
        seconds, memory = costs.get(lecture, (0.0, 0.0))
        footprint = _highest(budget, Metric.PEAK_FOOTPRINT)
        costs[lecture] = (seconds + (recorded_seconds(budget) or usual), max(memory, footprint))
    return frozenset(split_by_cost(costs, count)[part - 1])


def recorded_cores(budget: LectureBudget | None) -> int:
    """Return the average number of cores that a lecture kept busy when it was recorded; at least one."""
    cpu, wall = _highest(budget, Metric.CPU), _highest(budget, Metric.WALL)
    return max(1, int(cpu / wall + _BUSY_FRACTION)) if cpu and wall else 1


def recorded_seconds(budget: LectureBudget | None) -> float | None:
    """Return the time that a lecture took when it was recorded, or ``None``."""
    return _highest(budget, Metric.WALL) or None


def _highest(budget: LectureBudget | None, metric: Metric) -> float:
    item = budget.metrics.get(metric) if budget is not None else None
    return max(item.seen, default=0.0) if item is not None else 0.0
