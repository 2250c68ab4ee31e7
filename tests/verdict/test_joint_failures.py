"""Several failures of one lecture read together."""

from dataclasses import replace

import pytest
from support.made_entries import GIB, MACHINE, MIB, cell, run_of
from support.made_records import made_evidence

from pytest_lecturecheck.model.cell_run import CellError, CellStatus
from pytest_lecturecheck.model.run import PROGRAM_LAUNCHER, Outcome
from pytest_lecturecheck.verdict.joint_failures import read_together

LIBRARY = ("File /env/lib/python3.12/site-packages/scipy/sparse/linalg/_dsolve/linsolve.py:413, in splu(A)",)


def failure(peak, limit, number=3, *, value="", **rest):
    """A MemoryError in a cell, at a peak and under a cap in MiB."""
    evidence = made_evidence(
        cell_number=number,
        error=CellError(name="MemoryError", value=value, traceback=LIBRARY),
        peak_footprint_bytes=peak * MIB,
        cap_bytes=limit * MIB,
        limit_memory_bytes=limit * MIB,
        ram_bytes=64 * GIB,
        available_memory_bytes=32 * GIB,
        refuses_when_full=False,
    )
    failed = replace(cell(number, 30, peak, 10, status=CellStatus.FAILED), error=evidence.error)
    return run_of("a.md", [failed], Outcome.FAILED, evidence=evidence, **rest)


def killed(peak, limit, number=3):
    evidence = made_evidence(
        cell_number=number, signal=9, stopped_at_cap=True, peak_footprint_bytes=peak * MIB, cap_bytes=limit * MIB
    )
    return run_of("a.md", [cell(number, 30, peak, 10, status=CellStatus.DIED)], Outcome.DIED, evidence=evidence)


def test_one_failure_says_nothing():
    assert read_together([failure(1100, 4096)]) == ()


def test_the_same_peak_under_growing_limits_is_an_internal_limit():
    runs = [failure(1100, 4096), failure(1110, 8192), failure(1090, 16384)]

    assert read_together(runs) == (
        (
            "3 runs failed in code cell 3 at the same peak of about 1.08 GiB, while the limit grew "
            "from 4 GiB to 16 GiB: an internal limit or one request that is too large, not want of memory; "
            "a larger machine does not help"
        ),
    )


def test_failures_at_another_peak_hide_no_internal_limit():
    (note,) = read_together([failure(1800, 16384), failure(1100, 4096), failure(1110, 8192)])

    assert note.startswith("2 runs failed in code cell 3 at the same peak of about 1.08 GiB, while the limit grew")


def test_failures_of_a_program_name_no_cell():
    (text,) = read_together(
        [failure(1100, 4096, launcher=PROGRAM_LAUNCHER), failure(1110, 8192, launcher=PROGRAM_LAUNCHER)]
    )
    assert text.startswith("2 runs failed at the same peak of about 1.08 GiB, while the limit grew")


@pytest.mark.parametrize(
    "runs",
    [
        [failure(1100, 4096), failure(1100, 4200)],
        [failure(1100, 4096), failure(2100, 8192)],
        [failure(1100, 4096), failure(1100, 8192, number=4)],
    ],
)
def test_other_limits_peaks_or_cells_are_no_internal_limit(runs):
    assert read_together(runs) == ()


def test_cells_that_fill_every_limit_need_more():
    assert read_together([killed(1020, 1024), killed(2040, 2048)]) == (
        (
            "2 runs failed in code cell 3, each at its limit, while the limit grew from 1 GiB to 2 GiB: "
            "the cell needs more than 2 GiB"
        ),
    )


def test_different_cells_in_each_run_are_fragmentation():
    found = read_together([killed(1020, 1024, number) for number in (4, 7, 2)])

    assert found == (
        (
            "3 runs under the same limit failed in different code cells (4, 7, 2): fragmentation, "
            "or other programs that took memory, rather than the need of one cell"
        ),
    )
    assert read_together([killed(1020, 1024, number) for number in (4, 7, 4)]) == ()


def test_a_request_that_is_the_peak_elsewhere_is_named():
    asked = "Unable to allocate 3.00 GiB for an array with shape (402653184,) and data type float64"
    mac = run_of(
        "a.md", [cell(3, 30, 4096, 3072)], platform="darwin-arm64-cpu", machine=replace(MACHINE, system="macOS 15.1")
    )

    (note,) = read_together([mac, failure(500, 2048, value=asked)])

    assert note.startswith(
        "the request of 3 GiB in code cell 3 on linux-x86_64-cpu is what that cell took on darwin-arm64-cpu (3 GiB)"
    )
    assert (
        read_together([replace(mac, machine=MACHINE, platform="linux-x86_64-cpu"), failure(500, 2048, value=asked)])
        == ()
    )
