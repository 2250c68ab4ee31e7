"""Build what the page's script draws: cells and series over time, as compact plain data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any, Final

from pytest_lecturecheck.model.cell_marks import CodePlace
from pytest_lecturecheck.model.cell_run import CellRun
from pytest_lecturecheck.model.device import AllocatorUsage
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.model.timeline import MemorySample, thin
from pytest_lecturecheck.report.device_table import gpu_cell_text
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.html.members import cohort_charts
from pytest_lecturecheck.report.html.packing import deltas, line_at, milliseconds, series_of
from pytest_lecturecheck.report.html.tones import cell_tone
from pytest_lecturecheck.report.mark_text import place_text
from pytest_lecturecheck.report.measurement_text import NO_VALUE, line_text, value_text
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.units import format_duration, format_size

_MOST_POINTS: Final = 2000
_LEAST_POINTS: Final = 200
_ALL_POINTS: Final = 500_000
"""Points of all lectures in total: with many lectures each has fewer, so that the page stays small enough to open."""
_PERMILLE: Final = 1000
_MARK_CHARS: Final = 160
_VISIBLE_DIFFERENCE: Final = 0.02


def points_for(lecture_count: int) -> int:
    """Return how many points a timeline may have on a page with this many lectures."""
    return min(_MOST_POINTS, max(_LEAST_POINTS, _ALL_POINTS // max(1, lecture_count)))


def lecture_data(entry: Entry, most_points: int = _MOST_POINTS) -> dict[str, Any]:
    """Return everything the script needs for one lecture, as builtin types."""
    run = entry.run
    charts = [*_memory_charts(entry, most_points), *_device_charts(run, most_points)]
    mark_lines, marks = _marks(run)
    return {
        "cells": _cell_rows(entry),
        "bands": [_band(cell, entry.focus) for cell in run.cells if cell.started_seconds is not None],
        **({"mark_lines": mark_lines, "marks": marks} if marks else {}),
        "charts": cohort_charts(entry, most_points) if run.members else charts,
    }


# -- cells ------------------------------------------------------------------------------------------------------------


def _cell_rows(entry: Entry) -> dict[str, Any]:
    cells = entry.run.cells
    peak = max((_value(cell, Metric.PEAK_FOOTPRINT) for cell in cells), default=0.0)
    wall = max((_value(cell, Metric.WALL) for cell in cells), default=0.0)
    return {
        "has_gpu": any(gpu_cell_text(cell) != NO_VALUE for cell in cells),
        "has_compile": any(_value(cell, Metric.COMPILE) > 0 for cell in cells),
        "rows": [_cell_row(cell, entry.focus, peak, wall) for cell in cells],
    }


def _cell_row(cell: CellRun, focus: CellRun | None, peak: float, wall: float) -> dict[str, Any]:
    raised, highest = cell.raised_bytes, _value(cell, Metric.PEAK_FOOTPRINT)
    compiled = min(_value(cell, Metric.COMPILE), _value(cell, Metric.WALL))
    return {
        "number": cell.number,
        "line": line_text(cell.line),
        "status": cell.status.value,
        "tone": cell_tone(cell.status),
        "focus": focus is not None and focus.number == cell.number,
        "peak": value_text(cell, Metric.PEAK_FOOTPRINT),
        "raised": NO_VALUE if raised is None else format_size(raised),
        "wall": value_text(cell, Metric.WALL),
        "cpu": value_text(cell, Metric.CPU),
        "compile": value_text(cell, Metric.COMPILE),
        "gpu": gpu_cell_text(cell),
        "memory_bar": [_permille(highest - (raised or 0), peak), _permille(raised or 0, peak)],
        "time_bar": [_permille(compiled, wall), _permille(_value(cell, Metric.WALL) - compiled, wall)],
    }


def _value(cell: CellRun, metric: Metric) -> float:
    found = cell.measured(metric)
    return found.value if found is not None and math.isfinite(found.value) else 0.0


def _permille(part: float, whole: float) -> int:
    # In a file that was edited by hand, a part may be larger than the whole.
    return round(_PERMILLE * (max(0.0, min(part, whole)) / whole)) if whole > 0 else 0


def _band(cell: CellRun, focus: CellRun | None) -> list[Any]:
    """Return number, line, start, end (``None``: end of the chart), and whether the verdict is about this cell."""
    start, end = cell.started_seconds or 0.0, cell.ended_seconds
    is_focus = focus is not None and focus.number == cell.number
    return [
        cell.number,
        line_text(cell.line),
        milliseconds(start),
        None if end is None else milliseconds(end),
        is_focus,
    ]


def _marks(run: Run) -> tuple[list[str], list[list[int]]]:
    """Return the lines of long cells as text, and for each mark its start, its end and the position of its line."""
    lines: list[str] = []
    marks: list[list[int]] = []
    for cell in run.cells if not run.members else ():
        if cell.marks is None:
            continue
        first = len(lines)
        lines += [_mark_line(use.place) for use in cell.marks.lines]
        last_seconds = cell.ended_seconds if cell.ended_seconds is not None else math.inf
        for mark, following in zip_longest(cell.marks.marks, cell.marks.marks[1:]):
            if cell.marks.line_of(mark) is None:
                continue
            # Marks that were thinned out leave gaps.
            ends = mark.until_seconds + cell.marks.interval_seconds
            until = min(ends, last_seconds if following is None else following.seconds)
            marks.append([milliseconds(mark.seconds), milliseconds(max(mark.seconds, until)), first + mark.line])
    return lines, marks


def _mark_line(place: CodePlace) -> str:
    source = f": {place.source}" if place.source else ""
    return one_line(f"{place_text(place)}{source}", _MARK_CHARS)


# -- charts -----------------------------------------------------------------------------------------------------------


def _memory_charts(entry: Entry, most_points: int) -> Iterator[dict[str, Any]]:
    run = entry.run
    samples = thin(run.timeline, most_points, lambda sample: sample.level_bytes)
    if len(samples) < 2:  # noqa: PLR2004 - a line needs two points
        return
    has_footprint = any(sample.footprint_bytes is not None for sample in samples)
    series = [series_of("footprint", "footprint", [sample.footprint_bytes for sample in samples])]
    # For a single kernel without swap, resident size and footprint are the same line.
    if not has_footprint or _differ(samples):
        series.append(series_of("RSS of the kernel", "rss", [sample.rss_bytes for sample in samples]))
    for name, key, values in (
        ("swapped out", "swap", [sample.swap_bytes for sample in samples]),
        ("compressed", "compressed", [sample.compressed_bytes for sample in samples]),
    ):
        if any(values):
            series.append(series_of(name, key, values))
    metric = Metric.PEAK_FOOTPRINT if has_footprint else Metric.PEAK_RSS
    yield {
        "title": "Memory over time",
        "summary": _memory_summary(run, metric),
        "time": deltas([milliseconds(sample.seconds) for sample in samples]),
        "series": [item for item in series if item is not None],
        "levels": [_level("peak of the cell", "peak", run, lambda cell: _peak_bytes(cell, metric))],
        "lines": [line for line in _memory_lines(entry) if line is not None],
    }


def _memory_summary(run: Run, metric: Metric) -> str:
    peak, cell = run.measured(metric), run.heaviest_cell(metric)
    text = f"Memory of {one_line(run.lecture)} over {format_duration(run.timeline[-1].seconds)}"
    if peak is not None:
        text += f"; {metric.label} {peak.text}"
    return text + (f" in code cell {cell.number}" if cell is not None else "")


def _memory_lines(entry: Entry) -> Iterator[dict[str, Any] | None]:
    yield line_at("limit", "limit", entry.limit_bytes)
    yield line_at("cap", "cap", entry.run.conditions.cap_bytes)


def _device_charts(run: Run, most_points: int) -> Iterator[dict[str, Any]]:
    for position, use in enumerate(run.devices):
        samples = thin(use.timeline, most_points // 2, lambda sample: sample.used_bytes)
        if len(samples) < 2:  # noqa: PLR2004 - a line needs two points
            continue
        series = [
            series_of("in use on the device", "device", [sample.used_bytes for sample in samples]),
            series_of("held by this run", "run", [sample.run_bytes for sample in samples]),
        ]
        levels = [
            _level("pool of the allocator", "pool", run, partial(_allocated, run, position, "pool")),
            _level("live in the allocator", "live", run, partial(_allocated, run, position, "live")),
        ]
        name = one_line(use.device.label)
        yield {
            "title": f"{name} over time",
            "summary": f"Memory of {name} over {format_duration(samples[-1].seconds)}; this run: {use.used.text}",
            "time": deltas([milliseconds(sample.seconds) for sample in samples]),
            "series": [item for item in series if item is not None],
            "levels": [level for level in levels if any(value is not None for value in level["values"])],
            "lines": [line for line in (line_at("device memory", "cap", use.device.total_bytes),) if line is not None],
        }


def _allocated(run: Run, position: int, what: str, cell: CellRun) -> int | None:
    """Return what a cell's allocators report for the device at ``position`` among those of the run."""
    sizes = [
        _allocator_bytes(item, what)
        for item in cell.allocators
        if len(run.devices) == 1 or item.device.rpartition(":")[2] == str(position)
    ]
    known = [size for size in sizes if size is not None]
    return sum(known) if known else None


def _allocator_bytes(item: AllocatorUsage, what: str) -> int | None:
    if what == "pool":
        return item.peak_pool_bytes if item.peak_pool_bytes is not None else item.pool_bytes
    return item.live_bytes


def _differ(samples: Sequence[MemorySample]) -> bool:
    """Return True if resident size and footprint differ enough to be drawn as two lines."""
    pairs = [(item.footprint_bytes, item.rss_bytes) for item in samples]
    apart = [abs(footprint - rss) for footprint, rss in pairs if footprint is not None and rss is not None]
    return max(apart, default=0) > _VISIBLE_DIFFERENCE * max(item.level_bytes for item in samples)


def _peak_bytes(cell: CellRun, metric: Metric) -> int | None:
    found = cell.measured(metric)
    return round(found.value) if found is not None and math.isfinite(found.value) else None


def _level(name: str, key: str, run: Run, value_of: Callable[[CellRun], int | None]) -> dict[str, Any]:
    values = [value_of(cell) for cell in run.cells if cell.started_seconds is not None]
    return {"name": name, "key": key, "values": values}
