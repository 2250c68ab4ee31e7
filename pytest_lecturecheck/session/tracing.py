"""The second run of a lecture over its limits, with a trace of the cells that exceeded them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.profile import ProfileSummary
from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.report.entry import Entry


def cells_over(entry: Entry) -> frozenset[int]:
    """Return the cells that the verdict names for time or memory over a limit; for times the longest cell."""
    if entry.run.outcome is not Outcome.COMPLETED or not entry.run.is_comparable:
        return frozenset()
    compared = entry.verdict.comparisons
    return frozenset(item.cell.number for item in compared if item.kind.exceeds_limit and item.cell is not None)


def add_traces(entry: Entry, traced: Run, seconds: float) -> Entry:
    """
    Return the entry of the first run, whose measurements stay, with the traces of the second.

    Args:
        entry: the entry of the run that was over its limits.
        traced: the run with traces.
        seconds: time that the second run took.
    """
    profiles: Mapping[int, ProfileSummary] = {
        cell.number: cell.profile for cell in traced.cells if cell.profile is not None
    }
    cells = tuple(
        replace(cell, profile=profiles[cell.number]) if cell.number in profiles else cell for cell in entry.run.cells
    )
    findings = [item for item in traced.findings if item.kind is FindingKind.PROFILE]
    if traced.outcome is not Outcome.COMPLETED:
        at = traced.evidence.cell_number if traced.evidence is not None else None
        message = f"the second run, made for the trace, did not complete: {traced.outcome.value}"
        findings.append(Finding(kind=FindingKind.PROFILE, message=message, cell_number=at))
    run = replace(entry.run, cells=cells, findings=(*entry.run.findings, *findings))
    return replace(entry, run=run, seconds=entry.seconds + seconds)
