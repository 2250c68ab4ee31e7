"""Entries of a lecture that reports values."""

from __future__ import annotations

from dataclasses import replace

from pytest_lecturecheck.budget.limits import ReportedValueBudget
from pytest_lecturecheck.model.reported_value import Better, ReportedValue
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.verdict import Policy, judge
from support.made_entries import budget_of, cell, run_of

SPEEDUP = ReportedValue(name="speedup", value=1.21, unit="x", better=Better.HIGHER)


DISTANCE = ReportedValue(name="distance", value=3.2e-15)


BUDGETS = (
    ReportedValueBudget(name="speedup", at_least=1.5, seen=(1.66, 1.7), unit="x"),
    ReportedValueBudget(name="distance", limit=1e-12, seen=(1e-15,)),
    ReportedValueBudget(name="efficiency", at_least=0.8, limit=1.0),
)


def entry(*figures, lecture="lectures/sweep.md"):
    cells = [cell(1, 12, 95, 40, 0.84), cell(2, 30, 188, 93, 3.2, reported_values=figures)]
    run = run_of(lecture, cells)
    budget = replace(budget_of(lecture, 220, (180, 188)), reported_values={item.name: item for item in BUDGETS})
    return Entry(run=run, verdict=judge(run, budget, Policy()), budget=budget, seconds=5.0)
