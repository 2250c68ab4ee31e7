from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_lecturecheck.lease.admission import (
    PATIENCE,
    Admitted,
    Capacity,
    Demand,
    DeviceNeed,
    Holding,
    NeverFits,
    Scarce,
    Waiter,
    Waits,
    admit,
)
from pytest_lecturecheck.units import GIB, MIB

MACHINE = Capacity(host_bytes=10 * GIB, devices={0: 15 * GIB, 1: 15 * GIB}, core_count=8)


def need(gib=0, label="l.md", **more):
    return Demand(label=label, host_bytes=round(gib * GIB), **more)


def held(*demands):
    return [Holding(demand=demand) for demand in demands]


def gpu(index=None, gib=None):
    return DeviceNeed(index=index, size_bytes=None if gib is None else round(gib * GIB))


@pytest.mark.parametrize(
    ("demand", "holdings", "reason", "scarce"),
    [
        (need(3.1), [need(4), need(4)], "waits for 3.1 GiB, 2 running", Scarce.HOST),
        (need(1, core_count=1), [need(1, core_count=8)], "waits for 1 core, 1 running", Scarce.CORES),
        (need(1, core_count=3), [need(1, core_count=6)], "waits for 3 cores, 1 running", Scarce.CORES),
        (need(1, is_exclusive=True), [need(1)], "waits to run alone, 1 running", Scarce.EXCLUSIVITY),
        (
            need(1),
            [need(1, "big\x1b.md", is_exclusive=True)],
            "waits for 'big\\x1b.md', which runs alone",
            Scarce.EXCLUSIVITY,
        ),
        (
            need(1, devices=(gpu(0, 4.2),)),
            [need(1, devices=(gpu(0, 12),))],
            "waits for 4.2 GiB on GPU 0, 1 running",
            Scarce.DEVICES,
        ),
        (
            need(1, devices=(gpu(gib=4),)),
            [need(1, devices=(gpu(0),)), need(1, devices=(gpu(1, 12),))],
            "waits for 4 GiB on a GPU, 2 running",
            Scarce.DEVICES,
        ),
        (
            need(1, devices=(gpu(),)),
            [need(1, devices=(gpu(0, 1),)), need(1, devices=(gpu(1, 0),))],
            "waits for a GPU of its own, 2 running",
            Scarce.DEVICES,
        ),
        (
            need(1, devices=(gpu(0), gpu(1, 2))),
            [need(1, devices=(gpu(0, 1),))],
            "waits for GPU 0 of its own and 2 GiB on GPU 1, 1 running",
            Scarce.DEVICES,
        ),
    ],
)
def test_a_waiting_demand_says_what_it_lacks(demand, holdings, reason, scarce):
    assert admit(demand, MACHINE, held(*holdings)) == Waits(reason=reason, scarce=scarce, running_count=len(holdings))


@pytest.mark.parametrize(
    ("demand", "reason"),
    [
        (need(12), "needs 12 GiB, 2 GiB more than the 10 GiB of memory that all runs together may use"),
        (
            Demand(host_bytes=10 * GIB + 1),
            "needs 10.000000001 GiB, 1 B more than the 10 GiB of memory that all runs together may use",
        ),
        (need(1, core_count=9), "needs 9 cores, and all runs together may use 8 cores"),
        (need(1, devices=(gpu(2),)), "needs GPU 2; known: GPU 0 (15 GiB), GPU 1 (15 GiB)"),
        (need(1, devices=(gpu(1, 16),)), "needs 16 GiB, 1 GiB more than the 15 GiB of GPU 1"),
        (need(1, devices=(gpu(gib=16),)), "needs 16 GiB, 1 GiB more than the 15 GiB of the largest GPU"),
        (
            need(1, devices=(gpu(0, 1), gpu(1, 1), gpu(gib=1))),
            "needs 3 devices at once; known: GPU 0 (15 GiB), GPU 1 (15 GiB)",
        ),
    ],
)
def test_a_demand_that_never_fits_says_by_how_much(demand, reason):
    assert admit(demand, MACHINE, held(need(10, core_count=8))) == NeverFits(reason=reason)


def test_a_gpu_is_named_where_there_is_none():
    capacity = Capacity(host_bytes=GIB)
    assert admit(need(1, devices=(gpu(),)), capacity, []) == NeverFits(reason="needs a GPU; known: there is none")


def test_what_fits_to_the_last_byte_is_admitted():
    demand = need(6, core_count=7)
    assert admit(demand, MACHINE, held(need(4))) == Admitted(demand=demand)


@pytest.mark.parametrize(
    ("devices", "holdings", "placed"),
    [
        ((gpu(gib=4),), (), (gpu(0, 4),)),
        ((gpu(gib=4),), (gpu(0, 1),), (gpu(1, 4),)),
        ((gpu(gib=4),), (gpu(0, 1), gpu(1, 2)), (gpu(0, 4),)),
        ((gpu(),), (gpu(0, 1),), (gpu(1),)),
        ((gpu(gib=4), gpu(0, 4)), (), (gpu(0, 4), gpu(1, 4))),
        ((gpu(gib=15),), (gpu(0, 0),), (gpu(0, 15),)),
    ],
)
def test_any_device_is_the_one_with_most_room(devices, holdings, placed):
    decision = admit(need(1, devices=devices), MACHINE, held(need(1, devices=holdings)))
    assert isinstance(decision, Admitted)
    assert decision.demand.devices == placed


def test_a_whole_device_is_full_for_other_capacities():
    larger = Capacity(host_bytes=10 * GIB, devices={0: 80 * GIB}, core_count=8)
    decision = admit(need(1, devices=(gpu(0, 1),)), larger, held(need(1, devices=(gpu(0),))))
    assert isinstance(decision, Waits)


def test_a_smaller_demand_overtakes_a_waiter():
    large = Waiter(demand=need(8, "large.md"), passed_count=PATIENCE - 1)
    assert admit(need(1), MACHINE, held(need(4)), [large]) == Admitted(demand=need(1))


def test_nobody_delays_a_firm_waiter():
    large = Waiter(demand=need(8, "large.md"), passed_count=PATIENCE)
    assert admit(need(1), MACHINE, held(need(4)), [large]) == Waits(
        reason="waits behind 'large.md', 1 running", scarce=Scarce.TURN, running_count=1
    )


def test_a_demand_may_overtake_if_it_uses_nothing_scarce():
    waits_for_gpu = Waiter(demand=need(2, "gpu.md", devices=(gpu(0),)), passed_count=99)
    holdings = held(need(2, devices=(gpu(0, 1),)))
    assert admit(need(3), MACHINE, holdings, [waits_for_gpu]) == Admitted(demand=need(3))
    # It needs the device too, or so much memory that the waiter would have to wait for that as well.
    for demand in (need(1, devices=(gpu(0, 1),)), need(7)):
        assert isinstance(admit(demand, MACHINE, holdings, [waits_for_gpu]), Waits)


def test_the_first_fitting_waiter_goes_first():
    first = Waiter(demand=need(5, "first.md"))
    assert admit(need(2), MACHINE, held(need(4)), [first]) == Waits(
        reason="waits behind 'first.md', 1 running", scarce=Scarce.TURN, running_count=1
    )
    assert isinstance(admit(need(1), MACHINE, held(need(4)), [first]), Admitted)


@pytest.mark.parametrize("firm", [need(1, "alone.md", is_exclusive=True), need(20, "foreign.md")])
def test_a_firm_waiter_that_needs_all_is_waited_for(firm):
    ahead = [Waiter(demand=firm, passed_count=PATIENCE)]
    decision = admit(need(1), MACHINE, held(need(1)), ahead)
    assert isinstance(decision, Waits)
    assert decision.scarce is Scarce.TURN


@pytest.mark.parametrize(
    "make",
    [
        lambda: Demand(host_bytes=-1),
        lambda: Demand(core_count=-1),
        lambda: Demand(devices=(gpu(1, 2), gpu(1, 3))),
        lambda: Demand(devices=(gpu(), gpu())),
        lambda: DeviceNeed(index=-1),
        lambda: DeviceNeed(size_bytes=-1),
        lambda: Capacity(host_bytes=0),
        lambda: Capacity(host_bytes=1, core_count=0),
        lambda: Capacity(host_bytes=1, devices={0: -1}),
    ],
)
def test_invalid_demands_are_refused(make):
    with pytest.raises(ValueError, match="expected"):
        make()


SMALL = Capacity(host_bytes=10, devices={0: 6, 1: 4}, core_count=4)
SIZES = st.none() | st.integers(0, 7)
NEEDS = st.lists(
    st.builds(DeviceNeed, index=st.none() | st.integers(0, 2), size_bytes=SIZES),
    max_size=2,
    unique_by=lambda item: item.index,
).map(tuple)
DEMANDS = st.builds(
    Demand,
    host_bytes=st.integers(0, 11),
    devices=st.just(()) | NEEDS,
    core_count=st.integers(0, 5),
    is_exclusive=st.sampled_from([False, False, False, True]),
)
WAITERS = st.builds(Waiter, demand=DEMANDS, passed_count=st.integers(0, 2 * PATIENCE))


def fitting(demands, capacity=SMALL):
    """Admit one after the other what fits."""
    holdings = []
    for demand in demands:
        decision = admit(demand, capacity, holdings)
        if isinstance(decision, Admitted):
            holdings.append(Holding(demand=decision.demand))
    return holdings


def is_within(holdings, capacity):
    demands = [holding.demand for holding in holdings]
    if any(demand.is_exclusive for demand in demands) and len(demands) > 1:
        return False
    for index, size in capacity.devices.items():
        needs = [item.size_bytes for demand in demands for item in demand.devices if item.index == index]
        if (None in needs and len(needs) > 1) or sum(item or 0 for item in needs) > size:
            return False
    return (
        sum(demand.host_bytes for demand in demands) <= capacity.host_bytes
        and sum(demand.core_count for demand in demands) <= capacity.core_count
        and all(item.index in capacity.devices for demand in demands for item in demand.devices)
    )


@settings(deadline=None)
@given(st.lists(DEMANDS, max_size=8), st.lists(WAITERS, max_size=4))
def test_what_is_held_never_exceeds_the_capacity(demands, waiters):
    holdings = []
    for demand in demands:
        decision = admit(demand, SMALL, holdings, waiters)
        if isinstance(decision, Admitted):
            holdings.append(Holding(demand=decision.demand))
        assert is_within(holdings, SMALL)


@settings(deadline=None)
@given(DEMANDS)
def test_with_nothing_held_a_demand_fits_or_never_will(demand):
    assert not isinstance(admit(demand, SMALL, []), Waits)
    assert isinstance(admit(demand.alone(SMALL), SMALL, []), Admitted)


@settings(deadline=None)
@given(st.lists(WAITERS, min_size=1, max_size=5))
def test_with_nothing_held_some_waiter_is_admitted(waiters):
    possible = [item for item in waiters if not isinstance(admit(item.demand, SMALL, []), NeverFits)]
    decisions = [admit(item.demand, SMALL, [], possible[:place]) for place, item in enumerate(possible)]
    assert not possible or isinstance(decisions[0], Admitted)


@settings(deadline=None)
@given(st.lists(DEMANDS, max_size=5), DEMANDS, st.data())
def test_admission_is_monotonic(demands, demand, data):
    holdings = fitting(demands)
    decision = admit(demand, SMALL, holdings)
    fewer = [item for item in holdings if data.draw(st.booleans())]
    less = Demand(
        host_bytes=data.draw(st.integers(0, demand.host_bytes)),
        core_count=data.draw(st.integers(0, demand.core_count)),
        devices=demand.devices[: data.draw(st.integers(0, len(demand.devices)))],
        is_exclusive=demand.is_exclusive,
    )
    if isinstance(decision, Admitted):
        assert isinstance(admit(demand, SMALL, fewer), Admitted)
        assert isinstance(admit(less, SMALL, holdings), Admitted)


@settings(deadline=None)
@given(st.lists(DEMANDS, max_size=4), DEMANDS, DEMANDS)
def test_no_later_waiter_delays_a_firm_one(demands, first, later):
    holdings = fitting(demands)
    decision = admit(later, SMALL, holdings, [Waiter(demand=first, passed_count=PATIENCE)])
    if not isinstance(decision, Admitted) or isinstance(admit(first, SMALL, holdings), NeverFits):
        return
    added = Holding(demand=decision.demand)
    for count in range(len(holdings) + 1):
        for left in combinations(holdings, count):
            if isinstance(admit(first, SMALL, left), Admitted):
                assert isinstance(admit(first, SMALL, [*left, added]), Admitted)


@settings(deadline=None)
@given(DEMANDS, st.lists(DEMANDS, min_size=1, max_size=30), st.integers(1, 4))
def test_a_large_demand_is_admitted_under_any_stream(large, stream, lasting):
    large = large.alone(SMALL)
    holdings = fitting([Demand(host_bytes=1)])
    admitted_since = 0
    for demand in stream * 3:
        waiter = Waiter(demand=large, passed_count=admitted_since)
        if isinstance(admit(large, SMALL, holdings), Admitted):
            return
        decision = admit(demand, SMALL, holdings, [waiter])
        if isinstance(decision, Admitted):
            admitted_since += 1
            holdings.append(Holding(demand=decision.demand))
        assert admitted_since <= PATIENCE
        if len(holdings) > lasting or not isinstance(decision, Admitted):
            holdings.pop(0)


def test_sizes_of_a_machine_are_not_lost():
    huge = Capacity(host_bytes=2**60, core_count=1)
    assert isinstance(
        admit(Demand(host_bytes=2**60 - 512 * MIB), huge, held(Demand(host_bytes=1, core_count=0))), Admitted
    )
