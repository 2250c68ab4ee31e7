"""Comparison of the values that a lecture reports with their limits. Limits are inclusive."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_lecturecheck.budget.limits import LectureBudget, ReportedValueBudget
from pytest_lecturecheck.model.cell_run import CellRun
from pytest_lecturecheck.model.reported_value import (
    ReportedValue,
    format_reported_range,
    format_reported_value,
    format_reported_values_apart,
)
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.units import format_fraction
from pytest_lecturecheck.verdict.values import ReportedValueComparison, VerdictKind

_MANY_TIMES: Final = 100


def compare_reported_values(run: Run, budget: LectureBudget) -> Iterator[ReportedValueComparison]:
    """Compare the values that a run reported with every limit of its budget; a missing one is ``not measured``."""
    reported = run.reported_values
    for name in sorted(budget.reported_values):
        value_budget = budget.reported_values[name]
        if value_budget.has_limit:
            cell = run.reporting_cell(name)
            kind, message = _weigh(reported.get(name), value_budget, cell)
            yield ReportedValueComparison(
                name=name,
                kind=kind,
                at_least=value_budget.at_least,
                limit=value_budget.limit,
                reported=reported.get(name),
                message=message,
                cell=cell,
            )


def _weigh(
    reported: ReportedValue | None, budget: ReportedValueBudget, cell: CellRun | None
) -> tuple[VerdictKind, str]:
    limits = _limits_text(budget)
    if reported is None:
        return VerdictKind.NOT_MEASURED, f"{budget.name} not measured (the lecture did not report it), {limits}"
    if budget.unit and reported.unit != budget.unit:
        found = f"in {reported.unit!r}" if reported.unit else "without a unit"
        return (
            VerdictKind.NOT_MEASURED,
            f"{budget.name} not measured (reported {found}, recorded in {budget.unit!r}), {limits}",
        )
    value, unit, after = reported.value, reported.unit, _where(cell) + _seen_text(budget)
    if budget.limit is not None and value > budget.limit:
        shown, shown_limit = format_reported_values_apart(value, budget.limit, unit)
        return (
            VerdictKind.OVER,
            f"{budget.name} {shown}, limit {shown_limit}: {_over_text(value, budget.limit, unit)}{after}",
        )
    if budget.at_least is not None and value < budget.at_least:
        shown, shown_least = format_reported_values_apart(value, budget.at_least, unit)
        difference = budget.at_least - value
        share = f" ({format_fraction(-difference / abs(budget.at_least))})" if budget.at_least else ""
        under = f"{format_reported_value(difference, unit)} under{share}"
        return VerdictKind.UNDER, f"{budget.name} {shown}, at least {shown_least} wanted: {under}{after}"
    return VerdictKind.WITHIN, f"{reported.text}, {limits}"


def _limits_text(budget: ReportedValueBudget) -> str:
    least = (
        [] if budget.at_least is None else [f"at least {format_reported_value(budget.at_least, budget.unit)} wanted"]
    )
    most = [] if budget.limit is None else [f"limit {format_reported_value(budget.limit, budget.unit)}"]
    return ", ".join((*least, *most))


def _over_text(value: float, limit: float, unit: str) -> str:
    """Return the excess over a limit; if the two are orders of magnitude apart, as a factor."""
    if limit > 0 and value >= _MANY_TIMES * limit:
        return f"{value / limit:.3g} times as much"
    difference = value - limit
    share = f" ({format_fraction(difference / abs(limit))})" if limit else ""
    return f"{format_reported_value(difference, unit)} over{share}"


def _where(cell: CellRun | None) -> str:
    if cell is None:
        return ""
    return f", in code cell {cell.number}" + (f", line {cell.line}" if cell.line is not None else "")


def _seen_text(budget: ReportedValueBudget) -> str:
    if not budget.seen:
        return ""
    runs = f"{len(budget.seen)} run{'' if len(budget.seen) == 1 else 's'}"
    return f"; recorded: {format_reported_range(budget.seen, budget.unit)} ({runs})"
