"""Compare what a README declares with the machine, before the first cell runs."""

from __future__ import annotations

from pytest_lecturecheck.model.platform import Machine
from pytest_lecturecheck.units import format_declared_duration, format_si, format_size, format_sizes_apart


def declared_text(declared_bytes: int | None, declared_seconds: float | None) -> str:
    """Return the declared limits in the units they were probably written in (``24 GB of memory, 2 h``)."""
    memory = (format_si(declared_bytes) or format_size(declared_bytes)) if declared_bytes is not None else ""
    time = format_declared_duration(declared_seconds) if declared_seconds is not None else ""
    return ", ".join(part for part in (f"{memory} of memory" if memory else "", time) if part)


def render_declared(declared_bytes: int, machine: Machine) -> list[str]:
    """
    Render whether a machine, with its limits, has the declared memory at all.

    Args:
        declared_bytes: memory that a README declares.
        machine: the machine with the smallest limit that applies to this session.
    """
    usable = machine.usable_memory_bytes
    declared_text, usable_text = format_sizes_apart(declared_bytes, usable)
    written = format_si(declared_bytes)
    declared_text += f" ({written})" if written else ""
    source = ""
    if machine.memory_limit_bytes is not None and machine.memory_limit_bytes <= usable:
        source = f" (limited by {machine.memory_limit_source})"
    if usable < declared_bytes:
        head = f"declared memory {declared_text}: this run has only {usable_text}{source}"
        return [f"{head}; a lecture that needs the declared memory cannot pass here"]
    return [f"declared memory {declared_text}: this run has {usable_text}{source}"]
