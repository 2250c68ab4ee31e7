"""The size from which one device is faster than another: interpolated on logarithmic axes, with its interval. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import StrEnum
from itertools import pairwise

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.findings.spread import Spread


class BreakEvenKind(StrEnum):
    """Where the second device becomes faster."""

    FOUND = "found"
    NEVER = "never in the range tried"
    ALWAYS = "at every size tried"
    NOISY = "too noisy to conclude"
    FEW = "too few runs to conclude"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """
    Both devices at one size.

    Attributes:
        size: the size, more than zero.
        ratio: time of the second device divided by that of the first.
    """

    size: float
    ratio: Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakEven:
    """
    The break-even size.

    Attributes:
        kind: whether there is one.
        size: the size, where there is one.
        low: lower end of its interval; ``None`` where it begins below the range tried.
        high: upper end; ``None`` where it ends above the range tried.
    """

    kind: BreakEvenKind
    size: float | None = None
    low: float | None = None
    high: float | None = None


def find_break_even(points: Sequence[Compared]) -> BreakEven:
    """
    Return the size above which the second device stays faster.

    The ratio is interpolated linearly in the logarithms of size and ratio. The interval is where the band of the
    ratio's intervals contains 1, widened by what parabolas would give instead of a line.

    Args:
        points: at least two sizes for a crossing to be found.
    """
    ordered = sorted(points, key=lambda item: item.size)
    if not ordered or not all(item.ratio.is_enough for item in ordered):
        return BreakEven(kind=BreakEvenKind.FEW)
    if all(item.ratio.low > 1 for item in ordered):
        return BreakEven(kind=BreakEvenKind.NEVER)
    if all(item.ratio.high < 1 for item in ordered):
        return BreakEven(kind=BreakEvenKind.ALWAYS)
    curve = _curve(ordered, lambda item: item.median)
    crossing = _last_crossing(curve)
    if crossing is None:
        return BreakEven(kind=BreakEvenKind.NOISY)
    # The lower band becomes faster first.
    first = _last_crossing(_curve(ordered, lambda item: item.low))
    last = _last_crossing(_curve(ordered, lambda item: item.high))
    bent = _bent_crossings(curve, crossing)
    low = None if first is None else min([first, crossing, *bent])
    high = None if last is None else max([last, crossing, *bent])
    return BreakEven(
        kind=BreakEvenKind.FOUND,
        size=math.exp(crossing),
        low=None if low is None else math.exp(low),
        high=None if high is None else math.exp(high),
    )


def _curve(points: Sequence[Compared], value: Callable[[Spread], float]) -> list[tuple[float, float]]:
    return [(math.log(item.size), math.log(value(item.ratio))) for item in points]


def _last_crossing(curve: Sequence[tuple[float, float]]) -> float | None:
    """Return where the curve falls below zero for good, or ``None`` if it begins below or ends above it."""
    if curve[-1][1] >= 0:
        return None
    for (x0, y0), (x1, y1) in reversed(list(pairwise(curve))):
        if y0 >= 0:
            return x0 + (x1 - x0) * y0 / (y0 - y1)
    return None


def _bent_crossings(curve: Sequence[tuple[float, float]], crossing: float) -> list[float]:
    """Return the crossings of the parabolas through three neighbouring points, within the interval of the crossing."""
    right = next(index for index, (x, _) in enumerate(curve) if x >= crossing)
    left = max(0, right - 1)
    found = []
    for start in (left - 1, left):
        if start < 0 or start + 3 > len(curve):
            continue
        root = _parabola_root(curve[start : start + 3], curve[left][0], curve[right][0])
        if root is not None:
            # The true curve may bend further than a parabola through the points shows.
            found += [root, crossing + 2 * (root - crossing)]
    return [min(max(root, curve[left][0]), curve[right][0]) for root in found]


def _parabola_root(points: Sequence[tuple[float, float]], low: float, high: float) -> float | None:
    def value(x: float) -> float:
        total = 0.0
        for index, (xi, yi) in enumerate(points):
            others = [xj for position, (xj, _) in enumerate(points) if position != index]
            total += yi * math.prod((x - xj) / (xi - xj) for xj in others)
        return total

    if value(low) * value(high) > 0:
        return None
    falls = value(low) > 0
    for _ in range(60):
        middle = (low + high) / 2
        if (value(middle) > 0) == falls:
            low = middle
        else:
            high = middle
    return (low + high) / 2
