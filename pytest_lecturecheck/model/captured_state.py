"""What was saved of the state before one cell, so that the cell can run again alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from pytest_lecturecheck.deferred_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedState:
    """
    The state that one cell reads, as it was saved.

    Attributes:
        cell_number: the code cell before which it was saved.
        saved: how each name was saved ("numpy", "pickle", "module", "value"), in order.
        missing: names that could not be saved, and why.
        written_bytes: bytes of arrays and pickles.
        seconds: time that it took.
        memory_change_bytes: change of the kernel's memory by the capture, or ``None`` if it was not measured.
        has_cloudpickle: whether the kernel's environment has cloudpickle.
        local_modules: files of the lecture's own modules that were copied.
    """

    cell_number: int
    saved: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    written_bytes: int = 0
    seconds: float = 0.0
    memory_change_bytes: int | None = None
    has_cloudpickle: bool = True
    local_modules: tuple[str, ...] = ()
