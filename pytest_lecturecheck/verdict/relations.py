"""Comparison of two values of one run, where a budget relates them. Equal values are within."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pytest_lecturecheck.budget.limits import LectureBudget
from pytest_lecturecheck.budget.relations import Relation, Term
from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.errors import UnitError
from pytest_lecturecheck.model.metric import Metric, Unavailable, Unit
from pytest_lecturecheck.model.reported_value import format_reported_value
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.units import format_fraction, parse_duration, parse_size
from pytest_lecturecheck.verdict.values import RelationComparison, VerdictKind


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """One side with its factor applied: both ends of the value, its unit, and how it is shown."""

    low: float
    high: float | None
    unit: str
    shown: str


class _MissingError(Exception):
    """A side that has no value; the message says which and why."""


def compare_relations(run: Run, budget: LectureBudget) -> Iterator[RelationComparison]:
    """Compare both sides of every relation of a budget; a side without a value makes it ``not measured``."""
    for relation in budget.relations:
        yield _compare(run, relation)


def _compare(run: Run, relation: Relation) -> RelationComparison:
    metric = relation.lower.metric or relation.upper.metric
    try:
        lower, upper = (_side(run, term, metric) for term in (relation.lower, relation.upper))
    except _MissingError as missing:
        message = f"{relation.text} not compared: {missing}"
        return RelationComparison(text=relation.text, kind=VerdictKind.NOT_MEASURED, message=message)
    both = f"{lower.shown}, {upper.shown}"
    kind, end = VerdictKind.WITHIN, ""
    if lower.unit != upper.unit:
        kind, end = VerdictKind.NOT_MEASURED, f"; not compared: reported in {lower.unit!r} and {upper.unit!r}"
    elif upper.high is not None and lower.low > upper.high:
        difference = lower.low - upper.high
        share = f" ({format_fraction(difference / upper.high)})" if upper.high else ""
        kind, end = VerdictKind.OVER, f": {_format(difference, metric, lower.unit)} over{share}"
    elif lower.high is None or lower.high > upper.low:
        kind, end = VerdictKind.NOT_MEASURED, "; it may or may not hold: a value is not exact"
    cell = run.heaviest_cell(relation.lower.metric) if relation.lower.metric is not None else None
    where = "" if cell is None or kind is not VerdictKind.OVER else f", in code cell {cell.number}"
    where += f", line {cell.line}" if where and cell is not None and cell.line is not None else ""
    return RelationComparison(
        text=relation.text,
        kind=kind,
        lower=lower.shown,
        upper=upper.shown,
        message=f"{relation.text}: {both}{end}{where}",
        cell=cell,
    )


def _side(run: Run, term: Term, metric: Metric | None) -> _Side:
    if term.metric is not None:
        low, high, unit = _measured(run, term.metric)
    else:
        low, unit = _reported(run, term, metric)
        high = low
    at_least = "at least " if high is None else ""
    shown = f"{term.label} {at_least}{_format(low, metric, unit)}"
    if high is not None and high > low:
        shown = f"{term.label} {_format(low, metric, unit)} to {_format(high, metric, unit)}"
    if term.factor != 1.0:
        shown += f", times {term.factor:g} = {_format(term.factor * (low if high is None else high), metric, unit)}"
    return _Side(low=term.factor * low, high=None if high is None else term.factor * high, unit=unit, shown=shown)


def _measured(run: Run, metric: Metric) -> tuple[float, float | None, str]:
    if metric in {Metric.GPU_USED, Metric.GPU_POOL} and run.has_reservation:
        msg = f"{metric.label} is reserved by preallocation and says nothing about need"
        raise _MissingError(msg)
    found = run.measured(metric)
    if found is None or not math.isfinite(found.value):
        reading = run.reading(metric)
        reason = reading.reason if isinstance(reading, Unavailable) else "the value is not finite"
        msg = f"{metric.label} not measured ({reason})"
        raise _MissingError(msg)
    return found.value, found.upper_bound, ""


def _reported(run: Run, term: Term, metric: Metric | None) -> tuple[float, str]:
    """Return a reported value in the unit of the metric that it is compared with, or in its own."""
    reported = run.reported_values.get(term.reported_name)
    if reported is None:
        msg = f"the lecture did not report {term.reported_name}"
        raise _MissingError(msg)
    if metric is None:
        return reported.value, reported.unit
    if not reported.unit or metric.unit is Unit.COUNT:
        return reported.value, ""
    try:
        factor = parse_size(f"1 {reported.unit}") if metric.unit is Unit.BYTES else parse_duration(f"1 {reported.unit}")
    except UnitError as error:
        wanted = "a size" if metric.unit is Unit.BYTES else "a time"
        msg = f"{term.reported_name} was reported in {reported.unit!r}, which is not {wanted}"
        raise _MissingError(msg) from error
    return reported.value * factor, ""


def _format(value: float, metric: Metric | None, unit: str) -> str:
    if metric is None or value < 0:
        return format_reported_value(value, unit)
    return metric.format_value(value)
