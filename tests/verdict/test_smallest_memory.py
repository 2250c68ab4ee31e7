"""The search for the smallest memory with which a lecture passes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.made_entries import GIB, MIB

from pytest_lecturecheck.verdict.smallest_memory import MemorySearch, Try, describe

FREE = Try(cap_bytes=None, has_passed=True, verdict="completed", peak_bytes=900 * MIB)


def searched(need, *, most=1000 * MIB, least=128 * MIB, step=64 * MIB, runs=3, odd=None):
    """Search where every cap of at least ``need`` passes; ``odd`` reverses the outcome of some tries by number."""
    search = MemorySearch(least_bytes=least, most_bytes=most, step_bytes=step, runs=runs)
    while (cap := search.next_cap()) is not None:
        passes = (cap >= need) is not (len(search.tries) in (odd or ()))
        verdict = "completed" if passes else "died in code cell 2"
        search.note(Try(cap_bytes=cap, has_passed=passes, verdict=verdict))
    return search


@given(st.integers(min_value=130 * MIB, max_value=3 * GIB))
def test_the_edge_is_found_within_the_step(need):
    search = searched(need)

    assert search.is_conclusive
    assert search.failing_bytes < need <= search.passing_bytes
    assert search.passing_bytes - search.failing_bytes <= 64 * MIB
    for edge in (search.passing_bytes, search.failing_bytes):
        assert sum(item.cap_bytes == edge for item in search.tries) >= 3


def test_a_lecture_that_passes_with_the_least_has_no_edge():
    search = searched(100 * MIB)

    assert (search.passing_bytes, search.failing_bytes) == (128 * MIB, None)
    assert list(describe(search, FREE))[-1] == (
        "runs with 128 MiB (3 runs), no smaller cap was tried, footprint without a cap 900 MiB"
    )


def test_a_lecture_that_never_passes_ends_the_search():
    search = searched(900 * GIB)

    assert not search.is_conclusive
    assert len(search.tries) < 6
    assert next(iter(describe(search, FREE))).startswith("no cap passed: it dies with ")


def test_a_failure_at_the_edge_moves_it_up():
    first = searched(700 * MIB)
    last = len(first.tries) - 4

    search = searched(700 * MIB, odd={last})

    assert search.passing_bytes > search.failing_bytes
    assert search.contradictions or search.passing_bytes >= first.passing_bytes


def test_the_result_names_both_sides_of_the_edge():
    *_, last = describe(searched(700 * MIB, least=600 * MIB, most=800 * MIB, step=50 * MIB), FREE)

    assert last == (
        "runs with 700 MiB (3 runs), dies with 650 MiB (died in code cell 2, 3 runs), footprint without a cap 900 MiB"
    )


@pytest.mark.parametrize("runs", [1, 5])
def test_the_edge_is_tried_as_often_as_asked_for(runs):
    search = searched(700 * MIB, runs=runs)

    assert sum(item.cap_bytes == search.passing_bytes for item in search.tries) == runs
