import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.card_benches import CASES, reading, recorded

from pytest_lecturecheck.budget.limits import LectureBudget, MetricBudget
from pytest_lecturecheck.model.metric import Measurement, Method, Metric, Unavailable
from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.probe.gpu._attribution import Attribution
from pytest_lecturecheck.units import GIB, MIB
from pytest_lecturecheck.verdict import Policy, VerdictKind, judge


def attribute(readings, ours, *, same_namespace=False):
    attribution = Attribution(readings[0], same_namespace=same_namespace)
    for item in readings:
        attribution.add(item, frozenset(ours))
    return attribution


def value_of(attribution, **changes):
    return attribution.reading(attribution.peak, interval_seconds=0.1, **changes)


def bracket(low, high, doubt="PID namespace"):
    return Measurement(
        metric=Metric.GPU_USED,
        value=low * MIB,
        method=Method.BRACKET,
        high=high * MIB,
        interval_seconds=0.1,
        source=f"per process not available ({doubt}): the device's rise, an upper bound",
    )


def sampled(value):
    return Measurement(
        metric=Metric.GPU_USED,
        value=value * MIB,
        method=Method.SAMPLED,
        interval_seconds=0.1,
        source="NVML, the run's processes",
    )


def foreign(name):
    ours = json.loads((CASES / "E02-foreign-pids" / name).read_text("utf-8"))["our_pids"]
    return attribute(recorded("E02-foreign-pids", name), ours)


@pytest.mark.parametrize("name", ["host_pids.json", "no_list.json"])
def test_in_another_namespace_the_rise_is_the_bound(name):
    found = foreign(name)
    assert value_of(found) == bracket(0, 4000)
    assert not found.is_separated
    assert found.peak.others_bytes is None


def test_an_earlier_process_is_not_ours():
    found = foreign("pid_clash.json")
    assert value_of(found) == bracket(0, 0)
    assert found.peak.known_bytes == 0


@pytest.mark.parametrize(
    ("limit", "kind", "message"),
    [
        (
            3 * GIB,
            VerdictKind.NOT_MEASURED,
            "GPU memory used between 0 B and 3.91 GiB, limit 3 GiB: it may or may not be over",
        ),
        (5 * GIB, VerdictKind.WITHIN, "GPU memory used between 0 B and 3.91 GiB, limit 5 GiB"),
        (
            16 * GIB,
            VerdictKind.IMPROVED,
            (
                "GPU memory used between 0 B and 3.91 GiB is far under its limit 16 GiB, which is 4.1 times too high: "
                "lower the limit that was set by hand"
            ),
        ),
    ],
)
def test_verdicts_respect_an_upper_bound(limit, kind, message):
    run = Run(
        lecture="a.md",
        platform="p",
        outcome=Outcome.COMPLETED,
        readings={Metric.GPU_USED: value_of(foreign("host_pids.json"))},
    )
    limits = {Metric.GPU_USED: MetricBudget(metric=Metric.GPU_USED, limit=limit, hand_set=True)}
    verdict = judge(run, LectureBudget(lecture="a.md", metrics=limits), Policy())
    assert [(item.kind, item.message) for item in verdict.comparisons] == [(kind, message)]


def test_processes_of_this_namespace_are_added_up():
    found = attribute(
        [reading(3), reading(300, {41: 200, 42: 90}), reading(900, {41: 150, 7: 740}), reading(3)],
        {41, 42},
        same_namespace=True,
    )
    assert value_of(found) == sampled(290)
    assert found.peak.others_bytes == 740 * MIB
    assert found.is_separated


def test_an_unused_card_is_zero_in_a_known_namespace():
    assert value_of(attribute([reading(3), reading(9003, {7: 9000})], {41}, same_namespace=True)) == sampled(0)


def test_listed_bytes_resolve_earlier_doubts():
    found = attribute([reading(3), reading(9003, {7: 9000}), reading(9403, {7: 9000, 41: 400})], {41})
    assert value_of(found) == sampled(400)
    assert found.is_separated


def test_processes_listed_with_zero_bytes_are_no_value():
    listed = [reading(500), reading(4500, {41: 0})]
    assert value_of(attribute(listed, {41})) == bracket(0, 4000)
    assert value_of(attribute(listed, {41}, same_namespace=True)) == bracket(0, 4000)


def test_processes_without_bytes_are_bounded_from_both_sides():
    found = attribute([reading(500), reading(4500, {41: None, 42: 700})], {41, 42}, same_namespace=True)
    assert value_of(found) == bracket(700, 4000, "no bytes for each process: N/A")


def test_no_list_at_all():
    found = attribute([reading(500, None, reason="no permission to read the card")] * 2, {41}, same_namespace=True)
    assert value_of(found) == bracket(0, 0, "no permission to read the card")


def test_a_leaving_process_does_not_hide_the_runs_use():
    # 5000 MiB of a neighbour go, 4000 MiB of the run come: the device falls.
    found = attribute([reading(5003, {7: 5000}), reading(4003)], {41})
    assert value_of(found) == bracket(0, 4000)
    unlisted = attribute([reading(5003), reading(3), reading(4003)], {41})
    assert value_of(unlisted) == bracket(0, 4000)


def test_growth_of_earlier_processes_is_not_the_runs():
    assert value_of(attribute([reading(503, {7: 500}), reading(2503, {7: 2500})], {41})) == bracket(0, 0)


def test_unlisted_memory_counts_only_if_it_stays():
    ending = [reading(3), reading(9003, {7: 9000}), *[reading(9003)] * 5, reading(3)]
    assert value_of(attribute(ending, {41}, same_namespace=True)) == sampled(0)
    staying = [reading(3), *[reading(9003)] * 20]
    found = attribute(staying, {41}, same_namespace=True)
    assert value_of(found) == bracket(0, 9000, "held by no listed process")


def test_managed_memory_makes_it_a_range():
    """Managed memory is in use on the card, but not listed for the process that has allocated it."""
    readings = [reading(3), *[reading(5003 + 53_990, {41: 5000})] * 20]
    found = attribute(readings, {41}, same_namespace=True)
    doubt = "more is in use than processes are listed with, as with managed memory"
    assert value_of(found) == bracket(5000, 58_990, doubt)
    assert not found.is_separated


def test_memory_of_others_beside_the_run_is_not_managed():
    readings = [reading(3), *[reading(59_003, {41: 5000, 7: 54_000})] * 20]
    assert value_of(attribute(readings, {41}, same_namespace=True)) == sampled(5000)


def test_overhead_of_the_driver_is_not_managed_memory():
    readings = [reading(3), *[reading(5203, {41: 5000})] * 20]
    assert value_of(attribute(readings, {41}, same_namespace=True)) == sampled(5000)


def test_a_brief_rise_beside_the_list_is_not_managed_memory():
    """Memory of a process that is ending is not listed any more before it is freed."""
    readings = [reading(3), *[reading(9003, {41: 5000})] * 5, *[reading(5003, {41: 5000})] * 20]
    assert value_of(attribute(readings, {41}, same_namespace=True)) == sampled(5000)


def test_a_device_that_fails_midway_leaves_a_lower_bound():
    listed = attribute([reading(3), reading(403, {41: 400})], {41}, same_namespace=True)
    found = value_of(listed, failure="the GPU is lost")
    assert (found.value, found.method, found.source) == (
        400 * MIB,
        Method.SAMPLED,
        "NVML, the run's processes, until: the GPU is lost",
    )
    assert value_of(foreign("no_list.json"), failure="the GPU is lost") == Unavailable(
        metric=Metric.GPU_USED, reason="PID namespace, and then: the GPU is lost"
    )


_bytes = st.none() | st.integers(0, 4000)
_lists = st.none() | st.dictionaries(st.integers(1, 6), _bytes, max_size=5)
_moments = st.lists(st.tuples(st.integers(0, 9000), _lists), min_size=1, max_size=12)


@given(_moments, st.frozensets(st.integers(1, 6)), st.booleans())
def test_bounds_hold_whatever_is_listed(moments, ours, same_namespace):
    readings = [reading(used, listed) for used, listed in moments]
    found = value_of(attribute(readings, ours, same_namespace=same_namespace))
    before = set(moments[0][1] or ())
    most = max(sum(used or 0 for pid, used in (listed or {}).items() if pid in ours - before) for _, listed in moments)
    assert found.value == most * MIB
    assert found.high is None or found.high >= found.value


@given(st.lists(st.integers(0, 9000), min_size=2, max_size=12))
def test_zero_is_never_claimed_if_the_device_rose(levels):
    found = value_of(attribute([reading(used) for used in levels], {41}))
    assert found.method is Method.BRACKET
    assert found.high == max(used - min(levels[: position + 1]) for position, used in enumerate(levels)) * MIB
