"""
Slow drift of a metric over time, as opposed to noise. Pure: numbers in, numbers out.

The trend is the Theil-Sen estimator on the logarithm of the values: the median slope between all pairs of measurements,
which a few outliers do not move. It counts as a drift if it is large enough, if the Mann-Kendall test finds a trend,
and if the change over the whole period exceeds the scatter of single measurements.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Final, TypeAlias

from pytest_lecturecheck.deferred_dataclass import dataclass

MONTH_DAYS: Final = 30.0
LEAST_COUNT: Final = 5
LEAST_DAYS: Final = 14.0
LEAST_FRACTION: Final = 0.03
"""The smallest monthly change that is reported."""
_SURE: Final = 1.96
"""Standard errors: the two-sided 5 % level of a normal distribution."""
_SIGMAS: Final = 2.0
_SIGMA_OF_MAD: Final = 1.4826
"""Ratio of standard deviation to median absolute deviation of a normal distribution."""
_ROUNDING: Final = 1e-9

Point: TypeAlias = tuple[float, float]
"""Day, and the value on it (above zero)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """
    A metric that rises or falls slowly.

    Attributes:
        monthly_fraction: change in 30 days (0.03 is +3 %).
        total_fraction: change over the whole period, along the trend.
        noise_fraction: typical distance of a single measurement from the trend.
        days: time between the first measurement and the last.
        count: number of measurements.
    """

    monthly_fraction: float
    total_fraction: float
    noise_fraction: float
    days: float
    count: int


def find_drift(points: Sequence[Point], *, least_fraction: float = LEAST_FRACTION) -> Drift | None:
    """
    Return a drift of at least ``least_fraction`` per month, in either direction.

    Args:
        points: measurements in any order; values of zero or less are ignored.
        least_fraction: the smallest drift to report.

    Returns:
        The drift, or ``None`` if there is none, or if there are fewer than 5 measurements over 14 days.
    """
    logs = [(day, math.log(value)) for day, value in points if value > 0 and math.isfinite(value)]
    days = max(day for day, _ in logs) - min(day for day, _ in logs) if logs else 0.0
    slope = theil_sen_slope(logs)
    if slope is None or len(logs) < LEAST_COUNT or days < LEAST_DAYS:
        return None
    monthly = math.expm1(slope * MONTH_DAYS)
    noise = _noise(logs, slope)
    if abs(monthly) < least_fraction - _ROUNDING or abs(slope) * days <= _SIGMAS * noise or not _tends(logs):
        return None
    return Drift(
        monthly_fraction=monthly,
        total_fraction=math.expm1(slope * days),
        noise_fraction=math.expm1(noise),
        days=days,
        count=len(logs),
    )


def theil_sen_slope(points: Sequence[Point]) -> float | None:
    """Return the median slope between pairs of points of different days, or ``None`` if there is no such pair."""
    slopes = [
        (value - earlier_value) / (day - earlier)
        for position, (day, value) in enumerate(points)
        for earlier, earlier_value in points[:position]
        if day != earlier
    ]
    return statistics.median(slopes) if slopes else None


def _noise(logs: Sequence[Point], slope: float) -> float:
    rests = [value - slope * day for day, value in logs]
    middle = statistics.median(rests)
    return _SIGMA_OF_MAD * statistics.median(abs(rest - middle) for rest in rests)


def _tends(logs: Sequence[Point]) -> bool:
    """Return True if the Mann-Kendall test finds a monotonic trend."""
    count = len(logs)
    score = sum(
        _sign(day - earlier) * _sign(value - earlier_value)
        for position, (day, value) in enumerate(logs)
        for earlier, earlier_value in logs[:position]
    )
    spread = math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    return abs(score) - 1 > _SURE * spread


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)
