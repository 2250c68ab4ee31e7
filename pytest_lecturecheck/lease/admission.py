"""
Decide which lectures may run now: their demands compared with what the machine has. Pure.

The rules:

- The sum of what is held never exceeds the capacity: host memory, each device, cores. An exclusive lecture runs alone.
- Waiters are served in order of arrival; later ones that fit overtake one that does not fit yet.
- A waiter that was overtaken :data:`PATIENCE` times is *firm*: from then on no later one is admitted if that could
  delay it. A large lecture therefore gets its turn even under a constant stream of small ones.
- A demand that can never fit does not wait; :meth:`Demand.alone` reduces it to a demand that runs alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from typing import Final, TypeAlias

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.units import format_size, format_sizes_apart

PATIENCE: Final = 8
"""Number of later admissions after which nobody may delay a waiter any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNeed:
    """
    What a lecture needs of one device.

    Attributes:
        index: the device, or ``None`` for any one of them.
        size_bytes: memory on it, or ``None`` for the whole device.
    """

    index: int | None = None
    size_bytes: int | None = None

    def __post_init__(self) -> None:
        """
        Validate the need.

        Raises:
            ValueError: a negative index or size.
        """
        if (self.index or 0) < 0 or (self.size_bytes or 0) < 0:
            msg = f"device {self.index!r} with {self.size_bytes!r} bytes: expected numbers of at least 0, or None"
            raise ValueError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """
    What one lecture needs while it runs; it is admitted as a whole or not at all.

    Attributes:
        label: name of the lecture, for messages.
        host_bytes: memory of the machine.
        devices: needs of devices; each device at most once, and at most one need of any device.
        core_count: cores.
        is_exclusive: whether nothing else may run at the same time.
    """

    label: str = ""
    host_bytes: int = 0
    devices: tuple[DeviceNeed, ...] = ()
    core_count: int = 1
    is_exclusive: bool = False

    def __post_init__(self) -> None:
        """
        Validate the demand.

        Raises:
            ValueError: a negative number, or two needs of one device.
        """
        if self.host_bytes < 0 or self.core_count < 0:
            msg = f"demand of {self.label!r}: {self.host_bytes} bytes and {self.core_count} cores: expected at least 0"
            raise ValueError(msg)
        indexes = [need.index for need in self.devices]
        if len(set(indexes)) < len(indexes):
            msg = f"demand of {self.label!r} names a device twice: {indexes}; expected one need for each device"
            raise ValueError(msg)

    def alone(self, capacity: Capacity) -> Demand:
        """Return an exclusive demand, reduced to the capacity: it fits as soon as nothing is held."""
        devices = tuple(_cut(need, capacity) for need in self.devices if _exists(need, capacity))
        return replace(
            self,
            host_bytes=min(self.host_bytes, capacity.host_bytes),
            devices=devices if _choose_devices(devices, capacity, ()) is not None else (),
            core_count=min(self.core_count, capacity.core_count),
            is_exclusive=True,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """
    What all runs together may use.

    Attributes:
        host_bytes: memory of the machine within its limits.
        devices: memory of each device by index.
        core_count: cores.
    """

    host_bytes: int
    devices: Mapping[int, int] = field(default_factory=dict)
    core_count: int = 1

    def __post_init__(self) -> None:
        """
        Validate the capacity.

        Raises:
            ValueError: no memory, no core, or a device of negative size.
        """
        if self.host_bytes < 1 or self.core_count < 1 or min(self.devices.values(), default=0) < 0:
            msg = (
                f"capacity of {self.host_bytes} bytes, {self.core_count} cores and devices {dict(self.devices)}: "
                "expected at least 1 byte and 1 core, and no negative size"
            )
            raise ValueError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """
    A demand that was admitted.

    Attributes:
        demand: what is held; every device in it has an index.
        pid: process that requested it, or 0; for information only.
        started: when it was admitted, ISO 8601 in UTC, or an empty string; for information only.
    """

    demand: Demand
    pid: int = 0
    started: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiter:
    """
    A demand that waits.

    Attributes:
        demand: what it waits for.
        passed_count: number of admissions since it arrived.
    """

    demand: Demand
    passed_count: int = 0


class Scarce(StrEnum):
    """What a waiting demand lacks."""

    HOST = "memory"
    DEVICES = "devices"
    CORES = "cores"
    EXCLUSIVITY = "running alone"
    """It must run alone, or a lecture that must run alone is running."""
    TURN = "turn"
    """It would fit, but an earlier waiter goes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """The demand is admitted; its devices now have indexes."""

    demand: Demand


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """
    The demand must wait.

    Attributes:
        reason: "waits for 3.1 GiB, 2 running".
        scarce: what it lacks, the most important first.
        running_count: number of runs that hold something now.
    """

    reason: str
    scarce: Scarce
    running_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NeverFits:
    """The demand exceeds the capacity even with nothing else running; the reason says by how much."""

    reason: str


Decision: TypeAlias = Admitted | Waits | NeverFits


def admit(
    demand: Demand, capacity: Capacity, holdings: Sequence[Holding], waiting_ahead: Sequence[Waiter] = ()
) -> Decision:
    """
    Decide on one demand, as if all waiters ahead had been decided just before.

    Args:
        demand: what is requested.
        capacity: what there is.
        holdings: what all sessions hold now.
        waiting_ahead: earlier waiters, oldest first.
    """
    if excess := _excess(demand, capacity):
        return NeverFits(reason=excess)
    held = [holding.demand for holding in holdings]
    blocked_by = ""
    firm: list[Demand] = []
    for waiter in waiting_ahead:
        entered = _enter(waiter.demand, capacity, held, firm)
        if entered is not None:
            held.append(entered)
            blocked_by = blocked_by or waiter.demand.label
        elif waiter.passed_count >= PATIENCE:
            firm.append(waiter.demand)
    entered = _enter(demand, capacity, held, firm)
    if entered is not None:
        return Admitted(demand=entered)
    return _explain_wait(demand, capacity, holdings, firm[0].label if firm else blocked_by)


def _enter(demand: Demand, capacity: Capacity, held: Sequence[Demand], firm: Sequence[Demand]) -> Demand | None:
    """Return the demand with device indexes if it may run beside ``held`` without delaying firm waiters."""
    if _scarcities(demand, capacity, held):
        return None
    chosen = _choose_devices(demand.devices, capacity, held)
    entered = replace(demand, devices=chosen or ())
    return None if _may_delay(entered, capacity, held, firm) else entered


def _may_delay(entered: Demand, capacity: Capacity, held: Sequence[Demand], firm: Sequence[Demand]) -> bool:
    """
    Return True if a demand could delay a firm waiter.

    It cannot if there is already enough for the waiter of everything that the demand uses. Then what the waiter lacks
    is something that the demand does not use.
    """
    uses = _uses(entered)
    beside = [*held, entered]
    for waiter in firm:
        if uses & _scarcities(waiter, capacity, beside) or Scarce.EXCLUSIVITY in _scarcities(waiter, capacity, beside):
            return True
        # The next firm waiter comes after this one.
        beside.append(replace(waiter, devices=_choose_devices(waiter.devices, capacity, beside) or ()))
    return False


def _uses(demand: Demand) -> set[Scarce]:
    amounts = {Scarce.HOST: demand.host_bytes, Scarce.CORES: demand.core_count, Scarce.DEVICES: len(demand.devices)}
    return {scarce for scarce, amount in amounts.items() if amount}


def _scarcities(demand: Demand, capacity: Capacity, held: Sequence[Demand]) -> set[Scarce]:
    """Return everything that the demand lacks for running beside ``held``."""
    found = set()
    if held and (demand.is_exclusive or any(other.is_exclusive for other in held)):
        found.add(Scarce.EXCLUSIVITY)
    if demand.host_bytes and demand.host_bytes > capacity.host_bytes - sum(other.host_bytes for other in held):
        found.add(Scarce.HOST)
    if demand.core_count and demand.core_count > capacity.core_count - sum(other.core_count for other in held):
        found.add(Scarce.CORES)
    if _choose_devices(demand.devices, capacity, held) is None:
        found.add(Scarce.DEVICES)
    return found


def _choose_devices(
    needs: Iterable[DeviceNeed], capacity: Capacity, held: Sequence[Demand]
) -> tuple[DeviceNeed, ...] | None:
    """Choose a device for each need, the one with most room; ``None`` if the needs do not fit."""
    free = {index: size - _used(index, size, held) for index, size in capacity.devices.items()}
    untouched = {index for index in free if not any(need.index == index for other in held for need in other.devices)}
    chosen = []
    # Needs with an index first, so that a need of any device does not use a device that another need requires.
    for need in sorted(needs, key=lambda item: item.index is None):
        choices = [need.index] if need.index is not None else sorted(free, key=lambda index: (-free[index], index))
        fitting = [index for index in choices if _has_room(need, index, free, untouched)]
        if not fitting:
            return None
        chosen.append(replace(need, index=fitting[0]))
        del free[fitting[0]]
    return tuple(chosen)


def _used(index: int, total_bytes: int, held: Iterable[Demand]) -> int:
    """Return what is held of a device; a need of the whole device counts its full size."""
    sizes = [need.size_bytes for other in held for need in other.devices if need.index == index]
    return sum(total_bytes if size is None else size for size in sizes)


def _has_room(need: DeviceNeed, index: int, free: Mapping[int, int], untouched: set[int]) -> bool:
    if index not in free:
        return False
    return index in untouched if need.size_bytes is None else need.size_bytes <= free[index]


def _exists(need: DeviceNeed, capacity: Capacity) -> bool:
    return need.index in capacity.devices if need.index is not None else bool(capacity.devices)


def _cut(need: DeviceNeed, capacity: Capacity) -> DeviceNeed:
    """Return the need, or a need of the whole device if it is larger than the device."""
    largest = max(capacity.devices.values()) if need.index is None else capacity.devices[need.index]
    return replace(need, size_bytes=None) if need.size_bytes is not None and need.size_bytes > largest else need


def _excess(demand: Demand, capacity: Capacity) -> str:
    """Explain why a demand can never run; an empty string if it can."""
    if demand.host_bytes > capacity.host_bytes:
        return f"needs {_too_much(demand.host_bytes, capacity.host_bytes)} of memory that all runs together may use"
    if demand.core_count > capacity.core_count:
        return f"needs {_cores(demand.core_count)}, and all runs together may use {_cores(capacity.core_count)}"
    for need in demand.devices:
        if not _exists(need, capacity):
            return f"needs {_device_name(need)}; known: {_known_devices(capacity)}"
        total = max(capacity.devices.values()) if need.index is None else capacity.devices[need.index]
        if need.size_bytes is not None and need.size_bytes > total:
            return f"needs {_too_much(need.size_bytes, total)} of {_device_name(need, largest=True)}"
    if _choose_devices(demand.devices, capacity, ()) is None:
        return f"needs {len(demand.devices)} devices at once; known: {_known_devices(capacity)}"
    return ""


def _known_devices(capacity: Capacity) -> str:
    sizes = [f"GPU {index} ({format_size(size)})" for index, size in sorted(capacity.devices.items())]
    return ", ".join(sizes) or "there is none"


def _too_much(need_bytes: int, total_bytes: int) -> str:
    need, total = format_sizes_apart(need_bytes, total_bytes)
    return f"{need}, {format_size(need_bytes - total_bytes)} more than the {total}"


def _device_name(need: DeviceNeed, *, largest: bool = False) -> str:
    if need.index is not None:
        return f"GPU {need.index}"
    return "the largest GPU" if largest else "a GPU"


def _cores(count: int) -> str:
    return f"{count} core{'' if count == 1 else 's'}"


def _explain_wait(demand: Demand, capacity: Capacity, holdings: Sequence[Holding], blocked_by: str) -> Waits:
    held = [holding.demand for holding in holdings]
    running = f"{len(held)} running"
    scarcities = _scarcities(demand, capacity, held)
    scarce = next((kind for kind in _ORDER_OF_REASONS if kind in scarcities), Scarce.TURN)
    if scarce is Scarce.EXCLUSIVITY:
        alone = next((other.label for other in held if other.is_exclusive), None)
        text = f"waits for {alone!r}, which runs alone" if alone is not None else f"waits to run alone, {running}"
    elif scarce is Scarce.TURN:
        text = f"waits behind {blocked_by!r}, {running}"
    else:
        text = f"waits for {_wanted(demand, scarce)}, {running}"
    return Waits(reason=text, scarce=scarce, running_count=len(held))


_ORDER_OF_REASONS: Final = (Scarce.EXCLUSIVITY, Scarce.HOST, Scarce.DEVICES, Scarce.CORES)


def _wanted(demand: Demand, scarce: Scarce) -> str:
    if scarce is Scarce.HOST:
        return format_size(demand.host_bytes)
    if scarce is Scarce.CORES:
        return _cores(demand.core_count)
    return " and ".join(
        f"{_device_name(need)} of its own"
        if need.size_bytes is None
        else f"{format_size(need.size_bytes)} on {_device_name(need)}"
        for need in demand.devices
    )
