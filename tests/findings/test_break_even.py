"""The break-even size against curves whose crossing is known."""

import math
import random

import pytest

from pytest_lecturecheck.findings.break_even import BreakEven, BreakEvenKind, Compared, find_break_even
from pytest_lecturecheck.findings.spread import Spread, ratio_of, ratio_of_medians, spread_of

SIZES = [10.0**power for power in range(2, 8)]


def exact(ratio, count=5):
    return Spread(median=ratio, low=ratio, high=ratio, count=count)


def cpu(size):
    return 1e-4 + size * 1e-6


def gpu(size):
    """Faster above 11,011: where 1e-2 + 1e-7 n is 1e-4 + 1e-6 n."""
    return 1e-2 + size * 1e-7


TRUTH = (1e-2 - 1e-4) / (1e-6 - 1e-7)


def noisy(seed, runs=6, noise=0.1):
    draw = random.Random(seed)
    points = []
    for size in SIZES:
        first = {n: cpu(size) * math.exp(draw.gauss(0, noise)) for n in range(runs)}
        second = {n: gpu(size) * math.exp(draw.gauss(0, noise)) for n in range(runs)}
        points.append(Compared(size=size, ratio=ratio_of(first, second).spread))
    return points


def test_the_interval_covers_the_truth_in_95_of_100_seeds():
    found = [find_break_even(noisy(seed)) for seed in range(100)]
    covered = [item for item in found if item.size is not None and item.low <= TRUTH <= item.high]
    assert len(covered) >= 95
    # An interval that covers everything says nothing.
    assert all(item.high / item.low < 10 for item in covered)


@pytest.mark.parametrize("noise", [0.0, 0.03, 0.3])
def test_other_noise_is_covered_as_well(noise):
    found = [find_break_even(noisy(seed, noise=noise)) for seed in range(100)]
    assert sum(item.size is not None and item.low <= TRUTH <= item.high for item in found) >= 95


def on_two_machines(seed, noises, runs=6):
    """The same curves where runs of one machine are no rounds of the other."""
    draw = random.Random(seed)
    points = []
    for size in SIZES:
        first, second = (
            spread_of([time(size) * math.exp(draw.gauss(0, noise)) for _ in range(runs)])
            for time, noise in zip((cpu, gpu), noises, strict=True)
        )
        points.append(Compared(size=size, ratio=ratio_of_medians(first, second).spread))
    return find_break_even(points)


@pytest.mark.parametrize("noises", [(0.1, 0.1), (0.3, 0.03), (0.03, 0.3)])
def test_the_noise_of_both_machines_is_covered(noises):
    found = [on_two_machines(seed, noises) for seed in range(100)]
    assert sum(item.size is not None and item.low <= TRUTH <= item.high for item in found) >= 95


def test_power_laws_cross_exactly():
    points = [Compared(size=size, ratio=exact(size / 3e4 if size < 1 else (3e4 / size) ** 0.5)) for size in SIZES]
    found = find_break_even(points)
    assert found.size == pytest.approx(3e4)
    assert (found.low, found.high) == (pytest.approx(3e4), pytest.approx(3e4))


def test_no_crossing_in_the_range_is_an_answer():
    slow = [Compared(size=size, ratio=exact(2.0)) for size in SIZES]
    fast = [Compared(size=size, ratio=exact(0.5)) for size in SIZES]
    assert find_break_even(slow) == BreakEven(kind=BreakEvenKind.NEVER)
    assert find_break_even(fast) == BreakEven(kind=BreakEvenKind.ALWAYS)


def test_noise_around_one_is_not_a_crossing():
    wide = Spread(median=1.1, low=0.7, high=1.6, count=6)
    assert find_break_even([Compared(size=size, ratio=wide) for size in SIZES]).kind is BreakEvenKind.NOISY


def test_too_few_runs_are_not_a_crossing():
    points = [Compared(size=size, ratio=exact(1e4 / size, count=4)) for size in SIZES]
    assert find_break_even(points).kind is BreakEvenKind.FEW


def test_a_wide_interval_at_the_largest_size_has_no_upper_end():
    points = [Compared(size=size, ratio=exact(3e6 / size)) for size in SIZES[:-1]]
    points.append(Compared(size=SIZES[-1], ratio=Spread(median=0.3, low=0.2, high=1.2, count=6)))
    found = find_break_even(points)
    assert found.high is None
    assert found.low <= found.size


@pytest.mark.parametrize("count", range(1, 30))
def test_the_interval_of_a_median_is_made_of_its_values(count):
    spread = spread_of(list(range(count)))
    assert spread.low <= spread.median <= spread.high
    # The probability that the interval misses the median, by ranks.
    outside = int(spread.low)
    missed = 2 * sum(math.comb(count, rank) for rank in range(outside)) / 2**count
    assert missed <= 0.1
