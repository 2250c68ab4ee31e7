"""Format evidence for messages: locations, measurements, and text of unknown origin as one harmless line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pytest_lecturecheck.model.cell_run import CellError
from pytest_lecturecheck.model.evidence import Evidence
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.units import format_declared_size, format_duration, format_fraction, format_size

LONGEST_QUOTE: Final = 300
"""Characters of a line that is quoted from a lecture's output."""
# faulthandler also prints what stands below the cell.
_KERNEL_FRAME: Final = re.compile(
    r"\s*File \"(?:<lecturecheck agent\b|<frozen runpy>|.*[/\\]pytest_lecturecheck[/\\]kernel[/\\]"
    r"|.*[/\\](?:(?:site|dist)-packages|python3\.[0-9]+|Lib)[/\\]"
    r"(?:IPython[/\\]|ipykernel[/\\]|tornado[/\\]|asyncio[/\\]|traitlets[/\\]|ipykernel_launcher\.py|runpy\.py)"
    r").*, line [0-9]+ in .*"
)
FAULT: Final = re.compile(r"(?:Fatal Python error|Windows fatal exception): .*")
"""faulthandler's first line of a crash."""
FAULT_FRAME: Final = re.compile(r'\s*File "(?P<path>.*)", line (?P<line>[0-9]{1,9}) in (?P<name>.*)')
_CELL_FRAME: Final = re.compile(r'File "[^"]*\bipykernel_[0-9]+[/\\][0-9]+\.py", line ([0-9]{1,9})')
_STACK_LINES: Final = 6
_STDERR_LINES: Final = 12
_KILO: Final = 1000
_GROUPS: Final = ("container", "Slurm")
_SI_UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


def error_text(error: CellError) -> str:
    """Format an exception as ``ErrorName: message`` in one line."""
    name, value = one_line(error.name, LONGEST_QUOTE) or "error", one_line(error.value, LONGEST_QUOTE)
    return f"{name}: {value}" if value else name


def place(evidence: Evidence) -> str:
    """Return the location as the terminal shows it (``code cell 3, line 41``), or an empty string."""
    parts = []
    if evidence.cell_number is not None:
        parts.append(f"code cell {evidence.cell_number}")
    if evidence.line is not None:
        parts.append(f"line {evidence.line}")
    return ", ".join(parts)


def in_brackets(evidence: Evidence) -> str:
    """Return the location in brackets (`` (code cell 3, line 41)``), or an empty string."""
    where = place(evidence)
    return f" ({where})" if where else ""


def within(evidence: Evidence) -> str:
    """Return in which cell a kernel ended (`` in code cell 3, line 41``), or that no cell was running."""
    return f" in {place(evidence)}" if evidence.cell_number is not None else " while no cell was running"


def both_units(size_bytes: float) -> str:
    """Format a size in SI units, as errors and price lists do, and in IEC units: ``98.8 GB (92 GiB)``."""
    size, unit = float(size_bytes), 0
    while size >= _KILO and unit < len(_SI_UNITS) - 1:
        size, unit = size / _KILO, unit + 1
    return f"{size:.3g} {_SI_UNITS[unit]} ({format_size(size_bytes)})"


def peak_bytes(evidence: Evidence) -> int | None:
    """Return the highest footprint known of the cell, or ``None``."""
    known = [
        size
        for size in (evidence.memory.peak_footprint_bytes, evidence.memory.last_footprint_bytes)
        if size is not None
    ]
    return max(known, default=None)


def limit_bytes(evidence: Evidence) -> int | None:
    """Return the smallest memory limit in force: RAM, container, ulimit or the cap of the run; ``None`` if unknown."""
    known = [size for size in (evidence.memory.limit_bytes, evidence.conditions.cap_bytes) if size is not None]
    return min(known, default=None)


def has_group_limit(evidence: Evidence) -> bool:
    """Return True if the smallest limit of the machine is that of a memory group: a container, or a Slurm job."""
    return evidence.memory.limit_source.startswith(_GROUPS)


def is_limit_of_group(evidence: Evidence) -> bool:
    """Return True if the smallest limit in force kills a process and never refuses an allocation."""
    return is_limit_the_cap(evidence) or has_group_limit(evidence)


def is_limit_the_cap(evidence: Evidence) -> bool:
    """Return True if the cap of the run is the smallest limit."""
    limit = evidence.memory.limit_bytes
    return evidence.conditions.cap_bytes is not None and (limit is None or evidence.conditions.cap_bytes < limit)


def had_text(evidence: Evidence) -> str:
    """Return what the process itself held (``the process itself had only 63.1 MiB``), or an empty string."""
    peak, limit = peak_bytes(evidence), limit_bytes(evidence)
    if peak is None:
        return ""
    only = "" if limit is not None and peak > limit / 2 else "only "
    return f"the process itself had {only}{format_size(peak)}"


def limit_text(evidence: Evidence) -> str:
    """Name the smallest memory limit in force (``24 GiB, RAM``), or an empty string."""
    if evidence.conditions.cap_bytes is not None and is_limit_the_cap(evidence):
        return f"{format_size(evidence.conditions.cap_bytes)}, the memory cap of this run"
    return machine_limit_text(evidence)


def machine_limit_text(evidence: Evidence) -> str:
    """Name the smallest memory limit of the machine (``24 GiB, RAM``), or return an empty string."""
    if evidence.memory.limit_bytes is None:
        return ""
    source = one_line(evidence.memory.limit_source)
    return f"{format_size(evidence.memory.limit_bytes)}{f', {source}' if source else ''}"


def declared_text(evidence: Evidence, asked_bytes: int) -> str:
    """Compare a request with the memory that the lecture's package declares; an empty string if it declares none."""
    declared = evidence.memory.declared_bytes
    if declared is None:
        return ""
    size = format_declared_size(declared)
    return f"; that is more than the declared {size}" if asked_bytes > declared else f"; declared: {size}"


def memory_lines(evidence: Evidence) -> Iterator[str]:
    """Yield the memory measurements, one line each: peak, last reading with its age, memory of the machine."""
    if evidence.memory.peak_footprint_bytes is not None:
        yield f"peak footprint of the cell {format_size(evidence.memory.peak_footprint_bytes)}"
    if evidence.memory.last_footprint_bytes is not None:
        age = evidence.memory.last_footprint_age_seconds
        when = f", {format_duration(age)} before the end was noticed" if age is not None else ""
        yield f"last reading {format_size(evidence.memory.last_footprint_bytes)}{when}"
    machine = []
    if evidence.memory.available_bytes is not None:
        machine.append(f"available {format_size(evidence.memory.available_bytes)}")
    if limit := machine_limit_text(evidence):
        machine.append(f"limit {limit}")
    if evidence.memory.swap_bytes is not None:
        machine.append(f"swap {format_size(evidence.memory.swap_bytes)}" if evidence.memory.swap_bytes else "no swap")
    if machine:
        yield "memory of the machine: " + "; ".join(machine)
    if evidence.conditions.cap_bytes is not None:
        held = f", held by {method}" if (method := one_line(evidence.conditions.cap_method)) else ""
        yield f"memory cap of this run {format_size(evidence.conditions.cap_bytes)}{held}"
    declared, peak = evidence.memory.declared_bytes, evidence.memory.peak_footprint_bytes
    if declared is not None:
        share = f"; the peak is {format_fraction(peak / declared).lstrip('+')} of it" if peak and declared else ""
        yield f"declared memory {format_declared_size(declared)}{share}"


def oom_lines(evidence: Evidence) -> Iterator[str]:
    """Yield the records of OOM kills: the counters that rose, and the lines of the kernel's log."""
    for kill in evidence.memory.oom_kills:
        where = f" ({text})" if (text := one_line(kill.where)) else ""
        yield f"OOM kills counted {kill.before} -> {kill.after}{where}"
    for line in evidence.memory.kernel_log[-_STDERR_LINES:]:
        if clean := one_line(line, LONGEST_QUOTE):
            yield f"kernel log: {clean}"


def stderr_lines(evidence: Evidence) -> Iterator[str]:
    """Yield the last lines of the kernel's stderr, marked as such, without frames of the kernel's own machinery."""
    lines = [clean for line in readable_stderr(evidence) if (clean := one_line(line, LONGEST_QUOTE))]
    for line in lines[-_STDERR_LINES:]:
        yield f"stderr: {line}"


def readable_stderr(evidence: Evidence) -> Iterator[str]:
    """
    Yield the last lines of the kernel's stderr as a person reads them.

    Frames of a crash are left out where they are known with lines of the lecture's file (:func:`frame_lines`).
    Other frames in cells count lines within a cell, and the text then says so.
    """
    tail = evidence.exit.stderr_tail
    faults = [number for number, line in enumerate(tail) if FAULT.fullmatch(line.strip())]
    first = faults[-1] if faults and evidence.exit.crash_stack else len(tail)
    for number, line in enumerate(tail):
        if _KERNEL_FRAME.match(line) or (number > first and FAULT_FRAME.fullmatch(line)):
            continue
        yield _CELL_FRAME.sub(r'File "a code cell", line \1 of the cell', line)


def frame_lines(frames: tuple[str, ...]) -> tuple[str, ...]:
    """Return the innermost frames of a stack and the cell's own, as lines of evidence."""
    clean_frames = [clean for frame in frames if (clean := one_line(frame, LONGEST_QUOTE))]
    if len(clean_frames) > _STACK_LINES:
        clean_frames = [*clean_frames[: _STACK_LINES - 1], clean_frames[-1]]
    return tuple(f"stack: {frame}" for frame in clean_frames)


def all_lines(evidence: Evidence) -> tuple[str, ...]:
    """Return every observation that a death or a memory error is based on."""
    return (*oom_lines(evidence), *memory_lines(evidence), *stderr_lines(evidence))
