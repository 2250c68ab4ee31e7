"""What is read from a card at one moment, and the port through which it is read."""

from __future__ import annotations

from typing import Final, Protocol

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.card import CardLink
from pytest_lecturecheck.model.device import Device

UNNAMED: Final = "unnamed GPU"
"""Name of a device that does not report its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessUse:
    """
    One process on a card, as NVML lists it.

    Attributes:
        pid: process id; NVML does not say of which PID namespace.
        used_bytes: memory it holds, or ``None`` where NVML does not report it (N/A).
    """

    pid: int
    used_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CardReading:
    """
    One device at one moment.

    Attributes:
        seconds: time of the reading, on the reader's clock.
        used_bytes: memory in use on the whole device.
        processes: processes that hold memory, each once, or ``None`` where there is no list.
        no_list_reason: why there is no list.
        utilisation_fraction: share of NVML's last sample period in which a kernel ran (0..1), or ``None``.
    """

    seconds: float
    used_bytes: int
    processes: tuple[ProcessUse, ...] | None = ()
    no_list_reason: str = ""
    utilisation_fraction: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """
    Why something could not be read.

    Attributes:
        reason: explanation for people.
        is_lasting: whether another attempt within the same run would fail as well.
    """

    reason: str
    is_lasting: bool = True


class Cards(Protocol):
    """The devices of this machine, open for reading."""

    @property
    def devices(self) -> tuple[Device, ...]:
        """Return the devices; a divided card (MIG) is replaced by its slices."""

    @property
    def driver(self) -> str | None:
        """Return the driver's version."""

    @property
    def cuda(self) -> str | None:
        """Return the version of CUDA that the driver offers."""

    @property
    def links(self) -> tuple[CardLink, ...]:
        """Return how the cards reach each other, one for each pair; slices have none."""

    def read(self, position: int, seconds: float) -> CardReading | Failure:
        """Read the device at ``position`` of :attr:`devices`; what a card does not report is no exception."""

    def close(self) -> None:
        """Shut the library down; safe to call twice."""
