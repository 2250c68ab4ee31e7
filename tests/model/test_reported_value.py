import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_lecturecheck.budget.limits import ReportedValueBudget
from pytest_lecturecheck.model.reported_value import (
    Better,
    ReportedValue,
    format_reported_range,
    format_reported_value,
    format_reported_values_apart,
    round_reported_value,
)

FINITE = st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (3.57142, "x", "3.57 x"),
        (0.0, "", "0"),
        (1e-15, "", "1e-15"),
        (-0.25, "s", "-0.25 s"),
        (12345.0, "MiB", "12345 MiB"),
        (1.0, "%", "1 %"),
        (200, "draws", "200 draws"),
        (1_234_567, "", "1234567"),
        (0, "", "0"),
        (10**30, "", "1e+30"),
    ],
)
def test_reported_values_as_people_read_them(value, unit, text):
    assert format_reported_value(value, unit) == text
    assert ReportedValue(name="speedup", value=value, unit=unit).text == f"speedup {text}"


def test_ranges():
    assert format_reported_range((1.7, 1.66, 1.67), "x") == "1.66 to 1.7 x"
    assert format_reported_range((1.6701, 1.6702)) == "1.67"


def test_different_values_look_different():
    assert format_reported_values_apart(1.4999, 1.5, "x") == ("1.4999 x", "1.5 x")
    above = math.nextafter(1.5, 2)
    assert format_reported_values_apart(above, 1.5) == ("1.5000000000000002", "1.5")


@given(FINITE, FINITE)
def test_values_apart_are_apart(first, second):
    shown = format_reported_values_apart(first, second)
    assert (shown[0] != shown[1]) == (first != second)


@given(FINITE, st.sampled_from([Better.HIGHER, Better.LOWER, None]))
def test_rounding_goes_to_the_safe_side_and_stays(value, better):
    rounded = round_reported_value(value, better)
    assert math.isfinite(rounded)
    assert round_reported_value(rounded, better) == rounded
    assert float(repr(rounded)) == rounded
    if better is Better.LOWER:
        assert rounded >= value
    if better is Better.HIGHER:
        assert rounded <= value


@pytest.mark.parametrize(
    ("value", "better", "rounded"),
    [
        (1.034768e-15, Better.LOWER, 1.035e-15),
        (1.706274, Better.HIGHER, 1.706),
        (1.706274, None, 1.706),
        (-1.23456, Better.LOWER, -1.234),
        (0.1, Better.LOWER, 0.1),
        (0.0, Better.HIGHER, 0.0),
        (1.7976931348623157e308, Better.LOWER, 1.7976931348623157e308),
        (200, None, 200),
        (123_456, Better.LOWER, 123_500),
    ],
)
def test_rounded_values(value, better, rounded):
    assert repr(round_reported_value(value, better)) == repr(rounded)


@pytest.mark.parametrize(
    "given_figure",
    [
        {"name": "Speedup", "value": 1.0},
        {"name": "1st", "value": 1.0},
        {"name": "a" * 42, "value": 1.0},
        {"name": "speedup\n", "value": 1.0},
        {"name": "", "value": 1.0},
        {"name": "speedup", "value": math.nan},
        {"name": "speedup", "value": -math.inf},
        {"name": "speedup", "value": 1.0, "unit": "\x1b[31m"},
        {"name": "speedup", "value": 1.0, "unit": "x" * 17},
        {"name": "speedup", "value": 1.0, "unit": "x\n"},
    ],
)
def test_what_cannot_be_a_reported_value(given_figure):
    with pytest.raises(ValueError, match="cannot be used"):
        ReportedValue(**given_figure)


def test_limits_that_nothing_could_keep_are_refused():
    with pytest.raises(ValueError, match=r"^speedup: at_least = 2\.0 is above limit = 1\.5$"):
        ReportedValueBudget(name="speedup", at_least=2.0, limit=1.5)
    expected = r"^speedup = inf cannot be a value or a limit: expected a finite number$"
    for numbers in ({"at_least": math.inf}, {"limit": math.inf}, {"seen": (math.inf,)}):
        with pytest.raises(ValueError, match=expected):
            ReportedValueBudget(name="speedup", **numbers)
    assert ReportedValueBudget(name="speedup", at_least=1.5, limit=1.5).has_limit
    assert not ReportedValueBudget(name="speedup", seen=(1.5,)).has_limit
