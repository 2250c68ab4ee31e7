"""Render GPUs, allocators and the compiler as text; nothing for runs that used none of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pytest_lecturecheck.config.environment import CACHE_VARIABLE
from pytest_lecturecheck.model.cell_run import CellRun
from pytest_lecturecheck.model.device import AllocatorUsage, DeviceHolder, DeviceUse, HolderKind
from pytest_lecturecheck.model.metric import Measurement, Metric
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.units import format_duration, format_size

_NO_VALUE: Final = "-"
_HOLDERS: Final = 4
_WORTH_REPORTING_SECONDS: Final = 0.5


def has_gpu_values(entries: Iterable[Entry]) -> bool:
    """Return True if any run measured memory of a GPU."""
    return any(_headline_value(entry.run) is not None for entry in entries)


def has_compile_times(entries: Iterable[Entry]) -> bool:
    """Return True if any run compiled for long enough to be worth a column."""
    times = (entry.run.measured(Metric.COMPILE) for entry in entries)
    return any(found is not None and found.value >= _WORTH_REPORTING_SECONDS for found in times)


def gpu_text(run: Run) -> str:
    """
    Return the value that says most about the GPU memory a run needs.

    That is the memory in use by arrays (``live``), or else what the run's processes held. A preallocation is marked
    as ``reserved``, because its size says nothing about need.
    """
    found = _headline_value(run)
    if found is None:
        return _NO_VALUE
    if found.metric is Metric.GPU_LIVE:
        return f"{found.text} live"
    return f"{found.text} {'reserved' if any(item.is_reserved for item in run.devices) else 'held'}"


def _headline_value(run: Run) -> Measurement | None:
    return run.measured(Metric.GPU_LIVE) or run.measured(Metric.GPU_USED)


def compile_text(run: Run | CellRun) -> str:
    """Return the compile time as text, or a dash."""
    found = run.measured(Metric.COMPILE)
    return _NO_VALUE if found is None else format_duration(found.value)


def gpu_cell_text(cell: CellRun) -> str:
    """Return the GPU memory that a cell had in use, or a dash."""
    found = cell.measured(Metric.GPU_LIVE) or cell.measured(Metric.GPU_USED)
    return _NO_VALUE if found is None else found.text


def device_lines(run: Run) -> list[str]:
    """Return one safe line for each GPU and allocator of a run."""
    lines = [line for use in run.devices for line in _device_lines(use)]
    last = next((cell.allocators for cell in reversed(run.cells) if cell.allocators), ())
    last = run.evidence.allocators if run.evidence is not None and run.evidence.allocators else last
    return [one_line(line) for line in (*lines, *(_allocator_line(item) for item in last))]


def _device_lines(use: DeviceUse) -> Iterator[str]:
    total = f" of {format_size(use.device.total_bytes)}" if use.device.total_bytes is not None else ""
    reserved = ", reserved by preallocation (this says nothing about need)" if use.is_reserved else ""
    parts = [f"{use.device.label}: {use.used.text}{total} used by this run{reserved}"]
    if use.before_bytes:
        parts.append(f"{format_size(use.before_bytes)} in use before it started")
    if use.fault:
        parts.append(f"readings stopped before the end of the run: {use.fault}")
    if use.is_shared and use.others_peak_bytes:
        parts.append(f"shared with other processes, which held up to {format_size(use.others_peak_bytes)}")
    elif use.is_shared:
        parts.append("shared with other processes")
    is_alone = not any(holder.kind is HolderKind.RUNNING_LECTURE for holder in use.holders)
    if is_alone and use.after_bytes is not None and use.before_bytes is not None and use.after_bytes > use.before_bytes:
        parts.append(f"{format_size(use.after_bytes - use.before_bytes)} more in use after the run than before")
    if use.peak_utilisation_fraction is not None:
        parts.append(f"busy up to {use.peak_utilisation_fraction:.0%}".replace("%", " %"))
    yield "; ".join(parts)
    for holder in use.holders[:_HOLDERS]:
        yield f"  {_holder_text(holder)}"
    if len(use.holders) > _HOLDERS:
        yield f"  and {len(use.holders) - _HOLDERS} more processes"


def _holder_text(holder: DeviceHolder) -> str:
    who = f"pid {holder.pid}, {holder.kind}"
    if holder.lecture:
        who += f" {holder.lecture}"
    held = "an unknown amount" if holder.used_bytes is None else format_size(holder.used_bytes)
    return f"{who}: held {held}{', already before this run' if holder.was_there_first else ''}"


def _allocator_line(found: AllocatorUsage) -> str:
    parts = [f"{found.library} on {found.device}: live {format_size(found.live_bytes)}"]
    sizes = (
        ("peak live", found.peak_live_bytes),
        ("pool held", found.pool_bytes),
        ("limit", found.limit_bytes),
        ("largest free block", found.largest_free_block_bytes),
    )
    parts += [f"{name} {format_size(size)}" for name, size in sizes if size is not None]
    return ", ".join(parts)


def compile_groups(entries: Sequence[Entry]) -> list[tuple[str, list[str]]]:
    """
    Describe the time that each lecture spent compiling, by runs if it was repeated.

    Returns:
        Messages with the lecture's name, for lectures that compiled for half a second or longer and for those that use
        a persistent compilation cache.
    """
    by_lecture: dict[str, list[Entry]] = {}
    for entry in entries:
        by_lecture.setdefault(one_line(entry.run.lecture), []).append(entry)
    return [
        (_compile_line(runs), [name]) for name, runs in by_lecture.items() if has_compile_times(runs) or _keeps(runs)
    ]


def _keeps(entries: Iterable[Entry]) -> bool:
    """Return True if a run used a persistent compilation cache: its hits are worth a line."""
    runs = [entry.run for entry in entries]
    return any(
        CACHE_VARIABLE in run.conditions.environment and run.measured(Metric.COMPILE) is not None for run in runs
    )


def _compile_line(entries: Sequence[Entry]) -> str:
    first, *later = sorted(entries, key=lambda entry: entry.run.repeat)
    text = _compiled(first.run)
    if later:
        again = [found.value for entry in later if (found := entry.run.measured(Metric.COMPILE)) is not None]
        hits = sum(cell.compilation.cache_hits for entry in later for cell in entry.run.cells if cell.compilation)
        if again:
            text += f" in the first run; {_range_text(again)} in the {len(later)} later ones"
            text += f", with {hits} read from the persistent cache" if hits else ", none read from a persistent cache"
    return text


def _range_text(seconds: Sequence[float]) -> str:
    low, high = format_duration(min(seconds)), format_duration(max(seconds))
    return low if low == high else f"{low} to {high}"


def _compiled(run: Run) -> str:
    found, wall = run.measured(Metric.COMPILE), run.measured(Metric.WALL)
    cells = [cell.compilation for cell in run.cells if cell.compilation is not None]
    count = sum(item.count for item in cells)
    hits, misses = sum(item.cache_hits for item in cells), sum(item.cache_misses for item in cells)
    text = f"compiling took {format_duration(found.value if found is not None else 0.0)}"
    if wall is not None and found is not None and wall.value > 0:
        text += f" of {format_duration(wall.value)} ({found.value / wall.value:.0%})".replace("%", " %")
    text += f" for {count} program{'' if count == 1 else 's'}"
    folder = run.conditions.environment.get(CACHE_VARIABLE, "")
    if hits or misses or folder:
        where = f" ({one_line(folder)})" if folder else ""
        text += f", {hits} read from the persistent cache{where} and {misses} written to it"
    return text
