"""The verdict of a run, from the run, its budget and the policy of the session."""

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
from pytest_lecturecheck.verdict.relations import compare_relations
from pytest_lecturecheck.verdict.reported_values import compare_reported_values
from pytest_lecturecheck.verdict.values import (
    FAILING,
    AnyComparison,
    Comparison,
    Policy,
    RelationComparison,
    ReportedValueComparison,
    Verdict,
    VerdictKind,
)

_BY_OUTCOME: Final = {
    Outcome.FAILED: VerdictKind.FAILED,
    Outcome.TIMED_OUT: VerdictKind.TIMED_OUT,
    Outcome.DIED: VerdictKind.DIED,
    Outcome.NOT_STARTED: VerdictKind.NOT_STARTED,
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
_STRICT_NOTE: Final = "strict: "
_STRICT_FAILING: Final = frozenset({VerdictKind.NO_BUDGET, VerdictKind.NOT_MEASURED})


def judge(run: Run, budget: LectureBudget | None, policy: Policy) -> Verdict:
    """
    Judge one run.

    The verdict of a failed run is its failure; limits that it exceeded are notes. A completed run gets the most severe
    of its comparisons. ``strict`` turns "no budget", "not measured" and strict findings into failures. A declared value
    that was checked takes the place of a budget.
    """
    if run.outcome is Outcome.COMPLETED:
        verdict = _judge_completed(run, budget, policy)
    else:
        verdict = _judge_bad_end(run, budget, policy)
    return _apply_strict(verdict, run, policy) if policy.strict else verdict


def judge_profiled(run: Run) -> Verdict:
    """Judge a run that was traced, captured, or made in part: it can fail, but its values are not compared."""
    verdict = judge(run, None, Policy())
    if verdict.kind is not VerdictKind.NO_BUDGET:
        return verdict
    if run.captured_cell is not None:
        headline = f"the state before code cell {run.captured_cell} was to be saved, which changes memory: not compared"
        return replace(verdict, kind=VerdictKind.PROFILED, failed=False, headline=f"{headline} with its limits")
    if run.until_cell is not None and not run.is_profiled:
        headline = f"run until code cell {run.until_cell} only: not compared with its limits"
        return replace(verdict, kind=VerdictKind.PARTIAL, failed=False, headline=headline)
    # A finding names each cell that should have been traced and was not.
    is_traced = any(cell.profile is not None or cell.memory_profile is not None for cell in run.cells)
    text = "cells were traced" if is_traced else "cells should have been traced"
    if any(cell.memory_levels is not None for cell in run.cells):
        text = "the memory of cells was recorded" if is_traced else "the memory of cells was examined"
    headline = f"{text}, which takes time and memory: not compared with its limits"
    return replace(verdict, kind=VerdictKind.PROFILED, failed=False, headline=headline)


def judge_recorded(run: Run, policy: Policy) -> Verdict:
    """
    Judge a run that will be recorded: it is compared with what a README declares, not with the old budget.

    ``strict`` turns strict findings into failures here as well. A missing budget is none: the run makes it.
    """
    verdict = judge(run, None, replace(policy, strict=False))
    if verdict.kind is VerdictKind.NO_BUDGET:
        verdict = replace(verdict, kind=VerdictKind.RECORDED, failed=False, headline="measured")
    return _apply_strict(verdict, run, policy) if policy.strict else verdict


def has_strict_findings(run: Run, verdict: Verdict) -> bool:
    """Return True if a completed run failed because of its findings, perhaps among others: it makes no budget."""
    if run.outcome is not Outcome.COMPLETED or not verdict.failed:
        return False
    return verdict.kind is VerdictKind.FAILED or any(note.startswith(_STRICT_NOTE) for note in verdict.notes)


def _judge_completed(run: Run, budget: LectureBudget | None, policy: Policy) -> Verdict:
    comparisons = _compare_all(run, budget, policy)
    reported = tuple(compare_reported_values(run, budget)) if budget is not None else ()
    relations = tuple(compare_relations(run, budget)) if budget is not None else ()
    compared: tuple[AnyComparison, ...] = (*comparisons, *reported, *relations)
    kind = next((kind for kind in _SEVERITY if any(item.kind is kind for item in compared)), None)
    notes = [item.exact_text for item in comparisons if item.kind.exceeds_limit and item.exact_text]
    notes.extend(_time_notes(run, budget))
    if kind is None:
        kind, headline = _nothing_compared(run, budget, policy)
    else:
        shown = tuple(word for word in _SEVERITY if word.exceeds_limit) if kind.exceeds_limit else (kind,)
        headline = "; ".join(item.message for wanted in shown for item in compared if item.kind is wanted)
        if kind is VerdictKind.IMPROVED:
            headline += _variables_text(run, budget)
        # A declared value takes the place of a budget, but budgets of other platforms are still worth a note.
        if budget is None and policy.known_platforms:
            notes.append(_no_budget_text(run, policy))
    return Verdict(
        kind=kind,
        failed=kind in FAILING,
        headline=headline,
        comparisons=comparisons,
        reported_values=reported,
        relations=relations,
        notes=tuple(notes),
        former_name=policy.former_name if kind is VerdictKind.NO_BUDGET and budget is None else "",
    )


def _variables_text(run: Run, budget: LectureBudget | None) -> str:
    """Return variables that changed since the recording and may be why, as an appendix to a headline."""
    then = budget.software if budget is not None else None
    changes = then.variable_changes(run.software) if then is not None and run.software is not None else ()
    return f" (changed since it was recorded: {', '.join(changes)})" if changes else ""


def _judge_bad_end(run: Run, budget: LectureBudget | None, policy: Policy) -> Verdict:
    kind = _BY_OUTCOME[run.outcome]
    cause = diagnose(run.evidence) if run.evidence is not None else None
    headline = cause.headline if cause is not None else run.outcome.value
    # If nothing was observed, the reason that the runner gives is better than the diagnosis.
    if run.reason and (cause is None or cause.kind in _SAYS_LITTLE):
        headline = run.reason
    exceeded: tuple[Comparison, ...] = ()
    reported: tuple[ReportedValueComparison, ...] = ()
    relations: tuple[RelationComparison, ...] = ()
    if run.outcome in _MEASURED_BAD_ENDS:
        exceeded = tuple(item for item in _compare_all(run, budget, policy) if item.kind.exceeds_limit)
        if budget is not None:
            reported = tuple(item for item in compare_reported_values(run, budget) if item.kind.exceeds_limit)
            relations = tuple(item for item in compare_relations(run, budget) if item.kind.exceeds_limit)
    compared: tuple[AnyComparison, ...] = (*exceeded, *reported, *relations)
    messages = [item.message for item in compared]
    notes = tuple(f"before it ended: {message}" for message in messages)
    return Verdict(
        kind=kind,
        failed=kind in FAILING,
        headline=headline,
        comparisons=exceeded,
        reported_values=reported,
        relations=relations,
        notes=notes,
        cause=cause,
    )


def _compare_all(run: Run, budget: LectureBudget | None, policy: Policy) -> tuple[Comparison, ...]:
    declared = compare_declared(run, policy)
    return (*declared, *(compare_budget(run, budget, policy) if budget is not None else ()))


def _apply_strict(verdict: Verdict, run: Run, policy: Policy) -> Verdict:
    """Apply ``strict``: strict findings are the headline if nothing else fails, and notes otherwise."""
    if verdict.kind is VerdictKind.SKIPPED:
        return verdict
    failing = [item for item in run.findings if item.fails_when_strict and item.kind not in policy.strict_except]
    found = [_finding_text(item) for item in failing]
    if verdict.failed or verdict.kind in _STRICT_FAILING:
        notes = (*verdict.notes, *(f"{_STRICT_NOTE}{text}" for text in found))
        return replace(verdict, failed=True, notes=notes)
    if found:
        notes = (*verdict.notes, _how_to_allow(failing))
        headline = _STRICT_NOTE + "; ".join(found)
        return replace(verdict, kind=VerdictKind.FAILED, failed=True, headline=headline, notes=notes)
    return verdict


def _how_to_allow(findings: Sequence[Finding]) -> str:
    """Return what allows findings of these kinds, for one lecture and for all."""
    kinds = list(dict.fromkeys(item.kind.replace(" ", "-") for item in findings))
    flags = " ".join(f"--lecture-strict-except {kind}" for kind in kinds)
    return f"to allow such findings: strict-except: [{', '.join(kinds)}] in the lecture, or {flags} for all"


def _finding_text(finding: Finding) -> str:
    # A message may name its line itself.
    return f"{finding.message} ({finding.place_beside})" if finding.place_beside else finding.message


def _nothing_compared(run: Run, budget: LectureBudget | None, policy: Policy) -> tuple[VerdictKind, str]:
    """Return verdict and headline of a run that was compared with no limit."""
    if budget is None:
        return VerdictKind.NO_BUDGET, _no_budget_text(run, policy)
    if all(item.limit is None for item in budget.metrics.values()):
        return VerdictKind.NO_BUDGET, f"no limit set for {run.platform}, only recorded values"
    return VerdictKind.NOT_MEASURED, "nothing compared: the only limits are times of another class of machine"


SHARED_MACHINE: Final = "shared machine: time not compared, because other lectures ran beside it"
"""Start of the note that names them."""
_NAMED_COMPANIONS: Final = 3


def companions_text(lectures: Sequence[str]) -> str:
    """Return the names of the lectures that ran at the same time, the first few of them."""
    named, more = lectures[:_NAMED_COMPANIONS], len(lectures) - _NAMED_COMPANIONS
    return f"{', '.join(named)} and {more} more" if more > 0 else ", ".join(named)


def _time_notes(run: Run, budget: LectureBudget | None) -> Iterator[str]:
    if budget is None:
        return
    limited = [is_comparable(run, budget, item) for item in budget.metrics.values() if item.limit is not None]
    if not all(limited):
        if run.concurrent_lectures:
            yield f"{SHARED_MACHINE}: {companions_text(run.concurrent_lectures)}"
            return
        there = f"{budget.machine.cpu}, {budget.machine.core_count} cores" if budget.machine else "an unknown machine"
        yield f"time not compared: its limit was recorded on another class of machine ({there})"


def _no_budget_text(run: Run, policy: Policy) -> str:
    text = f"no budget for {run.platform}"
    if policy.former_name:
        return f"{text}; perhaps renamed from {policy.former_name!r}, which has one: rename its table too"
    how = "'lecturecheck record'" if run.is_program else "--lecture-record"
    known = [f"{label}: {format_size(size)}" for label, size in sorted(policy.known_platforms.items())]
    return f"{text} (recorded: {', '.join(known)})" if known else f"{text}; record one with {how}"
