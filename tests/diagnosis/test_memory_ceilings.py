"""Which limit a refused request is compared with."""

from __future__ import annotations

from dataclasses import replace

from support.made_records import changed
from support.roomy_evidence import ROOMY, ROOMY_LINES, check

from pytest_lecturecheck.diagnosis import CauseKind
from pytest_lecturecheck.model.cell_run import CellError
from pytest_lecturecheck.units import GIB


def test_a_cap_below_the_limit_of_the_machine_is_the_limit():
    capped = changed(ROOMY, cap_bytes=4 * GIB, cap_method="cgroup v2", swap_bytes=8 * GIB)
    huge = "Unable to allocate 5.00 GiB for an array with shape (5368709120,) and data type uint8"
    check(
        replace(capped, error=CellError(name="MemoryError", value=huge)),
        CauseKind.REQUEST_REFUSED,
        "MemoryError: one request of 5 GiB (5.37 GB) was refused; the process itself had only 63 MiB "
        "(code cell 2, line 9)",
        lines=(
            *ROOMY_LINES[:2],
            "memory of the machine: available 20 GiB; limit 24 GiB, RAM; swap 8 GiB",
            "memory cap of this run 4 GiB, held by cgroup v2",
        ),
    )
    check(
        changed(capped, error=CellError(name="MemoryError", value=""), peak_footprint_bytes=int(3.9 * GIB)),
        CauseKind.MEMORY_EXHAUSTED,
        "MemoryError: memory climbed to 3.9 GiB, the limit is 4 GiB, the memory cap of this run (code cell 2, line 9)",
    )
    xla = CellError(name="JaxRuntimeError", value="INTERNAL: Out of memory allocating 98765432100 bytes.")
    check(
        replace(capped, error=xla),
        CauseKind.HOST_OUT_OF_MEMORY,
        "XLA out of memory: asked 98.8 GB (92 GiB) on the host; the limit is 4 GiB, the memory cap of this run; "
        "20 GiB available; the process itself had only 63 MiB (code cell 2, line 9)",
    )


def test_a_container_limit_below_the_cap_is_the_limit():
    evidence = changed(
        ROOMY,
        error=CellError(name="MemoryError", value=""),
        cap_bytes=4 * GIB,
        limit_memory_bytes=2 * GIB,
        limit_source="container (cgroup v2 memory.max)",
        peak_footprint_bytes=int(1.9 * GIB),
    )
    check(
        evidence,
        CauseKind.MEMORY_EXHAUSTED,
        "MemoryError: memory climbed to 1.9 GiB, the limit is 2 GiB, container (cgroup v2 memory.max) "
        "(code cell 2, line 9)",
    )
