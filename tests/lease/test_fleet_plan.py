"""Plans over fleets: never over capacity, close to the bound, and every lecture once."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_lecturecheck.budget.limits import LectureBudget, MetricBudget
from pytest_lecturecheck.lease.admission import Capacity
from pytest_lecturecheck.lease.broker import shard_of
from pytest_lecturecheck.lease.fleet_plan import (
    PlannedJob,
    PlannedMachine,
    lower_bound,
    plan_fleet,
    split_by_cost,
)
from pytest_lecturecheck.model.metric import Metric

GB = 10**9


def machine(host=32, cores=8, cards=(), name="m"):
    devices = {index: size * GB for index, size in enumerate(cards)}
    return PlannedMachine(name=name, capacity=Capacity(host_bytes=host * GB, devices=devices, core_count=cores))


def generated(seed, count, gpu=0.0):
    """Lectures as repositories have them: most are short and small, some are long or large."""
    draw = random.Random(seed)
    jobs = []
    for number in range(count):
        seconds = min(1800.0, draw.lognormvariate(3.0, 1.0))
        memory = min(24.0, draw.lognormvariate(-0.5, 0.9))
        card = draw.choice((2, 4, None)) if draw.random() < gpu else 0
        jobs.append(
            PlannedJob(
                name=f"{number:05}",
                seconds=seconds,
                host_bytes=int(memory * GB),
                core_count=draw.choice((1, 1, 1, 2, 4)),
                gpu_bytes=card if card is None else card * GB,
            )
        )
    return jobs


def check(plan, machines):
    """Raise unless every moment of the plan is within the capacity of each machine."""
    for number, item in enumerate(machines):
        starts = [start for start in plan.starts if start.machine == number]
        for moment in {start.seconds for start in starts}:
            running = [start.job for start in starts if start.seconds <= moment < start.ends_seconds]
            assert sum(job.host_bytes for job in running) <= item.capacity.host_bytes
            assert sum(job.core_count for job in running) <= item.capacity.core_count
            for card, size in item.capacity.devices.items():
                on_card = [s.job for s in starts if s.card == card and s.seconds <= moment < s.ends_seconds]
                assert sum(size if job.gpu_bytes is None else job.gpu_bytes for job in on_card) <= size


@pytest.mark.parametrize("seed", range(12))
def test_generated_fleets_are_planned_close_to_the_bound(seed):
    draw = random.Random(seed)
    machines = [machine(draw.choice((32, 64)), draw.choice((8, 16)), name=str(n)) for n in range(draw.randint(1, 6))]
    jobs = generated(seed, 60 * len(machines) + draw.randint(0, 200))
    plan = plan_fleet(jobs, machines)
    check(plan, machines)
    assert not plan.left_out
    assert plan.lower_bound_seconds <= plan.makespan_seconds <= 1.15 * plan.lower_bound_seconds


@pytest.mark.parametrize("seed", range(6))
def test_fleets_with_cards_are_planned_close_to_the_bound(seed):
    machines = [machine(64, 16, cards=(16,), name="one"), machine(128, 32, cards=(16, 16), name="two"), machine(64, 16)]
    jobs = generated(seed, 300, gpu=0.3)
    plan = plan_fleet(jobs, machines)
    check(plan, machines)
    assert plan.makespan_seconds <= 1.15 * plan.lower_bound_seconds


def test_ten_thousand_lectures_on_a_hundred_machines():
    machines = [machine(name=str(number)) for number in range(100)]
    jobs = generated(7, 10_000)
    plan = plan_fleet(jobs, machines)
    assert sorted(start.job.name for start in plan.starts) == [job.name for job in jobs]
    assert plan.makespan_seconds <= 1.15 * plan.lower_bound_seconds


JOBS = st.lists(
    st.builds(
        PlannedJob,
        name=st.integers(0, 10**6).map(str),
        seconds=st.floats(0.1, 1000),
        host_bytes=st.integers(0, 40 * GB),
        core_count=st.integers(1, 10),
        gpu_bytes=st.one_of(st.none(), st.integers(0, 20 * GB)),
    ),
    max_size=25,
)
MACHINES = st.lists(
    st.builds(machine, st.integers(1, 40), st.integers(1, 10), st.lists(st.integers(1, 20), max_size=2)),
    min_size=1,
    max_size=3,
)


@given(JOBS, MACHINES)
def test_no_plan_exceeds_a_machine_or_is_worse_than_one_after_another(jobs, machines):
    plan = plan_fleet(jobs, machines)
    check(plan, machines)
    assert len(plan.starts) + len(plan.left_out) == len(jobs)
    assert plan.makespan_seconds <= sum(start.job.seconds for start in plan.starts) * (1 + 1e-9)
    assert plan.lower_bound_seconds <= plan.makespan_seconds * (1 + 1e-9)


def test_large_lectures_exclude_each_other_in_the_bound():
    jobs = [PlannedJob(name=str(n), seconds=10, host_bytes=17 * GB) for n in range(4)]
    assert lower_bound(jobs, [machine().capacity]) == pytest.approx(40)


def test_a_lecture_that_no_machine_holds_is_left_out():
    large = PlannedJob(name="large", seconds=1, host_bytes=33 * GB)
    on_card = PlannedJob(name="card", seconds=1, gpu_bytes=None)
    plan = plan_fleet([large, on_card], [machine()])
    assert (plan.starts, plan.left_out) == ((), (large, on_card))


def test_workers_are_the_most_lectures_at_once():
    jobs = [PlannedJob(name=str(n), seconds=5, host_bytes=10 * GB) for n in range(4)]
    assert plan_fleet(jobs, [machine()]).most_at_once(0) == 3


@given(
    st.dictionaries(st.text(min_size=1, max_size=5), st.tuples(st.floats(0.1, 1e4), st.floats(0, 1e10)), max_size=60),
    st.integers(1, 9),
)
def test_shards_hold_each_lecture_once_and_differ_by_one_lecture(costs, count):
    parts = split_by_cost(costs, count)
    assert sorted(name for part in parts for name in part) == sorted(costs)
    loads = [sum(costs[name][0] for name in part) for part in parts]
    longest = max((seconds for seconds, _ in costs.values()), default=0.0)
    assert max(loads) - min(loads) <= longest * (1 + 1e-9)
    assert parts == split_by_cost(dict(reversed(costs.items())), count)


def budget(seconds):
    return LectureBudget(lecture="x", metrics={Metric.WALL: MetricBudget(metric=Metric.WALL, seen=(seconds,))})


def test_lectures_without_a_budget_count_as_a_usual_one():
    budgets = {("a.md", ""): budget(9), ("b.md", ""): None, ("c.md", ""): budget(1), ("c.md", "size=2"): budget(4)}
    parts = [shard_of(budgets, part, 2) for part in (1, 2)]
    # a takes 9 s, c takes 5 s with both of its variants, and b as long as the median of 9, 1 and 4.
    assert parts == [frozenset({"a.md"}), frozenset({"b.md", "c.md"})]
