"""The second run of a lecture over its limits, with a trace of the cells that exceeded them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pytest_lecturecheck.model.cell_run import CellRun
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.profile import ProfileKind
from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.verdict import Verdict

_MEMORY: Final = frozenset(
    {
        *(Metric.PEAK_FOOTPRINT, Metric.PEAK_RSS, Metric.PEAK_SWAP, Metric.PEAK_COMPRESSED),
        *(Metric.GPU_USED, Metric.GPU_LIVE, Metric.GPU_POOL),
    }
)


def cells_over(entry: Entry, kind: ProfileKind = ProfileKind.TRACE) -> frozenset[int]:
    """
    Return the cells that the verdict names for time or memory over a limit; for times the longest cell.

    A record of memory says nothing about time.
    """
    if entry.run.outcome is not Outcome.COMPLETED or not entry.run.is_comparable:
        return frozenset()
    compared = [item for item in entry.verdict.comparisons if kind is not ProfileKind.MEMORY or item.metric in _MEMORY]
    return frozenset(item.cell.number for item in compared if item.kind.exceeds_limit and item.cell is not None)


def add_traces(entry: Entry, traced: Run, seconds: float) -> Entry:
    """
    Return the entry of the first run, whose measurements stay, with the traces of the second.

    Args:
        entry: the entry of the run that was over its limits.
        traced: the run with traces.
        seconds: time that the second run took.
    """
    cells = tuple(
        replace(
            cell,
            profile=other.profile or cell.profile,
            memory_profile=other.memory_profile or cell.memory_profile,
            device_profile=other.device_profile or cell.device_profile,
            memory_levels=other.memory_levels or cell.memory_levels,
        )
        for cell, other in zip(entry.run.cells, traced.cells, strict=True)
    )
    findings = [item for item in traced.findings if item.kind is FindingKind.PROFILE]
    if traced.outcome is not Outcome.COMPLETED:
        at = traced.evidence.cell_number if traced.evidence is not None else None
        message = f"the second run, made for the trace, did not complete: {traced.outcome.value}"
        findings.append(Finding(kind=FindingKind.PROFILE, message=message, cell_number=at))
    run = replace(entry.run, cells=cells, findings=(*entry.run.findings, *findings))
    return replace(entry, run=run, verdict=_with_cells(entry.verdict, cells), seconds=entry.seconds + seconds)


def with_levels_of_focus(entry: Entry) -> Entry:
    """Return the entry without the levels that were taken for cells that its failure turns out not to be about."""
    focus = entry.focus.number if entry.verdict.failed and entry.focus is not None else None
    cells = tuple(
        replace(cell, memory_levels=None)
        if cell.memory_levels is not None and cell.memory_levels.is_alone and cell.number != focus
        else cell
        for cell in entry.run.cells
    )
    return entry if cells == entry.run.cells else replace(entry, run=replace(entry.run, cells=cells))


def _with_cells(verdict: Verdict, cells: Sequence[CellRun]) -> Verdict:
    """Return the verdict with these cells: the failure shows the cell that a comparison names."""
    by_number = {cell.number: cell for cell in cells}
    comparisons = tuple(
        item if item.cell is None else replace(item, cell=by_number.get(item.cell.number, item.cell))
        for item in verdict.comparisons
    )
    return replace(verdict, comparisons=comparisons)
