from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_lecturecheck.lease.admission import Capacity, Demand, DeviceNeed
from pytest_lecturecheck.lease.ordering import order
from pytest_lecturecheck.units import GIB

MACHINE = Capacity(host_bytes=10 * GIB, devices={0: 15 * GIB}, core_count=8)


def need(gib, **more):
    return Demand(host_bytes=round(gib * GIB), **more)


GPU = (DeviceNeed(),)


@pytest.mark.parametrize(
    ("demands", "worker_count", "seconds", "expected"),
    [
        ([], 2, (), ()),
        ([need(1), need(3), need(2), need(3)], 1, (), (1, 3, 2, 0)),
        # What runs alone comes first, and what can never fit runs alone.
        ([need(5), need(1, is_exclusive=True), need(20)], 2, (), (1, 2, 0)),
        # The second worker gets the largest that fits beside the first, not the next largest.
        ([need(8), need(7), need(2), need(1)], 2, (), (0, 2, 1, 3)),
        ([need(1, devices=GPU), need(1, devices=GPU), need(1)], 2, (), (0, 2, 1)),
        ([need(1), need(1, core_count=8), need(1)], 2, (), (1, 0, 2)),
        # Long ones count as larger; an unknown time is the usual one.
        ([need(4), need(3), need(2)], 1, (1.0, 10.0, None), (1, 2, 0)),
        # While the long one runs, two short ones fit beside it one after the other.
        ([need(6), need(5), need(4), need(4)], 2, (9.0, 9.0, 2.0, 2.0), (0, 2, 3, 1)),
    ],
)
def test_the_largest_that_fits_comes_next(demands, worker_count, seconds, expected):
    assert order(demands, MACHINE, worker_count, seconds) == expected


@settings(deadline=None)
@given(
    st.lists(
        st.builds(
            Demand,
            host_bytes=st.integers(0, 11),
            devices=st.sampled_from([(), GPU, (DeviceNeed(size_bytes=2),), (DeviceNeed(index=4),)]),
            core_count=st.integers(0, 5),
            is_exclusive=st.booleans(),
        ),
        max_size=12,
    ),
    st.integers(0, 5),
    st.lists(st.none() | st.floats(0, 1e6), max_size=12),
)
def test_an_order_names_everyone_once(demands, worker_count, seconds):
    capacity = Capacity(host_bytes=10, devices={0: 6}, core_count=4)
    found = order(demands, capacity, worker_count, seconds[: len(demands)])
    assert sorted(found) == list(range(len(demands)))
