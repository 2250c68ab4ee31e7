"""Render memory over time as one line of text for each lecture, and tables of all cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pytest_lecturecheck.model.cell_run import CellStatus
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.timeline import MemorySample
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.measurement_text import render_cells
from pytest_lecturecheck.report.style import Paint, Tone
from pytest_lecturecheck.report.table import Column, Field, render_table
from pytest_lecturecheck.units import format_duration, format_size

_BARS: Final = "▁▂▃▄▅▆▇█"
_ASCII_BARS: Final = "_.-=+*#@"
_LEAST_COLUMNS: Final = 12
_MOST_COLUMNS: Final = 60
_BESIDE: Final = 48
"""Columns for the names and values next to the line."""
_INDENT: Final = "  "


def bars_for(encoding: str | None) -> str:
    """Return the characters of the line that the terminal's encoding has, lowest first."""
    try:
        _BARS.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return _ASCII_BARS
    return _BARS


def sparkline(samples: Sequence[MemorySample], columns: int, bars: str = _BARS) -> str:
    """
    Draw memory over time from zero to its highest sample; each column shows the maximum of its time window.

    A window without a sample repeats the one before it.
    """
    if not samples or columns < 1:
        return ""
    end = max(samples[-1].seconds, samples[0].seconds)
    levels: list[int | None] = [None] * columns
    for sample in samples:
        # A file that was edited by hand may have decreasing times and negative sizes.
        share = max(0.0, min(sample.seconds, end)) / end if end > 0 else 0.0
        position = min(columns - 1, int(columns * share))
        levels[position] = max(levels[position] or 0, sample.level_bytes)
    highest = max(1, *(sample.level_bytes for sample in samples))
    return "".join(bars[max(0, min(len(bars) - 1, len(bars) * level // highest))] for level in _filled(levels))


def _filled(levels: Sequence[int | None]) -> Iterator[int]:
    last = next((level for level in levels if level is not None), 0)
    for level in levels:
        last = last if level is None else level
        yield last


def render_timelines(entries: Sequence[Entry], *, width: int, paint: Paint, encoding: str | None) -> list[str]:
    """Render a line of memory over time for each lecture that has a timeline."""
    bars, room = bars_for(encoding), max(_LEAST_COLUMNS, min(_MOST_COLUMNS, width - _BESIDE))
    rows = []
    for entry in entries:
        samples = entry.run.timeline
        if not samples:
            continue
        peak = entry.run.measured(Metric.PEAK_FOOTPRINT)
        highest = peak.text if peak is not None else format_size(max(sample.level_bytes for sample in samples))
        rows.append(
            (
                Field(entry.name),
                Field(sparkline(samples, room, bars), Tone.LOCATION),
                Field(highest),
                Field(format_duration(samples[-1].seconds)),
            )
        )
    columns = (
        Column(title="lecture", shrink_to=20),
        Column(title="memory over time, from 0"),
        Column(title="peak", right=True),
        Column(title="time", right=True, optional=True),
    )
    return render_table(columns, rows, width=width, paint=paint) if rows else []


def render_all_cells(entries: Sequence[Entry], *, width: int, paint: Paint) -> list[str]:
    """Render the table of all cells of every lecture that was run."""
    lines: list[str] = []
    for entry in entries:
        if not entry.was_run or all(cell.status is CellStatus.NOT_RUN for cell in entry.run.cells):
            continue
        cells = render_cells(entry.run, entry.focus, width=width, paint=paint, indent=_INDENT, all_cells=True)
        lines += ["", paint(Tone.TITLE, f"Cells of {entry.name}"), *cells]
    return lines
