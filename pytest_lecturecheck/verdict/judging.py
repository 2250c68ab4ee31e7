"""From a run, its budget and the session's policy to one verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from pytest_lecturecheck.budget.limits import LectureBudget
from pytest_lecturecheck.diagnosis import CauseKind, diagnose
from pytest_lecturecheck.model.finding import Finding
from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.units import format_size
from pytest_lecturecheck.verdict.comparison import compare_budget, compare_declared, is_comparable
from pytest_lecturecheck.verdict.reported_values import compare_figures
from pytest_lecturecheck.verdict.values import (
    FAILING,
    Comparison,
    Policy,
    ReportedValueComparison,
    Verdict,
    VerdictKind,
)

_BY_OUTCOME: Final = {
    Outcome.FAILED: VerdictKind.FAILED,
    Outcome.TIMED_OUT: VerdictKind.TIMED_OUT,
    Outcome.DIED: VerdictKind.DIED,
    Outcome.NOT_STARTED: VerdictKind.DIED,
    Outcome.REFUSED: VerdictKind.NOT_FITTING,
    Outcome.UNREADABLE: VerdictKind.UNREADABLE,
    Outcome.NOTHING_TO_RUN: VerdictKind.NOTHING_TO_RUN,
    Outcome.SKIPPED: VerdictKind.SKIPPED,
    Outcome.STOPPED: VerdictKind.STOPPED,
}
_MEASURED_BAD_ENDS: Final = frozenset({Outcome.FAILED, Outcome.TIMED_OUT, Outcome.DIED})
_SAYS_LITTLE: Final = frozenset({CauseKind.NEVER_READY, CauseKind.UNKNOWN})
_SEVERITY: Final = (
    VerdictKind.NOT_FITTING,
    VerdictKind.OVER,
    VerdictKind.UNDER,
    VerdictKind.NOT_MEASURED,
    VerdictKind.IMPROVED,
    VerdictKind.FITS,
    VerdictKind.WITHIN,
)
_STRICT_FAILING: Final = frozenset({VerdictKind.NO_BUDGET, VerdictKind.NOT_MEASURED})


def judge(run: Run, budget: LectureBudget | None, policy: Policy) -> Verdict:
    """
    Judge one run.

    A run that ended badly says so, whatever its figures are; exceeded limits stand in its notes. A completed run takes
    the most severe of its comparisons. ``strict`` turns "no budget", "not measured" and strict findings into failures;
    a declared figure that was checked takes the place of a budget.
    """
    if run.outcome is Outcome.COMPLETED:
        verdict = _judge_completed(run, budget, policy)
    else:
        verdict = _judge_bad_end(run, budget, policy)
    return _apply_strict(verdict, run) if policy.strict else verdict


def judge_profiled(run: Run) -> Verdict:
    """Judge a run in which cells were traced: a bad end is one, and its times and memory are held against nothing."""
    verdict = judge(run, None, Policy())
    if verdict.kind is not VerdictKind.NO_BUDGET:
        return verdict
    # A cell that was to be traced and was not has a finding that says why.
    words = "cells were traced" if any(cell.profile is not None for cell in run.cells) else "cells were to be traced"
    headline = f"{words}, which takes time and memory: not held against its limits"
    return replace(verdict, kind=VerdictKind.PROFILED, failed=False, headline=headline)


def _judge_completed(run: Run, budget: LectureBudget | None, policy: Policy) -> Verdict:
    comparisons = _compare_all(run, budget, policy)
    figures = tuple(compare_figures(run, budget)) if budget is not None else ()
    compared: tuple[Comparison | ReportedValueComparison, ...] = (*comparisons, *figures)
    kind = next((kind for kind in _SEVERITY if any(item.kind is kind for item in compared)), None)
    notes = [item.exact_text for item in comparisons if item.kind.exceeds_limit and item.exact_text]
    notes.extend(_time_notes(run, budget))
    if kind is None:
        kind, headline = _nothing_compared(run, budget, policy)
    else:
        shown = tuple(word for word in _SEVERITY if word.exceeds_limit) if kind.exceeds_limit else (kind,)
        headline = "; ".join(item.message for wanted in shown for item in compared if item.kind is wanted)
        # What is declared takes the place of a budget; that there are some elsewhere is news all the same.
        if budget is None and policy.known_platforms:
            notes.append(_no_budget_text(run, policy))
    return Verdict(
        kind=kind,
        failed=kind in FAILING,
        headline=headline,
        comparisons=comparisons,
        reported_values=figures,
        notes=tuple(notes),
    )


def _judge_bad_end(run: Run, budget: LectureBudget | None, policy: Policy) -> Verdict:
    kind = _BY_OUTCOME[run.outcome]
    cause = diagnose(run.evidence) if run.evidence is not None else None
    headline = cause.headline if cause is not None else run.outcome.value
    # Where nothing was observed, the runner's own words say more than the diagnosis.
    if run.reason and (cause is None or cause.kind in _SAYS_LITTLE):
        headline = run.reason
    exceeded: tuple[Comparison, ...] = ()
    figures: tuple[ReportedValueComparison, ...] = ()
    if run.outcome in _MEASURED_BAD_ENDS:
        exceeded = tuple(item for item in _compare_all(run, budget, policy) if item.kind.exceeds_limit)
        if budget is not None:
            figures = tuple(item for item in compare_figures(run, budget) if item.kind.exceeds_limit)
    messages = [*(item.message for item in exceeded), *(item.message for item in figures)]
    notes = tuple(f"before it ended: {message}" for message in messages)
    return Verdict(
        kind=kind,
        failed=kind in FAILING,
        headline=headline,
        comparisons=exceeded,
        reported_values=figures,
        notes=notes,
        cause=cause,
    )


def _compare_all(run: Run, budget: LectureBudget | None, policy: Policy) -> tuple[Comparison, ...]:
    declared = compare_declared(run, policy)
    return (*declared, *(compare_budget(run, budget, policy) if budget is not None else ()))


def _apply_strict(verdict: Verdict, run: Run) -> Verdict:
    """Fail what strict fails; strict findings are the headline where nothing else fails, and notes elsewhere."""
    if verdict.kind is VerdictKind.SKIPPED:
        return verdict
    found = [_finding_text(item) for item in run.findings if item.fails_when_strict]
    if verdict.failed or verdict.kind in _STRICT_FAILING:
        notes = (*verdict.notes, *(f"strict: {text}" for text in found))
        return replace(verdict, failed=True, notes=notes)
    if found:
        return replace(verdict, kind=VerdictKind.FAILED, failed=True, headline="strict: " + "; ".join(found))
    return verdict


def _finding_text(finding: Finding) -> str:
    return f"{finding.message} ({finding.place})" if finding.place else finding.message


def _nothing_compared(run: Run, budget: LectureBudget | None, policy: Policy) -> tuple[VerdictKind, str]:
    """Say why no limit was held against the run: there is none, or none that holds here."""
    if budget is None:
        return VerdictKind.NO_BUDGET, _no_budget_text(run, policy)
    if all(item.limit is None for item in budget.metrics.values()):
        return VerdictKind.NO_BUDGET, f"no limit set for {run.platform}, only figures seen"
    return VerdictKind.NOT_MEASURED, "nothing compared: the only limits are times of another class of machine"


SHARED_MACHINE: Final = "shared machine: time not compared, because other lectures ran beside it"
"""What a note begins with that names them."""
_NAMED_COMPANIONS: Final = 3


def company_text(company: Sequence[str]) -> str:
    """Name the lectures that ran beside one, the first few of them."""
    named, more = company[:_NAMED_COMPANIONS], len(company) - _NAMED_COMPANIONS
    return f"{', '.join(named)} and {more} more" if more > 0 else ", ".join(named)


def _time_notes(run: Run, budget: LectureBudget | None) -> Iterator[str]:
    if budget is None:
        return
    limited = [is_comparable(run, budget, item) for item in budget.metrics.values() if item.limit is not None]
    if not all(limited):
        if run.concurrent_lectures:
            yield f"{SHARED_MACHINE}: {company_text(run.concurrent_lectures)}"
            return
        there = f"{budget.machine.cpu}, {budget.machine.core_count} cores" if budget.machine else "an unknown machine"
        yield f"time not compared: its limit was recorded on another class of machine ({there})"


def _no_budget_text(run: Run, policy: Policy) -> str:
    text = f"no budget for {run.platform}"
    known = [f"{label}: {format_size(size)}" for label, size in sorted(policy.known_platforms.items())]
    return f"{text} (recorded: {', '.join(known)})" if known else f"{text}; record one with --lecture-record"
