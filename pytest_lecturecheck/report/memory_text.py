"""Render what is in the memory of cells as text: lines at the peak, and what stayed after a cell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from pytest_lecturecheck.model.cell_run import CellRun
from pytest_lecturecheck.model.device import LiveBuffers
from pytest_lecturecheck.model.memory_profile import (
    DeviceProfile,
    LevelPart,
    MemoryLevels,
    PartKind,
    PeakLine,
    PeakProfile,
)
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.units import format_duration, format_size

SHOWN_LINES: Final = 5
_PARTS: Final = 5
_TYPES: Final = 3
_WORTH_BYTES: Final = 1 << 20
"""A smaller part is not named in texts; the JSON report has it."""
_FREED_FRACTION: Final = 0.05
_MESSAGE_CHARS: Final = 1000
_UNNAMED: Final = {
    PartKind.THREAD_STACKS: "stacks of threads",
    PartKind.ALLOCATOR: "free memory that the allocator keeps",
    PartKind.FIGURES: "figures not closed",
}
_KINDS: Final = {
    PartKind.DEVICE_ARRAY: "on a device",
    PartKind.HISTORY: "kept by the output history only",
    PartKind.MAPPED_FILE: "mapped file",
    PartKind.SHARED_MEMORY: "shared memory",
}


def memory_groups(entries: Iterable[Entry]) -> list[tuple[str, list[str]]]:
    """Return what is known of the memory of cells whose failure does not show it, with the cell's location."""
    entries = list(entries)
    found = [
        (one_line(text, _MESSAGE_CHARS), [_location(entry, cell)])
        for entry in entries
        for cell in entry.run.cells
        if not (entry.verdict.failed and entry.focus is not None and cell.number == entry.focus.number)
        for text in cell_lines(entry, cell)
    ]
    return [*found, *((text, [entry.name]) for entry in entries if (text := repetitions_text(entry.run)))]


def lacks_peak_lines(entry: Entry) -> bool:
    """Return True if the memory of the kernel is over its limit, and no record says in which lines it is."""
    if entry.exceeded.keys().isdisjoint((Metric.PEAK_FOOTPRINT, Metric.PEAK_RSS)) or entry.run.is_program:
        return False
    return all(cell.memory_profile is None for cell in entry.run.cells)


def repetitions_text(run: Run) -> str:
    """Return how many cells were run again, and how many of them keep more memory each time; empty for none."""
    known = [cell.repetitions for cell in run.cells if cell.repetitions is not None]
    if not known:
        return ""
    growing = sum(item.grows for item in known)
    judged = sum(item.growth_bytes is not None for item in known)
    most = max(item.count for item in known)
    cells = f"{len(known)} code cell{'' if len(known) == 1 else 's'}"
    text = f"{cells} ran again, up to {most} times, in the same kernel: "
    text += f"after {growing or 'none'} of {judged if judged < len(known) else 'them'} more memory stays each time"
    return text if judged == len(known) else f"{text}; {len(known) - judged} could not be repeated often enough"


def _location(entry: Entry, cell: CellRun) -> str:
    line = "" if cell.line is None else f", line {cell.line}"
    return f"{entry.name}: code cell {cell.number}{line}"


def cell_lines(entry: Entry, cell: CellRun) -> Iterator[str]:
    """Yield what is worth a line of a cell's memory: of its peak the five largest lines, then what stayed."""
    if (profile := cell.memory_profile) is not None:
        for line in profile.lines[:SHOWN_LINES]:
            yield f"{peak_line_text(line, profile)}{_detour(line)}"
        yield profile_summary(entry, cell, profile)
    if (device := cell.device_profile) is not None:
        for line in device.lines[:SHOWN_LINES]:
            yield f"{peak_line_text(line, device)}{_detour(line)}"
        yield device_summary(cell, device)
    yield from level_lines(cell)


# -- the peak ---------------------------------------------------------------------------------------------------------


def peak_line_text(line: PeakLine, profile: PeakProfile | DeviceProfile) -> str:
    """Render a line at the peak (``64.0 MiB, 26 %: code cell 2, line 211: paths = simulate(n)``)."""
    source = f": {line.source}" if line.source else ""
    share = f"{share_of(line, profile) * 100:.0f} %"
    return one_line(f"{format_size(line.size_bytes)}, {share}: {line.place}{source}")


def share_of(line: PeakLine, profile: PeakProfile | DeviceProfile) -> float:
    """Return the share of a line in the peak (0..1)."""
    return min(1.0, line.size_bytes / profile.peak_bytes) if profile.peak_bytes > 0 else 0.0


def _detour(line: PeakLine) -> str:
    found = detour_text(line)
    return f" ({found})" if found else ""


def detour_text(line: PeakLine) -> str:
    """Return who called the line, and where below it memory was allocated, or an empty string."""
    parts = [f"called by {line.caller}"] if line.caller else []
    parts += [f"allocated in {line.inner}"] if line.inner else []
    return one_line(", ".join(parts))


def profile_summary(entry: Entry, cell: CellRun, profile: PeakProfile) -> str:
    """Return the whole of which the lines are parts, what the record cost, and where the flame graph is."""
    whole = f"of {format_size(profile.peak_bytes)} that code cell {cell.number} had allocated at its peak"
    if profile.process_count > 1:
        whole += f", the peaks of {profile.process_count} processes together"
    parts = [f"{whole}, by memray; what earlier cells left is not part of it"]
    if profile.is_cut:
        parts.append("the process ended before the record did, so the peak may be higher")
    if profile.full_bytes is not None:
        size = format_size(profile.full_bytes)
        parts.append(f"the record was stopped at {size}, before the cell had ended, so the peak may be higher")
    parts.append(_cost(entry, cell, profile))
    if profile.flame_graph:
        parts.append(f"flame graph: {profile.flame_graph}")
    return one_line("; ".join(part for part in parts if part), _MESSAGE_CHARS)


def device_summary(cell: CellRun, profile: DeviceProfile) -> str:
    """Return the whole of which the lines are parts, what is not in it, and where the record is."""
    where = f" on {', '.join(profile.devices)}" if profile.devices else ""
    whole = (
        f"of {format_size(profile.peak_bytes)} of JAX arrays that were live{where} at the highest level seen in code "
        f"cell {cell.number}, those of earlier cells included, by jax.profiler.device_memory_profile"
    )
    parts = [whole, "temporary memory of a program that runs is not part of it"]
    if profile.record:
        parts.append(f"record for pprof: {profile.record}")
    return one_line("; ".join(parts), _MESSAGE_CHARS)


def buffers_text(item: LiveBuffers) -> str:
    """Render arrays of one shape (``2 GiB: 4 arrays 1024x1024 of float32 on cuda:0 (a, params[...])``)."""
    arrays = f"{item.count:,} array{'' if item.count == 1 else 's'}"
    named = f" ({', '.join(item.names)})" if item.names else ""
    device = f" on {item.device}" if item.device else ""
    shape = item.shape or "single numbers"
    return one_line(f"{format_size(item.size_bytes)}: {arrays} {shape} of {item.dtype}{device}{named}")


def _cost(entry: Entry, cell: CellRun, profile: PeakProfile) -> str:
    """Return what the record cost, which is known where a run without it was made."""
    if entry.run.is_profiled:
        return "the record itself takes time and memory"
    wall, peak = cell.measured(Metric.WALL), cell.measured(Metric.PEAK_FOOTPRINT)
    costs = []
    if wall is not None and profile.cell_seconds is not None:
        costs.append(f"{format_duration(profile.cell_seconds)} instead of {wall.text}")
    if peak is not None and profile.footprint_bytes is not None:
        costs.append(f"a peak of {format_size(profile.footprint_bytes)} instead of {peak.text}")
    return f"recorded in a second run, in which the cell took {' and had '.join(costs)}" if costs else ""


# -- levels -----------------------------------------------------------------------------------------------------------


def level_lines(cell: CellRun) -> Iterator[str]:
    """Yield what stayed after a cell, and what only the output history keeps; nothing where it is little."""
    levels, number = cell.memory_levels, cell.number
    if levels is None:
        return
    if levels.reason:
        yield f"what stayed in memory after code cell {number} is not known: {one_line(levels.reason)}"
        return
    stayed = levels.stayed_bytes
    grown = sorted(
        (part for part in levels.parts if part.grown_bytes >= _WORTH_BYTES and not _is_moved(part, levels)),
        key=lambda part: -part.grown_bytes,
    )
    if not grown and (stayed is None or stayed < _WORTH_BYTES):
        return
    after = f"after code cell {number}"
    if levels.is_alone and levels.level_bytes is not None:
        head = f"{format_size(levels.level_bytes)} was in memory {after}"
    elif stayed is not None and stayed <= 0:
        head = f"no more memory {after} than before it"
    elif stayed is not None and grown and grown[0].grown_bytes > 2 * stayed:
        # What is new took the place of what was freed.
        head = f"{format_size(stayed)} more memory {after} than before it, as other memory was freed; new"
    else:
        head = after if stayed is None else f"{format_size(stayed)} stayed {after}"
    named = ", ".join(_grown_text(part) for part in grown[:_PARTS])
    more = f", and {len(grown) - _PARTS} more" if len(grown) > _PARTS else ""
    yield (
        f"{head}: {named}{more}"
        if named
        else f"{head}; no name of the lecture holds it (imported modules, for example)"
    )
    if not named and levels.types:
        shown = ", ".join(f"{item.grown_count:,} {one_line(item.name)}" for item in levels.types[:_TYPES])
        yield f"objects that code cell {number} added: {shown}"
    peak = cell.measured(Metric.PEAK_FOOTPRINT)
    if levels.is_alone and cell.memory_profile is None and peak is not None and levels.level_bytes is not None:
        freed = round(peak.value) - levels.level_bytes
        if freed >= _FREED_FRACTION * peak.value:
            yield f"{format_size(freed)} of its peak had been freed by then"


def _is_moved(part: LevelPart, levels: MemoryLevels) -> bool:
    """Return True for memory that was in use before and is free now: no more of it stayed."""
    stayed = levels.stayed_bytes
    return part.kind is PartKind.ALLOCATOR and not levels.is_alone and stayed is not None and stayed < part.grown_bytes


def _grown_text(part: LevelPart) -> str:
    about = "about " if part.is_estimated else ""
    return f"{part_name(part)} {about}{format_size(part.grown_bytes)}"


def part_name(part: LevelPart) -> str:
    """Return the name of a part with its kind (```paths```, ```Out[3]`` (kept by the output history only)``)."""
    if part.kind in _UNNAMED:
        return one_line(f"{_UNNAMED[part.kind]} ({part.name})" if part.name else _UNNAMED[part.kind])
    kind = _KINDS.get(part.kind)
    return one_line(f"`{part.name}` ({kind})" if kind else f"`{part.name}`")
