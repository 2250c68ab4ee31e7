"""Figures from traces made by hand, and what holds for any trace."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.made_traces import HOST_NAMES, LAUNCH_BOUND_GPU, copy, gpu_names, host_call, kernel, process, thread, thunk

from pytest_lecturecheck.errors import TraceFileError
from pytest_lecturecheck.model.profile import Bound, DeviceProfile, ProfiledOp
from pytest_lecturecheck.trace.events import Op
from pytest_lecturecheck.trace.profile_summary import cover, judge_bound, nest, summarise

MICRO = 1e-6


def one(events, **more) -> DeviceProfile:
    (device,) = summarise(events, **more).devices
    return device


def approx(microseconds):
    return pytest.approx(microseconds * MICRO)


def test_many_short_kernels_on_a_gpu():
    device = one(LAUNCH_BOUND_GPU)
    assert device == DeviceProfile(
        device="GPU 0",
        kernel_seconds=0.004004,
        gap_seconds=0.012,
        launch_count=1000,
        op_count=1001,
        copy_count=1,
        median_op_seconds=4e-06,
        stream_count=1,
        bound=Bound.LAUNCH,
        top_ops=(
            ProfiledOp(name="loop_add_fusion", seconds=0.004, count=1000),
            ProfiledOp(name="MemcpyD2H", seconds=4e-06, count=1),
        ),
    )
    assert round(device.launches_per_second) == 62_484
    assert round(device.busy_fraction, 3) == 0.25


def test_streams_that_overlap_count_once():
    events = [*gpu_names(), kernel(0, 100, "gemm"), copy(50, 100, "MemcpyH2D", tid=13), kernel(200, 50, "gemm")]
    device = one(events)
    assert (device.kernel_seconds, device.gap_seconds) == (approx(200), approx(50))
    assert (device.launch_count, device.op_count, device.copy_count, device.stream_count) == (2, 3, 1, 2)
    assert [(op.name, op.count) for op in device.top_ops] == [("gemm", 2), ("MemcpyH2D", 1)]


def test_two_devices_are_told_apart():
    events = [*gpu_names(1, 0), *gpu_names(2, 1), kernel(0, 90), kernel(0, 10, pid=2), kernel(90, 10, pid=2)]
    first, second = summarise(events).devices
    assert (first.device, first.bound, first.busy_fraction) == ("GPU 0", Bound.COMPUTE, 1.0)
    assert (second.device, second.bound, second.busy_fraction) == ("GPU 1", Bound.LAUNCH, pytest.approx(0.2))


def test_kernels_of_one_graph_are_one_launch():
    graph = {"cuda_graph_id": "3", "correlation_id": "77"}
    events = [*gpu_names(), *(kernel(10 * number, 9, **graph) for number in range(20)), kernel(300, 9)]
    assert (one(events).op_count, one(events).launch_count) == (21, 2)


def test_tpu_operations_have_a_thread_of_their_own():
    events = [process(3, "/device:TPU:2"), thread(3, 1, "XLA Ops"), thread(3, 2, "Steps")]
    events += [kernel(0, 5, "fusion", pid=3, tid=1), kernel(0, 50, "0", pid=3, tid=2)]
    assert (one(events).device, one(events).op_count) == ("TPU 2", 1)


def test_a_cpu_tells_executions_and_operations():
    events = [*HOST_NAMES, host_call(0, 500)]
    events += [thunk(10, 20, "a", run_id="1"), thunk(30, 10, "b", run_id="1"), thunk(100, 20, "a", tid=21, run_id="2")]
    device = one(events)
    assert (device.device, device.launch_count, device.op_count, device.stream_count) == ("CPU", 2, 3, 2)
    assert (device.kernel_seconds, device.gap_seconds) == (approx(50), approx(60))


def test_a_loop_on_a_cpu_is_what_its_body_does():
    events = [*HOST_NAMES, thunk(0, 100, "while.1"), *(thunk(10 * number, 2, "body") for number in range(10))]
    device = one(events)
    assert (device.op_count, device.launch_count) == (10, 1)
    assert (device.kernel_seconds, device.span_seconds) == (approx(20), approx(92))
    assert [(op.name, op.seconds, op.count) for op in device.top_ops] == [
        ("while.1", approx(80), 1),
        ("body", approx(20), 10),
    ]


def test_simulated_cpu_devices_are_told_apart():
    events = [*HOST_NAMES, thunk(0, 1), thunk(0, 1, ordinal="1", tid=21)]
    assert [device.device for device in summarise(events).devices] == ["CPU 0", "CPU 1"]


@pytest.mark.parametrize(
    "events",
    [[], HOST_NAMES, gpu_names(), [*HOST_NAMES, host_call(0, 9)], [{}], [{"ph": "X"}], [{"ph": "M", "args": 3}]],
)
def test_a_trace_of_nothing(events):
    assert summarise(events, cell_seconds=2.0).devices == ()


def test_metadata_may_come_last():
    events = [kernel(0, 10), *gpu_names(), thunk(0, 5), *HOST_NAMES]
    assert [device.device for device in summarise(events).devices] == ["GPU 0"]


def test_top_ops_are_five_and_names_have_an_end():
    events = [*gpu_names(), *(kernel(100 * number, number + 1, f"op{number}") for number in range(9))]
    events.append(kernel(2000, 50, "x" * 5000))
    names = [op.name for op in one(events).top_ops]
    assert names == ["x" * 200, "op8", "op7", "op6", "op5"]


@pytest.mark.parametrize("field", ["ts", "dur"])
@pytest.mark.parametrize("value", ["soon", None, True, math.nan, math.inf, [1]])
def test_a_time_that_is_none(field, value):
    with pytest.raises(TraceFileError) as caught:
        summarise([*gpu_names(), {**kernel(0, 1), field: value}])
    assert str(caught.value) == f"an event has {field} {str(value)!r}; expected microseconds"


def test_a_writer_that_keeps_a_million_events():
    def events():
        yield from gpu_names()
        yield kernel(0, 10)
        for _ in range(999_999):
            yield call

    call = host_call(0, 1)
    figures = summarise([*HOST_NAMES, *events()], cell_seconds=60.0)
    assert figures.is_cut
    # Nothing is said of the part that is not there.
    assert figures.devices[0].bound is Bound.COMPUTE


@pytest.mark.parametrize(
    ("busy", "gap", "launches", "median_op", "cell", "bound"),
    [
        (0.1, 0.9, 20_000, 5e-6, None, Bound.LAUNCH),
        (0.1, 0.9, 20_000, 5e-6, 1.1, Bound.LAUNCH),
        (0.1, 0.9, 1_000, 19.9e-6, None, Bound.LAUNCH),
        (0.1, 0.9, 999, 19.9e-6, None, Bound.HOST),
        (0.1, 0.9, 20_000, 20e-6, None, Bound.HOST),
        (0.5, 0.5, 20_000, 5e-6, None, Bound.MIXED),
        (0.8, 0.2, 20_000, 5e-6, None, Bound.MIXED),
        (0.81, 0.19, 20_000, 5e-6, None, Bound.COMPUTE),
        (1.0, 0.0, 1, 1.0, None, Bound.COMPUTE),
        (0.0, 0.0, 1, 0.0, None, Bound.COMPUTE),
        (1.0, 0.0, 1, 1.0, 2.0, Bound.COMPUTE),
        (1.0, 0.0, 1, 1.0, 2.1, Bound.HOST),
        (0.1, 0.9, 20_000, 5e-6, 2.1, Bound.HOST),
    ],
)
def test_what_a_cell_is_bound_by(busy, gap, launches, median_op, cell, bound):
    found = judge_bound(
        busy_seconds=busy, gap_seconds=gap, launch_count=launches, median_op_seconds=median_op, cell_seconds=cell
    )
    assert found is bound


SPANS = st.lists(
    st.tuples(st.integers(0, 10**6), st.integers(0, 10**4), st.sampled_from("abc"), st.sampled_from([7, 13])),
    min_size=1,
    max_size=40,
)


def trace_of(spans):
    return [kernel(start, duration, name, tid=tid) for start, duration, name, tid in spans]


@given(SPANS)
def test_kernels_and_gaps_are_the_span(spans):
    ops = [Op(start, start + duration, name) for start, duration, name, _ in spans]
    busy, gap = cover(ops)
    assert busy + gap == max(op.end for op in ops) - min(op.start for op in ops)
    assert 0 <= busy <= sum(op.end - op.start for op in ops)
    assert busy >= max(op.end - op.start for op in ops)


@given(SPANS, st.randoms(use_true_random=False), st.integers(-(10**6), 10**6))
def test_neither_order_nor_the_clock_matters(spans, chance: random.Random, shift):
    events = [*gpu_names(), *trace_of(spans)]
    moved = [{**event, "ts": event["ts"] + shift} if event["ph"] == "X" else event for event in events]
    chance.shuffle(moved)
    assert summarise(moved) == summarise(events)


@given(SPANS)
def test_own_times_are_what_one_line_was_busy_for(spans):
    # Thunks of one thread lie within each other or apart, never across.
    ops = [Op(start * 2, start * 2 + 2 * duration, name) for start, duration, name, _ in spans]
    nested = [op for op in ops if not any(_cross(op, other) for other in ops)]
    own = list(nest(nested))
    assert sum(time for _, time, _ in own) == cover(nested)[0]
    assert all(time >= 0 for _, time, _ in own)
    assert not nested or any(is_leaf for _, _, is_leaf in own)


def _cross(one_op, other):
    return one_op.start < other.start < one_op.end < other.end or other.start < one_op.start < other.end < one_op.end


@given(SPANS, st.integers(1, 5))
def test_more_devices_change_nothing_for_the_first(spans, count):
    alone = one([*gpu_names(), *trace_of(spans)])
    others = [event for pid in range(2, 2 + count) for event in [*gpu_names(pid, pid), kernel(5, 5, pid=pid)]]
    assert summarise([*gpu_names(), *others, *trace_of(spans)]).devices[0] == alone
