from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pytest_lecturecheck.budget.limits import LectureBudget, MetricBudget
from pytest_lecturecheck.lease.admission import Capacity, Demand, DeviceNeed
from pytest_lecturecheck.lease.demand import default_share_bytes, demand_of
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.settings import AUTOMATIC_CAP, NO_LIMIT, GpuNeed, RunSettings
from pytest_lecturecheck.units import GIB, MIB

CPU_MACHINE = Capacity(host_bytes=24 * GIB, core_count=4)
GPU_MACHINE = Capacity(host_bytes=24 * GIB, core_count=4, devices={0: 15 * GIB})
NOTHING_SAID = RunSettings()


def budget(**metrics):
    found = {}
    for key, (seen, limit) in metrics.items():
        metric = next(item for item in Metric if item.key == key)
        found[metric] = MetricBudget(metric=metric, seen=seen, limit=limit)
    return LectureBudget(lecture="a/b.md", metrics=found)


@pytest.mark.parametrize(
    ("seen", "limit", "host_bytes"),
    [
        ((2 * GIB, 1 * GIB), 3 * GIB, math.ceil(2.2 * GIB)),
        ((100 * MIB,), None, 164 * MIB),
        ((), 3 * GIB, 3 * GIB),
    ],
)
def test_a_recorded_lecture_needs_its_recorded_value(seen, limit, host_bytes):
    settings = RunSettings(declared_memory_bytes=20 * GIB)
    assert demand_of(budget(peak_footprint=(seen, limit)), settings, CPU_MACHINE, 4) == Demand(
        label="a/b.md", host_bytes=host_bytes
    )


def test_without_a_budget_what_is_declared_counts():
    settings = RunSettings(declared_memory_bytes=20 * GIB)
    assert demand_of(None, settings, CPU_MACHINE, 4, label="l.md", core_count=2, is_exclusive=True) == Demand(
        label="l.md", host_bytes=20 * GIB, core_count=2, is_exclusive=True
    )


@pytest.mark.parametrize("known", [None, budget(wall=((3.0,), None))])
def test_an_unknown_lecture_takes_a_share(known):
    assert demand_of(known, NOTHING_SAID, CPU_MACHINE, 4).host_bytes == 6 * GIB


@pytest.mark.parametrize(
    ("host_gib", "worker_count", "share_gib"), [(24, 1, 12), (24, 2, 12), (24, 6, 4), (24, 100, 1), (0.5, 4, 0.5)]
)
def test_the_share_is_equal_and_at_least_a_gibibyte(host_gib, worker_count, share_gib):
    assert default_share_bytes(Capacity(host_bytes=round(host_gib * GIB)), worker_count) == share_gib * GIB


@pytest.mark.parametrize(
    ("cap", "host_bytes"),
    [(1.5 * GIB, 3 * GIB // 2), (9 * GIB, 6 * GIB), (AUTOMATIC_CAP, 6 * GIB), (NO_LIMIT, 6 * GIB)],
)
def test_no_lecture_needs_more_than_its_cap(cap, host_bytes):
    assert demand_of(None, RunSettings(memory_cap_bytes=cap), CPU_MACHINE, 4).host_bytes == host_bytes


WHOLE = (DeviceNeed(),)


@pytest.mark.parametrize(
    ("known", "gpu", "devices"),
    [
        (None, None, WHOLE),
        (None, GpuNeed.REQUIRED, WHOLE),
        (None, GpuNeed.NARRATIVE, WHOLE),
        (None, GpuNeed.CPU, ()),
        (budget(peak_footprint=((GIB,), None)), None, WHOLE),
        (budget(gpu_live=((2 * GIB,), None)), None, (DeviceNeed(size_bytes=math.ceil(2.2 * GIB) + 512 * MIB),)),
        (budget(gpu_live=((), 2 * GIB)), None, (DeviceNeed(size_bytes=2 * GIB + 512 * MIB),)),
        (
            budget(gpu_live=((GIB,), None), gpu_used=((11 * GIB,), None)),
            GpuNeed.REQUIRED,
            (DeviceNeed(size_bytes=math.ceil(1.1 * GIB) + 512 * MIB),),
        ),
        (budget(gpu_used=((10 * GIB,), None)), None, (DeviceNeed(size_bytes=11 * GIB),)),
        (budget(gpu_used=((0.0,), None)), None, ()),
        (budget(gpu_used=((0.0,), None)), GpuNeed.REQUIRED, WHOLE),
        (budget(gpu_live=((2 * GIB,), None)), GpuNeed.CPU, ()),
    ],
)
def test_a_gpu_is_shared_only_if_the_need_is_known(known, gpu, devices):
    assert demand_of(known, RunSettings(gpu=gpu), GPU_MACHINE, 4).devices == devices
    assert demand_of(known, RunSettings(gpu=gpu), CPU_MACHINE, 4).devices == ()


def test_a_lecture_of_several_cards_takes_the_first_ones_whole():
    capacity = replace(GPU_MACHINE, devices={0: 16 * GIB, 1: 16 * GIB, 3: 16 * GIB})
    found = demand_of(None, RunSettings(gpus=2), capacity, 4).devices
    assert found == (DeviceNeed(index=0), DeviceNeed(index=1))
