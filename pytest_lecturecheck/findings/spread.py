"""Medians with their intervals, and ratios of runs that were made in turn. Pure; the standard library only."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass

LEAST_COUNT: Final = 5
"""A median of fewer values is shown, and nothing is concluded from it."""
_LEAST_KERNELS: Final = 2
_MANY: Final = 10**9
_TAIL: Final = 0.05
_ALIKE: Final = 1.05
"""A ratio of less than this is no difference worth naming, however well it is known."""
_NARROW: Final = 1.25
"""An interval whose ends differ by no more than this factor can show that there is no difference worth naming."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """
    A median and the interval that contains the true one with at least 90 %, by the ranks of the values.

    Attributes:
        median: the median.
        low: lower end of the interval; the lowest value where there are fewer than eight.
        high: upper end.
        count: number of values.
        kernel_count: number of kernels that they come from; what one kernel does says little about the next.
    """

    median: float
    low: float
    high: float
    count: int
    kernel_count: int = _MANY

    @property
    def is_enough(self) -> bool:
        """Return True if there are values enough, of kernels enough, to conclude something."""
        return self.count >= LEAST_COUNT and self.kernel_count >= _LEAST_KERNELS


def spread_of(values: Sequence[float]) -> Spread | None:
    """Return the median of some values with its interval, or ``None`` where there are none."""
    if not values:
        return None
    ordered = sorted(values)
    count = len(ordered)
    # The ranks of a binomial distribution: the true median is below the k-th lowest value with this probability.
    outside, below = 0, 0.0
    for rank in range(count // 2):
        below += math.comb(count, rank) / 2**count
        if below > _TAIL:
            break
        outside = rank
    return Spread(
        median=statistics.median(ordered), low=ordered[outside], high=ordered[count - 1 - outside], count=count
    )


class Conclusion(StrEnum):
    """What an interval of a ratio shows."""

    MORE = "more"
    LESS = "less"
    SAME = "no difference"
    NOISY = "too noisy to conclude"
    FEW = "too few runs to conclude"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """
    How one quantity compares with another.

    Attributes:
        spread: the ratio, median and interval.
        conclusion: what it shows.
    """

    spread: Spread
    conclusion: Conclusion

    @property
    def text(self) -> str:
        """Format the ratio with its interval."""
        item = self.spread
        return f"{number_text(item.median)} ({number_text(item.low)} to {number_text(item.high)})"


def ratio_of(
    base: Mapping[int, float], other: Mapping[int, float], *, kernel_of: Callable[[int], int] | None = None
) -> Ratio | None:
    """
    Compare two quantities that were measured in turn: the ratio within each round, so that drift cancels.

    Args:
        base: values by the number of the round.
        other: the same; ratios are those of ``other`` to ``base``.
        kernel_of: returns the kernel of a round, where several rounds share one; by default each has its own.

    Returns:
        The ratio, or ``None`` where no round has both.
    """
    rounds = sorted(base.keys() & other.keys())
    spread = spread_of([other[number] / base[number] for number in rounds if base[number] > 0])
    if spread is None:
        return None
    if kernel_of is not None:
        spread = replace(spread, kernel_count=len({kernel_of(number) for number in rounds}))
    return Ratio(spread=spread, conclusion=_conclude(spread))


def ratio_of_medians(base: Spread | None, other: Spread | None) -> Ratio | None:
    """
    Compare two quantities that were not measured in turn, such as times on two machines.

    Both intervals count: the ends are the highest and the lowest ratio that they allow.
    """
    if base is None or other is None or min(base.low, other.low) <= 0:
        return None
    spread = Spread(
        median=other.median / base.median,
        low=other.low / base.high,
        high=other.high / base.low,
        count=min(base.count, other.count),
        kernel_count=min(base.kernel_count, other.kernel_count),
    )
    return Ratio(spread=spread, conclusion=_conclude(spread))


def _conclude(spread: Spread) -> Conclusion:
    if not spread.is_enough:
        return Conclusion.FEW
    if spread.low >= 1 / _ALIKE and spread.high <= _ALIKE:
        return Conclusion.SAME
    if spread.low > 1:
        return Conclusion.MORE
    if spread.high < 1:
        return Conclusion.LESS
    return Conclusion.SAME if spread.high <= _NARROW * spread.low else Conclusion.NOISY


def number_text(value: float) -> str:
    """Format a number with three digits."""
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"  # noqa: PLR2004 - beyond it digits are wasted
