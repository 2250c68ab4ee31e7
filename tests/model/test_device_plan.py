from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_lecturecheck.model.device_plan import (
    CONTEXT_BYTES,
    DEFAULT_FRACTION,
    count_fitting,
    does_fit,
    memory_fraction,
)
from pytest_lecturecheck.units import GIB, MIB

T4 = 15360 * MIB
COUNTS = st.integers(1, 64)
TOTALS = st.integers(64 * MIB, 512 * GIB)
PEAKS = st.lists(st.integers(0, 600 * GIB), max_size=5)


@pytest.mark.parametrize(
    ("kernel_count", "total_bytes", "fraction"),
    [
        (1, T4, 0.75),
        (2, T4, 0.46),
        (3, T4, 0.30),
        (4, T4, 0.21),
        (29, T4, 0.0),
        (30, T4, 0.0),
        (31, T4, 0.0),
        (1, 143771 * MIB, 0.75),
        (3, 143771 * MIB, 0.32),
        (1, 1 * GIB, 0.5),
        (1, 512 * MIB, 0.0),
        (3, None, 0.30),
    ],
)
def test_a_card_is_divided_evenly_less_the_contexts(kernel_count, total_bytes, fraction):
    assert memory_fraction(kernel_count, total_bytes=total_bytes) == fraction


@pytest.mark.parametrize(
    ("live_peaks_bytes", "fraction"),
    [
        ((), 0.30),
        ((0,), 0.30),
        ((1 * GIB,), 0.10),
        ((1 * GIB + 1,), 0.11),
        ((1 * GIB, 2 * GIB, 3), 0.20),
        ((3 * GIB,), 0.30),
        ((90 * GIB,), 0.30),
    ],
)
def test_known_peaks_lower_the_share_and_never_raise_it(live_peaks_bytes, fraction):
    assert memory_fraction(3, live_peaks_bytes=live_peaks_bytes, total_bytes=T4) == fraction


@pytest.mark.parametrize(
    ("kernel_count", "total_bytes", "message"),
    [
        (0, T4, "0 kernels on a card of 16106127360 bytes: expected at least 1 of each"),
        (-2, None, "-2 kernels on a card of 16106127360 bytes: expected at least 1 of each"),
        (1, 0, "1 kernels on a card of 0 bytes: expected at least 1 of each"),
    ],
)
def test_counts_and_cards_that_cannot_be(kernel_count, total_bytes, message):
    with pytest.raises(ValueError, match="expected at least 1 of each") as caught:
        memory_fraction(kernel_count, total_bytes=total_bytes)
    assert str(caught.value) == message


@given(COUNTS, TOTALS, PEAKS)
def test_all_shares_and_contexts_fit_on_the_card(kernel_count, total_bytes, live_peaks_bytes):
    fraction = memory_fraction(kernel_count, live_peaks_bytes=live_peaks_bytes, total_bytes=total_bytes)
    exact = Fraction(round(fraction * 100), 100)
    assert 0 <= fraction <= DEFAULT_FRACTION
    assert fraction == float(f"{fraction:.2f}")
    assert fraction == 0 or kernel_count * (exact * total_bytes + CONTEXT_BYTES) <= total_bytes


@given(COUNTS, TOTALS)
def test_no_share_could_be_a_step_larger(kernel_count, total_bytes):
    next_step = Fraction(round(memory_fraction(kernel_count, total_bytes=total_bytes) * 100) + 1, 100)
    assert next_step > DEFAULT_FRACTION or kernel_count * (next_step * total_bytes + CONTEXT_BYTES) > total_bytes


@given(COUNTS, COUNTS, TOTALS, TOTALS, PEAKS)
def test_more_kernels_get_less_and_larger_cards_no_smaller_share(first, second, small, large, peaks):
    fewer, more = sorted((first, second))
    small, large = sorted((small, large))
    assert memory_fraction(more, live_peaks_bytes=peaks, total_bytes=small) <= memory_fraction(
        fewer, live_peaks_bytes=peaks, total_bytes=small
    )
    assert memory_fraction(fewer, total_bytes=small) <= memory_fraction(fewer, total_bytes=large)


@given(COUNTS, TOTALS, st.integers(0, 600 * GIB), st.integers(0, 600 * GIB))
def test_higher_peaks_get_no_smaller_share(kernel_count, total_bytes, first, second):
    low, high = sorted((max(1, first), max(1, second)))
    assert memory_fraction(kernel_count, live_peaks_bytes=[low], total_bytes=total_bytes) <= memory_fraction(
        kernel_count, live_peaks_bytes=[low, high], total_bytes=total_bytes
    )


@given(COUNTS, st.integers(0, 600 * GIB), TOTALS)
def test_so_many_fit_and_no_more(kernel_count, need_bytes, total_bytes):
    assert does_fit(kernel_count, need_bytes, total_bytes) == (kernel_count <= count_fitting(need_bytes, total_bytes))


def test_limits_of_fitting_are_inclusive():
    assert does_fit(3, T4 // 3 - CONTEXT_BYTES, T4)
    assert not does_fit(3, T4 // 3 - CONTEXT_BYTES + 1, T4)
    assert count_fitting(T4 // 3 - CONTEXT_BYTES, T4) == 3
    assert count_fitting(T4 // 3 - CONTEXT_BYTES + 1, T4) == 2
    assert count_fitting(T4, T4) == 0
