from dataclasses import replace

import pytest
from support.made_records import changed, made_run

from pytest_lecturecheck.budget.limits import LectureBudget, MetricBudget
from pytest_lecturecheck.model.metric import Measurement, Method, Metric
from pytest_lecturecheck.model.platform import Machine
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.verdict import Policy, VerdictKind, judge

MACHINE = Machine(system="Linux", architecture="x86_64", cpu="CPU", core_count=2, ram_bytes=2**34)
BUDGET = LectureBudget(
    lecture="a.md",
    machine=MACHINE,
    metrics={
        Metric.WALL: MetricBudget(metric=Metric.WALL, limit=20.0, seen=(5.0,), method=Method.EXACT),
        Metric.CPU: MetricBudget(metric=Metric.CPU, seen=(4.0,), method=Method.EXACT),
    },
)


def run(*, wall, cpu, load):
    figures = {Metric.WALL: wall, Metric.CPU: cpu}
    return made_run(
        lecture="a.md",
        platform="linux-x86_64-cpu",
        outcome=Outcome.COMPLETED,
        machine=MACHINE,
        load_average=load,
        readings={
            metric: Measurement(metric=metric, value=value, method=Method.EXACT) for metric, value in figures.items()
        },
    )


def test_a_lecture_that_lacked_a_core_is_not_called_slow():
    verdict = judge(run(wall=30.0, cpu=4.5, load=9.8), BUDGET, Policy())
    assert (verdict.kind, verdict.failed) == (VerdictKind.NOT_MEASURED, False)
    assert verdict.headline == (
        "wall time 30 s, limit 20 s: not compared, because other processes used the cores (load average 9.8 on 2 "
        "cores) and the lecture's own CPU time, 4.5 s, is as recorded"
    )
    assert judge(run(wall=30.0, cpu=4.5, load=9.8), BUDGET, Policy(strict=True)).failed


@pytest.mark.parametrize(
    "slow",
    [
        run(wall=30.0, cpu=4.5, load=2.5),
        run(wall=30.0, cpu=18.1, load=9.8),
        run(wall=30.0, cpu=4.5, load=None),
    ],
)
def test_a_lecture_with_more_cpu_time_is_over(slow):
    assert judge(slow, BUDGET, Policy()).kind is VerdictKind.OVER


def test_a_limit_set_by_hand_is_a_limit():
    by_hand = replace(BUDGET.metrics[Metric.WALL], hand_set=True)
    budget = replace(BUDGET, metrics={**BUDGET.metrics, Metric.WALL: by_hand})
    assert judge(run(wall=30.0, cpu=4.5, load=9.8), budget, Policy()).kind is VerdictKind.OVER


@pytest.mark.parametrize(
    ("company", "named"),
    [
        (("b.md",), "b.md"),
        (("b.md", "c.md", "d.md"), "b.md, c.md, d.md"),
        (("b.md", "c.md", "d.md", "e.md", "f.md"), "b.md, c.md, d.md and 2 more"),
    ],
)
def test_a_shared_machine_names_the_other_lectures(company, named):
    verdict = judge(changed(run(wall=30.0, cpu=4.5, load=0.1), company=company), BUDGET, Policy())
    assert verdict.notes == (f"shared machine: time not compared, because other lectures ran beside it: {named}",)
