"""A slow drift is distinguished from noise, whatever the scale, the order and a few outliers."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_lecturecheck.budget.drift import find_drift, theil_sen_slope

DAYS = st.lists(st.integers(0, 365), min_size=6, max_size=14, unique=True).filter(
    lambda days: max(days) - min(days) >= 30
)
POINTS = st.lists(st.tuples(st.integers(0, 200), st.integers(1, 10**12)), min_size=0, max_size=12)


def growing(days, monthly, start=1e9):
    return [(day, start * (1 + monthly) ** (day / 30)) for day in days]


@given(DAYS, st.floats(0.031, 0.5), st.sampled_from([1, -1]), st.randoms())
def test_a_steady_drift_is_found_in_any_order(days, monthly, sign, order):
    rate = (1 + monthly) ** sign - 1
    points = growing(days, rate)
    order.shuffle(points)
    found = find_drift(points, least_fraction=0.03)
    if abs(rate) < 0.03:
        assert found is None
        return
    assert found.monthly_fraction == pytest.approx(rate, rel=1e-6)
    assert found.noise_fraction == pytest.approx(0, abs=1e-9)
    assert found.count == len(days)
    assert found.days == max(days) - min(days)
    assert 1 + found.total_fraction == pytest.approx((1 + rate) ** (found.days / 30), rel=1e-6)


@given(DAYS, st.floats(-0.028, 0.029))
def test_a_smaller_drift_is_not_worth_a_word(days, monthly):
    assert find_drift(growing(days, monthly)) is None


@given(DAYS, st.floats(1, 1e12))
def test_what_never_changes_does_not_drift(days, value):
    assert find_drift([(day, value) for day in days]) is None


@given(POINTS, st.integers(-1000, 1000), st.integers(-40, 40), st.randoms())
def test_the_answer_does_not_depend_on_unit_calendar_or_order(points, shift, power, order):
    changed = [(day + shift, value * 2.0**power) for day, value in points]
    order.shuffle(changed)
    first, second = find_drift(points), find_drift(changed)
    assert (first is None) == (second is None)
    if first is not None:
        assert second.monthly_fraction == pytest.approx(first.monthly_fraction, rel=1e-6, abs=1e-9)


@given(POINTS)
def test_a_reported_drift_has_enough_measurements(points):
    found = find_drift(points)
    if found is not None:
        assert found.count >= 5
        assert found.days >= 14
        assert abs(found.monthly_fraction) >= 0.03 - 1e-9
        assert found.monthly_fraction * found.total_fraction > 0


@given(st.integers(0, 11), st.sampled_from([0.01, 0.5, 2.0, 100.0]))
def test_one_outlier_neither_makes_a_drift_nor_hides_one(position, factor):
    days = range(0, 84, 7)
    flat = [(day, 1e9 * (factor if index == position else 1)) for index, day in enumerate(days)]
    assert find_drift(flat) is None
    climbing = growing(days, 0.1)
    climbing[position] = (climbing[position][0], climbing[position][1] * factor)
    assert find_drift(climbing).monthly_fraction == pytest.approx(0.1, abs=0.03)


@pytest.mark.parametrize(
    ("days", "found"),
    [((0, 3, 7, 10, 14), True), ((0, 3, 7, 10, 13), False), ((0, 5, 10, 15), False), ((0, 20, 40, 60, 80), True)],
)
def test_so_many_runs_over_so_many_days(days, found):
    assert (find_drift(growing(days, 0.2)) is not None) is found


def test_noise_is_rarely_taken_for_a_drift():
    rolls = random.Random(3)
    noisy = [[(7 * week, 1e9 * (1 + rolls.gauss(0, 0.1))) for week in range(10)] for _ in range(400)]
    assert sum(find_drift(points) is not None for points in noisy) < 400 * 0.05


def test_a_drift_is_found_beneath_smaller_noise():
    rolls = random.Random(4)
    noisy = [
        [(day, value * (1 + rolls.gauss(0, 0.01))) for day, value in growing(range(0, 180, 14), 0.03)]
        for _ in range(100)
    ]
    found = [find_drift(points, least_fraction=0.02) for points in noisy]
    assert sum(item is not None for item in found) > 95


@pytest.mark.parametrize("values", [(), (0.0,) * 9, (float("inf"),) * 9, (-1.0,) * 9])
def test_values_that_are_ignored(values):
    assert find_drift([(10 * day, value) for day, value in enumerate(values)]) is None


@given(st.lists(st.integers(-100, 100), min_size=2, max_size=9, unique=True), st.integers(-5, 5), st.integers(-5, 5))
def test_the_slope_of_a_line_is_its_slope(days, slope, start):
    assert theil_sen_slope([(day, start + slope * day) for day in days]) == slope


def test_points_of_one_day_have_no_slope():
    assert theil_sen_slope([(1, 1), (1, 2)]) is None
    assert theil_sen_slope([]) is None
