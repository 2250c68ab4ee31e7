"""Two runs of one lecture side by side in the terminal."""

from dataclasses import replace

from support.made_entries import MACHINE, cell, run_of

from pytest_lecturecheck.model.cell_run import CellError, CellStatus
from pytest_lecturecheck.model.manifest import Fact, Manifest
from pytest_lecturecheck.report.style import Paint
from pytest_lecturecheck.report.terminal.cell_diff_table import render_cells
from pytest_lecturecheck.verdict.cell_diff import compare_cells

ERROR = CellError(name="MemoryError", value="")
TABLE = """\
a.md, cell by cell
cell  need before    after  time before  after  ended
   1       50 MiB   50 MiB        0.1 s  0.1 s  ok
   2      3.5 GiB  100 MiB        0.1 s  0.1 s  ok -> failed (MemoryError)  <- first that diverges

first cell whose need diverges: cell 2 (line 20), outcome: ok -> failed (MemoryError)

What differs underneath, the likeliest suspect first
1. architecture: x86_64 -> arm64
    can explain it: a size too large for 32 bits wraps on x86_64 and saturates on arm64: a library's request
    may fail on one of them, and succeed with more memory on the other
    rule it out: run the lecture on a second machine of the first kind, in the same environment; count stored
      entries (A.nnz) before the call
2. page size: 4 KiB -> not recorded on B
    unknown: each mapping is rounded up to whole pages
    rule it out: run the lecture on a second machine of the first kind, in the same environment"""


def test_cells_and_suspects_are_shown():
    manifest = Manifest(facts={Fact.PAGE_SIZE.value: "4 KiB"})
    before = run_of("a.md", [cell(1, 10, 200, 50), cell(2, 20, 3684, 3584)], manifest=manifest)
    bad = replace(cell(2, 20, 200, 100, status=CellStatus.FAILED), error=ERROR)
    after = run_of("a.md", [cell(1, 10, 200, 50), bad], machine=replace(MACHINE, architecture="arm64"))

    lines = render_cells(compare_cells(before, after), width=110, paint=Paint(colour=False))

    assert "\n".join(lines[:-4]) == TABLE
    assert lines[-4].startswith("recorded on neither side: Python, Python build, Python from, BLAS that NumPy")


def test_equal_runs_have_nothing_to_show():
    run = run_of("a.md", [cell(1, 10, 200, 50)])

    lines = render_cells(compare_cells(run, run), width=80, paint=Paint(colour=False))

    assert lines[-4:] == [
        "no cell diverges",
        "machine, versions and libraries are the same on both sides, as far as they were",
        "recorded; the lecture's own code was not compared",
        "recorded on neither side: what lies beneath equal package versions",
    ]
