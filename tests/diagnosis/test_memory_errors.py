"""What MemoryError and ENOMEM are reported as, from what was measured beside them."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest
from support.made_records import changed
from support.roomy_evidence import NUMPY_HUGE, ROOMY, ROOMY_LINES, check, raised

from pytest_lecturecheck.diagnosis import CauseKind, diagnose
from pytest_lecturecheck.model.cell_run import CellError
from pytest_lecturecheck.model.evidence import Evidence
from pytest_lecturecheck.units import GIB, MIB

# As ipykernel 7 sends them, paths shortened.
SPLU_TRACEBACK = (
    "---------------------------------------------------------------------------",
    "MemoryError                               Traceback (most recent call last)",
    "Cell In[4], line 2",
    "      1 A = banded(7_158_279)",
    "----> 2 lu = splu(A, permc_spec='NATURAL')",
    "",
    "File /env/lib/python3.11/site-packages/scipy/sparse/linalg/_dsolve/linsolve.py:433, in splu(A, permc_spec)",
    '    430 if (_options["ColPerm"] == "NATURAL"):',
    "--> 433 return _superlu.gstrf(N, A.nnz, A.data, indices, indptr,",
    "    434                       csc_construct_func=csc_construct_func,",
    "",
    "MemoryError: ",
)

BYTEARRAY_TRACEBACK = (
    "MemoryError                               Traceback (most recent call last)",
    "Cell In[6], line 2",
    "      1 small = splu(I)",
    "----> 2 b=bytearray(10**15)",
    "",
    "MemoryError: ",
)


def memory_error(value="", traceback=(), **changes):
    return raised("MemoryError", error=CellError(name="MemoryError", value=value, traceback=traceback), **changes)


@pytest.mark.parametrize("name", ["MemoryError", "_ArrayMemoryError", "numpy._core._exceptions._ArrayMemoryError"])
def test_one_impossible_request_states_its_size(name):
    cause = check(
        raised(name, NUMPY_HUGE),
        CauseKind.REQUEST_REFUSED,
        "MemoryError: one request of 72.8 TiB (80 TB) was refused; the process itself had only 63 MiB "
        "(code cell 2, line 9)",
    )
    assert cause.evidence == ROOMY_LINES
    assert cause.advice == ()


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (
            "Unable to allocate 149. GiB for an array with shape (100000, 100000) and data type complex128",
            "149 GiB (160 GB)",
        ),
        (
            "Unable to allocate 93.1 GiB for an array with shape (10, 10000000000) and data type bool",
            "93.1 GiB (100 GB)",
        ),
        ("Unable to allocate 1.00 TiB", "1 TiB (1.1 TB)"),
        (f"Unable to allocate 72.8 TiB for an array with shape ({'9' * 3000},) and data type int8", "72.8 TiB (80 TB)"),
    ],
)
def test_sizes_of_refused_arrays_are_read_in_every_form(value, size):
    check(
        memory_error(value),
        CauseKind.REQUEST_REFUSED,
        f"MemoryError: one request of {size} was refused; the process itself had only 63 MiB (code cell 2, line 9)",
    )


@pytest.mark.parametrize("traceback", [(), BYTEARRAY_TRACEBACK])
def test_a_refused_request_of_unknown_size(traceback):
    check(
        memory_error(traceback=traceback),
        CauseKind.REQUEST_REFUSED,
        "MemoryError: one request of unknown size was refused; the process itself had only 63 MiB "
        "(code cell 2, line 9)",
    )


def test_a_memory_error_keeps_its_own_message():
    cause = check(
        memory_error("the table of quantiles does not fit"),
        CauseKind.REQUEST_REFUSED,
        "MemoryError: one request of unknown size was refused; the process itself had only 63 MiB "
        "(code cell 2, line 9)",
    )
    assert cause.evidence == ("MemoryError: the table of quantiles does not fit", *ROOMY_LINES)


OWN_RAISE = (
    "MemoryError                               Traceback (most recent call last)",
    "Cell In[2], line 9",
    "      8 if len(students) > 30:",
    "----> 9     raise MemoryError('too many students')",
    "",
    "MemoryError: too many students",
)


def test_a_memory_error_that_the_cell_raises_is_its_own_word():
    own = memory_error("too many students", OWN_RAISE)
    check(own, CauseKind.CELL_ERROR, "MemoryError: too many students (code cell 2, line 9)")
    frame = "File /env/lib/python3.11/site-packages/solver/core.py:433, in solve(a)"
    library = memory_error("too many students", (*OWN_RAISE[:3], "----> 9 solve(a)", "", frame, "--> 433 raise E"))
    assert diagnose(library).kind is CauseKind.LIBRARY_LIMIT


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("pyarrow.lib.ArrowMemoryError", "malloc of size 6400000000000 failed", "MemoryError: one request of 5.82 TiB"),
        ("RRuntimeError", "Error: cannot allocate vector of size 7450.6 Gb", "R's error: one request of 7.28 TiB"),
        (
            "ERROR",
            "Error in numeric(1e+12): cannot allocate vector of size 7450.6 Gb\n",
            "R's error: one request of 7.28 TiB",
        ),
    ],
)
def test_refused_requests_of_arrow_and_r(name, value, said):
    cause = diagnose(raised(name, value))
    assert cause.kind is CauseKind.REQUEST_REFUSED
    assert cause.headline.startswith(said)


def test_the_commit_limit_of_windows_is_a_refused_request():
    text = "[WinError 1455] The paging file is too small for this operation to complete"
    check(
        raised("OSError", text),
        CauseKind.REQUEST_REFUSED,
        "OSError (out of commitments): one request of unknown size was refused; the process itself had only 63 MiB "
        "(code cell 2, line 9)",
    )
    assert diagnose(raised("OSError", "[WinError 145] The directory is not empty")).kind is CauseKind.CELL_ERROR


def test_enomem_is_reported_like_a_memory_error():
    refused = raised("OSError", f"[Errno {errno.ENOMEM}] Cannot allocate memory")
    cause = check(
        refused,
        CauseKind.REQUEST_REFUSED,
        "OSError (ENOMEM): one request of unknown size was refused; the process itself had only 63 MiB "
        "(code cell 2, line 9)",
    )
    assert cause.evidence[0] == f"OSError: [Errno {errno.ENOMEM}] Cannot allocate memory"
    other = raised("OSError", f"[Errno {errno.ENOENT}] No such file")
    assert diagnose(other).kind is CauseKind.CELL_ERROR


def test_memory_that_climbed_to_the_limit():
    full = {"peak_footprint_bytes": 23 * GIB, "available_memory_bytes": 10 * GIB}
    check(
        memory_error(**full),
        CauseKind.MEMORY_EXHAUSTED,
        "MemoryError: memory climbed to 23 GiB, the limit is 24 GiB, RAM (code cell 2, line 9)",
    )
    one_more = "Unable to allocate 2.00 GiB for an array with shape (2147483648,) and data type uint8"
    check(
        memory_error(one_more, **full),
        CauseKind.MEMORY_EXHAUSTED,
        "MemoryError: memory climbed to 23 GiB, the limit is 24 GiB, RAM, a further 2 GiB was refused "
        "(code cell 2, line 9)",
    )
    check(
        memory_error(
            one_more.replace("2.00", "15.0").replace("2147483648", "16106127360"), peak_footprint_bytes=10 * GIB
        ),
        CauseKind.MEMORY_EXHAUSTED,
        "MemoryError: a request of 15 GiB did not fit on top of the 10 GiB that the process had; "
        "the limit is 24 GiB, RAM (code cell 2, line 9)",
    )


def test_memory_that_others_hold():
    check(
        memory_error(available_memory_bytes=GIB),
        CauseKind.MEMORY_EXHAUSTED,
        "MemoryError: only 1 GiB was left on the machine; this process had 63 MiB (code cell 2, line 9)",
    )
    for left, held in ((GIB * 2, 12 * GIB), (12 * GIB, 2 * GIB)):
        check(
            memory_error(available_memory_bytes=left, peak_footprint_bytes=int(12.5 * GIB), last_footprint_bytes=held),
            CauseKind.MEMORY_EXHAUSTED,
            "MemoryError: memory climbed to 12.5 GiB of the 14 GiB that others had left (code cell 2, line 9)",
        )
    check(
        memory_error(
            "Unable to allocate 6.00 GiB for an array with shape (6442450944,) and data type uint8",
            available_memory_bytes=5 * GIB,
        ),
        CauseKind.MEMORY_EXHAUSTED,
        "MemoryError: a request of 6 GiB was refused, only 5 GiB was left on the machine (code cell 2, line 9)",
    )


ULIMIT_ADVICE = (
    "that limit counts what is reserved, not only what is in use: raise or lift it before looking for more memory"
)


@pytest.mark.parametrize(
    ("evidence", "kind", "headline"),
    [
        (
            memory_error("Unable to allocate 2.00 GiB for an array with shape (2147483648,) and data type uint8"),
            CauseKind.LIBRARY_LIMIT,
            (
                "MemoryError: a request of 2 GiB (2.15 GB) was refused, memory was not exhausted (peak 63 MiB, 20 GiB "
                "free); ulimit -v (RLIMIT_AS) of 3 GiB is in force (code cell 2, line 9)"
            ),
        ),
        (
            changed(ROOMY, signal=6, stderr_tail=("terminate called after throwing an instance of 'std::bad_alloc'",)),
            CauseKind.NATIVE_OUT_OF_MEMORY,
            (
                "kernel aborted (SIGABRT) in code cell 2, line 9; a C++ allocation failed (std::bad_alloc)"
                "; ulimit -v (RLIMIT_AS) of 3 GiB is in force"
            ),
        ),
    ],
)
def test_a_limit_of_ulimit_is_named(evidence, kind, headline):
    limited = changed(evidence, ulimit_bytes=3 * GIB, ulimit_source="ulimit -v (RLIMIT_AS)")
    assert check(limited, kind, headline).advice == (ULIMIT_ADVICE,)


def test_a_limit_of_ulimit_that_is_the_smallest_is_named_once():
    evidence = changed(
        memory_error(""),
        peak_footprint_bytes=29 * GIB // 10,
        limit_memory_bytes=3 * GIB,
        limit_source="ulimit -d (RLIMIT_DATA)",
        ulimit_bytes=3 * GIB,
        ulimit_source="ulimit -d (RLIMIT_DATA)",
    )
    check(
        evidence,
        CauseKind.MEMORY_EXHAUSTED,
        "MemoryError: memory climbed to 2.9 GiB, the limit is 3 GiB, ulimit -d (RLIMIT_DATA) (code cell 2, line 9)",
    )


def test_a_limit_of_ulimit_has_nothing_to_do_with_other_errors():
    evidence = changed(raised("ValueError", "no"), ulimit_bytes=3 * GIB, ulimit_source="ulimit -v (RLIMIT_AS)")
    check(evidence, CauseKind.CELL_ERROR, "ValueError: no (code cell 2, line 9)")


def test_a_request_that_would_have_fitted_points_to_a_commit_limit():
    cause = check(
        memory_error("Unable to allocate 2.00 GiB for an array with shape (2147483648,) and data type uint8"),
        CauseKind.LIBRARY_LIMIT,
        "MemoryError: a request of 2 GiB (2.15 GB) was refused, memory was not exhausted (peak 63 MiB, 20 GiB free) "
        "(code cell 2, line 9)",
    )
    assert cause.advice == (
        "look for a limit on address space or commitments: ulimit -v, ulimit -d, vm.overcommit_memory",
    )


SPLU_HEADLINE = (
    "library reported MemoryError, memory was not exhausted (peak 1.1 GiB, 20 GiB free) - "
    "an internal limit, most likely the 32-bit sizes in SuperLU (code cell 3, line 30)"
)

SPLU_RULE = (
    "SuperLU takes 30 x the stored entries as its work space, in 32-bit integers: "
    "above 2**31 / 30 = 71,582,788 stored entries the request overflows"
)


def splu(**changes):
    return memory_error(
        **({"traceback": SPLU_TRACEBACK, "cell_number": 3, "line": 30, "peak_footprint_bytes": 1126 * MIB} | changes)
    )


def test_superlu_out_of_32_bits_is_not_out_of_memory():
    cause = check(splu(), CauseKind.LIBRARY_LIMIT, SPLU_HEADLINE)
    assert cause.evidence == (SPLU_RULE, "peak footprint of the cell 1.1 GiB", *ROOMY_LINES[1:])
    assert cause.advice == (
        "a machine with more memory does not help",
        "drop stored zeros (A.eliminate_zeros()) and count A.nnz again, or use another solver",
        "on arm64 the same cell may go on, and need several times the memory",
    )


def test_superlu_is_recognised_by_the_source_where_there_is_no_traceback():
    check(splu(traceback=(), source="lu = splu(A)"), CauseKind.LIBRARY_LIMIT, SPLU_HEADLINE)
    check(
        splu(traceback=(), source="a = split(A)"),
        CauseKind.REQUEST_REFUSED,
        (
            "MemoryError: one request of unknown size was refused; the process itself had only 1.1 GiB "
            "(code cell 3, line 30)"
        ),
    )


def test_superlu_on_arm64_says_that_the_limit_was_not_expected_there():
    cause = check(splu(machine="arm64"), CauseKind.LIBRARY_LIMIT, SPLU_HEADLINE)
    assert cause.evidence[1] == "on arm64 that overflow saturates, so the cell was expected to go on"
    assert not any("arm64" in line for line in cause.advice)


def test_superlu_at_the_limit_of_memory_is_out_of_memory():
    check(
        splu(peak_footprint_bytes=23 * GIB),
        CauseKind.MEMORY_EXHAUSTED,
        "MemoryError: memory climbed to 23 GiB, the limit is 24 GiB, RAM (code cell 3, line 30)",
    )


def test_another_librarys_memory_error_while_memory_is_free():
    traceback = (
        "Cell In[1], line 1",
        "----> 1 f()",
        "File ~/env/lib/site-packages/umfpack/solve.py:12, in f()",
        "--> 12 g()",
    )
    cause = check(
        memory_error(traceback=traceback),
        CauseKind.LIBRARY_LIMIT,
        "library reported MemoryError, memory was not exhausted (peak 63 MiB, 20 GiB free) - "
        "an internal limit of umfpack, or one request that was too large (code cell 2, line 9)",
    )
    assert cause.advice == ("do not look for a machine with more memory before the size of that request is known",)


def test_without_measurements_nothing_is_claimed():
    bare = Evidence(cell_number=1, error=CellError(name="MemoryError", value=""))
    cause = check(bare, CauseKind.CELL_ERROR, "MemoryError (code cell 1)")
    assert cause.evidence == (
        "a refused request and exhausted memory cannot be told apart: peak and limit are not both known",
    )
    check(
        replace(bare, error=CellError(name="MemoryError", value=NUMPY_HUGE)),
        CauseKind.REQUEST_REFUSED,
        "MemoryError: one request of 72.8 TiB (80 TB) was refused (code cell 1)",
    )
