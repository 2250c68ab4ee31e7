"""Which limit a refused request is compared with: one that refuses, never one that kills."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.made_records import changed
from support.roomy_evidence import ROOMY, ROOMY_LINES, check

from pytest_lecturecheck.diagnosis import CauseKind, diagnose
from pytest_lecturecheck.model.cell_run import CellError
from pytest_lecturecheck.units import GIB

UNKNOWN = CellError(name="MemoryError", value="")
SUPERLU = CellError(
    name="MemoryError",
    value="",
    traceback=(
        "Cell In[4], line 2",
        "----> 2 lu = splu(A)",
        "File /env/lib/python3.11/site-packages/scipy/sparse/linalg/_dsolve/linsolve.py:433, in splu(A)",
        "--> 433 return _superlu.gstrf(N, A.nnz)",
    ),
)
BY_GROUP = {
    "cap": {"cap_bytes": 168 * GIB, "cap_method": "cgroup v2", "limit_memory_bytes": 1000 * GIB, "limit_source": "RAM"},
    "watchdog": {"cap_bytes": 168 * GIB, "cap_method": "watchdog", "limit_memory_bytes": 1000 * GIB},
    "container": {"limit_memory_bytes": 168 * GIB, "limit_source": "container (cgroup v2 memory.max)"},
    "slurm": {"limit_memory_bytes": 168 * GIB, "limit_source": "Slurm (SLURM_MEM_PER_NODE)"},
}
RAM = {"limit_memory_bytes": 168 * GIB, "limit_source": "RAM", "refuses_when_full": False}
NEAR = {
    "peak_footprint_bytes": 138 * GIB,
    "last_footprint_bytes": 137 * GIB,
    "ram_bytes": 1000 * GIB,
    "available_memory_bytes": 800 * GIB,
}


def array(size_gib):
    text = f"Unable to allocate {size_gib:.2f} GiB for an array with shape ({size_gib * GIB},) and data type uint8"
    return CellError(name="MemoryError", value=text)


@pytest.mark.parametrize("limits", [*BY_GROUP.values(), RAM])
def test_superlu_near_a_limit_that_kills_is_superlu(limits):
    """The peak was 148 GB under 180 GB, and much memory was free."""
    evidence = changed(ROOMY, error=SUPERLU, **NEAR, **limits)
    cause = diagnose(evidence)
    assert cause.kind is CauseKind.LIBRARY_LIMIT
    assert "most likely the 32-bit sizes in SuperLU" in cause.headline
    assert cause.advice[0] == "a machine with more memory does not help"


@pytest.mark.parametrize("limits", BY_GROUP.values())
def test_the_limit_of_a_group_never_refuses_memory(limits):
    cause = diagnose(changed(ROOMY, error=UNKNOWN, **NEAR, **limits))
    assert cause.kind is CauseKind.REQUEST_REFUSED
    assert cause.headline == (
        "MemoryError: one request of unknown size was refused; the process itself had 138 GiB (code cell 2, line 9)"
    )
    assert cause.evidence[0].endswith("such a limit ends a process, it never refuses an allocation")


@pytest.mark.parametrize("error", [UNKNOWN, array(2)])
def test_ram_that_is_nearly_full_refuses_nothing_where_the_system_overcommits(error):
    full = {"peak_footprint_bytes": 23 * GIB, "last_footprint_bytes": 23 * GIB, "available_memory_bytes": 20 * GIB}
    assert diagnose(changed(ROOMY, error=error, refuses_when_full=False, **full)).kind in {
        CauseKind.REQUEST_REFUSED,
        CauseKind.LIBRARY_LIMIT,
    }
    assert diagnose(changed(ROOMY, error=error, refuses_when_full=True, **full)).kind is CauseKind.MEMORY_EXHAUSTED


def test_the_commit_limit_of_the_system_refuses():
    evidence = changed(
        ROOMY, error=UNKNOWN, refuses_when_full=True, commit_limit_bytes=16 * GIB, peak_footprint_bytes=15 * GIB
    )
    check(
        evidence,
        CauseKind.MEMORY_EXHAUSTED,
        "MemoryError: memory climbed to 15 GiB, the limit is 16 GiB, the system's commit limit (code cell 2, line 9)",
    )


@pytest.mark.parametrize("limits", BY_GROUP.values())
def test_a_request_beyond_ram_and_swap_is_impossible_in_any_group(limits):
    evidence = changed(ROOMY, error=array(70_000), ram_bytes=1000 * GIB, refuses_when_full=False, **limits)
    assert diagnose(evidence).kind is CauseKind.REQUEST_REFUSED


def test_a_request_beyond_a_cap_alone_is_not_refused_by_it():
    capped = changed(ROOMY, cap_bytes=4 * GIB, cap_method="cgroup v2", swap_bytes=8 * GIB)
    check(
        replace(capped, error=array(5)),
        CauseKind.LIBRARY_LIMIT,
        "MemoryError: a request of 5 GiB (5.37 GB) was refused, memory was not exhausted (peak 63 MiB, 20 GiB free) "
        "(code cell 2, line 9)",
        lines=(
            *ROOMY_LINES[:2],
            "memory of the machine: available 20 GiB; limit 24 GiB, RAM; swap 8 GiB",
            "memory cap of this run 4 GiB, held by cgroup v2",
        ),
    )


def test_xla_on_the_host_is_compared_with_the_machine_not_with_the_cap():
    capped = changed(ROOMY, cap_bytes=4 * GIB, cap_method="cgroup v2")
    xla = CellError(name="JaxRuntimeError", value="INTERNAL: Out of memory allocating 98765432100 bytes.")
    check(
        replace(capped, error=xla),
        CauseKind.HOST_OUT_OF_MEMORY,
        "XLA out of memory: asked 98.8 GB (92 GiB) on the host; the limit is 24 GiB, RAM; "
        "20 GiB available; the process itself had only 63 MiB (code cell 2, line 9)",
    )


def test_in_a_container_the_request_is_compared_with_ram():
    xla = CellError(name="JaxRuntimeError", value="RESOURCE_EXHAUSTED: Out of memory allocating 98765432100 bytes.")
    evidence = changed(
        ROOMY,
        error=xla,
        limit_memory_bytes=4 * GIB,
        limit_source="container (cgroup v2 memory.max)",
        ram_bytes=64 * GIB,
    )
    check(
        evidence,
        CauseKind.HOST_OUT_OF_MEMORY,
        "XLA out of memory: asked 98.8 GB (92 GiB) on the host; the limit is 64 GiB, RAM; "
        "the process itself had only 63 MiB (code cell 2, line 9)",
    )


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        (24 * 10**9, "; that is more than the declared 24 GB (22.4 GiB)"),
        (200 * GIB, "; declared: 200 GiB"),
    ],
)
def test_a_request_is_compared_with_what_is_declared(declared, text):
    xla = CellError(name="JaxRuntimeError", value="RESOURCE_EXHAUSTED: Out of memory allocating 98765432100 bytes.")
    for error in (xla, array(92)):
        cause = diagnose(changed(ROOMY, error=error, declared_memory_bytes=declared))
        assert text in cause.headline
