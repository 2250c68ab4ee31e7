"""Collect what the page shows of the memory of single cells: lines at the peak with bars, and what stayed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

from pytest_lecturecheck.model.cell_run import CellRun
from pytest_lecturecheck.model.memory_profile import PeakProfile
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.memory_text import detour_text, level_lines, profile_summary, share_of
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.units import format_size

_PERMILLE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakRow:
    """One line at the peak, with the length of its bar from 0 to 1000."""

    size: str
    share: str
    bar: int
    place: str
    source: str
    detour: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CellMemory:
    """
    What is known of the memory of one cell.

    Attributes:
        title: the cell.
        peak: the lines at its peak, the largest first.
        summary: of what they are parts, and what the record cost; empty without a record.
        flame_graph: link to the flame graph, for a report in pytest's rootdir; empty where there is none.
        levels: what stayed after it.
    """

    title: str
    peak: tuple[PeakRow, ...]
    summary: str
    flame_graph: str
    levels: tuple[str, ...]


def cell_memories(entry: Entry) -> Iterator[CellMemory]:
    """Yield the cells of which something is known."""
    for cell in entry.run.cells:
        profile, levels = cell.memory_profile, cell.memory_levels
        stayed = tuple(level_lines(levels, cell.number)) if levels is not None else ()
        if profile is None and not stayed:
            continue
        yield CellMemory(
            title=_title(cell),
            peak=tuple(_peak_rows(profile)) if profile is not None else (),
            summary=profile_summary(entry, cell, profile) if profile is not None else "",
            flame_graph=f"./{quote(profile.flame_graph)}" if profile is not None and profile.flame_graph else "",
            levels=stayed,
        )


def _title(cell: CellRun) -> str:
    line = "" if cell.line is None else f", line {cell.line}"
    return f"Memory of code cell {cell.number}{line}"


def _peak_rows(profile: PeakProfile) -> Iterator[PeakRow]:
    for line in profile.lines:
        share = share_of(line, profile)
        yield PeakRow(
            size=format_size(line.size_bytes),
            share=f"{share * 100:.0f} %",
            bar=round(_PERMILLE * share),
            place=one_line(line.place),
            source=one_line(line.source),
            detour=detour_text(line),
        )
