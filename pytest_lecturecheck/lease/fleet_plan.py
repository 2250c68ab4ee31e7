"""
Plan which lectures run where and when, on machines whose sizes are known. Pure.

Lectures are handed out to machines by what they load most, largest first. Each machine then starts the first lecture
that fits whenever one ends, in the best of some orders. At the end lectures move from the machine that ends last to
the one that ends first, as long as that helps.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.lease.admission import Capacity

_EFFORT: Final = 400_000
"""Starts that are tried while lectures are moved; the number bounds the time, whatever the machine."""
_MOVES_TRIED: Final = 6
_MOST_PARTS: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """
    One lecture to plan.

    Attributes:
        name: its name.
        lecture: its file, without the variant; empty where nothing asks for it.
        seconds: how long it takes.
        host_bytes: memory that it needs.
        core_count: cores that it keeps busy.
        gpu_bytes: memory that it needs on one card; ``None`` for a whole card, 0 for no card.
    """

    name: str
    lecture: str = ""
    seconds: float
    host_bytes: int = 0
    core_count: int = 1
    gpu_bytes: int | None = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMachine:
    """One machine with what lectures may take of it."""

    name: str
    capacity: Capacity


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStart:
    """One lecture with its machine, its card and the second at which it starts."""

    job: PlannedJob
    machine: int
    seconds: float
    card: int | None = None

    @property
    def ends_seconds(self) -> float:
        """Return the second at which it ends."""
        return self.seconds + self.job.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlan:
    """
    A plan.

    Attributes:
        starts: the lectures, in the order in which they start.
        makespan_seconds: when the last one ends.
        lower_bound_seconds: no plan can be shorter than this.
        left_out: lectures that no machine can hold.
    """

    starts: tuple[PlannedStart, ...]
    makespan_seconds: float
    lower_bound_seconds: float
    left_out: tuple[PlannedJob, ...] = ()

    def most_at_once(self, machine: int) -> int:
        """Return how many lectures run at once on a machine at most: the workers that it needs."""
        events = [
            event
            for start in self.starts
            if start.machine == machine
            for event in ((start.seconds, 1), (start.ends_seconds, -1))
        ]
        running = most = 0
        for _, change in sorted(events):
            running += change
            most = max(most, running)
        return most


def plan_fleet(jobs: Sequence[PlannedJob], machines: Sequence[PlannedMachine]) -> FleetPlan:
    """
    Plan lectures on machines.

    Args:
        jobs: the lectures.
        machines: at least one machine.
    """
    fitting = [job for job in jobs if any(_fits(job, item.capacity) for item in machines)]
    left_out = tuple(job for job in jobs if not any(_fits(job, item.capacity) for item in machines))
    shares = _hand_out(fitting, machines)
    found = [_schedule(share, machine.capacity) for share, machine in zip(shares, machines, strict=True)]
    found = _rebalance(found, machines)
    starts = [
        PlannedStart(job=job, machine=number, seconds=seconds, card=card)
        for number, timetable in enumerate(found)
        for job, seconds, card in timetable.starts
    ]
    return FleetPlan(
        starts=tuple(sorted(starts, key=lambda start: (start.seconds, start.machine, start.job.name))),
        makespan_seconds=max((timetable.ends_seconds for timetable in found), default=0.0),
        lower_bound_seconds=lower_bound(fitting, [machine.capacity for machine in machines]),
        left_out=left_out,
    )


def _fits(job: PlannedJob, capacity: Capacity) -> bool:
    card = max(capacity.devices.values(), default=0)
    needs_card = job.gpu_bytes is None or job.gpu_bytes > 0
    is_on_card = not needs_card or (card > 0 and (job.gpu_bytes is None or job.gpu_bytes <= card))
    return job.host_bytes <= capacity.host_bytes and job.core_count <= capacity.core_count and is_on_card


# -- who gets what ----------------------------------------------------------------------------------------------------


def _areas(job: PlannedJob, capacity: Capacity) -> tuple[float, float, float]:
    """Return what a lecture takes of a machine's memory, cores and cards, multiplied by its time."""
    cards = sum(capacity.devices.values())
    most = max(capacity.devices.values(), default=0)
    gpu = most if job.gpu_bytes is None else job.gpu_bytes
    return (
        job.seconds * job.host_bytes / capacity.host_bytes,
        job.seconds * job.core_count / capacity.core_count,
        job.seconds * gpu / cards if cards else 0.0,
    )


def _hand_out(jobs: Sequence[PlannedJob], machines: Sequence[PlannedMachine]) -> list[list[PlannedJob]]:
    """Give each lecture to the machine that it leaves least loaded, the largest ones first."""
    kinds: dict[tuple[int, int, tuple[tuple[int, int], ...]], list[int]] = {}
    for number, machine in enumerate(machines):
        size = machine.capacity
        key = (size.host_bytes, size.core_count, tuple(sorted(size.devices.items())))
        kinds.setdefault(key, []).append(number)
    shares: list[list[PlannedJob]] = [[] for _ in machines]
    loads = [(0.0, 0.0, 0.0)] * len(machines)
    first = [machines[numbers[0]].capacity for numbers in kinds.values()]
    largest = sorted(jobs, key=lambda job: (-max(map(max, (_areas(job, size) for size in first))), job.name))
    for job in largest:
        best, best_load, best_value = -1, (0.0, 0.0, 0.0), math.inf
        for size, numbers in zip(first, kinds.values(), strict=True):
            if not _fits(job, size):
                continue
            host, cores, gpu = _areas(job, size)
            for number in numbers:
                load = loads[number]
                after = (load[0] + host, load[1] + cores, load[2] + gpu)
                value = max(after)
                if value < best_value:
                    best, best_load, best_value = number, after, value
        shares[best].append(job)
        loads[best] = best_load
    return shares


# -- one machine ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Timetable:
    """One machine's lectures with start and card."""

    starts: tuple[tuple[PlannedJob, float, int | None], ...] = ()
    ends_seconds: float = 0.0

    @property
    def jobs(self) -> list[PlannedJob]:
        return [job for job, _, _ in self.starts]


def _schedule(jobs: Sequence[PlannedJob], capacity: Capacity) -> _Timetable:
    """Return the shortest timetable among those of some orders."""

    def area(job: PlannedJob) -> float:
        return max(_areas(job, capacity))

    orders: list[Callable[[PlannedJob], float]] = [
        lambda job: job.seconds,
        area,
        lambda job: area(job) / job.seconds if job.seconds else 0.0,
    ]
    tables = (_start_all(sorted(jobs, key=lambda job: (-rank(job), job.name)), capacity) for rank in orders)
    return min(tables, key=lambda table: table.ends_seconds, default=_Timetable())


@dataclass(slots=True)
class _Free:
    """What is free on a machine."""

    host_bytes: int
    core_count: int
    cards: dict[int, int] = field(default_factory=dict)
    sizes: Mapping[int, int] = field(default_factory=dict)

    def take(self, job: PlannedJob) -> tuple[int | None, int] | None:
        """Take what a lecture needs; return its card and the memory on it, or ``None`` if it does not fit now."""
        if job.host_bytes > self.host_bytes or job.core_count > self.core_count:
            return None
        card, size = None, 0
        if job.gpu_bytes is None or job.gpu_bytes > 0:
            fitting = [index for index, free in self.cards.items() if self._has(index, free, job)]
            if not fitting:
                return None
            # The fullest card that holds it leaves the largest hole elsewhere.
            card = min(fitting, key=lambda index: (self.cards[index], index))
            size = self.sizes[card] if job.gpu_bytes is None else job.gpu_bytes
            self.cards[card] -= size
        self.host_bytes -= job.host_bytes
        self.core_count -= job.core_count
        return card, size

    def _has(self, index: int, free: int, job: PlannedJob) -> bool:
        return free == self.sizes[index] if job.gpu_bytes is None else free >= job.gpu_bytes

    def give(self, job: PlannedJob, card: int | None, size: int) -> None:
        """Give back what a lecture had."""
        self.host_bytes += job.host_bytes
        self.core_count += job.core_count
        if card is not None:
            self.cards[card] += size


def _start_all(ordered: Sequence[PlannedJob], capacity: Capacity) -> _Timetable:
    """Start lectures in order, each as soon as it fits; later ones that fit overtake."""
    free = _Free(capacity.host_bytes, capacity.core_count, dict(capacity.devices), capacity.devices)
    waiting = list(ordered)
    running: list[tuple[float, int, PlannedJob, int | None, int]] = []
    starts: list[tuple[PlannedJob, float, int | None]] = []
    now = ends = 0.0
    while waiting:
        left: list[PlannedJob] = []
        for position, job in enumerate(waiting):
            if free.core_count < 1:
                left += waiting[position:]
                break
            taken = free.take(job)
            if taken is None:
                left.append(job)
                continue
            card, size = taken
            starts.append((job, now, card))
            ends = max(ends, now + job.seconds)
            heapq.heappush(running, (now + job.seconds, len(starts), job, card, size))
        waiting = left
        if not running:
            break
        now = running[0][0]
        while running and running[0][0] <= now:
            _, _, job, card, size = heapq.heappop(running)
            free.give(job, card, size)
    return _Timetable(tuple(starts), ends)


def _rebalance(tables: Sequence[_Timetable], machines: Sequence[PlannedMachine]) -> list[_Timetable]:
    """Move lectures from the machine that ends last to the one that ends first while that helps."""
    found, effort = list(tables), 0
    while len(found) > 1 and effort < _EFFORT:
        last = max(range(len(found)), key=lambda number: found[number].ends_seconds)
        first = min(range(len(found)), key=lambda number: found[number].ends_seconds)
        moved = None
        for job in _candidates(found[last], found[first], machines[first].capacity):
            rest = [other for other in found[last].jobs if other is not job]
            effort += 3 * (len(rest) + len(found[first].starts) + 2)
            giving = _schedule(rest, machines[last].capacity)
            taking = _schedule([*found[first].jobs, job], machines[first].capacity)
            if max(giving.ends_seconds, taking.ends_seconds) < found[last].ends_seconds:
                moved = giving, taking
                break
        if moved is None:
            break
        found[last], found[first] = moved
    return found


def _candidates(last: _Timetable, first: _Timetable, capacity: Capacity) -> Iterator[PlannedJob]:
    """Yield the lectures that are worth moving: about half of the difference first."""
    difference = last.ends_seconds - first.ends_seconds
    fitting = [job for job in last.jobs if 0 < job.seconds < difference and _fits(job, capacity)]
    yield from sorted(fitting, key=lambda job: (abs(job.seconds - difference / 2), job.name))[:_MOVES_TRIED]


# -- what no plan can beat --------------------------------------------------------------------------------------------


def lower_bound(jobs: Sequence[PlannedJob], capacities: Sequence[Capacity]) -> float:
    """
    Return a time that no plan can beat.

    The longest lecture, the work divided by all that there is of a resource, and bounds from dual feasible functions.
    Of lectures that need more than half of the largest machine only one runs on a machine at a time, and so on.
    """
    if not jobs or not capacities:
        return 0.0
    bounds = [max(job.seconds for job in jobs)]
    cards = [size for capacity in capacities for size in capacity.devices.values()]
    resources: list[tuple[Callable[[PlannedJob], float | None], list[float]]] = [
        (lambda job: job.host_bytes, [float(capacity.host_bytes) for capacity in capacities]),
        (lambda job: job.core_count, [float(capacity.core_count) for capacity in capacities]),
        (lambda job: job.gpu_bytes, list(map(float, cards))),
    ]
    for need, sizes in resources:
        if sizes:
            bounds += _bounds(jobs, need, sizes)
    return max(bounds)


def _bounds(
    jobs: Sequence[PlannedJob], need: Callable[[PlannedJob], float | None], sizes: Sequence[float]
) -> Iterable[float]:
    smallest, largest = min(sizes), max(sizes)
    needs = [need(job) for job in jobs]
    # A whole card is at least the smallest one.
    volumes = (job.seconds * (smallest if found is None else found) for job, found in zip(jobs, needs, strict=True))
    yield math.fsum(volumes) / math.fsum(sizes)
    shares = [1.0 if found is None else found / largest for found in needs]
    for parts in range(1, _MOST_PARTS):
        total = math.fsum(job.seconds * _rounded_share(share, parts) for job, share in zip(jobs, shares, strict=True))
        yield total / len(sizes)


def _rounded_share(share: float, parts: int) -> float:
    """Return the dual feasible function of Fekete and Schepers: shares that fit together add up to at most 1."""
    scaled = share * (parts + 1)
    whole = round(scaled)
    if abs(scaled - whole) < 1e-9:  # noqa: PLR2004 - the same number but for rounding
        return share
    return math.floor(scaled) / parts


# -- machines that do not see each other ------------------------------------------------------------------------------


def split_by_cost(costs: Mapping[str, tuple[float, float]], count: int) -> list[list[str]]:
    """
    Split lectures into parts of about equal time, the same on every machine that knows the same costs.

    The parts differ by no more than the longest lecture. Where several parts are equally long, the one with the least
    memory gets the next lecture.

    Args:
        costs: seconds and memory of each lecture, by name.
        count: number of parts.
    """
    parts: list[list[str]] = [[] for _ in range(count)]
    loads = [(0.0, 0.0, number) for number in range(count)]
    heapq.heapify(loads)
    for name in sorted(costs, key=lambda item: (-costs[item][0], -costs[item][1], item)):
        seconds, memory, number = heapq.heappop(loads)
        parts[number].append(name)
        heapq.heappush(loads, (seconds + costs[name][0], memory + costs[name][1], number))
    return parts
