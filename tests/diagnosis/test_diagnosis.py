from __future__ import annotations

import errno
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.made_records import changed, made_evidence

from pytest_lecturecheck.diagnosis import CauseKind, diagnose
from pytest_lecturecheck.model.cell_run import CellError
from pytest_lecturecheck.model.evidence import Evidence
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.units import GIB, MIB

# Memory as on a machine with 24 GiB, most of it free, and a small kernel.
ROOMY = made_evidence(
    cell_number=2,
    line=9,
    peak_footprint_bytes=63 * MIB,
    last_footprint_bytes=61 * MIB,
    last_footprint_age_seconds=0.02,
    available_memory_bytes=20 * GIB,
    limit_memory_bytes=24 * GIB,
    limit_source="RAM",
    swap_bytes=0,
    machine="x86_64",
)
ROOMY_LINES = (
    "peak footprint of the cell 63 MiB",
    "last reading 61 MiB, 0.02 s before the end was noticed",
    "memory of the machine: available 20 GiB; limit 24 GiB, RAM; no swap",
)


def raised(name, value="", **changes):
    changes.setdefault("error", CellError(name=name, value=value))
    return changed(ROOMY, **changes)


def check(evidence, kind, headline):
    cause = diagnose(evidence)
    assert (cause.kind, cause.headline) == (kind, headline)
    return cause


# Errors of cells


@pytest.mark.parametrize(
    ("name", "value", "headline"),
    [
        ("ValueError", "short and clear", "ValueError: short and clear (code cell 2, line 9)"),
        ("AssertionError", "", "AssertionError (code cell 2, line 9)"),
        ("ValueError", "the student ran out of memory cards", None),
        ("RuntimeError", "Out of memory allocating 5 bytes", None),
        ("OutOfMemoryError", "the heap of cards is full", None),
        ("ValueError", "RESOURCE_EXHAUSTED: Out of memory allocating 98765432100 bytes.", None),
        ("KeyError", "'splu'", None),
        ("ValueError", "DNN library initialization failed", None),
    ],
)
def test_plain_errors_are_what_they_say(name, value, headline):
    cause = check(raised(name, value), CauseKind.CELL_ERROR, headline or f"{name}: {value} (code cell 2, line 9)")
    assert cause.advice == ()


def test_a_place_that_is_not_known_is_left_out():
    check(raised("E", "x", line=None), CauseKind.CELL_ERROR, "E: x (code cell 2)")
    check(raised("E", "x", line=None, cell_number=None), CauseKind.CELL_ERROR, "E: x")


def test_text_of_an_error_is_made_fit_for_one_line():
    value = "red \x1b[31mline\nnext\tone \N{RIGHT-TO-LEFT OVERRIDE}evil\udc80\x00\r\x1b"
    check(
        raised("Value\x07Error", value),
        CauseKind.CELL_ERROR,
        r"Value\x07Error: red line next one \u202eevil\udc80\x00 \x1b (code cell 2, line 9)",
    )


def test_a_long_message_keeps_its_beginning_and_its_end():
    headline = diagnose(raised("CalledProcessError", f"Command '{'x' * 9000}' returned exit status 1.")).headline
    assert headline.startswith("CalledProcessError: Command 'xxx")
    assert headline.endswith("x' returned exit status 1. (code cell 2, line 9)")
    assert len(headline) < 400


@pytest.mark.parametrize("call", ["raw_input", "getpass"])
def test_a_cell_that_asks_for_input(call):
    value = f"{call} was called, but this frontend does not support input requests."
    cause = check(
        raised("StdinNotImplementedError", value),
        CauseKind.INPUT_REQUESTED,
        "the cell asks for input, which is not available here (code cell 2, line 9)",
    )
    assert cause.evidence == (f"StdinNotImplementedError: {value}",)
    assert cause.advice == ("set the value in the code, or tag the cell skip-execution",)


@pytest.mark.parametrize("value", ["0", "1", "bad input"])
@pytest.mark.parametrize("exit_code", [None, 0])
def test_an_exit_is_the_lectures_own_wish_and_no_death(value, exit_code):
    cause = check(
        raised("SystemExit", value, exit_code=exit_code),
        CauseKind.EXIT_REQUESTED,
        f"the cell ends the kernel: SystemExit: {value} (code cell 2, line 9)",
    )
    assert cause.advice == ("no cell after it can run: remove the call, or tag the cell skip-execution",)


# MemoryError

NUMPY_HUGE = "Unable to allocate 72.8 TiB for an array with shape (10000000000000,) and data type float64"
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


def test_a_memory_error_with_words_of_its_own_keeps_them():
    cause = check(
        memory_error("the table of quantiles does not fit"),
        CauseKind.REQUEST_REFUSED,
        "MemoryError: one request of unknown size was refused; the process itself had only 63 MiB "
        "(code cell 2, line 9)",
    )
    assert cause.evidence == ("MemoryError: the table of quantiles does not fit", *ROOMY_LINES)


def test_what_the_operating_system_refused_is_told_like_a_memory_error():
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


def test_without_figures_nothing_is_claimed():
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


# Out of memory as libraries put it

HOST = "; the limit is 24 GiB, RAM; 20 GiB available; the process itself had only 63 MiB (code cell 2, line 9)"
PLACE = " (code cell 2, line 9)"
DEVICE = " on the device (code cell 2, line 9)"


@pytest.mark.parametrize(
    ("name", "value", "kind", "headline"),
    [
        (
            "JaxRuntimeError",
            "INTERNAL: Error dispatching computation: Out of memory allocating 98765432100 bytes.",
            CauseKind.HOST_OUT_OF_MEMORY,
            "XLA out of memory: asked 98.8 GB (92 GiB) on the host" + HOST,
        ),
        (
            "jaxlib.xla_extension.XlaRuntimeError",
            "RESOURCE_EXHAUSTED: Out of memory allocating 33433655952 bytes.",
            CauseKind.HOST_OUT_OF_MEMORY,
            "XLA out of memory: asked 33.4 GB (31.1 GiB) on the host" + HOST,
        ),
        (
            "JaxRuntimeError",
            "INTERNAL: YNNPACK operation failed",
            CauseKind.HOST_OUT_OF_MEMORY,
            "XLA out of memory on the host" + HOST,
        ),
        (
            "XlaRuntimeError",
            "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 3221225472 bytes.",
            CauseKind.DEVICE_OUT_OF_MEMORY,
            "XLA out of memory: asked 3.22 GB (3 GiB)" + DEVICE,
        ),
        (
            "XlaRuntimeError",
            "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 7.45GiB.\nBufferAssignment OOM Debugging.",
            CauseKind.DEVICE_OUT_OF_MEMORY,
            "XLA out of memory: asked 8 GB (7.45 GiB)" + DEVICE,
        ),
        (
            "RuntimeError",
            "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 14285187448 bytes.",
            CauseKind.DEVICE_OUT_OF_MEMORY,
            "XLA out of memory: asked 14.3 GB (13.3 GiB)" + DEVICE,
        ),
        (
            "JaxRuntimeError",
            "RESOURCE_EXHAUSTED: Failed to allocate request for 12.58GiB (13512998912B) on device ordinal 0",
            CauseKind.DEVICE_OUT_OF_MEMORY,
            "XLA out of memory: asked 13.5 GB (12.6 GiB)" + DEVICE,
        ),
        (
            "XlaRuntimeError",
            (
                "RESOURCE_EXHAUSTED: Error allocating device buffer: Attempting to allocate 7.50G. That was not "
                "possible. There are 5.83G free.; (0x0x0_HBM0)"
            ),
            CauseKind.DEVICE_OUT_OF_MEMORY,
            "XLA out of memory: asked 8.05 GB (7.5 GiB)" + DEVICE,
        ),
        (
            "XlaRuntimeError",
            "INTERNAL: Failed to allocate 2147483648 bytes for new constant",
            CauseKind.DEVICE_OUT_OF_MEMORY,
            "XLA out of memory: asked 2.15 GB (2 GiB)" + DEVICE,
        ),
        (
            "RuntimeError",
            "Resource exhausted: Out of memory allocating 80000000000 bytes.",
            CauseKind.HOST_OUT_OF_MEMORY,
            "XLA out of memory: asked 80 GB (74.5 GiB) on the host" + HOST,
        ),
        (
            "XlaRuntimeError",
            (
                "INTERNAL: CpuCallback error: XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating "
                "80000000000 bytes."
            ),
            CauseKind.HOST_OUT_OF_MEMORY,
            "XLA out of memory: asked 80 GB (74.5 GiB) on the host" + HOST,
        ),
        (
            "OutOfMemoryError",
            (
                "Allocation on device 0 would exceed allowed memory. (out of memory)\n"
                "Currently allocated     : 21.14 GiB\nRequested               : 25.00 MiB"
            ),
            CauseKind.DEVICE_OUT_OF_MEMORY,
            "PyTorch out of memory: asked 26.2 MB (25 MiB)" + DEVICE,
        ),
        (
            "RuntimeError",
            "cuda runtime error (2) : out of memory at /pytorch/aten/src/THC/THCGeneral.cpp:50",
            CauseKind.DEVICE_OUT_OF_MEMORY,
            "PyTorch out of memory" + DEVICE,
        ),
        (
            "DistBackendError",
            "NCCL error in: ProcessGroupNCCL.cpp:20, unhandled cuda error\nLast error:\nCuda failure 2 'out of memory'",
            CauseKind.DEVICE_OUT_OF_MEMORY,
            "PyTorch out of memory" + DEVICE,
        ),
        (
            "CUDADriverError",
            "CUDA_ERROR_OUT_OF_MEMORY: out of memory",
            CauseKind.DEVICE_OUT_OF_MEMORY,
            "CuPy out of memory" + DEVICE,
        ),
        (
            "CudaSupportError",
            "Error at driver init: \n[2] Call to cuInit results in CUDA_ERROR_OUT_OF_MEMORY",
            CauseKind.DEVICE_OUT_OF_MEMORY,
            "Numba out of memory" + DEVICE,
        ),
        (
            "ResourceExhaustedError",
            "{{function_node __wrapped__Mul_device_/job:localhost/task:0/device:GPU:0}} failed to allocate memory",
            CauseKind.DEVICE_OUT_OF_MEMORY,
            "TensorFlow out of memory" + DEVICE,
        ),
        (
            "XlaRuntimeError",
            "RESOURCE_EXHAUSTED: XLA compile error. Ran out of memory in memory space hbm.",
            CauseKind.LIBRARY_OUT_OF_MEMORY,
            "XLA out of memory (code cell 2, line 9)",
        ),
        (
            "OutOfMemoryError",
            (
                "Out of memory allocating 805,306,368 bytes "
                "(allocated so far: 536,870,912 bytes, limit set to: 1,073,741,824 bytes)."
            ),
            CauseKind.DEVICE_OUT_OF_MEMORY,
            "CuPy out of memory: asked 805 MB (768 MiB) on the device; 512 MiB in use; it has 1 GiB in all" + PLACE,
        ),
        (
            "CUDARuntimeError",
            "cudaErrorMemoryAllocation: out of memory",
            CauseKind.DEVICE_OUT_OF_MEMORY,
            "CuPy out of memory" + DEVICE,
        ),
        (
            "OutOfMemoryError",
            "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 14.58 GiB, 1 GiB is free.",
            CauseKind.DEVICE_OUT_OF_MEMORY,
            "PyTorch out of memory: asked 2.68 GB (2.5 GiB) on the device; it has 14.6 GiB in all" + PLACE,
        ),
        (
            "OutOfMemoryError",
            (
                "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 14.58 GiB of which 1.00 "
                "GiB is free. Including non-PyTorch memory, this process has 13.50 GiB memory in use."
            ),
            CauseKind.DEVICE_OUT_OF_MEMORY,
            (
                "PyTorch out of memory: asked 2.68 GB (2.5 GiB) on the device; 13.5 GiB in use; it has 14.6 GiB in all"
                + PLACE
            ),
        ),
        (
            "RuntimeError",
            (
                "CUDA out of memory. Tried to allocate 2.50 GiB (GPU 0; 14.76 GiB total capacity; 13.20 GiB already "
                "allocated; 1.00 GiB free)"
            ),
            CauseKind.DEVICE_OUT_OF_MEMORY,
            (
                "PyTorch out of memory: asked 2.68 GB (2.5 GiB) on the device; 13.2 GiB in use; it has 14.8 GiB in all"
                + PLACE
            ),
        ),
        (
            "RuntimeError",
            (
                "[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried "
                "to allocate 80000000000000 bytes. Error code 12 (Cannot allocate memory)"
            ),
            CauseKind.HOST_OUT_OF_MEMORY,
            "PyTorch out of memory: asked 80 TB (72.8 TiB) on the host" + HOST,
        ),
        (
            "CudaAPIError",
            "[2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY",
            CauseKind.DEVICE_OUT_OF_MEMORY,
            "Numba out of memory" + DEVICE,
        ),
        (
            "XlaRuntimeError",
            "INTERNAL: Failed to instantiate CUDA graph: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
            CauseKind.DEVICE_OUT_OF_MEMORY,
            "XLA out of memory" + DEVICE,
        ),
        (
            "JaxRuntimeError",
            (
                "INTERNAL: failed to allocate 2.00GiB (2147483648 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of "
                "memory"
            ),
            CauseKind.DEVICE_OUT_OF_MEMORY,
            "XLA out of memory: asked 2.15 GB (2 GiB)" + DEVICE,
        ),
        (
            "MemoryError",
            "std::bad_alloc: out_of_memory: CUDA error at: /rmm/mr/device/cuda_memory_resource.hpp:60: out of memory",
            CauseKind.DEVICE_OUT_OF_MEMORY,
            "RMM out of memory" + DEVICE,
        ),
        (
            "ResourceExhaustedError",
            "OOM when allocating tensor with shape[9,9] and type float on /job:localhost/device:GPU:0 by allocator bfc",
            CauseKind.DEVICE_OUT_OF_MEMORY,
            "TensorFlow out of memory" + DEVICE,
        ),
        (
            "ResourceExhaustedError",
            "OOM when allocating tensor with shape[9,9] and type float on /job:localhost/device:CPU:0 by allocator cpu",
            CauseKind.HOST_OUT_OF_MEMORY,
            "TensorFlow out of memory on the host" + HOST,
        ),
    ],
)
def test_libraries_out_of_memory_on_host_and_device(name, value, kind, headline):
    cause = check(raised(name, value), kind, headline)
    assert cause.evidence == (" ".join(f"{name}: {value}".split()), *ROOMY_LINES)
    gpu_advice = ("another process may hold the GPU's memory; nvidia-smi shows which",)
    assert cause.advice == (gpu_advice if kind is CauseKind.DEVICE_OUT_OF_MEMORY else ())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("XlaRuntimeError", "FAILED_PRECONDITION: DNN library initialization failed"),
        ("RuntimeError", "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"),
        ("RuntimeError", "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR"),
        ("cupy.cuda.cusolver.CUSOLVERError", "CUSOLVER_STATUS_INTERNAL_ERROR"),
        ("CuFFTError", "CUFFT_ALLOC_FAILED"),
        ("_LinAlgError", "cusolver error: CUSOLVER_STATUS_INTERNAL_ERROR, when calling `cusolverDnCreate(handle)`"),
        (
            "XlaRuntimeError",
            "INTERNAL: jaxlib/gpu/solver_kernels.cc:45: operation gpusolverDnCreate(&handle) failed: cuSolver internal",
        ),
    ],
)
def test_a_gpu_that_cannot_be_set_up_is_a_hint_and_no_claim(name, value):
    cause = check(raised(name, value), CauseKind.DEVICE_NOT_USABLE, f"{name}: {value} (code cell 2, line 9)")
    assert cause.evidence == ()
    assert cause.advice == (
        "another process may hold the GPU's memory; nvidia-smi shows which",
        "the versions of driver, CUDA and cuDNN may not fit together",
    )


# Time limits

BUSY = changed(
    ROOMY,
    timeout_seconds=2.0,
    timeout_kind="cell",
    wall_seconds=2.01,
    cpu_seconds=1.99,
    major_faults_count=0,
    stopped_by_interrupt=True,
)


@pytest.mark.parametrize(
    ("changes", "kind", "headline"),
    [
        (
            {},
            CauseKind.TIMED_OUT_COMPUTING,
            (
                "code cell 2 timed out after 2 s (line 9): it was computing (CPU 99 % of the time); "
                "the kernel stopped when interrupted"
            ),
        ),
        (
            {"cpu_seconds": 7.9, "error": CellError(name="KeyboardInterrupt", value="")},
            CauseKind.TIMED_OUT_COMPUTING,
            (
                "code cell 2 timed out after 2 s (line 9): it was computing (CPU 393 % of the time); "
                "the kernel stopped when interrupted"
            ),
        ),
        (
            {"cpu_seconds": 0.01, "stopped_by_interrupt": False, "signal": 9, "line": None},
            CauseKind.TIMED_OUT_WAITING,
            (
                "code cell 2 timed out after 2 s: it was waiting (CPU 0 % of the time); "
                "the kernel did not stop when interrupted and was killed"
            ),
        ),
        (
            {"cpu_seconds": 0.5, "stopped_by_interrupt": None},
            CauseKind.TIMED_OUT,
            "code cell 2 timed out after 2 s (line 9): it was computing for part of the time (CPU 25 % of the time)",
        ),
        (
            {"cpu_seconds": 0.5, "major_faults_count": 25_000, "stopped_by_interrupt": None},
            CauseKind.TIMED_OUT_PAGING,
            (
                "code cell 2 timed out after 2 s (line 9): it was waiting for memory pages to be read back, "
                "25,000 major faults (CPU 25 % of the time)"
            ),
        ),
        (
            {"major_faults_count": 25_000, "stopped_by_interrupt": None},
            CauseKind.TIMED_OUT_COMPUTING,
            "code cell 2 timed out after 2 s (line 9): it was computing (CPU 99 % of the time)",
        ),
        (
            {"cpu_seconds": None, "stopped_by_interrupt": None},
            CauseKind.TIMED_OUT,
            "code cell 2 timed out after 2 s (line 9)",
        ),
        (
            {"timeout_kind": "lecture", "timeout_seconds": 600.0, "wall_seconds": None, "cell_number": 7, "line": 80},
            CauseKind.TIMED_OUT,
            "lecture timed out after 10 min 00 s, in code cell 7, line 80; the kernel stopped when interrupted",
        ),
        (
            {"timeout_kind": "lecture", "wall_seconds": None, "cell_number": None, "line": None},
            CauseKind.TIMED_OUT,
            "lecture timed out after 2 s; the kernel stopped when interrupted",
        ),
    ],
)
def test_time_limits_say_whose_and_what_the_kernel_was_doing(changes, kind, headline):
    cause = check(changed(BUSY, **changes), kind, headline)
    assert cause.evidence == ROOMY_LINES


def test_a_kernel_that_was_not_ready_in_time():
    evidence = made_evidence(
        ready=False, timeout_seconds=60.0, timeout_kind="startup", signal=9, stderr_tail=("still here",)
    )
    cause = check(evidence, CauseKind.NEVER_READY, "kernel was not ready after 1 min 00 s")
    assert cause.evidence == ("stderr: still here",)
    assert cause.advice == ("--lecture-startup-timeout gives it longer",)
    whole = changed(evidence, timeout_kind="lecture")
    cause = check(whole, CauseKind.NEVER_READY, "lecture timed out after 1 min 00 s, before its kernel was ready")
    assert cause.advice == ()


# Deaths


@pytest.mark.parametrize(
    ("changes", "kind", "headline"),
    [
        ({"exit_code": 3}, CauseKind.EXITED, "kernel ended with exit code 3 in code cell 2, line 9"),
        ({"exit_code": 0}, CauseKind.EXITED, "kernel ended with exit code 0 in code cell 2, line 9"),
        (
            {"exit_code": 3, "cell_number": None, "line": None},
            CauseKind.EXITED,
            "kernel ended with exit code 3 while no cell was running",
        ),
        (
            {"exit_code": 137},
            CauseKind.EXITED,
            "kernel ended with exit code 137 (a wrapper's way to report SIGKILL) in code cell 2, line 9",
        ),
        (
            {"exit_code": -1073741819},
            CauseKind.EXITED,
            "kernel ended with exit code -1073741819 (0xC0000005) in code cell 2, line 9",
        ),
        ({"signal": 6}, CauseKind.NATIVE_CRASH, "kernel aborted (SIGABRT) in code cell 2, line 9"),
        ({"signal": 11}, CauseKind.NATIVE_CRASH, "kernel crashed (SIGSEGV) in code cell 2, line 9"),
        ({"signal": 15}, CauseKind.ENDED_BY_SIGNAL, "kernel was ended by SIGTERM in code cell 2, line 9"),
        ({"signal": 34}, CauseKind.ENDED_BY_SIGNAL, "kernel was ended by signal 34 in code cell 2, line 9"),
        ({}, CauseKind.UNKNOWN, "the run ended in code cell 2, line 9, and nothing observed says why"),
    ],
)
def test_deaths_state_what_was_seen_and_claim_nothing_about_memory(changes, kind, headline):
    cause = check(changed(ROOMY, stderr_tail=("last words",), **changes), kind, headline)
    assert cause.evidence == (*ROOMY_LINES, "stderr: last words")
    assert cause.advice == ()


@pytest.mark.parametrize(
    ("signal", "headline", "advice"),
    [
        (
            4,
            "kernel crashed (SIGILL) in code cell 2, line 9",
            "a library was built for a newer processor than this one",
        ),
        (
            7,
            "kernel crashed (SIGBUS) in code cell 2, line 9",
            "a mapped file or /dev/shm was too small for what was written to it",
        ),
        (
            24,
            "kernel was ended by SIGXCPU in code cell 2, line 9",
            "the limit on CPU time (ulimit -t) was reached",
        ),
    ],
)
def test_signals_that_say_what_was_wrong(signal, headline, advice):
    cause = diagnose(changed(ROOMY, signal=signal))
    assert (cause.headline, cause.advice) == (headline, (advice,))


KILLED = "kernel was killed from outside (SIGKILL) in code cell 2, line 9; no record of memory shortage"
WHO_KILLED = "the system's log (dmesg, journalctl -k) or the scheduler's says who killed it"


def test_a_kill_is_no_proof_of_exhausted_memory():
    cause = check(changed(ROOMY, signal=9), CauseKind.KILLED, KILLED)
    assert cause.advice == (WHO_KILLED,)
    full = changed(ROOMY, signal=9, last_footprint_bytes=23 * GIB)
    cause = check(full, CauseKind.KILLED, KILLED)
    assert cause.advice == ("memory was close to its limit at the last reading, so look there first", WHO_KILLED)
    assert "last reading 23 GiB, 0.02 s before the end was noticed" in cause.evidence


@pytest.mark.parametrize(
    ("stderr", "text"),
    [
        (
            (
                "E external/alloc.cc:12] pool GPU_0 could not give 2.50GiB; free 1.10GiB",
                "F external/stream.cc:99] Check failed: allocation of 2684354560 bytes: RESOURCE_EXHAUSTED",
            ),
            "the native allocator reported an exhausted GPU pool, asked 2.68 GB (2.5 GiB)",
        ),
        (
            ("terminate called after throwing an instance of 'std::bad_alloc'", "  what():  std::bad_alloc"),
            "a C++ allocation failed (std::bad_alloc)",
        ),
        (
            ("F pool.cc:7] RESOURCE_EXHAUSTED: Out of memory allocating 33433655952 bytes.",),
            "the native allocator was out of memory, asked 33.4 GB (31.1 GiB)",
        ),
    ],
)
def test_an_abort_with_last_words_about_memory(stderr, text):
    cause = check(
        changed(ROOMY, signal=6, stderr_tail=stderr),
        CauseKind.NATIVE_OUT_OF_MEMORY,
        f"kernel aborted (SIGABRT) in code cell 2, line 9; {text}",
    )
    assert cause.evidence == (*ROOMY_LINES, *(f"stderr: {' '.join(line.split())}" for line in stderr))
    assert bool(cause.advice) == ("GPU" in text)


@pytest.mark.parametrize("changes", [{"signal": 11}, {"exit_code": 1}])
def test_words_about_memory_prove_nothing_for_other_ends(changes):
    cause = diagnose(changed(ROOMY, stderr_tail=("std::bad_alloc",), **changes))
    assert cause.kind in {CauseKind.NATIVE_CRASH, CauseKind.EXITED}
    assert "memory" not in cause.headline


@pytest.mark.parametrize(
    ("changes", "kind", "headline"),
    [
        ({"exit_code": 3}, CauseKind.DIED_AT_START, "kernel exited with code 3 before it was ready"),
        ({"signal": 6}, CauseKind.DIED_AT_START, "kernel was ended by SIGABRT before it was ready"),
        ({}, CauseKind.NEVER_READY, "kernel never became ready"),
    ],
)
def test_a_kernel_that_died_at_its_start(changes, kind, headline):
    cause = check(made_evidence(ready=False, stderr_tail=("cannot load libexample.so.3",), **changes), kind, headline)
    assert cause.evidence == ("stderr: cannot load libexample.so.3",)


def test_the_tail_of_stderr_is_bounded_and_clean():
    noisy = made_evidence(
        signal=11, cell_number=1, stderr_tail=(*(f"line {number}" for number in range(50)), "", "\x1b]0;x\x07end")
    )
    assert diagnose(noisy).evidence == (*(f"stderr: line {number}" for number in range(39, 50)), "stderr: end")


SIZES = st.none() | st.integers(0, 2**50)
TEXTS = (
    st.sampled_from(["", NUMPY_HUGE, "splu", "RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes.", "\x1b[0m\n"])
    | st.text()
)


@given(
    st.builds(
        made_evidence,
        cell_number=st.none() | st.integers(1, 9),
        line=st.none() | st.integers(1, 99),
        source=TEXTS,
        error=st.none()
        | st.builds(
            CellError,
            name=st.sampled_from(["MemoryError", "JaxRuntimeError", "SystemExit", "OutOfMemoryError"]) | st.text(),
            value=TEXTS,
            traceback=st.lists(TEXTS, max_size=3).map(tuple),
        ),
        exit_code=st.none() | st.integers(-(2**31), 2**32),
        signal=st.none() | st.integers(1, 64),
        ready=st.booleans(),
        stderr_tail=st.lists(TEXTS, max_size=3).map(tuple),
        timeout_seconds=st.none() | st.floats(0, 1e6),
        timeout_kind=st.sampled_from(["cell", "lecture", "startup", ""]),
        stopped_by_interrupt=st.none() | st.booleans(),
        wall_seconds=st.none() | st.floats(0, 1e6),
        cpu_seconds=st.none() | st.floats(0, 1e6),
        major_faults_count=SIZES,
        peak_footprint_bytes=SIZES,
        last_footprint_bytes=SIZES,
        last_footprint_age_seconds=st.none() | st.floats(0, 9),
        available_memory_bytes=SIZES,
        limit_memory_bytes=SIZES,
        limit_source=TEXTS,
        swap_bytes=SIZES,
    )
)
def test_whatever_was_observed_gives_one_printable_line(evidence):
    cause = diagnose(evidence)
    for text in (cause.headline, *cause.evidence, *cause.advice):
        assert one_line(text) == text
        assert text.strip() == text
        assert text
