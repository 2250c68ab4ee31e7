"""Verdicts of values that a lecture reports and that have limits."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.made_records import made_evidence, made_run

from pytest_lecturecheck.budget.limits import LectureBudget, MetricBudget, ReportedValueBudget
from pytest_lecturecheck.model.cell_run import CellRun, CellStatus
from pytest_lecturecheck.model.metric import Measurement, Method, Metric
from pytest_lecturecheck.model.reported_value import ReportedValue
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.units import MIB
from pytest_lecturecheck.verdict import Policy, VerdictKind, judge

FINITE = st.floats(allow_nan=False, allow_infinity=False)
STRICT = Policy(strict=True)
PEAK = Metric.PEAK_FOOTPRINT


def cell(number, *figures, line=None):
    return CellRun(number=number, index=number, line=line, status=CellStatus.OK, reported_values=figures)


def run(*cells, outcome=Outcome.COMPLETED, peak_mib=None, **more):
    readings = {}
    if peak_mib is not None:
        readings[PEAK] = Measurement(metric=PEAK, value=peak_mib * MIB, method=Method.EXACT)
    return made_run(lecture="a.md", platform="linux", outcome=outcome, cells=cells, readings=readings, **more)


def reported(value, name="speedup", unit=""):
    return run(cell(4), cell(5, ReportedValue(name=name, value=value, unit=unit), line=41))


def budget(*figures, **limits):
    items = figures or (ReportedValueBudget(name="speedup", **limits),)
    return LectureBudget(lecture="a.md", reported_values={item.name: item for item in items})


@pytest.mark.parametrize(
    ("value", "limits", "kind", "headline"),
    [
        (
            1.21,
            {"at_least": 1.5},
            VerdictKind.UNDER,
            "speedup 1.21, at least 1.5 wanted: 0.29 under (-19 %), in code cell 5, line 41",
        ),
        (1.5, {"at_least": 1.5}, VerdictKind.WITHIN, "speedup 1.5, at least 1.5 wanted"),
        (
            math.nextafter(1.5, 0),
            {"at_least": 1.5},
            VerdictKind.UNDER,
            (
                "speedup 1.4999999999999998, at least 1.5 wanted: 2.22e-16 under (-0.000000000000015 %), "
                "in code cell 5, line 41"
            ),
        ),
        (1.5, {"limit": 1.5}, VerdictKind.WITHIN, "speedup 1.5, limit 1.5"),
        (
            math.nextafter(1.5, 2),
            {"limit": 1.5},
            VerdictKind.OVER,
            "speedup 1.5000000000000002, limit 1.5: 2.22e-16 over (+0.000000000000015 %), in code cell 5, line 41",
        ),
        (
            1.8,
            {"limit": 1.5, "seen": (1.2, 1.31), "unit": ""},
            VerdictKind.OVER,
            "speedup 1.8, limit 1.5: 0.3 over (+20 %), in code cell 5, line 41; recorded: 1.2 to 1.31 (2 runs)",
        ),
        (
            3e-8,
            {"limit": 1e-12, "seen": (1e-15,)},
            VerdictKind.OVER,
            "speedup 3e-08, limit 1e-12: 3e+04 times as much, in code cell 5, line 41; recorded: 1e-15 (1 run)",
        ),
        (0.0, {"limit": 0.0}, VerdictKind.WITHIN, "speedup 0, limit 0"),
        (
            5e-324,
            {"limit": 0.0},
            VerdictKind.OVER,
            "speedup 4.94e-324, limit 0: 4.94e-324 over, in code cell 5, line 41",
        ),
        (-1.0, {"at_least": 0.0}, VerdictKind.UNDER, "speedup -1, at least 0 wanted: 1 under, in code cell 5, line 41"),
        (
            -3.0,
            {"at_least": -2.0},
            VerdictKind.UNDER,
            "speedup -3, at least -2 wanted: 1 under (-50 %), in code cell 5, line 41",
        ),
        (-1.0, {"limit": -2.0}, VerdictKind.OVER, "speedup -1, limit -2: 1 over (+50 %), in code cell 5, line 41"),
        (1.6, {"at_least": 1.5, "limit": 1.7}, VerdictKind.WITHIN, "speedup 1.6, at least 1.5 wanted, limit 1.7"),
    ],
)
def test_limits_are_inclusive_and_messages_name_the_difference(value, limits, kind, headline):
    verdict = judge(reported(value), budget(**limits), Policy())
    failed = kind is not VerdictKind.WITHIN
    assert (verdict.kind, verdict.failed, verdict.headline) == (kind, failed, headline)
    (item,) = verdict.reported_values
    assert (item.name, item.kind, item.message) == ("speedup", kind, headline)
    assert (item.reported.value, item.cell.number) == (value, 5)


@given(FINITE, FINITE)
def test_every_value_is_on_one_side_of_a_limit(value, limit):
    upper = judge(reported(value), budget(limit=limit), Policy()).failed
    lower = judge(reported(value), budget(at_least=limit), Policy()).failed
    assert (upper, lower) == (value > limit, value < limit)


def test_the_last_report_counts():
    verdict = judge(
        run(
            cell(1, ReportedValue(name="speedup", value=9.0)),
            cell(2, ReportedValue(name="speedup", value=1.0)),
            cell(3),
        ),
        budget(at_least=1.5),
        Policy(),
    )
    assert verdict.headline == "speedup 1, at least 1.5 wanted: 0.5 under (-33 %), in code cell 2"


@pytest.mark.parametrize("policy", [Policy(), STRICT])
def test_a_value_that_was_not_reported_is_not_measured(policy):
    verdict = judge(run(cell(1)), budget(at_least=1.5, limit=2.0, unit="x"), policy)
    headline = "speedup not measured (the lecture did not report it), at least 1.5 x wanted, limit 2 x"
    assert (verdict.kind, verdict.failed, verdict.headline) == (VerdictKind.NOT_MEASURED, policy.strict, headline)


@pytest.mark.parametrize(
    ("unit", "found"),
    [("ms", "reported in 'ms', recorded in 's'"), ("", "reported without a unit, recorded in 's'")],
)
def test_another_unit_is_another_quantity(unit, found):
    verdict = judge(reported(1.0, unit=unit), budget(limit=2.0, unit="s"), Policy())
    assert (verdict.kind, verdict.headline) == (VerdictKind.NOT_MEASURED, f"speedup not measured ({found}), limit 2 s")


def test_a_limit_without_a_record_has_no_unit():
    verdict = judge(reported(1.0, unit="s"), budget(limit=2.0), Policy())
    assert (verdict.kind, verdict.headline) == (VerdictKind.WITHIN, "speedup 1 s, limit 2")


def test_reported_values_without_a_limit_are_no_budget():
    verdict = judge(reported(1.0), budget(seen=(1.0,)), Policy())
    assert (verdict.kind, verdict.reported_values) == (VerdictKind.NO_BUDGET, ())


def test_what_was_exceeded_stands_together():
    made = run(
        cell(
            1,
            ReportedValue(name="distance", value=1.0),
            ReportedValue(name="speedup", value=1.0),
            ReportedValue(name="other", value=1.0),
        ),
        peak_mib=200,
    )
    limits = LectureBudget(
        lecture="a.md",
        metrics={PEAK: MetricBudget(metric=PEAK, limit=100 * MIB, hand_set=True)},
        reported_values={
            "speedup": ReportedValueBudget(name="speedup", at_least=2.0),
            "other": ReportedValueBudget(name="other", limit=2.0),
            "distance": ReportedValueBudget(name="distance", limit=0.5),
        },
    )
    verdict = judge(made, limits, Policy())
    assert (verdict.kind, verdict.failed) == (VerdictKind.OVER, True)
    assert verdict.headline == (
        "peak footprint 200 MiB, limit 100 MiB: 100 MiB over (+100 %); limit set by hand; "
        "distance 1, limit 0.5: 0.5 over (+100 %), in code cell 1; "
        "speedup 1, at least 2 wanted: 1 under (-50 %), in code cell 1"
    )
    assert [(item.name, item.kind) for item in verdict.reported_values] == [
        ("distance", VerdictKind.OVER),
        ("other", VerdictKind.WITHIN),
        ("speedup", VerdictKind.UNDER),
    ]


def test_after_a_failure_only_exceeded_limits_are_reported():
    made = run(
        cell(1, ReportedValue(name="speedup", value=1.0)),
        outcome=Outcome.DIED,
        evidence=made_evidence(cell_number=2, signal=11),
    )
    verdict = judge(
        made,
        budget(ReportedValueBudget(name="speedup", at_least=2.0), ReportedValueBudget(name="distance", limit=1.0)),
        Policy(),
    )
    assert verdict.kind is VerdictKind.DIED
    assert verdict.notes == ("before it ended: speedup 1, at least 2 wanted: 1 under (-50 %), in code cell 1",)
    assert [item.name for item in verdict.reported_values] == ["speedup"]
