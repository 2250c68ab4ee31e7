"""
A slow drift of a figure over time, told from noise. Pure: numbers in, numbers out.

The trend is Theil-Sen's on the logarithm of the figure: the median of the slopes between all pairs of measurements,
which a few outliers do not move. It counts as a drift where it is large enough, where the measurements really tend one
way (the test of Mann and Kendall), and where what it adds up to stands out from how far single measurements lie off.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

MONTH_DAYS: Final = 30.0
LEAST_COUNT: Final = 5
LEAST_DAYS: Final = 14.0
LEAST_FRACTION: Final = 0.03
"""A drift of so much a month is worth a word."""
_SURE: Final = 1.96
"""Standard errors: chance alone goes further in one case of twenty."""
_SIGMAS: Final = 2.0
_SIGMA_OF_MAD: Final = 1.4826
"""A normal distribution's standard deviation by its median absolute deviation."""
_ROUNDING: Final = 1e-9

Point: TypeAlias = tuple[float, float]
"""Day, and the figure on it (above zero)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """
    A figure that climbs or falls slowly.

    Attributes:
        monthly_fraction: change in 30 days (0.03 is +3 %).
        total_fraction: change over the whole time, along the trend.
        noise_fraction: how far a single measurement usually lies off the trend.
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
    Find a drift of at least ``least_fraction`` a month, in either direction.

    Args:
        points: measurements in any order; figures that are not above zero are left out.
        least_fraction: the smallest drift that counts.

    Returns:
        The drift, or ``None`` where there is none, or where fewer than 5 measurements over 14 days could not show one.
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
    """Give the median slope between pairs of points of different days, or ``None`` where there is no such pair."""
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
    """Tell whether later figures are so often higher (or lower) that it can hardly be chance; see Mann and Kendall."""
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
