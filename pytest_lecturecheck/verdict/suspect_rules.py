"""What each kind of difference between two systems can explain, why, and how it is ruled out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.manifest import Fact

CAN: Final = 1
PARTLY: Final = 2
UNLIKELY: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """
    What one kind of difference can explain.

    Attributes:
        outcome: that a cell ends well on one side only: 1 can explain it, 2 partly, 4 unlikely.
        memory: that a cell needs more memory on one side, in the same numbers.
        time: that a cell takes longer on one side.
        reason: why.
        rule_out: what rules it out.
        is_bounded_by_threads: the memory it can explain is bounded by buffers of threads.
    """

    outcome: int
    memory: int
    time: int
    reason: str
    rule_out: str
    is_bounded_by_threads: bool = False


_ONE_THREAD: Final = "run both sides with OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1"
_SAME_BLAS: Final = "install NumPy and SciPy from the same source on both sides (pip or conda), then compare again"
_ARENAS: Final = "run both sides with MALLOC_ARENA_MAX=1, and with the same LD_PRELOAD (or none)"
_NO_HUGE_PAGES: Final = "run both sides with NUMPY_MADVISE_HUGEPAGE=0 and GLIBC_TUNABLES=glibc.malloc.hugetlb=0"
_SAME_CAP: Final = "run both sides with the same --lecture-memory-cap"
_SAME_PYTHON: Final = "run the side that is easier to change with the other side's Python"
_SAME_MACHINE: Final = "run the lecture on a second machine of the first kind, in the same environment"

_BLAS: Final = Rule(
    outcome=CAN,
    memory=CAN,
    time=CAN,
    reason="BLAS and LAPACK libraries differ in speed, and take work space of their own for each thread",
    rule_out=f"{_ONE_THREAD}; {_SAME_BLAS}",
    is_bounded_by_threads=True,
)
_ALLOCATOR: Final = Rule(
    outcome=PARTLY,
    memory=PARTLY,
    time=PARTLY,
    reason="an allocator keeps freed memory, so the level from which a cell starts differs",
    rule_out=_ARENAS,
)
_PYTHON: Final = Rule(
    outcome=PARTLY,
    memory=PARTLY,
    time=PARTLY,
    reason="small objects differ in size; large arrays do not",
    rule_out=_SAME_PYTHON,
)
_HUGE_PAGES: Final = Rule(
    outcome=PARTLY,
    memory=CAN,
    time=PARTLY,
    reason="an array that is touched in few places takes 2 MiB for each place with huge pages",
    rule_out=_NO_HUGE_PAGES,
)
_COMPRESSION: Final = Rule(
    outcome=PARTLY,
    memory=UNLIKELY,
    time=PARTLY,
    reason="compressed pages count in the footprint; they change what fits, not what a cell asks for",
    rule_out=_SAME_CAP,
)

PACKAGE_RULE: Final = Rule(
    outcome=CAN,
    memory=CAN,
    time=CAN,
    reason="the lecture imports it: another version or build may run other code",
    rule_out="install the other side's version from the same source, then compare again",
)

BUILD_RULE: Final = Rule(
    outcome=PARTLY,
    memory=PARTLY,
    time=PARTLY,
    reason="the same version from another source; what its builds differ in, such as BLAS, has rows of its own",
    rule_out="install it from the same source on both sides, then compare again",
)

MACHINE_RULES: Final[Mapping[str, Rule]] = {
    "method": Rule(
        outcome=UNLIKELY,
        memory=CAN,
        time=UNLIKELY,
        reason="a sampled peak is a lower bound: short peaks are missed",
        rule_out="compare a cell that holds its peak for some seconds",
    ),
    "architecture": Rule(
        outcome=CAN,
        memory=CAN,
        time=CAN,
        reason="a size too large for 32 bits wraps on x86_64 and saturates on arm64: a library's request may fail on "
        "one of them, and succeed with more memory on the other",
        rule_out=f"{_SAME_MACHINE}; count stored entries (A.nnz) before the call",
    ),
    "system": Rule(
        outcome=PARTLY,
        memory=PARTLY,
        time=PARTLY,
        reason="systems count memory differently, and refuse or kill at different moments",
        rule_out=_SAME_MACHINE,
    ),
    "processor": Rule(
        outcome=UNLIKELY,
        memory=UNLIKELY,
        time=CAN,
        reason="it changes speed, and the kernels that BLAS chooses",
        rule_out="set OPENBLAS_CORETYPE=Haswell on both sides, or compare memory only",
    ),
    "cores": Rule(
        outcome=PARTLY,
        memory=CAN,
        time=CAN,
        reason="libraries start a thread for each core, each with buffers of its own",
        rule_out=_ONE_THREAD,
        is_bounded_by_threads=True,
    ),
    "memory": Rule(
        outcome=CAN,
        memory=UNLIKELY,
        time=PARTLY,
        reason="a limit decides whether a cell ends, not what it asks for",
        rule_out=_SAME_CAP,
    ),
    "accelerators": Rule(
        outcome=CAN,
        memory=CAN,
        time=CAN,
        reason="arrays live on the device on one side, and in main memory on the other",
        rule_out="run both sides with JAX_PLATFORMS=cpu and CUDA_VISIBLE_DEVICES=",
    ),
}

FACT_RULES: Final[Mapping[str, Rule]] = {
    Fact.PYTHON: _PYTHON,
    Fact.PYTHON_BUILD: _PYTHON,
    Fact.PYTHON_ORIGIN: _PYTHON,
    Fact.PROGRAM: PACKAGE_RULE,
    Fact.NUMPY_BLAS: _BLAS,
    Fact.NUMPY_LAPACK: _BLAS,
    Fact.SCIPY_BLAS: _BLAS,
    Fact.SCIPY_LAPACK: _BLAS,
    Fact.LOADED_BLAS: _BLAS,
    Fact.LIBC: _ALLOCATOR,
    Fact.ALLOCATOR: _ALLOCATOR,
    Fact.PAGE_SIZE: Rule(
        outcome=UNLIKELY,
        memory=PARTLY,
        time=PARTLY,
        reason="each mapping is rounded up to whole pages",
        rule_out=_SAME_MACHINE,
    ),
    Fact.HUGE_PAGES: _HUGE_PAGES,
    Fact.HUGE_PAGE_DEFRAG: _HUGE_PAGES,
    Fact.OVERCOMMIT: Rule(
        outcome=CAN,
        memory=UNLIKELY,
        time=UNLIKELY,
        reason="it decides whether a large request is refused at once",
        rule_out="set vm.overcommit_memory alike on both machines",
    ),
    Fact.ZSWAP: _COMPRESSION,
    Fact.ZRAM: _COMPRESSION,
    Fact.CPU_FLAGS: Rule(
        outcome=UNLIKELY,
        memory=UNLIKELY,
        time=CAN,
        reason="libraries choose faster kernels where a feature is there; sizes of arrays do not change",
        rule_out="set OPENBLAS_CORETYPE=Haswell NPY_DISABLE_CPU_FEATURES='AVX512F' on both sides",
    ),
    Fact.CONTAINER: Rule(
        outcome=UNLIKELY,
        memory=UNLIKELY,
        time=UNLIKELY,
        reason="what a container changes has rows of its own",
        rule_out="run both sides in one image, named by its digest",
    ),
    "libraries": Rule(
        outcome=PARTLY,
        memory=PARTLY,
        time=PARTLY,
        reason="compiled code below equal package versions differs",
        rule_out=_SAME_BLAS,
    ),
    "not imported": Rule(
        outcome=UNLIKELY,
        memory=UNLIKELY,
        time=UNLIKELY,
        reason="code that was not imported does not run",
        rule_out="install both sides from one list of versions",
    ),
}

_WIDTH: Final = Rule(
    outcome=CAN,
    memory=CAN,
    time=CAN,
    reason="with 64-bit numbers every array takes twice the memory",
    rule_out="set it alike on both sides",
)
_OTHER_VARIABLE: Final = Rule(
    outcome=PARTLY,
    memory=CAN,
    time=PARTLY,
    reason="it changes how much memory the same code takes",
    rule_out="set it alike on both sides",
)


def rule_of_variable(name: str) -> Rule:
    """Return the rule of an environment variable that differs."""
    if name == "JAX_ENABLE_X64":
        return _WIDTH
    if name.endswith("_NUM_THREADS"):
        return MACHINE_RULES["cores"]
    if name.startswith("MALLOC_") or name in {"LD_PRELOAD", "PYTHONMALLOC"}:
        return _ALLOCATOR
    return _OTHER_VARIABLE
