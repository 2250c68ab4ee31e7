"""Render what a failure shows of its cell: lines at the peak, lines over time, what stayed, and the compiler's plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pytest_lecturecheck.model.cell_marks import CellMarks
from pytest_lecturecheck.model.cell_run import CellRun
from pytest_lecturecheck.model.memory_profile import DeviceProfile, PeakProfile
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.mark_text import (
    SHOWN_MARK_LINES,
    heaviest_lines,
    last_place,
    loop_text,
    period_text,
    place_text,
    rise_text,
    time_share,
)
from pytest_lecturecheck.report.memory_text import (
    SHOWN_LINES,
    buffers_text,
    detour_text,
    device_summary,
    level_lines,
    profile_summary,
    share_of,
)
from pytest_lecturecheck.report.plan_text import plan_line, shown_plan
from pytest_lecturecheck.report.text import fit_end, wrap
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.units import format_size

_SIZE_COLUMNS: Final = 10
_SHARE_COLUMNS: Final = 5


def memory_sections(entry: Entry, width: int, *, indent: str) -> Iterator[tuple[str, list[str]]]:
    """Yield titles with their rows; nothing where nothing was asked for."""
    cell = entry.focus
    if cell is None:
        return
    if (profile := cell.memory_profile) is not None:
        rows = _peak_rows(profile, width, indent)
        summary = profile_summary(entry, cell, profile)
        yield f"Memory at the peak of code cell {cell.number}", [*rows, *_wrapped([summary], width, indent)]
    if (device := cell.device_profile) is not None:
        rows = [*_peak_rows(device, width, indent), *_wrapped([device_summary(cell, device)], width, indent)]
        yield f"Memory of the devices at the peak of code cell {cell.number}", rows
    if (evidence := entry.run.evidence) is not None and evidence.live_buffers:
        lines = [buffers_text(item) for item in evidence.live_buffers[:SHOWN_LINES]]
        yield "JAX arrays that were alive", _wrapped(lines, width, indent)
    if cell.marks is not None and cell.marks.lines:
        yield f"Where code cell {cell.number} was", list(_mark_rows(cell.marks, cell, width, indent))
    if lines := list(level_lines(cell)):
        yield "Memory after the cell", _wrapped(lines, width, indent)
    if (plan := shown_plan(cell)) is not None:
        yield "What the compiler planned", _wrapped([plan_line(cell, plan)], width, indent)


def _peak_rows(profile: PeakProfile | DeviceProfile, width: int, indent: str) -> list[str]:
    rows = []
    beside = len(indent) + _SIZE_COLUMNS + 1 + _SHARE_COLUMNS + 2
    for line in profile.lines[:SHOWN_LINES]:
        share = f"{share_of(line, profile) * 100:.0f} %"
        start = f"{indent}{format_size(line.size_bytes):>{_SIZE_COLUMNS}} {share:>{_SHARE_COLUMNS}}  "
        rows.append(f"{start}{fit_end(one_line(line.place), max(8, width - beside))}")
        below = [one_line(text) for text in (line.source, detour_text(line)) if text]
        rows += [f"{' ' * (beside + 2)}{fit_end(text, max(8, width - beside - 2))}" for text in below]
    return rows


def _mark_rows(marks: CellMarks, cell: CellRun, width: int, indent: str) -> Iterator[str]:
    """Yield at most five rows: memory and time of the heaviest lines, and where a cell that was stopped was last."""
    ending = last_place(marks, cell)
    for use in heaviest_lines(marks, SHOWN_MARK_LINES - bool(ending)):
        share = f"{time_share(use, marks) * 100:.0f} %"
        loop, source = loop_text(use.first_loop, use.last_loop), use.place.source
        text = f"{place_text(use.place)}, {period_text(use, cell)}{f', {loop}' if loop else ''}"
        start = f"{indent}{rise_text(use.rise_bytes):>{_SIZE_COLUMNS}} {share:>{_SHARE_COLUMNS}}  "
        yield fit_end(f"{start}{one_line(f'{text}: {source}' if source else text)}", width)
    if ending:
        yield fit_end(f"{indent}{ending}", width)


def _wrapped(lines: Sequence[str], width: int, indent: str) -> list[str]:
    return [row for line in lines for row in wrap(line, width, first=indent, rest=indent * 2)]
