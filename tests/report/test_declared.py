from dataclasses import replace

import pytest

from pytest_lecturecheck.model.platform import Machine
from pytest_lecturecheck.report.terminal.declared import (
    declared_text,
    render_declared,
    render_declared_room,
    render_target,
)
from pytest_lecturecheck.units import GIB

MACHINE = Machine(system="Linux 6.18", architecture="x86_64", cpu="CPU", core_count=4, ram_bytes=64 * GIB)
CONTAINED = replace(MACHINE, memory_limit_bytes=4 * GIB, memory_limit_source="container (cgroup v2 memory.max)")
DECLARED = 24_000_000_000
CANNOT = "a lecture that needs the declared memory cannot pass here"


@pytest.mark.parametrize(
    ("machine", "line"),
    [
        (MACHINE, "declared memory 22.4 GiB (24 GB): this run has 64 GiB"),
        (
            CONTAINED,
            "declared memory 22.4 GiB (24 GB): this run has only 4 GiB (limited by container (cgroup v2 memory.max)); "
            + CANNOT,
        ),
        (replace(MACHINE, ram_bytes=DECLARED), "declared memory 22.4 GiB (24 GB): this run has 22.4 GiB"),
        (
            replace(MACHINE, ram_bytes=DECLARED - 50_000_000),
            "declared memory 22.4 GiB (24 GB): this run has only 22.3 GiB; " + CANNOT,
        ),
        # A limit above the machine's memory limits nothing.
        (
            replace(CONTAINED, memory_limit_bytes=128 * GIB),
            "declared memory 22.4 GiB (24 GB): this run has 64 GiB",
        ),
    ],
)
def test_machine_is_compared_with_declared_memory(machine, line):
    assert render_declared(DECLARED, machine) == [line]


@pytest.mark.parametrize(
    ("size", "seconds", "text"),
    [
        (DECLARED, 7200.0, "24 GB of memory, 2 h"),
        (24 * GIB, None, "24 GiB of memory"),
        (None, 5400.0, "1 h 30 min"),
        (None, None, ""),
    ],
)
def test_declared_limits_keep_their_units(size, seconds, text):
    assert declared_text(size, seconds) == text


def test_declared_cores_and_disk_are_named():
    assert declared_text(DECLARED, None, 16, 50 * 10**9) == "24 GB of memory, 16 cores, 50 GB of disk"


def test_machine_is_compared_with_declared_cores_and_disk():
    assert render_declared_room(16, 50 * 10**9, core_count=2, free_bytes=2**30) == [
        "declared cores 16: this run has only 2; lectures may take longer here than declared",
        "declared disk 46.6 GiB (50 GB): only 1 GiB are free here",
    ]
    assert render_declared_room(2, 10**9, core_count=2, free_bytes=None) == ["declared cores 2: this run has 2"]
    assert render_declared_room(None, None, core_count=2, free_bytes=1) == []


def test_the_header_names_what_a_reader_has():
    assert (
        render_target(2e9, origin="--lecture-target binder", hides_gpu=True)
        == "memory cap 2 GB (1.86 GiB), no GPU (from --lecture-target binder)"
    )
