"""Verdicts of budgets that relate two values of one run."""

import pytest
from support.made_records import made_run

from pytest_lecturecheck.budget.limits import LectureBudget
from pytest_lecturecheck.budget.relations import parse_relation
from pytest_lecturecheck.model.cell_run import CellRun, CellStatus
from pytest_lecturecheck.model.metric import Measurement, Method, Metric, Unavailable
from pytest_lecturecheck.model.reported_value import ReportedValue
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.units import GIB
from pytest_lecturecheck.verdict import Policy, VerdictKind, judge

TEXT = "gpu_live <= 1.1 * reported.planned"


def run(live=None, planned=None, unit="GiB", method=Method.AGENT, outcome=Outcome.COMPLETED):
    figures = () if planned is None else (ReportedValue(name="planned", value=planned, unit=unit),)
    live = live if live is None else Measurement(metric=Metric.GPU_LIVE, value=live * GIB, method=method)
    found = live or Unavailable(metric=Metric.GPU_LIVE, reason="no GPU")
    cells = (
        CellRun(number=1, index=0, line=7, status=CellStatus.OK, reported_values=figures),
        CellRun(number=2, index=1, line=9, status=CellStatus.OK, readings={Metric.GPU_LIVE: found}),
    )
    readings = {Metric.GPU_LIVE: found}
    return made_run(lecture="a.md", platform="linux", outcome=outcome, cells=cells, readings=readings)


def judged(text, *parts, **more):
    budget = LectureBudget(lecture="a.md", relations=(parse_relation(text),))
    return judge(run(*parts, **more), budget, Policy())


@pytest.mark.parametrize(
    ("text", "parts", "kind", "end"),
    [
        (
            TEXT,
            (5, 4),
            VerdictKind.OVER,
            ": GPU memory live 5 GiB, planned 4 GiB, times 1.1 = 4.4 GiB: 614 MiB over (+14 %), in code cell 2, line 9",
        ),
        (TEXT, (4.4, 4), VerdictKind.WITHIN, ": GPU memory live 4.4 GiB, planned 4 GiB, times 1.1 = 4.4 GiB"),
        ("reported.planned >= gpu_live", (5, 5), VerdictKind.WITHIN, ": GPU memory live 5 GiB, planned 5 GiB"),
        ("0.5 * gpu_live <= reported.planned", (5, 2, ""), VerdictKind.OVER, ""),
        (TEXT, (5,), VerdictKind.NOT_MEASURED, " not compared: the lecture did not report planned"),
        (TEXT, (None, 4), VerdictKind.NOT_MEASURED, " not compared: GPU memory live not measured (no GPU)"),
        (
            TEXT,
            (5, 4, "x"),
            VerdictKind.NOT_MEASURED,
            " not compared: planned was reported in 'x', which is not a size",
        ),
        (TEXT, (4, 4, "GiB", Method.SAMPLED), VerdictKind.NOT_MEASURED, None),
        (TEXT, (5, 4, "GiB", Method.SAMPLED), VerdictKind.OVER, None),
    ],
)
def test_both_sides_are_shown(text, parts, kind, end):
    verdict = judged(text, *parts)
    assert (verdict.kind, verdict.relations[0].kind) == (kind, kind)
    if end:
        assert verdict.headline == text + end


def test_an_exceeded_relation_is_noted_after_a_failure():
    verdict = judged(TEXT, 5, 4, outcome=Outcome.FAILED)
    assert verdict.kind is VerdictKind.FAILED
    assert verdict.notes[0].startswith(f"before it ended: {TEXT}: ")
    assert judged(TEXT, 4, 4, outcome=Outcome.FAILED).relations == ()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("gpu_live < reported.planned", "expected two values with <= or >= between them"),
        ("gpu_live <= wall", "gpu_live and wall cannot be compared: their units are B and s"),
        ("gpu_live <= 0 * peak_rss", "found the factor '0'; expected a number above zero"),
        ("gpu_live <= 1e999 * peak_rss", "found the factor '1e999'"),
        ("gpu_live <= planned", "unknown value 'planned'; expected reported.NAME or one of peak_footprint"),
        ("gpu_live <= reported.Planned", "found 'reported.Planned'; expected a value"),
        ("gpu_live <= reported.", "unknown value 'reported.'"),
        ("a" * 300, "the relation has 300 characters; expected at most 200"),
    ],
)
def test_faults_say_what_was_expected(text, fault):
    with pytest.raises(ValueError, match=r".") as caught:
        parse_relation(text)
    assert fault in str(caught.value)
