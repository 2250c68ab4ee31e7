"""Collect what the page shows of single cells: lines at the peak, time and memory by line, and what stayed."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.cell_marks import CellMarks
from pytest_lecturecheck.model.cell_run import CellRun
from pytest_lecturecheck.model.memory_profile import DeviceProfile, PeakProfile
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.mark_text import (
    heaviest_lines,
    last_place,
    line_details,
    marks_summary,
    period_text,
    place_text,
    rise_text,
    time_share,
)
from pytest_lecturecheck.report.memory_text import detour_text, device_summary, level_lines, profile_summary, share_of
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.units import format_size

_PERMILLE = 1000
_MARK_ROWS = 12


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
class MarkRow:
    """Time and memory of one line of a long cell, with the length of the time's bar from 0 to 1000."""

    share: str
    bar: int
    rise: str
    place: str
    source: str
    details: str
    period: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CellMemory:
    """
    What is known of the memory of one cell.

    Attributes:
        title: the cell.
        peak: the lines at its peak, the largest first.
        summary: of what they are parts, and what the record cost; empty without a record.
        flame_graph: link to the flame graph, for a report in pytest's rootdir; empty where there is none.
        devices: the lines that made the arrays on its devices.
        devices_summary: of what they are parts; empty without a record.
        devices_record: link to the record for pprof.
        levels: what stayed after it.
        marks: the lines that took its time and its memory, for a long cell.
        marks_notes: how it was sampled, and where it was last if it was stopped.
    """

    title: str
    peak: tuple[PeakRow, ...]
    summary: str
    flame_graph: str
    devices: tuple[PeakRow, ...]
    devices_summary: str
    devices_record: str
    levels: tuple[str, ...]
    marks: tuple[MarkRow, ...]
    marks_notes: tuple[str, ...]


def cell_memories(entry: Entry) -> Iterator[CellMemory]:
    """Yield the cells of which something is known."""
    for cell in entry.run.cells:
        profile, stayed = cell.memory_profile, tuple(level_lines(cell))
        marks = cell.marks if cell.marks is not None and cell.marks.lines else None
        device = cell.device_profile
        has_memory = profile is not None or device is not None or bool(stayed)
        if not has_memory and marks is None:
            continue
        yield CellMemory(
            title=_title(cell, has_memory=has_memory),
            peak=tuple(_peak_rows(profile)) if profile is not None else (),
            summary=profile_summary(entry, cell, profile) if profile is not None else "",
            flame_graph=f"./{quote(profile.flame_graph)}" if profile is not None and profile.flame_graph else "",
            devices=tuple(_peak_rows(device)) if device is not None else (),
            devices_summary=device_summary(cell, device) if device is not None else "",
            devices_record=f"./{quote(device.record)}" if device is not None and device.record else "",
            levels=stayed,
            marks=tuple(_mark_rows(marks, cell)) if marks is not None else (),
            marks_notes=tuple(_mark_notes(marks, cell)) if marks is not None else (),
        )


def _title(cell: CellRun, *, has_memory: bool) -> str:
    line = "" if cell.line is None else f", line {cell.line}"
    what = "Memory of" if has_memory else "Where the time and the memory went in"
    return f"{what} code cell {cell.number}{line}"


def _mark_rows(marks: CellMarks, cell: CellRun) -> Iterator[MarkRow]:
    for use in heaviest_lines(marks, _MARK_ROWS):
        share = time_share(use, marks)
        yield MarkRow(
            share=f"{share * 100:.0f} %",
            bar=round(_PERMILLE * share),
            rise=rise_text(use.rise_bytes),
            place=place_text(use.place),
            source=one_line(use.place.source),
            details=line_details(use),
            period=period_text(use, cell),
        )


def _mark_notes(marks: CellMarks, cell: CellRun) -> Iterator[str]:
    yield one_line(marks_summary(marks, cell))
    if ending := last_place(marks, cell):
        yield ending


def _peak_rows(profile: PeakProfile | DeviceProfile) -> Iterator[PeakRow]:
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
