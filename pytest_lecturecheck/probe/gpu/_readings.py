"""What is read from a card at one moment, and the port through which it is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from pytest_lecturecheck.model.device import Device

UNNAMED: Final = "unnamed GPU"
"""Name of a device that does not say its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessUse:
    """
    One process on a card, as NVML lists it.

    Attributes:
        pid: process id; of which PID namespace is NVML's secret.
        used_bytes: memory it holds, or ``None`` where NVML does not say (N/A).
    """

    pid: int
    used_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CardReading:
    """
    One device at one moment.

    Attributes:
        seconds: time of the reading on the clock of whoever took it.
        used_bytes: memory in use on the whole device.
        processes: who holds it, each process once, or ``None`` where there is no list.
        no_list_reason: why there is no list, in plain words.
        utilisation_fraction: share of the last moments in which something ran (0..1), or ``None``.
    """

    seconds: float
    used_bytes: int
    processes: tuple[ProcessUse, ...] | None = ()
    no_list_reason: str = ""
    utilisation_fraction: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """
    Why something could not be read, in plain words.

    Attributes:
        reason: the words.
        is_lasting: trying again within the same run is of no use.
    """

    reason: str
    is_lasting: bool = True


class Cards(Protocol):
    """The devices of this machine, open for reading."""

    @property
    def devices(self) -> tuple[Device, ...]:
        """Give the devices, slices in the place of a card that is divided."""

    @property
    def driver(self) -> str | None:
        """Give the driver's version."""

    @property
    def cuda(self) -> str | None:
        """Give the version of CUDA that the driver offers."""

    def read(self, position: int, seconds: float) -> CardReading | Failure:
        """Read the device at ``position`` of :attr:`devices`; never raises for what a card does not give."""

    def close(self) -> None:
        """Let go of the library; safe to call twice."""
