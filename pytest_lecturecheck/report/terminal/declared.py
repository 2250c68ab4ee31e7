"""Compare what a README declares with the machine, before the first cell runs."""

from __future__ import annotations

from pytest_lecturecheck.model.platform import Machine
from pytest_lecturecheck.units import (
    format_declared_duration,
    format_declared_size,
    format_si,
    format_size,
    format_sizes_apart,
)


def declared_text(
    declared_bytes: int | None,
    declared_seconds: float | None,
    declared_cores: int | None = None,
    declared_disk_bytes: int | None = None,
) -> str:
    """Return the declared limits in the units they were probably written in (``24 GB of memory, 2 h``)."""
    memory = (format_si(declared_bytes) or format_size(declared_bytes)) if declared_bytes is not None else ""
    time = format_declared_duration(declared_seconds) if declared_seconds is not None else ""
    disk = (
        (format_si(declared_disk_bytes) or format_size(declared_disk_bytes)) if declared_disk_bytes is not None else ""
    )
    cores = f"{declared_cores} core{'' if declared_cores == 1 else 's'}" if declared_cores is not None else ""
    parts = (f"{memory} of memory" if memory else "", time, cores, f"{disk} of disk" if disk else "")
    return ", ".join(part for part in parts if part)


def render_target(cap_bytes: float, *, origin: str, hides_gpu: bool) -> str:
    """
    Render what lectures get at most where they run as a reader can.

    Args:
        cap_bytes: memory of the reader.
        origin: the option that chose the reader.
        hides_gpu: whether lectures see no GPU.
    """
    return f"memory cap {format_declared_size(cap_bytes)}{', no GPU' if hides_gpu else ''} (from {origin})"


def render_declared_room(
    declared_cores: int | None, declared_disk_bytes: int | None, *, core_count: int, free_bytes: int | None
) -> list[str]:
    """
    Render whether a machine has the declared cores, and its disk the declared space.

    Args:
        declared_cores: cores that a README declares, or ``None``.
        declared_disk_bytes: disk space that a README declares, or ``None``.
        core_count: cores that this session can use.
        free_bytes: free space of the disk that holds the lectures, or ``None`` if it could not be read.
    """
    lines = []
    if declared_cores is not None:
        has = f"{'only ' if core_count < declared_cores else ''}{core_count}"
        slower = "; lectures may take longer here than declared" if core_count < declared_cores else ""
        lines.append(f"declared cores {declared_cores}: this run has {has}{slower}")
    if declared_disk_bytes is not None and free_bytes is not None:
        declared, free = format_sizes_apart(declared_disk_bytes, free_bytes)
        written = format_si(declared_disk_bytes)
        only = "only " if free_bytes < declared_disk_bytes else ""
        lines.append(f"declared disk {declared}{f' ({written})' if written else ''}: {only}{free} are free here")
    return lines


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
