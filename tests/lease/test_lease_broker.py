"""Leases of one process: what a lecture asks for, what it is given, and what is said where it can never have it."""

from __future__ import annotations

import pytest

from pytest_lecturecheck.budget.limits import LectureBudget, MetricBudget
from pytest_lecturecheck.lease.admission import Capacity, Demand, DeviceNeed
from pytest_lecturecheck.lease.broker import (
    LeaseBroker,
    is_covered,
    machine_capacity,
    plan_order,
    read_capacity,
    recorded_cores,
)
from pytest_lecturecheck.model.device import Device
from pytest_lecturecheck.model.metric import Method, Metric
from pytest_lecturecheck.model.platform import Machine
from pytest_lecturecheck.model.settings import RunSettings
from pytest_lecturecheck.units import GIB, MIB

MACHINE = Machine(system="Linux 6.8", architecture="x86_64", cpu="EPYC", core_count=4, ram_bytes=16 * GIB)
CAPACITY = Capacity(host_bytes=8 * GIB, core_count=4)


def budget(lecture, mib, *, wall=10.0, cpu=10.0):
    seen = {Metric.PEAK_FOOTPRINT: mib * MIB, Metric.WALL: wall, Metric.CPU: cpu}
    metrics = {name: MetricBudget(metric=name, seen=(value,), method=Method.EXACT) for name, value in seen.items()}
    return LectureBudget(lecture=lecture, metrics=metrics)


def files(capacity=CAPACITY, **changes):
    settings = {"worker_count": 2, "is_on": True, "is_strict": False, "takes_all": False, **changes}
    return LeaseBroker(capacity, **settings)


def hold(found: LeaseBroker, demand: Demand):
    return found.hold(demand, lambda _reason, _seconds: None)


def test_a_reserve_of_the_machine_is_left_alone():
    assert machine_capacity(MACHINE, ()).host_bytes == 16 * GIB - round(16 * GIB * 0.05)
    assert machine_capacity(MACHINE, (), 3 * GIB).host_bytes == 3 * GIB
    cards = (Device(index=0, name="T4", total_bytes=15 * GIB), Device(index=1, name="?"))
    assert machine_capacity(MACHINE, cards).devices == {0: 15 * GIB}


def test_a_capacity_survives_json():
    capacity = Capacity(host_bytes=GIB, devices={0: 15, 1: 16}, core_count=3)
    assert read_capacity({"host_bytes": GIB, "devices": {"0": 15, "1": 16}, "core_count": 3}) == capacity


@pytest.mark.parametrize(
    ("wall", "cpu", "cores"), [(10.0, 2.0, 1), (10.0, 14.9, 1), (10.0, 15.0, 2), (10.0, 39.0, 4), (0.0, 5.0, 1)]
)
def test_cores_are_those_that_were_busy_when_recorded(wall, cpu, cores):
    assert recorded_cores(budget("a.md", 100, wall=wall, cpu=cpu)) == cores


def test_a_lecture_needs_at_most_all_cores():
    demand = files().demand("a.md", RunSettings(), budget("a.md", 1000, wall=1.0, cpu=60.0))
    assert (demand.host_bytes, demand.core_count) == (1100 * MIB, 4)


def test_exclusive_and_recorded_lectures_run_alone():
    assert files().demand("a.md", RunSettings(exclusive=True), None).is_exclusive
    assert files(takes_all=True).demand("a.md", RunSettings(), None).is_exclusive
    assert not files().demand("a.md", RunSettings(), None).is_exclusive


def test_concurrent_lectures_know_each_other():
    first, second = files(), files()
    with hold(first, Demand(label="a.md", host_bytes=GIB)) as one:
        assert one.concurrent_lectures == ()
        with hold(second, Demand(label="b.md", host_bytes=GIB)) as two:
            assert (one.concurrent_lectures, two.concurrent_lectures) == (("b.md",), ("a.md",))
        assert one.concurrent_lectures == ("b.md",)
        assert len(one.descriptors) == 1
    with hold(first, Demand(label="c.md", host_bytes=GIB)) as three:
        assert three.concurrent_lectures == ()


def test_the_reason_for_waiting_is_repeated_with_the_elapsed_time():
    reported = []

    def tell(reason, seconds):
        reported.append((reason, seconds))
        if len(reported) == 3:
            raise KeyboardInterrupt

    alone = Demand(label="b.md", is_exclusive=True)
    with hold(files(), Demand(label="a.md")), pytest.raises(KeyboardInterrupt), files().hold(alone, tell):
        pass
    assert {reason for reason, _ in reported} == {"waits to run alone, 1 running"}
    assert [seconds for _, seconds in reported] == sorted({seconds for _, seconds in reported})


def test_under_a_scheduler_only_exclusive_lectures_wait():
    queue = {"has_queue": True}
    first, second = files(**queue), files(**queue)
    large, exclusive = RunSettings(), RunSettings(exclusive=True)
    assert not first.gives_room
    one = first.demand("a.md", large, budget("a.md", 6000))
    two = second.demand("b.md", large, budget("b.md", 6000))
    with hold(first, one) as held, hold(second, two) as other:
        assert (held.concurrent_lectures, other.concurrent_lectures) == ((), ())
        with pytest.raises(KeyboardInterrupt), files(**queue).hold(first.demand("c.md", exclusive, None), stop):
            pass


def stop(_reason, _seconds):
    raise KeyboardInterrupt


def test_what_never_fits_runs_alone_with_a_warning():
    with hold(files(), Demand(label="a.md", host_bytes=9 * GIB)) as held:
        assert held.lease.demand.is_exclusive
    assert held.refusal == ""
    assert held.warning == (
        "it runs alone: needs 9 GiB, 1 GiB more than the 8 GiB of memory that all runs together may use"
    )


def test_what_never_fits_is_refused_where_strict():
    with hold(files(is_strict=True), Demand(label="a.md", host_bytes=9 * GIB)) as held:
        assert held.lease is None
    assert held.refusal == "needs 9 GiB, 1 GiB more than the 8 GiB of memory that all runs together may use"


def test_without_leases_nothing_is_taken():
    with hold(files(is_on=False), Demand(label="a.md", host_bytes=9 * GIB)) as held:
        assert (held.lease, held.descriptors, held.concurrent_lectures, held.refusal, held.warning) == (
            None,
            (),
            (),
            "",
            "",
        )


def test_an_unusable_ledger_is_only_a_warning(monkeypatch, tmp_path):
    (tmp_path / "lecturecheck-leases").write_text("in the way")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    found = files()
    with hold(found, Demand(label="a.md", host_bytes=GIB)) as held:
        assert held.lease is None
    assert held.warning.startswith("concurrent lectures do not wait for each other: ")
    assert not found.is_on


def test_a_lost_ledger_ends_no_lecture(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    folder = tmp_path / "lecturecheck-leases"
    with (
        hold(files(), Demand(label="a.md", host_bytes=GIB)) as one,
        hold(files(), Demand(label="b.md", host_bytes=GIB)) as two,
    ):
        folder.rename(tmp_path / "gone")
        folder.write_text("in the way")
        assert (one.concurrent_lectures, two.concurrent_lectures) == ((), ("a.md",))


def test_a_process_of_a_lecture_is_covered_by_its_lease():
    assert is_covered({"LECTURECHECK_RUN": "1f"})
    assert not is_covered({"LECTURECHECK_RUN": ""})
    assert not is_covered({})


def test_a_lecture_sees_only_the_cards_of_its_lease():
    cards = tuple(Device(index=index, name="T4", uuid=f"GPU-{index}", total_bytes=15 * GIB) for index in (0, 1))
    both = files(machine_capacity(MACHINE, cards))
    need = Demand(label="a.md", devices=(DeviceNeed(),))
    with hold(both, need) as one, hold(both, need) as two:
        given = [held.device_variables(cards) for held in (one, two)]
    assert given == [{"CUDA_VISIBLE_DEVICES": "GPU-0"}, {"CUDA_VISIBLE_DEVICES": "GPU-1"}]
    with hold(files(machine_capacity(MACHINE, cards[:1])), need) as only:
        assert only.device_variables(cards[:1]) == {}


def test_the_order_is_the_same_in_every_process():
    budgets = [budget("small.md", 100), None, budget("large.md", 6000, wall=60.0)]
    orders = {plan_order(budgets, CAPACITY, 2) for _ in range(3)}
    assert len(orders) == 1
    assert orders.pop()[0] == 2
