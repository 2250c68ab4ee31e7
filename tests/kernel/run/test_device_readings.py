"""Readings from the usage of allocators never claim more than is known."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_lecturecheck.kernel.run.device_readings import (
    cell_readings,
    compile_reading,
    is_preallocated,
    lecture_readings,
    shared_devices,
)
from pytest_lecturecheck.model.device import AllocatorUsage, CompileTimes
from pytest_lecturecheck.model.metric import Measurement, Method, Metric, Unavailable

MIB = 1024**2
GIB = 1024**3


def figures(live, peak=None, library="JAX", device="cuda:0", **more):
    return AllocatorUsage(library=library, device=device, live_bytes=live, peak_live_bytes=peak, **more)


def live(value, method, high=None, source="JAX on cuda:0"):
    return Measurement(metric=Metric.GPU_LIVE, value=value, method=method, high=high, source=source)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        # The library spoke for the first time: all of its life lies in this cell.
        ([], [figures(10, 50)], live(50, Method.AGENT)),
        # The peak rose, so that it is the cell's.
        ([figures(10, 50)], [figures(20, 70)], live(70, Method.AGENT)),
        # It did not: somewhere between what was live at the ends and the peak of before.
        ([figures(30, 50)], [figures(20, 50)], live(30, Method.BRACKET, 50)),
        # What is live at the end is the peak itself.
        ([figures(10, 50)], [figures(50, 50)], live(50, Method.AGENT)),
        # The lecture has set the peak back.
        ([figures(10, 50)], [figures(20, 40)], live(40, Method.SAMPLED)),
        # CuPy keeps no peak.
        (
            [figures(30, None, "CuPy")],
            [figures(20, None, "CuPy")],
            live(30, Method.SAMPLED, source="CuPy on cuda:0"),
        ),
        # The highest device wins, and a wider bracket of another one is not forgotten.
        (
            [figures(30, 90), figures(5, 50, device="cuda:1")],
            [figures(30, 90), figures(5, 60, device="cuda:1")],
            live(60, Method.BRACKET, 90, "JAX on cuda:1"),
        ),
        # Libraries are not added.
        (
            [],
            [figures(10, 50), figures(10, 60, "PyTorch")],
            live(60, Method.AGENT, source="PyTorch on cuda:0"),
        ),
    ],
)
def test_the_live_memory_of_a_cell(before, after, expected):
    assert cell_readings(before, after)[Metric.GPU_LIVE] == expected


def test_no_usage_gives_no_readings():
    assert cell_readings([], []) == {}
    assert lecture_readings([(), ()], is_complete=True) == {}


def test_the_pool_of_a_cell():
    before = [figures(1, 1, pool_bytes=64, peak_pool_bytes=64)]
    after = [figures(1, 1, pool_bytes=32, peak_pool_bytes=128)]
    reading = cell_readings(before, after)[Metric.GPU_POOL]
    assert (reading.value, reading.method, reading.source) == (128, Method.AGENT, "JAX on cuda:0")
    silent = cell_readings([], [figures(1, 1)])[Metric.GPU_POOL]
    assert silent == Unavailable(metric=Metric.GPU_POOL, reason="the allocator does not report the size of its pool")


@pytest.mark.parametrize(
    ("history", "is_complete", "expected"),
    [
        ([[figures(1, 50)], [figures(1, 70)], [figures(1, 70)]], True, live(70, Method.AGENT)),
        ([[figures(1, 50)], [], [figures(1, 70)]], True, live(70, Method.AGENT)),
        ([[figures(1, 50)], [figures(1, 70)]], False, live(70, Method.SAMPLED)),
        ([[figures(1, 70)], [figures(1, 50)]], True, live(70, Method.SAMPLED)),
        (
            [[figures(9, None, "CuPy")], [figures(3, None, "CuPy")]],
            True,
            live(9, Method.SAMPLED, None, "CuPy on cuda:0"),
        ),
        (
            [[figures(1, 50)], [figures(1, 50), figures(1, 60, device="cuda:1")]],
            True,
            live(60, Method.AGENT, source="JAX on cuda:1"),
        ),
    ],
)
def test_the_live_memory_of_a_lecture(history, is_complete, expected):
    assert lecture_readings(history, is_complete=is_complete)[Metric.GPU_LIVE] == expected


@dataclass
class Allocator:
    """An allocator that is known inside out; a step of ``None`` sets its peak back."""

    has_peak: bool
    live: int = 0
    peak: int = 0

    def cell(self, steps):
        truth = self.live
        for step in steps:
            if step is None:
                self.peak = self.live
                continue
            self.live = step
            self.peak = max(self.peak, step)
            truth = max(truth, step)
        return truth


LEVELS = st.lists(st.integers(0, 100), max_size=5)
LECTURES = st.lists(st.tuples(LEVELS, LEVELS, LEVELS), min_size=1, max_size=6)


def within(truth, reading):
    assert reading.value <= truth
    if reading.upper_bound is not None:
        assert truth <= reading.upper_bound
    if reading.method is Method.AGENT:
        assert truth == reading.value


@given(LECTURES)
def test_what_is_claimed_holds_for_every_allocator(cells):
    allocators = [Allocator(has_peak=True), Allocator(has_peak=True), Allocator(has_peak=False)]
    names = [("JAX", "cuda:0"), ("JAX", "cuda:1"), ("CuPy", "cuda:0")]
    history, highest = [], 0
    for steps in cells:
        truth = max(allocator.cell(some) for allocator, some in zip(allocators, steps, strict=True))
        highest = max(highest, truth)
        said = tuple(
            figures(allocator.live, allocator.peak if allocator.has_peak else None, *name)
            for allocator, name in zip(allocators, names, strict=True)
        )
        within(truth, cell_readings(history[-1] if history else (), said)[Metric.GPU_LIVE])
        only_jax = cell_readings(history[-1][:2] if history else (), said[:2])[Metric.GPU_LIVE]
        assert only_jax.upper_bound is not None
        history.append(said)
        within(highest, lecture_readings(history, is_complete=True)[Metric.GPU_LIVE])


@given(st.lists(LEVELS, min_size=1, max_size=6))
def test_jax_alone_is_bounded_on_both_sides(cells):
    allocator, before, highest, history = Allocator(has_peak=True), (), 0, []
    for steps in cells:
        truth = allocator.cell(steps)
        highest = max(highest, truth)
        after = (figures(allocator.live, allocator.peak),)
        reading = cell_readings(before, after)[Metric.GPU_LIVE]
        within(truth, reading)
        assert reading.upper_bound is not None
        before = after
        history.append(after)
    assert lecture_readings(history, is_complete=True)[Metric.GPU_LIVE] == live(highest, Method.AGENT)


@given(st.lists(st.lists(st.none() | st.integers(0, 100), max_size=5), min_size=1, max_size=6))
def test_a_peak_that_is_set_back_never_claims_too_much(cells):
    allocator, before, highest, history = Allocator(has_peak=True), (), 0, []
    for steps in cells:
        highest = max(highest, allocator.cell(steps))
        after = (figures(allocator.live, allocator.peak, "PyTorch"),)
        assert cell_readings(before, after)[Metric.GPU_LIVE].value <= highest
        before = after
        history.append(after)
    assert lecture_readings(history, is_complete=True)[Metric.GPU_LIVE].value <= highest


def test_two_allocators_on_one_device():
    words = [figures(1), figures(1, library="CuPy"), figures(1, device="cuda:1"), figures(0, library="PyTorch")]
    assert list(shared_devices(words)) == [("cuda:0", ("CuPy", "JAX"))]
    assert list(shared_devices([figures(1), figures(1, device="cuda:1")])) == []


def jax(**more):
    return replace(figures(100 * MIB, 200 * MIB, pool_bytes=11_305 * MIB, limit_bytes=11_305 * MIB), **more)


@pytest.mark.parametrize(
    ("first", "last", "used_bytes", "expected"),
    [
        (jax(), jax(), 11_700 * MIB, True),
        # The pool grew to its limit because the lecture needed it.
        (jax(pool_bytes=200 * MIB), jax(), 11_700 * MIB, False),
        (jax(), jax(peak_live_bytes=11_000 * MIB), 11_700 * MIB, False),
        # Another device's figure.
        (jax(), jax(), 3 * GIB, False),
        (jax(), jax(), 30 * GIB, False),
        # No figure of the pool: the size on the device shows it.
        (jax(pool_bytes=None), jax(pool_bytes=None), 11_700 * MIB, True),
        (jax(pool_bytes=None), jax(pool_bytes=None), 700 * MIB, False),
        (jax(limit_bytes=None), jax(limit_bytes=None), 11_700 * MIB, False),
        (jax(library="PyTorch"), jax(library="PyTorch"), 11_700 * MIB, False),
    ],
)
def test_preallocation(first, last, used_bytes, expected):
    assert is_preallocated([first], [last], used_bytes) is expected


def test_nothing_said_is_nothing_reserved():
    assert not is_preallocated([], [], GIB)


def test_compile_time():
    assert compile_reading(CompileTimes(seconds=1.5)) == Measurement(
        metric=Metric.COMPILE, value=1.5, method=Method.AGENT, source="jax.monitoring"
    )
