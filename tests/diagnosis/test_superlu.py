"""SuperLU's limits, with the values of the matrix that met them."""

from dataclasses import replace

import pytest
from support.made_records import made_evidence

from pytest_lecturecheck.diagnosis.rules import find_cause
from pytest_lecturecheck.model.cell_run import CellError
from pytest_lecturecheck.model.factorisation import Factorisation
from pytest_lecturecheck.units import GIB

INCIDENT = Factorisation(
    call="splu",
    size=2_000_000,
    stored_count=338_000_000,
    zero_count=258_900_000,
    ordering="COLAMD",
    error="MemoryError",
)
OTHER_SOLVERS = (
    "use a solver with 64-bit sizes (UMFPACK of scikit-umfpack, CHOLMOD of scikit-sparse, PARDISO), "
    "an iterative one (scipy.sparse.linalg.gmres, cg), or solve in blocks"
)


def cause(factorisation, **keys):
    return find_cause(
        made_evidence(
            error=CellError(name="MemoryError", value=""),
            source="lu = factorise(hessian)\nsplu",
            factorisations=(factorisation,),
            peak_footprint_bytes=GIB,
            limit_memory_bytes=64 * GIB,
            available_memory_bytes=60 * GIB,
            **{"machine": "x86_64", **keys},
        )
    )


def test_the_limit_is_shown_with_the_values_of_the_matrix():
    found = cause(INCIDENT)

    assert found.headline == (
        "library reported MemoryError, memory was not exhausted (peak 1 GiB, 60 GiB free) - "
        "338.0 million stored entries are above the 71.6 million of SuperLU's 32-bit work space"
    )
    assert found.evidence[1:5] == (
        "splu was given 2,000,000 x 2,000,000 with 338,000,000 stored entries, 258,900,000 of them zeros (77 %)",
        "30 x 338,000,000 = 10,140,000,000; a 32-bit integer holds less than 2**31 = 2,147,483,648",
        "without the zeros, 79.1 million stored entries are still above 71.6 million",
        "the ordering (COLAMD) cannot matter: the request is made before fill-in starts",
    )
    assert found.advice == (
        "a machine with more memory does not help",
        "dropping the stored zeros (A.eliminate_zeros()) is not enough by itself",
        OTHER_SOLVERS,
        "on arm64 the same cell may go on, and need several times the memory",
    )


def test_dropping_zeros_helps_where_the_rest_fits():
    found = cause(replace(INCIDENT, zero_count=300_000_000))

    assert "without the zeros, 38.0 million stored entries are 53 % of what fits" in found.evidence
    assert "drop the stored zeros before the call: A.eliminate_zeros()" in found.advice


def test_counts_next_to_the_limit_are_shown_in_full():
    found = cause(replace(INCIDENT, stored_count=71_582_790, zero_count=0))

    assert "71,582,790 stored entries are above the 71,582,788 of" in found.headline
    assert found.evidence[1].endswith("71,582,790 stored entries, none of them zero")


@pytest.mark.parametrize(("ordering", "other"), [("COLAMD", "MMD_AT_PLUS_A"), ("NATURAL", "COLAMD")])
def test_below_the_line_it_was_the_fill_in(ordering, other):
    found = cause(replace(INCIDENT, stored_count=71_582_788, zero_count=0, ordering=ordering))

    assert "fill-in exceeded what SuperLU could extend its work space to" in found.headline
    assert found.advice[0] == f'try another ordering (permc_spec="{other}"): here it decides about fill-in'


def test_successful_calls_do_not_explain_a_failure():
    assert "most likely the 32-bit sizes in SuperLU" in cause(replace(INCIDENT, error="")).headline
