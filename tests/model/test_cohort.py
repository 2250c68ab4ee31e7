from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_lecturecheck.errors import SettingsError
from pytest_lecturecheck.model.cohort import (
    CohortRun,
    CohortSpec,
    PeakOfSum,
    parse_cohorts,
    parse_concurrency,
    peak_of_sum,
    repeat_lecture,
    safe_concurrency,
)
from pytest_lecturecheck.model.run import Outcome, Run


@pytest.mark.parametrize(
    ("value", "counts"),
    [("1,2,3", (1, 2, 3)), (" 3, 1 ,3", (1, 3)), ("64", (64,)), (2, (2,)), ([3, 1], (1, 3)), (["2", 1], (1, 2))],
)
def test_concurrency_is_read(value, counts):
    assert parse_concurrency(value) == counts


@pytest.mark.parametrize(
    "value",
    ["", "1,", "0", "65", "-1", "1.5", "two", "\u0661", "1e9", "99999999", 0, 2.0, True, None, [], [[1]], [True]],
)
def test_what_is_no_number_of_kernels_is_refused(value):
    with pytest.raises(SettingsError) as caught:
        parse_concurrency(value)
    assert str(caught.value) == (
        f"concurrency {value!r} is not understood: expected numbers of kernels from 1 to 64, as in '1,2,3'"
    )


def test_a_lecture_several_times_at_once_is_a_cohort():
    spec = repeat_lecture("a.md", 3)
    assert (spec.name, spec.lectures, spec.kernel_count) == ("c=3", ("a.md",) * 3, 3)


def test_named_mixes_are_read_in_order_of_their_names():
    tables = {"mix": {"lectures": ["b.md", "a.md", "b.md"]}, "gpu-three": {"lectures": ["./ch1/e\u0301.md"]}}
    assert parse_cohorts(tables) == (
        CohortSpec(name="gpu-three", lectures=("ch1/\u00e9.md",)),
        CohortSpec(name="mix", lectures=("b.md", "a.md", "b.md")),
    )
    assert parse_cohorts({}) == ()


NAME_FAULT = "cannot be used; expected letters, digits and . _ - (at most 64, starting with a letter or digit)"
LIST_FAULT = "expected a list of 1 to 64 lectures, as in ['a.md', 'b.md']"
PATH_FAULT = "cannot be used; expected a path with / below rootdir, as in 'ch1/intro.md'"


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (["a"], "cohort = ['a'] is not a table; expected [cohort.NAME] with lectures = ['a.md', 'b.md']"),
        ({"c=2": {}}, f"[cohort.c=2]: the name 'c=2' {NAME_FAULT}"),
        ({"": {}}, f"[cohort.]: the name '' {NAME_FAULT}"),
        ({"x": 3}, "[cohort.x]: 3 is not a table; expected lectures = ['a.md', 'b.md']"),
        ({"x": {"lecture": []}}, "[cohort.x]: unknown key 'lecture'; expected: lectures"),
        ({"x": {}}, f"[cohort.x]: lectures = None: {LIST_FAULT}"),
        ({"x": {"lectures": []}}, f"[cohort.x]: lectures = []: {LIST_FAULT}"),
        ({"x": {"lectures": "a.md"}}, f"[cohort.x]: lectures = 'a.md': {LIST_FAULT}"),
        ({"x": {"lectures": ["a.md", 3]}}, f"[cohort.x]: lecture 3 {PATH_FAULT}"),
        ({"x": {"lectures": [" "]}}, f"[cohort.x]: lecture ' ' {PATH_FAULT}"),
        ({"x": {"lectures": ["/a.md"]}}, f"[cohort.x]: lecture '/a.md' {PATH_FAULT}"),
        ({"x": {"lectures": ["b/../../a.md"]}}, f"[cohort.x]: lecture 'b/../../a.md' {PATH_FAULT}"),
        ({"x": {"lectures": ["b\\a.md"]}}, f"[cohort.x]: lecture 'b\\\\a.md' {PATH_FAULT}"),
    ],
)
def test_a_mix_that_cannot_be_used_is_named(tables, message):
    with pytest.raises(SettingsError) as caught:
        parse_cohorts(tables)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("series", "peak"),
    [
        ([], None),
        ([[], []], None),
        ([[(1.0, 5)]], PeakOfSum(total_bytes=5, seconds=1.0, parts_bytes=(5,))),
        # The peaks of the two lie apart, so together they never hold the sum of their peaks.
        (
            [[(0.0, 1), (1.0, 9), (2.0, 2)], [(0.0, 3), (2.0, 8), (3.0, 0)]],
            PeakOfSum(total_bytes=12, seconds=1.0, parts_bytes=(9, 3)),
        ),
        # One ends at the moment at which the other rises.
        (
            [[(0.0, 6), (1.0, 0)], [(0.0, 1), (1.0, 6)]],
            PeakOfSum(total_bytes=7, seconds=0.0, parts_bytes=(6, 1)),
        ),
        ([[(0.0, 9), (0.0, 4)], [(0.5, 1)]], PeakOfSum(total_bytes=5, seconds=0.5, parts_bytes=(4, 1))),
        ([[(0.0, 0)], []], PeakOfSum(total_bytes=0, seconds=0.0, parts_bytes=(0, 0))),
    ],
)
def test_the_peak_of_the_sum_is_exact(series, peak):
    assert peak_of_sum(series) == peak


@pytest.mark.parametrize(
    "steps", [[(1.0, 1), (0.5, 2)], [(math.nan, 1)], [(0.0, 1), (math.nan, 2)], [(math.nan, 1), (0.0, 2)]]
)
def test_a_clock_that_goes_back_is_refused(steps):
    with pytest.raises(ValueError, match=r"a series of samples goes back in time: expected moments of one clock"):
        peak_of_sum([[(0.0, 1)], steps])


def value_at(steps, seconds):
    return ([0] + [size for moment, size in steps if moment <= seconds])[-1]


STEPS = st.lists(st.tuples(st.integers(0, 9).map(float), st.integers(0, 50)), max_size=8).map(
    lambda steps: sorted(steps, key=lambda step: step[0])
)


@settings(deadline=None)
@given(st.lists(STEPS, max_size=4))
def test_the_peak_is_the_highest_sum_at_any_moment(series):
    moments = sorted({moment for steps in series for moment, _ in steps})
    sums = {moment: sum(value_at(steps, moment) for steps in series) for moment in moments}
    found = peak_of_sum(series)
    assert (found is None) == (not moments)
    if found is not None:
        assert found.total_bytes == max(sums.values()) == sum(found.parts_bytes)
        assert found.seconds == min(moment for moment, total in sums.items() if total == found.total_bytes)
        assert found.total_bytes <= sum(max((size for _, size in steps), default=0) for steps in series)


def member(outcome=Outcome.COMPLETED):
    return Run(lecture="a.md", platform="linux-x86_64-cpu", outcome=outcome)


def cohort(*members):
    return CohortRun(spec=repeat_lecture("a.md", len(members)), members=members)


FINE, DEAD = member(), member(Outcome.DIED)


@pytest.mark.parametrize(
    ("cohorts", "safe"),
    [
        ([], None),
        ([(FINE,), (FINE, FINE), (FINE, FINE, DEAD)], 2),
        ([(FINE, FINE, FINE), (FINE,), (FINE, DEAD)], 1),
        ([(DEAD,), (FINE, FINE)], None),
        ([(FINE, FINE), (FINE, DEAD)], None),
        ([(FINE, FINE), (FINE, FINE, FINE)], 3),
    ],
)
def test_what_is_safe_went_well_at_every_lower_number_too(cohorts, safe):
    assert safe_concurrency([cohort(*members) for members in cohorts]) == safe


def test_runs_that_did_not_complete_ended_badly():
    assert cohort(FINE, DEAD).ended_badly == (DEAD,)
