"""How a run ended that may have lacked GPU memory: by an error of a library or by an abort."""

from __future__ import annotations

from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.diagnosis.requests import (
    MemoryPlace,
    MemoryRequest,
    means_device_not_usable,
    parse_request,
    parse_stderr,
)
from pytest_lecturecheck.diagnosis.wording import both_units, place
from pytest_lecturecheck.model.evidence import Evidence

_SIGABRT: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceEnd:
    """
    An end that GPU memory may have to do with.

    Attributes:
        request: the request that the last message states, or ``None`` where it does not mention memory.
        is_abort: the kernel aborted; otherwise an error was raised.
        is_unusable: a GPU library could not be set up or used, which a card without free memory does too.
    """

    request: MemoryRequest | None = None
    is_abort: bool = False
    is_unusable: bool = False

    @property
    def size_bytes(self) -> int | None:
        """Return the request's size, or ``None``."""
        return self.request.size_bytes if self.request is not None else None

    @property
    def speaks_of_memory(self) -> bool:
        """Return True if the last message mentions exhausted memory, or a library that could not get any."""
        return self.request is not None or self.is_unusable

    @property
    def names_device(self) -> bool:
        """Return True if the last message mentions a device, not only memory."""
        return self.is_unusable or (self.request is not None and self.request.place is MemoryPlace.DEVICE)

    @property
    def has_own_limit(self) -> bool:
        """Return True if the pool's own limit refused the request, not the card."""
        request = self.request
        if request is None or request.own_limit_bytes is None:
            return False
        held = request.pool_bytes if request.pool_bytes is not None else request.used_bytes
        return (held or 0) + (request.size_bytes or 0) > request.own_limit_bytes


def read_end(evidence: Evidence) -> DeviceEnd | None:
    """Read how the run ended; ``None`` where GPU memory has nothing to do with it."""
    if evidence.error is not None:
        request = parse_request(evidence.error.name, evidence.error.value)
        if request is not None:
            return DeviceEnd(request=request) if request.place is not MemoryPlace.HOST else None
        unusable = means_device_not_usable(evidence.error.name, evidence.error.value)
        return DeviceEnd(is_unusable=True) if unusable else None
    if evidence.exit.signal != _SIGABRT:
        return None
    request = parse_stderr(evidence.exit.cell_stderr)
    if request is not None and request.place is MemoryPlace.HOST:
        return None
    return DeviceEnd(request=request, is_abort=True)


def end_text(evidence: Evidence, end: DeviceEnd) -> str:
    """Return how the run ended, to follow the lecture's name ("aborted in cell 7")."""
    where = place(evidence).removeprefix("code ")
    suffix = f" in {where}" if where else ""
    if end.is_abort:
        return f"aborted{suffix}"
    if end.is_unusable:
        return f"could not set up or use a GPU library{suffix}"
    size = f" of {both_units(end.size_bytes)}" if end.size_bytes is not None else ""
    return f"was refused a request{size}{suffix}"
