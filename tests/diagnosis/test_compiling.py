"""Time limits that compiling used up, and memory that was swapped meanwhile."""

import pytest
from support.made_records import changed, made_evidence

from pytest_lecturecheck.diagnosis import CauseKind, diagnose
from pytest_lecturecheck.model.device import CompileTimes

MIB = 1024**2
BASE = made_evidence(
    cell_number=2,
    line=9,
    timeout_seconds=60.0,
    timeout_kind="cell",
    stopped_by_interrupt=True,
    wall_seconds=60.0,
    cpu_seconds=57.0,
)
WHO = "code cell 2 timed out after 1 min 00 s (line 9): "
STOPPED = "; the kernel stopped when interrupted"
SHARE = " (CPU 95 % of the time)"
KEEP = "keep compiled programs from run to run: set JAX_COMPILATION_CACHE_DIR to a folder that stays"
FEWER = "compile fewer programs: each new shape or dtype of an argument compiles a function again"
UNROLLED = (
    "a program this large to compile often comes of a Python loop in a jitted function: jax.lax.scan or "
    "jax.lax.fori_loop compiles its body once"
)
# As real kernels gave them.
JAX_STACK = (
    "jax/_src/compiler.py:353 in backend_compile_and_load",
    "jax/_src/profiler.py:420 in wrapper",
    "jax/_src/compiler.py:737 in _compile_and_write_cache",
    "jax/_src/compiler.py:469 in compile_or_get_cached",
    "jax/_src/interpreters/pxla.py:1516 in _cached_compilation",
    "jax/_src/pjit.py:139 in _run_python_pjit",
    "code cell 2 line 6",
)
NUMBA_STACK = (
    "llvmlite/binding/ffi.py:212 in __call__",
    "numba/core/codegen.py:691 in _optimize_final_module",
    "numba/core/dispatcher.py:80 in compile",
    "numba/core/dispatcher.py:374 in _compile_for_args",
    "code cell 2 line 12",
)
TORCH_STACK = ("torch/_inductor/compile_fx.py:770 in compile_fx_inner", "code cell 2 line 4")


def compiled(seconds, count=3, unfinished=0.0):
    return CompileTimes(seconds=seconds, count=count, unfinished_seconds=unfinished)


@pytest.mark.parametrize(
    ("more", "text", "advice"),
    [
        (
            {"compilation": compiled(41.0, 3, 30.0), "stack": JAX_STACK},
            "it was compiling: 4 programs, 41 s of 1 min 00 s, and still compiling when stopped",
            (KEEP, UNROLLED),
        ),
        # The stack could not be had, or its last frames were those of tracing.
        (
            {"compilation": compiled(41.0, 0, 41.0)},
            "it was compiling: 1 program, 41 s of 1 min 00 s, and still compiling when stopped",
            (KEEP, UNROLLED),
        ),
        ({"compilation": compiled(30.0, 120)}, "it was compiling: 120 programs, 30 s of 1 min 00 s", (KEEP, FEWER)),
        # The clock of the compiler runs a little longer than the cell's.
        (
            {"compilation": compiled(60.1, 12, 60.1)},
            "it was compiling: 13 programs, 1 min 00 s of 1 min 00 s, and still compiling when stopped",
            (KEEP, FEWER),
        ),
        # An old JAX does not say when a span begins.
        ({"compilation": compiled(0.5, 20), "stack": JAX_STACK}, "it was compiling (JAX) when stopped", (KEEP, FEWER)),
        ({"stack": JAX_STACK}, "it was compiling (JAX) when stopped", (KEEP, FEWER)),
        (
            {"stack": NUMBA_STACK},
            "it was compiling (Numba) when stopped",
            ("keep compiled functions from run to run: @njit(cache=True)",),
        ),
        (
            {"stack": TORCH_STACK},
            "it was compiling (PyTorch) when stopped",
            ("compile fewer programs: each new shape of an argument may compile a function again",),
        ),
    ],
)
def test_compiling(more, text, advice):
    cause = diagnose(changed(BASE, **more))
    assert (cause.kind, cause.headline) == (CauseKind.TIMED_OUT_COMPILING, f"{WHO}{text}{SHARE}{STOPPED}")
    assert tuple(line for line in cause.advice if line) == advice


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"compilation": compiled(29.9)}, f"it was computing{SHARE}"),
        ({"compilation": compiled(2.0, 3, 1.0)}, f"it was computing{SHARE}, compiling when stopped"),
        (
            {"stack": ("torch/_dynamo/eval_frame.py:736 in compile_wrapper", "code cell 2 line 1")},
            f"it was computing{SHARE}",
        ),
        ({"stack": ("model.py:3 in backend_compile",)}, f"it was computing{SHARE}"),
    ],
)
def test_computing(more, text):
    cause = diagnose(changed(BASE, **more))
    assert (cause.kind, cause.headline) == (CauseKind.TIMED_OUT_COMPUTING, f"{WHO}{text}{STOPPED}")


def test_compiling_without_the_cells_times():
    evidence = changed(BASE, wall_seconds=None, cpu_seconds=None, compilation=compiled(41.0, 3, 30.0))
    cause = diagnose(evidence)
    assert cause.headline == (
        f"{WHO}it was compiling: 4 programs, 41 s of 1 min 00 s, and still compiling when stopped{STOPPED}"
    )
    little = diagnose(changed(evidence, compilation=compiled(2.0, 3, 1.0)))
    assert (little.kind, little.headline) == (CauseKind.TIMED_OUT, f"{WHO}it was compiling when stopped{STOPPED}")


def test_a_compiler_that_takes_no_notice_of_the_interrupt_is_still_a_compiler():
    evidence = changed(BASE, stopped_by_interrupt=False, compilation=compiled(41.0, 3, 30.0))
    assert diagnose(evidence).kind is CauseKind.TIMED_OUT_COMPILING
    computing = diagnose(changed(evidence, compilation=None))
    assert computing.kind is CauseKind.TIMED_OUT_UNINTERRUPTIBLE


def test_the_stack_is_evidence():
    cause = diagnose(changed(BASE, stack=JAX_STACK))
    assert cause.evidence == tuple(f"stack: {frame}" for frame in (*JAX_STACK[:5], JAX_STACK[-1]))
    cause = diagnose(changed(BASE, stack=("a\x1b[1m.py:1 in f", " ")))
    assert cause.evidence == ("stack: a.py:1 in f",)


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"swap_growth_bytes": 128 * MIB}, "to be swapped, swap grew by 128 MiB"),
        (
            {"swap_growth_bytes": 300 * MIB, "major_faults_count": 25_000},
            "to be read back, 25,000 major faults, swap grew by 300 MiB",
        ),
    ],
)
def test_swapping(more, text):
    evidence = changed(BASE, cpu_seconds=6.0, compilation=compiled(41.0, 3, 30.0), **more)
    cause = diagnose(evidence)
    assert cause.kind is CauseKind.TIMED_OUT_PAGING
    assert cause.headline == f"{WHO}it was waiting for memory pages {text} (CPU 10 % of the time){STOPPED}"


@pytest.mark.parametrize(
    "more", [{"swap_growth_bytes": 128 * MIB - 1}, {"cpu_seconds": 50.0, "swap_growth_bytes": 10**10}]
)
def test_no_swapping(more):
    evidence = changed(BASE, **{"cpu_seconds": 6.0, **more})
    assert diagnose(evidence).kind in {CauseKind.TIMED_OUT_WAITING, CauseKind.TIMED_OUT_COMPUTING}
