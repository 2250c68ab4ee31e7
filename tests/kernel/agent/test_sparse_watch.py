"""Sparse factorisations as the agent notes them."""

import sys
import types

import numpy as np
import pytest

from pytest_lecturecheck.kernel.agent.sparse_watch import SparseWatch
from pytest_lecturecheck.kernel.messages.agent_factorisations import clean_factorisations
from pytest_lecturecheck.model.factorisation import Factorisation
from pytest_lecturecheck.model.run import Outcome


def test_calls_are_noted_whatever_their_name_and_leave_no_frame(bench):
    run = bench.run(
        """
        import numpy as np, scipy.sparse as sp
        from scipy.sparse.linalg import splu as factorise, spsolve
        A = sp.csc_array((np.array([2.0, 0.0, 3.0, 4.0]), [0, 1, 1, 2], [0, 2, 3, 4]), shape=(3, 3))
        """,
        "lu = factorise(A, permc_spec='NATURAL')",
        "x = spsolve(A, np.ones(3))",
        "factorise(sp.csc_array(np.zeros((2, 2))))",
    )

    assert run.outcome is Outcome.FAILED
    assert run.cells[0].factorisations == ()
    (first,) = run.cells[1].factorisations
    assert (first.call, first.size, first.stored_count, first.zero_count) == ("splu", 3, 4, 1)
    assert (first.ordering, first.error) == ("NATURAL", "")
    assert first.fill_count >= 6
    assert run.cells[2].factorisations[0].call == "spsolve"
    assert run.evidence.factorisations[0].error == "RuntimeError"
    assert "sparse_watch" not in "\n".join(run.evidence.error.traceback)


def test_the_largest_and_the_last_failed_call_are_kept():
    module = types.ModuleType("_superlu")

    def gstrf(size, stored, *_arrays, **_options):
        if size == 13:
            raise MemoryError
        return types.SimpleNamespace(nnz=stored * 2)

    module.gstrf = gstrf
    watch = SparseWatch(object())
    watch.wrap(module)
    for size in (10, 30, 20):
        module.gstrf(size, size, np.ones(size), options={"ColPerm": "COLAMD"})
    with pytest.raises(MemoryError):
        module.gstrf(13, 5, np.zeros(5), ilu=True)

    first, second = watch.take()
    assert (first["size"], first["fill"], first["error"]) == (30, 60, "")
    assert (second["call"], second["zeros"], second["error"]) == ("spilu", 5, "MemoryError")
    assert watch.take() == []
    assert sys.modules.get("_superlu") is None


@pytest.mark.parametrize(
    ("sent", "found"),
    [
        (None, ()),
        ([{"call": "splu", "size": 3, "stored": True}], ()),
        ([{"call": "rm -rf", "size": 3, "stored": 4}], ()),
        (
            [{"call": "splu", "size": 3, "stored": 4, "zeros": 9, "fill": -1, "error": 5}],
            (Factorisation(call="splu", size=3, stored_count=4),),
        ),
    ],
)
def test_only_plausible_notes_are_kept(sent, found):
    assert clean_factorisations(sent) == found
