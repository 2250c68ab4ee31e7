"""Recording of reported values: values are updated, limits are set by people and stay."""

import datetime as dt
from dataclasses import replace

import pytest

from pytest_lecturecheck.budget.limits import LectureBudget, PlatformBudgets, ReportedValueBudget
from pytest_lecturecheck.budget.recording import record
from pytest_lecturecheck.budget.reported_value_recording import ReportedValueChange
from pytest_lecturecheck.model.cell_run import CellRun, CellStatus
from pytest_lecturecheck.model.metric import Measurement, Method, Metric
from pytest_lecturecheck.model.reported_value import Better, ReportedValue
from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.units import MIB
from pytest_lecturecheck.verdict import Policy, VerdictKind, judge

TODAY = dt.date(2025, 2, 1)
FOOTPRINT = Metric.PEAK_FOOTPRINT


def run(*reported, repeat=1):
    cell = CellRun(number=1, index=0, line=10, status=CellStatus.OK, reported_values=reported)
    peak = Measurement(metric=FOOTPRINT, value=400 * MIB, method=Method.EXACT)
    return Run(
        lecture="a.md",
        platform="linux",
        outcome=Outcome.COMPLETED,
        cells=(cell,),
        readings={FOOTPRINT: peak},
        repeat=repeat,
    )


def speedup(value, unit="x", better=Better.HIGHER):
    return ReportedValue(name="speedup", value=value, unit=unit, better=better)


def recorded(*runs, reported_values=(), today=TODAY):
    """Record ``runs`` over a record of the same runs that holds these figures."""
    entry = record(PlatformBudgets(platform="linux"), [run()] * len(runs), today=dt.date(2025, 1, 1))[0].find("a.md")
    entry = replace(entry, reported_values={item.name: item for item in reported_values})
    before = PlatformBudgets(platform="linux", lectures={("a.md", ""): entry})
    budgets, changes = record(before, runs, today=today)
    return budgets.find("a.md"), [change for change in changes if isinstance(change, ReportedValueChange)]


def texts(changes):
    return [change.text for change in changes]


@pytest.mark.parametrize(
    ("better", "todo"), [(Better.HIGHER, "at_least"), (Better.LOWER, "limit"), (None, "at_least or limit")]
)
def test_a_first_record_keeps_values_without_limits(better, todo):
    runs = [run(speedup(value, better=better), repeat=number) for number, value in ((2, 1.7), (1, 1.66), (3, 1.67))]
    entry, changes = recorded(*runs)
    assert entry.reported_values == {"speedup": ReportedValueBudget(name="speedup", seen=(1.66, 1.7, 1.67), unit="x")}
    assert texts(changes) == [f"a.md: speedup: seen 1.66 to 1.7 x; no limit: set {todo} by hand"]


def test_a_new_lecture_keeps_its_reported_values_too():
    budgets, changes = record(PlatformBudgets(platform="linux"), [run(speedup(1.7))], today=TODAY)
    assert budgets.find("a.md").reported_values["speedup"].seen == (1.7,)
    assert texts(changes)[-1] == "a.md: speedup: seen 1.7 x; no limit: set at_least by hand"


def test_limits_set_by_hand_are_kept():
    before = ReportedValueBudget(name="speedup", at_least=1.5, limit=2.0, seen=(1.6,), unit="x")
    entry, changes = recorded(run(speedup(1.9)), reported_values=[before])
    assert entry.reported_values["speedup"] == replace(before, seen=(1.9,))
    assert texts(changes) == [
        "a.md: speedup: seen 1.9 x (before: 1.6 x); at least 1.5 x, limit 2 x (set by hand, kept)"
    ]
    assert judge(run(speedup(1.9)), entry, Policy()).kind is VerdictKind.WITHIN


@pytest.mark.parametrize(
    ("value", "warning"),
    [
        (1.2, "these runs are under the limit set by hand: speedup 1.2, at_least 1.5"),
        (2.5, "these runs are over the limit set by hand: speedup 2.5, limit 2.0"),
        (1.5, ""),
        (2.0, ""),
    ],
)
def test_runs_beyond_a_limit_set_by_hand_are_reported(value, warning):
    before = ReportedValueBudget(name="speedup", at_least=1.5, limit=2.0, seen=(1.0,), unit="x")
    entry, (change,) = recorded(run(speedup(value)), reported_values=[before])
    assert change.warning == warning
    assert entry.reported_values["speedup"].seen == (value,)


def test_small_differences_leave_the_entry_as_it_is():
    before = ReportedValueBudget(name="speedup", at_least=1.5, seen=(1.7,), unit="x")
    entry, (change,) = recorded(run(speedup(1.6)), reported_values=[before])
    assert (entry.recorded, entry.reported_values["speedup"]) == (dt.date(2025, 1, 1), before)
    assert change.is_untouched
    entry, (change,) = recorded(run(speedup(1.5)), reported_values=[before])
    assert (entry.recorded, entry.reported_values["speedup"].seen) == (TODAY, (1.5,))
    assert not change.is_untouched


def test_a_value_no_longer_reported_goes_unless_limited():
    limited = ReportedValueBudget(name="distance", limit=1e-12, seen=(1e-15,))
    entry, changes = recorded(run(), reported_values=[ReportedValueBudget(name="speedup", seen=(1.7,)), limited])
    assert entry.reported_values == {"distance": limited}
    assert texts(changes) == [
        "a.md: distance: not reported this time, recorded values and limits kept",
        "a.md: speedup: no longer reported, dropped",
    ]
    assert judge(run(), entry, Policy()).kind is VerdictKind.NOT_MEASURED


def test_a_change_of_unit_does_not_slip_under_a_limit():
    limited = ReportedValueBudget(name="speedup", at_least=1.5, seen=(1.7,), unit="x")
    entry, changes = recorded(run(speedup(170, "%")), reported_values=[limited])
    assert entry.reported_values == {"speedup": limited}
    problem = "reported in '%', while its limits are in 'x'"
    assert texts(changes) == [f"a.md: speedup: {problem}, recorded values and limits kept"]
    free = replace(limited, at_least=None)
    entry, changes = recorded(run(speedup(170, "%")), reported_values=[free])
    assert (entry.reported_values["speedup"], changes) == (
        ReportedValueBudget(name="speedup", seen=(170,), unit="%"),
        [],
    )


def test_runs_that_disagree_about_the_unit_record_nothing():
    entry, changes = recorded(run(speedup(1.7)), run(speedup(170, "%"), repeat=2))
    assert (entry.reported_values, changes) == ({}, [])
    limited = ReportedValueBudget(name="speedup", at_least=1.5)
    entry, changes = recorded(run(speedup(1.7)), run(speedup(170, "%"), repeat=2), reported_values=[limited])
    assert entry.reported_values == {"speedup": limited}
    assert texts(changes) == ["a.md: speedup: reported in different units ('%', 'x'), recorded values and limits kept"]


def test_another_lecture_keeps_its_reported_values():
    other = LectureBudget(
        lecture="b.md", reported_values={"speedup": ReportedValueBudget(name="speedup", at_least=1.5)}
    )
    budgets, _ = record(PlatformBudgets(platform="linux", lectures={("b.md", ""): other}), [run()], today=TODAY)
    assert budgets.find("b.md") == other
