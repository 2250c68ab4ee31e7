"""What earlier cells contributed to the peak of a later one."""

from __future__ import annotations

import pytest
from support.made_entries import cell, run_of

from pytest_lecturecheck.kernel.run.cell_history import CellHistory
from pytest_lecturecheck.model.probe import CellReadings
from pytest_lecturecheck.units import GIB, MIB


def cell_at(number, peak_bytes):
    return cell(number, 10 * number, peak=peak_bytes / MIB)


@pytest.mark.parametrize(
    ("peaks", "mapped", "named"),
    [
        ((4 * GIB, 4 * GIB), (None, 3 * GIB), 2),
        ((4 * GIB, 3 * GIB), (None, 3 * GIB), None),
        ((4 * GIB, 4 * GIB - 1), (3 * GIB, 2 * GIB), 1),
        ((4 * GIB, 4 * GIB), (10 * MIB, 20 * MIB), None),
    ],
)
def test_mapped_files_of_any_cell_at_the_peak_are_named(peaks, mapped, named):
    history = CellHistory()
    for number, size in enumerate(mapped, start=1):
        history.note_memory(number, CellReadings(readings={}, mapped_file_bytes=size))
    cells = tuple(cell_at(number, peak) for number, peak in enumerate(peaks, start=1))
    found = list(history.findings(run_of("a.md", cells)))
    assert [item.cell_number for item in found] == ([] if named is None else [named])
