from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.made_records import made_evidence, made_run

from pytest_lecturecheck.model.cell_run import CellRun, CellStatus
from pytest_lecturecheck.model.cohort import CohortSpec, PeakOfSum, repeat_lecture
from pytest_lecturecheck.model.cohort_record import cohort_of, join_runs, member_labels, start_skew_seconds
from pytest_lecturecheck.model.device import Device, DeviceHolder, DeviceSample, DeviceUse, HolderKind
from pytest_lecturecheck.model.evidence import Evidence
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.metric import Measurement, Method, Metric
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.verdict import Policy, judge
from pytest_lecturecheck.verdict.cohorts import judge_members

CELL = CellRun(number=1, index=0, line=4, status=CellStatus.OK, ended_seconds=3.0)


def measured(metric, value, method=Method.EXACT, **more):
    return Measurement(metric=metric, value=value, method=method, **more)


def run(*readings, outcome=Outcome.COMPLETED, lecture="a.md", **more):
    more = {"cells": (CELL,), "started": "2026-01-01T00:00:00+00:00", **more}
    by_metric = {item.metric: item for item in readings}
    return made_run(lecture=lecture, platform="linux-x86_64-cpu", outcome=outcome, readings=by_metric, **more)


def join(*members, together=None, wall=2.0, starts=None):
    return join_runs(
        CohortSpec(name=f"c={len(members)}", lectures=tuple(member.lecture for member in members)),
        members,
        wall_seconds=wall,
        together=None if together is None else PeakOfSum(total_bytes=together, seconds=1.0, parts_bytes=()),
        interval_seconds=0.02,
        device_starts_seconds=starts or [0.0] * len(members),
    )


def footprint(value, method=Method.EXACT, **more):
    return measured(Metric.PEAK_FOOTPRINT, value, method, **more)


@pytest.mark.parametrize(
    ("lectures", "labels"),
    [
        (("a.md",), ("a.md",)),
        (("a.md", "a.md"), ("kernel 1 of 2 of a.md", "kernel 2 of 2 of a.md")),
        (("a.md", "b.md", "a.md"), ("kernel 1 of 2 of a.md", "b.md", "kernel 2 of 2 of a.md")),
    ],
)
def test_kernels_have_distinct_labels(lectures, labels):
    assert member_labels(lectures) == labels


@pytest.mark.parametrize(
    ("peaks", "together", "found"),
    [
        # Between what was seen at once and what they can have held at most.
        ([footprint(100), footprint(60)], 130, (130, Method.BRACKET, 160)),
        ([footprint(100), footprint(60)], 160, (160, Method.EXACT, None)),
        # A peak that no sample saw was there all the same.
        ([footprint(100), footprint(60)], 90, (100, Method.BRACKET, 160)),
        ([footprint(100), footprint(60)], None, (100, Method.BRACKET, 160)),
        ([footprint(100, Method.BRACKET, high=110), footprint(60)], 130, (130, Method.BRACKET, 170)),
        ([footprint(100, Method.SAMPLED), footprint(60)], 130, (130, Method.SAMPLED, None)),
    ],
)
def test_the_footprint_of_all_lies_between_samples_and_sum(peaks, together, found):
    reading = join(*(run(peak) for peak in peaks), together=together).readings[Metric.PEAK_FOOTPRINT]
    assert (reading.value, reading.method, reading.high) == found


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=5), st.integers(0, 5000))
def test_a_footprint_is_never_below_one_kernel_nor_its_ends_crossed(peaks, together):
    reading = join(*(run(footprint(peak)) for peak in peaks), together=together).readings[Metric.PEAK_FOOTPRINT]
    assert reading.value >= max(*peaks, together)
    assert reading.upper_bound >= reading.value


def test_a_kernel_that_ran_unmeasured_leaves_the_upper_end_open():
    found = join(run(footprint(100)), run(), together=120).readings[Metric.PEAK_FOOTPRINT]
    assert (found.value, found.method) == (120, Method.SAMPLED)
    idle = run(outcome=Outcome.NOT_STARTED, cells=())
    assert join(run(footprint(100)), idle, together=80).readings[Metric.PEAK_FOOTPRINT].upper_bound == 100


def test_without_any_measurement_there_is_no_sum():
    found = join(run(), run(), wall=None)
    assert found.readings[Metric.PEAK_FOOTPRINT].reason == "no kernel was measured"
    assert found.readings[Metric.WALL].reason == "no kernel came to its first cell"


def test_times_are_those_of_all_and_work_adds_up():
    found = join(run(measured(Metric.CPU, 1.5)), run(measured(Metric.CPU, 2.0)), wall=4.0)
    assert found.measured(Metric.WALL).value == 4.0
    assert found.measured(Metric.CPU).value == 3.5


def test_live_memory_of_a_gpu_is_bounded_by_the_sum_of_the_peaks():
    live = [measured(Metric.GPU_LIVE, size, Method.AGENT) for size in (5, 3)]
    found = join(*(run(item) for item in live)).measured(Metric.GPU_LIVE)
    assert (found.value, found.method, found.high) == (5, Method.BRACKET, 8)
    only = join(run(live[0]), run()).measured(Metric.GPU_LIVE)
    assert (only.value, only.method) == (5, Method.SAMPLED)


CARD = Device(index=0, name="Tesla T4", uuid="GPU-1", total_bytes=1000)


def use(*samples, method=Method.SAMPLED, **more):
    timeline = tuple(DeviceSample(seconds=seconds, used_bytes=0, run_bytes=size) for seconds, size in samples)
    highest = max((size for _, size in samples), default=0)
    used = more.pop("used", measured(Metric.GPU_USED, highest, method))
    return DeviceUse(device=CARD, used=used, timeline=timeline, **more)


def test_the_card_held_at_most_what_they_held_at_one_moment_of_one_clock():
    # The second began 2 s later: its peak at 1 s of its own is the third second.
    first, second = use((0.0, 0), (1.0, 500), (2.0, 100), (4.0, 100)), use((0.0, 10), (1.0, 300))
    found = join(run(devices=(first,)), run(devices=(second,)), starts=[0.0, 2.0])
    assert found.devices[0].used.value == 500
    assert join(run(devices=(first,)), run(devices=(second,)), starts=[0.0, 0.0]).devices[0].used.value == 800
    assert found.readings[Metric.GPU_USED].value == 500


def test_never_more_than_was_in_use_on_the_card():
    uses = [use((0.0, 500), peak_used_bytes=700), use((0.0, 300), peak_used_bytes=650)]
    assert join(*(run(devices=(item,)) for item in uses)).devices[0].used.value == 700


def test_the_rise_of_the_card_bounds_indistinguishable_processes():
    rises = [measured(Metric.GPU_USED, 0, Method.BRACKET, high=high) for high in (700, 650)]
    found = join(*(run(devices=(use(used=rise),)) for rise in rises)).devices[0].used
    assert (found.value, found.method, found.high) == (0, Method.BRACKET, 700)


def test_of_the_holders_of_a_card_its_own_kernels_are_none():
    sibling = DeviceHolder(pid=1, kind=HolderKind.RUNNING_LECTURE, lecture="kernel 1 of 2 of a.md")
    gone = DeviceHolder(pid=2, kind=HolderKind.ENDED_LECTURE, lecture="kernel 2 of 2 of a.md")
    left = replace(gone, pid=3, ended_seconds=4.0)
    other = DeviceHolder(pid=4, kind=HolderKind.RUNNING_LECTURE, lecture="b.md")
    foreign = DeviceHolder(pid=5, lecture="kernel 1 of 2 of a.md")
    uses = [use((0.0, 1), holders=(gone, left, foreign)), use((0.0, 1), holders=(sibling, other))]
    (found,) = join(*(run(devices=(item,)) for item in uses)).devices
    assert found.holders == (left, other, foreign)
    assert found.is_shared


ENDS = [Outcome.COMPLETED, Outcome.FAILED, Outcome.TIMED_OUT, Outcome.NOT_STARTED, Outcome.DIED]


@given(st.lists(st.sampled_from(ENDS), min_size=1, max_size=4))
def test_the_worst_end_is_that_of_the_cohort(ends):
    members = [run(outcome=end, evidence=Evidence(lecture=str(place))) for place, end in enumerate(ends)]
    found = join(*members)
    assert found.outcome is max(ends, key=ENDS.index)
    assert found.speaker is members[ends.index(found.outcome)]
    assert found.heaviest_cell() is None


def test_of_equal_ends_the_earliest_counts():
    late, early = (replace(CELL, ended_seconds=seconds) for seconds in (9.0, 5.0))
    members = [
        run(outcome=Outcome.DIED, cells=(cell,), evidence=Evidence(lecture=str(cell.ended_seconds)))
        for cell in (late, early)
    ]
    assert join(*members).evidence.lecture == "5.0"


def test_findings_are_kept_once_and_cells_only_of_a_bad_end():
    finding = Finding(kind=FindingKind.FILES, message="appeared")
    found = join(run(findings=(finding,)), run(findings=(finding,)))
    assert (found.findings, found.cells, found.evidence, found.cell_run_count) == ((finding,), (), None, 2)


def test_the_skew_is_between_kernels_that_started():
    members = [run(first_cell_seconds=seconds) for seconds in (0.0, None, 0.012)]
    assert start_skew_seconds(join(*members)) == 0.012
    assert start_skew_seconds(join(*members[:2])) is None
    assert cohort_of(join(*members)).members == tuple(members)
    assert cohort_of(run()).spec == replace(repeat_lecture("a.md", 1), name="")


def test_a_verdict_counts_the_kernels_and_tells_of_the_others():
    dead = run(
        outcome=Outcome.DIED, evidence=made_evidence(exit_code=3, cell_number=1, lecture="kernel 1 of 3 of a.md")
    )
    failed = run(outcome=Outcome.NOT_STARTED, reason="no such kernel", cells=())
    cohort = join(dead, failed, run())
    verdict = judge_members(judge(cohort, None, Policy()), cohort)
    assert verdict.headline == f"1 of 3 kernels died: {judge(dead, None, Policy()).headline}"
    assert verdict.notes == (
        "the evidence is that of kernel 1 of 3 of a.md",
        "kernel 2 of 3 of a.md did not start: no such kernel",
        "kernel 3 of 3 of a.md completed",
    )


def test_a_cohort_that_went_well_is_judged_as_any_run():
    cohort = join(run(), run())
    verdict = judge(cohort, None, Policy())
    assert judge_members(verdict, cohort) is verdict
