"""What is recorded of GPU memory: the need where an allocator tells it, else what was held; never a reservation."""

from __future__ import annotations

import datetime as dt

import pytest

from pytest_lecturecheck.budget.limits import LectureBudget, MetricBudget, PlatformBudgets
from pytest_lecturecheck.budget.recording import record
from pytest_lecturecheck.model.device import Device, DeviceUse
from pytest_lecturecheck.model.metric import Measurement, Method, Metric
from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.units import GIB, MIB
from pytest_lecturecheck.verdict import Policy, VerdictKind, judge

PLATFORM = "linux-x86_64-tesla_t4"
LIVE, USED, POOL, COMPILE = Metric.GPU_LIVE, Metric.GPU_USED, Metric.GPU_POOL, Metric.COMPILE
CARD = Device(index=0, name="Tesla T4", total_bytes=15 * GIB)


def run(*, is_reserved=False, **values) -> Run:
    methods = {LIVE: Method.AGENT, POOL: Method.AGENT, COMPILE: Method.AGENT, USED: Method.SAMPLED}
    readings = {
        metric: Measurement(metric=metric, value=values[metric.name], method=method)
        for metric, method in methods.items()
        if metric.name in values
    }
    use = DeviceUse(device=CARD, is_reserved=is_reserved)
    return Run(lecture="a.md", platform=PLATFORM, outcome=Outcome.COMPLETED, readings=readings, devices=(use,))


def recorded(*runs: Run, before: PlatformBudgets | None = None):
    budgets, _ = record(before or PlatformBudgets(platform=PLATFORM), runs, today=dt.date(2025, 2, 1))
    return budgets.find("a.md").metrics


def test_live_gpu_memory_gets_the_limit_if_an_allocator_reports_it():
    metrics = recorded(run(GPU_LIVE=GIB, GPU_POOL=2 * GIB, GPU_USED=3 * GIB, COMPILE=6.0))
    assert {metric: budget.limit for metric, budget in metrics.items()} == {
        LIVE: metrics[LIVE].limit,
        POOL: None,
        USED: None,
        COMPILE: None,
    }
    assert metrics[LIVE].limit >= GIB * 1.1
    assert metrics[COMPILE].seen == (6.0,)


def test_used_gpu_memory_gets_the_limit_without_an_allocator():
    metrics = recorded(run(GPU_USED=3 * GIB))
    assert metrics[USED].limit >= 3 * GIB * 1.1


def test_a_reservation_is_never_recorded():
    metrics = recorded(run(GPU_LIVE=GIB, GPU_USED=11 * GIB, is_reserved=True))
    assert USED not in metrics
    assert recorded(run(GPU_USED=11 * GIB, is_reserved=True)) == {}


def test_a_reservation_is_never_compared_with_a_limit():
    for limit in (10 * GIB, 12 * GIB):
        metrics = {USED: MetricBudget(metric=USED, limit=limit, hand_set=True)}
        verdict = judge(
            run(GPU_USED=11 * GIB, is_reserved=True), LectureBudget(lecture="a.md", metrics=metrics), Policy()
        )
        assert verdict.kind is VerdictKind.NOT_MEASURED
        assert verdict.headline == (
            "GPU memory used >= 11 GiB is reserved by preallocation and says nothing about need, limit "
            f"{limit // GIB} GiB; set XLA_PYTHON_CLIENT_PREALLOCATE=false, or limit GPU memory live instead"
        )


@pytest.mark.parametrize(("live", "kind"), [(0, VerdictKind.WITHIN), (1, VerdictKind.OVER)])
def test_a_limit_of_live_memory_is_inclusive(live, kind):
    metrics = {LIVE: MetricBudget(metric=LIVE, limit=512 * MIB, hand_set=True)}
    verdict = judge(run(GPU_LIVE=512 * MIB + live), LectureBudget(lecture="a.md", metrics=metrics), Policy())
    assert verdict.kind is kind
