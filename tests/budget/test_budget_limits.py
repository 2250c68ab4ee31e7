from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_lecturecheck.budget.limits import LectureBudget, MetricBudget, PlatformBudgets, Tolerance, closest_name
from pytest_lecturecheck.errors import SettingsError
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.units import GIB, MIB

DEFAULT = Tolerance()


@pytest.mark.parametrize(
    ("metric", "seen", "limit"),
    [
        (Metric.PEAK_FOOTPRINT, [100 * MIB, 90 * MIB], 164 * MIB),
        (Metric.PEAK_FOOTPRINT, [640 * MIB], 704 * MIB),
        (Metric.PEAK_FOOTPRINT, [10 * GIB], 11 * GIB),
        (Metric.DISK_WRITTEN, [0], 64 * MIB),
        (Metric.WALL, [5.0, 7.5], 25.0),
        (Metric.MAJOR_FAULTS, [100], 110),
        (Metric.MAJOR_FAULTS, [0], 0),
    ],
)
def test_limits_follow_from_the_highest_recorded_value(metric, seen, limit):
    assert DEFAULT.limit_for(metric, seen) == limit


def test_limits_of_bytes_are_whole_numbers_without_binary_dust():
    limit = Tolerance(memory_slack_bytes=0).limit_for(Metric.PEAK_RSS, [1000])
    assert (limit, type(limit)) == (1100, int)


@given(
    st.sampled_from(list(Metric)),
    st.lists(st.integers(0, 2**50), min_size=1, max_size=5),
    st.builds(
        Tolerance,
        memory_fraction=st.floats(0, 10),
        memory_slack_bytes=st.integers(0, 2**40),
        time_factor=st.floats(1, 10),
        time_slack_seconds=st.floats(0, 100),
    ),
)
def test_a_limit_never_fails_the_runs_it_was_derived_from(metric, seen, tolerance):
    assert tolerance.limit_for(metric, seen) >= max(seen)


def test_no_recorded_values_give_no_limit():
    with pytest.raises(ValueError, match="no limit can be derived for peak_rss_bytes: there are no recorded values"):
        DEFAULT.limit_for(Metric.PEAK_RSS, [])


@pytest.mark.parametrize("value", [math.nan, math.inf, -1])
def test_nan_and_impossible_values_are_refused_everywhere(value):
    message = f"wall_seconds = {value!r} cannot be a value or a limit: expected a finite number, at least 0"
    for build in (
        lambda: MetricBudget(metric=Metric.WALL, limit=value),
        lambda: MetricBudget(metric=Metric.WALL, seen=(1.0, value)),
        lambda: DEFAULT.limit_for(Metric.WALL, [1.0, value]),
    ):
        with pytest.raises(ValueError, match="cannot be a value") as caught:
            build()
        assert str(caught.value) == message


@pytest.mark.parametrize(
    ("name", "value", "least"),
    [
        ("memory_fraction", -0.1, 0),
        ("memory_fraction", math.nan, 0),
        ("memory_slack_bytes", -1, 0),
        ("time_factor", 0.9, 1),
        ("time_slack_seconds", math.inf, 0),
    ],
)
def test_a_tolerance_that_fails_recorded_values_is_refused(name, value, least):
    with pytest.raises(SettingsError) as caught:
        Tolerance(**{name: value})
    assert str(caught.value) == (
        f"tolerance {name} = {value!r} cannot be used: expected a finite number, at least {least}"
    )


def test_budgets_are_found_by_lecture_and_variant():
    plain = LectureBudget(lecture="a.md")
    gpu = LectureBudget(lecture="a.md", variant="gpu")
    budgets = PlatformBudgets(
        platform="linux-x86_64-cpu", lectures={(item.lecture, item.variant): item for item in (plain, gpu)}
    )
    assert budgets.find("a.md") is plain
    assert budgets.find("a.md", "gpu") is gpu
    assert budgets.find("b.md") is None


@pytest.mark.parametrize(
    ("name", "closest"),
    [
        ("ch1\\a.md", "ch1/a.md"),
        ("./ch1/a.md", "ch1/a.md"),
        ("CH1/A.md", "ch1/a.md"),
        ("old/a.md", "ch1/a.md"),
        ("ch1/a.ipynb", ""),
    ],
)
def test_names_that_no_lecture_has(name, closest):
    budgets = PlatformBudgets(
        platform="here",
        lectures={(key, variant): LectureBudget(lecture=key) for key in (name, "ch1/a.md") for variant in ("", "gpu")},
    )
    assert budgets.unmatched(lambda asked: asked in {"ch1/a.md", "./ch1/a.md"}) == [name]
    assert closest_name(name, {"ch1/a.md", "b.md"}) == closest
