"""Judge a run: against its budget, against what a README declares, and by how it ended. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from pytest_lecturecheck.budget import LectureBudget, MetricBudget, Tolerance
from pytest_lecturecheck.diagnosis import Cause, diagnose
from pytest_lecturecheck.metric import Measurement, Method, Metric, Unavailable, Unit
from pytest_lecturecheck.run import CellRun, Outcome, Run
from pytest_lecturecheck.units import format_fraction, format_size


class VerdictKind(StrEnum):
    """The words of the summary; one for each item."""

    WITHIN = "within"
    OVER = "over"
    IMPROVED = "improved"
    NO_BUDGET = "no budget"
    NOT_MEASURED = "not measured"
    FAILED = "failed"
    TIMED_OUT = "timed out"
    DIED = "died"
    FAILED_BEFORE = "failed before"
    NOT_FITTING = "not fitting"
    FITS = "fits"
    RECORDED = "recorded"
    NOTHING_TO_RUN = "nothing to run"
    SKIPPED = "skipped"
    STOPPED = "stopped"


FAILING: Final = frozenset(
    {
        VerdictKind.OVER,
        VerdictKind.FAILED,
        VerdictKind.TIMED_OUT,
        VerdictKind.DIED,
        VerdictKind.FAILED_BEFORE,
        VerdictKind.NOT_FITTING,
        VerdictKind.STOPPED,
    }
)
_BY_OUTCOME: Final = {
    Outcome.FAILED: VerdictKind.FAILED,
    Outcome.TIMED_OUT: VerdictKind.TIMED_OUT,
    Outcome.DIED: VerdictKind.DIED,
    Outcome.NOT_STARTED: VerdictKind.DIED,
    Outcome.NOTHING_TO_RUN: VerdictKind.NOTHING_TO_RUN,
    Outcome.SKIPPED: VerdictKind.SKIPPED,
    Outcome.STOPPED: VerdictKind.STOPPED,
}
_SEVERITY: Final = (
    VerdictKind.NOT_FITTING,
    VerdictKind.OVER,
    VerdictKind.NOT_MEASURED,
    VerdictKind.IMPROVED,
    VerdictKind.FITS,
    VerdictKind.WITHIN,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """
    One metric held against one limit.

    Attributes:
        metric: the quantity.
        kind: ``within``, ``over``, ``improved``, ``not measured``, ``fits`` or ``not fitting``.
        limit: the limit (inclusive), or ``None`` where there was nothing to compare with.
        measured: the measurement, or ``None`` where there is none.
        message: one line for people.
        cell: the cell that holds the peak, where the metric has one.
    """

    metric: Metric
    kind: VerdictKind
    limit: float | None
    measured: Measurement | None
    message: str
    cell: CellRun | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """
    What the session asks of every lecture.

    Attributes:
        strict: no budget, an unavailable metric and strict findings are failures.
        declared_memory_bytes: memory that a README declares, or ``None``.
        declared_time_seconds: time that a README declares, or ``None``.
        tolerance: rule for limits that would be derived now; says what "far under" means.
        known_platforms: figures of the same lecture on other platforms, as context: label to peak footprint in bytes.
    """

    strict: bool = False
    declared_memory_bytes: int | None = None
    declared_time_seconds: float | None = None
    tolerance: Tolerance = field(default_factory=Tolerance)
    known_platforms: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """
    What the item says.

    Attributes:
        kind: the word.
        failed: whether the pytest item fails.
        headline: one line: the word's substance.
        comparisons: every metric that was held against a limit.
        notes: context for people, one line each.
        cause: the diagnosis of a bad end, or ``None``.
    """

    kind: VerdictKind
    failed: bool
    headline: str
    comparisons: tuple[Comparison, ...] = ()
    notes: tuple[str, ...] = ()
    cause: Cause | None = None


def judge(run: Run, budget: LectureBudget | None, policy: Policy) -> Verdict:
    """
    Judge one run.

    Limits are inclusive. A lower bound above the limit is over; a lower bound below it is ``within`` only where the budget was
    recorded from figures of no better method.
    """
    if run.outcome is not Outcome.COMPLETED:
        return _judge_bad_end(run)
    comparisons = tuple(_compare_all(run, budget, policy))
    notes = list(_time_note(run, budget))
    kind = _worst(comparisons)
    headline = "; ".join(item.message for item in comparisons if item.kind is kind)
    failed = kind in FAILING
    if kind is None:
        kind, headline = VerdictKind.NO_BUDGET, _no_budget_text(run, policy)
        failed = policy.strict
    if policy.strict and kind is VerdictKind.NOT_MEASURED:
        failed = True
    strict_findings = [item for item in run.findings if item.fails_when_strict] if policy.strict else []
    if strict_findings and not failed:
        kind, failed = VerdictKind.FAILED, True
        headline = "strict: " + "; ".join(item.message for item in strict_findings)
    return Verdict(kind=kind, failed=failed, headline=headline, comparisons=comparisons, notes=tuple(notes))


def _judge_bad_end(run: Run) -> Verdict:
    kind = _BY_OUTCOME[run.outcome]
    cause = diagnose(run.evidence) if run.evidence is not None else None
    headline = cause.headline if cause is not None else run.reason or run.outcome.value
    return Verdict(kind=kind, failed=kind in FAILING, headline=headline, cause=cause)


def _compare_all(run: Run, budget: LectureBudget | None, policy: Policy) -> Iterator[Comparison]:
    yield from _compare_declared(run, policy)
    if budget is None:
        return
    for metric, metric_budget in budget.metrics.items():
        if metric_budget.limit is None:
            continue
        if metric.unit is Unit.SECONDS and not metric_budget.hand_set and not _same_time_class(run, budget):
            continue
        yield _compare(run, metric_budget, policy)


def _compare_declared(run: Run, policy: Policy) -> Iterator[Comparison]:
    declared = ((Metric.PEAK_FOOTPRINT, policy.declared_memory_bytes), (Metric.WALL, policy.declared_time_seconds))
    for metric, limit in declared:
        if limit is None:
            continue
        measured = run.measured(metric)
        if measured is None:
            reading = run.reading(metric)
            reason = reading.reason if isinstance(reading, Unavailable) else ""
            message = f"{metric.label} not measured ({reason}); declared {metric.format_value(limit)}"
            yield Comparison(metric=metric, kind=VerdictKind.NOT_MEASURED, limit=limit, measured=None, message=message)
            continue
        cell = run.heaviest_cell(metric)
        shown, shown_limit = metric.format_values_apart(measured.value, limit)
        how = f"{metric.label}, {measured.method}" + (f", code cell {cell.number}" if cell is not None else "")
        if measured.value > limit:
            message = f"needs at least {shown} ({how}), declared {shown_limit}{_rss_aside(run, metric)}"
            kind = VerdictKind.NOT_FITTING
        else:
            message = f"{shown} ({how}) fits the declared {shown_limit}"
            kind = VerdictKind.FITS
        yield Comparison(metric=metric, kind=kind, limit=limit, measured=measured, message=message, cell=cell)


def _rss_aside(run: Run, metric: Metric) -> str:
    rss = run.measured(Metric.PEAK_RSS)
    footprint = run.measured(Metric.PEAK_FOOTPRINT)
    if metric is not Metric.PEAK_FOOTPRINT or rss is None or footprint is None or rss.value == footprint.value:
        return ""
    return f"; peak RSS of the kernel {format_size(rss.value)}"


def _compare(run: Run, budget: MetricBudget, policy: Policy) -> Comparison:
    metric, limit = budget.metric, budget.limit
    assert limit is not None  # noqa: S101 - the caller filters; this tells the type checker
    measured = run.measured(metric)
    if measured is None:
        reading = run.reading(metric)
        reason = reading.reason if isinstance(reading, Unavailable) else ""
        message = f"{metric.label} not measured ({reason}); limit {metric.format_value(limit)}"
        return Comparison(metric=metric, kind=VerdictKind.NOT_MEASURED, limit=limit, measured=None, message=message)
    cell = run.heaviest_cell(metric)
    kind, message = _weigh(metric, measured, budget, policy.tolerance)
    if kind is VerdictKind.OVER:
        message += _where(cell) + _seen_text(budget)
    return Comparison(metric=metric, kind=kind, limit=limit, measured=measured, message=message, cell=cell)


def _weigh(
    metric: Metric, measured: Measurement, budget: MetricBudget, tolerance: Tolerance
) -> tuple[VerdictKind, str]:
    limit = budget.limit or 0.0
    shown, shown_limit = metric.format_values_apart(measured.value, limit)
    if measured.value > limit:
        difference = measured.value - limit
        share = f" ({format_fraction(difference / limit)})" if limit else ""
        at_least = "at least " if measured.method.is_lower_bound else ""
        message = f"{metric.label} {at_least}{shown}, limit {shown_limit}: {metric.format_value(difference)} over{share}"
        return VerdictKind.OVER, message
    if measured.high is not None and measured.high > limit:
        shown_high, shown_limit = metric.format_values_apart(measured.high, limit)
        message = f"{metric.label} between {shown} and {shown_high}, limit {shown_limit}: cannot be told apart"
        return VerdictKind.NOT_MEASURED, message
    if measured.method.is_lower_bound and budget.method in {Method.EXACT, Method.BRACKET}:
        message = (
            f"{metric.label} is only a lower bound now (at least {shown}, {measured.source or measured.method}) and was "
            f"{budget.method} when recorded; record it again to compare like with like"
        )
        return VerdictKind.NOT_MEASURED, message
    if metric.is_memory and limit > 2 * tolerance.limit_for(metric, [measured.value]):
        factor = limit / measured.value if measured.value else float("inf")
        message = f"{metric.label} {shown} is far under its limit {shown_limit} ({factor:.3g} times too large): record it again"
        return VerdictKind.IMPROVED, message
    return VerdictKind.WITHIN, f"{metric.label} {shown}, limit {shown_limit}"


def _where(cell: CellRun | None) -> str:
    if cell is None:
        return ""
    line = f", line {cell.line}" if cell.line is not None else ""
    return f", in code cell {cell.number}{line}"


def _seen_text(budget: MetricBudget) -> str:
    if not budget.seen:
        return "; limit set by hand"
    lowest, highest = min(budget.seen), max(budget.seen)
    seen = budget.metric.format_value(highest)
    if budget.metric.format_value(lowest) != seen:
        seen = f"{budget.metric.format_value(lowest)} to {seen}"
    return f"; {seen} when recorded ({len(budget.seen)} run{'' if len(budget.seen) == 1 else 's'})"


def _same_time_class(run: Run, budget: LectureBudget) -> bool:
    if run.machine is None or budget.machine is None:
        return False
    return run.machine.time_class == budget.machine.time_class


def _time_note(run: Run, budget: LectureBudget | None) -> Iterator[str]:
    if budget is None or _same_time_class(run, budget):
        return
    derived = [
        item
        for metric, item in budget.metrics.items()
        if metric.unit is Unit.SECONDS and item.limit and not item.hand_set
    ]
    if derived:
        there = f"{budget.machine.cpu}, {budget.machine.core_count} cores" if budget.machine else "an unknown machine"
        yield f"time not compared: its limit was recorded on another class of machine ({there})"


def _no_budget_text(run: Run, policy: Policy) -> str:
    text = f"no budget for {run.platform}"
    if policy.known_platforms:
        known = ", ".join(f"{label}: {format_size(size)}" for label, size in sorted(policy.known_platforms.items()))
        return f"{text} (recorded: {known})"
    return f"{text}; record one with --lecture-record"


def _worst(comparisons: Sequence[Comparison]) -> VerdictKind | None:
    kinds = {item.kind for item in comparisons}
    return next((kind for kind in _SEVERITY if kind in kinds), None)
