"""What lectures need, measured on real kernels: spikes, shared pages, refusals, stored zeros."""

import re
from pathlib import Path

import pytest
from support.real_sessions import MIB

SHARED_MEMORY = Path("/dev/shm")
BUDGETS = {
    "D01/spike.ipynb": '"500 MiB"',
    "D01/spike_900.ipynb": '"900 MiB"',
    "D07/shm.ipynb": '"700 MiB"',
    "D08/cow.ipynb": '"700 MiB"',
}


@pytest.fixture(scope="module")
def session(project):
    project.put("D01", "D04", "D07", "D08", "D09", "D12")
    (project.folder / "D01" / "spike_900.ipynb").write_bytes((project.folder / "D01" / "spike.ipynb").read_bytes())
    project.budgets(BUDGETS)
    before = set(SHARED_MEMORY.iterdir())
    session = project.pytest("--lecture-budget", "-n", "2", ".")
    for segment in set(SHARED_MEMORY.glob("psm_*")) - before:
        segment.unlink()
    return session


def test_a_spike_inside_one_call_is_measured_whole(session):
    assert 600 * MIB < session.peak("D01/spike.ipynb", 2) < 680 * MIB
    assert session.peak("D01/spike.ipynb", 3) < 100 * MIB
    reading = session.run("D01/spike.ipynb")["cells"][1]["readings"]["peak_footprint_bytes"]
    assert (reading["method"], reading["source"]) == ("exact", "VmHWM")


def test_a_spike_above_the_budget_fails_with_its_cell(session):
    assert session.verdict("D01/spike.ipynb")["kind"] == "over"
    headline = session.failure("D01/spike.ipynb").splitlines()[0]
    pattern = (
        r"peak footprint 6\d\d MiB, limit 500 MiB: 1\d\d MiB over \(\+\d\d %\), in code cell 2, line 18; "
        r"limit set by hand"
    )
    assert re.fullmatch(pattern, headline), headline
    assert "peak footprint: exact (VmHWM)" in session.failure("D01/spike.ipynb")


def test_a_spike_below_the_budget_passes(session):
    assert session.verdict("D01/spike_900.ipynb")["kind"] == "within"


def test_a_spike_is_charged_in_every_run(own_project):
    own_project.put("D01", flat=True)
    own_project.budgets({"spike.ipynb": '"500 MiB"'})
    session = own_project.pytest("--lecture-budget", "--lecture-runs=4", "spike.ipynb")
    runs = session.runs["spike.ipynb"]
    assert [item["verdict"]["kind"] for item in runs] == ["over"] * 4
    peaks = [item["run"]["cells"][1]["readings"]["peak_footprint_bytes"]["value"] for item in runs]
    assert max(peaks) - min(peaks) < 4 * MIB


def test_the_memory_of_pytest_is_not_the_kernels(own_project):
    own_project.put("D03", flat=True)
    own_project.budgets({"tiny.ipynb": '"200 MiB"'})
    session = own_project.pytest("--lecture-budget", "tiny.ipynb")
    assert session.verdict("tiny.ipynb")["kind"] == "within"
    assert 40 * MIB < session.peak("tiny.ipynb") < 90 * MIB


@pytest.mark.parametrize(
    ("name", "request_text", "cell"),
    [("huge", r"72\.8 TiB \(80 TB\)", "code cell 2, line 17"), ("pylist", "unknown size", "code cell 1, line 7")],
)
def test_a_request_that_is_refused_is_no_lack_of_memory(session, name, request_text, cell):
    headline = session.failure(f"D04/{name}.ipynb").splitlines()[0]
    pattern = (
        rf"MemoryError: one request of {request_text} was refused; the process itself had only [\d.]+ MiB \({cell}\)"
    )
    assert re.fullmatch(pattern, headline), headline


def test_shared_memory_counts_once(session):
    assert session.verdict("D07/shm.ipynb")["kind"] == "within"
    # 286 MiB mapped by four processes, each with some 12 MiB of its own at least.
    assert 340 * MIB < session.peak("D07/shm.ipynb") < 500 * MIB


def test_shared_memory_left_behind_is_a_finding(session):
    assert session.verdict("D07/forgets.ipynb")["failed"] is False
    (finding,) = session.findings("D07/forgets.ipynb")
    pattern = r"left 47\.7 MiB in /dev/shm \('psm_\w+', 4 KiB of it written\); it was removed"
    assert re.fullmatch(pattern, finding), finding


def test_forked_children_share_their_pages(session):
    assert session.verdict("D08/cow.ipynb")["kind"] == "within"
    assert 430 * MIB < session.peak("D08/cow.ipynb") < 560 * MIB


def test_a_cell_is_not_charged_for_an_earlier_one(session):
    peaks = [session.peak("D09/mark.ipynb", cell) / MIB for cell in (1, 2, 3, 4)]
    assert 520 < peaks[0] < 590
    assert all(50 < peak < 80 for peak in peaks[1:]), peaks
    assert session.peak("D09/mark.ipynb") == session.peak("D09/mark.ipynb", 1)


def test_an_overflow_in_superlu_is_no_lack_of_memory(session):
    failure = session.failure("D12/overflow.ipynb")
    pattern = (
        r"library reported MemoryError, memory was not exhausted \(peak 1\.\d+ GiB, [\d.]+ GiB free\) - 71,582,790 "
        r"stored entries are above the 71,582,788 of SuperLU's 32-bit work space \(code cell 3, line 36\)"
    )
    assert re.fullmatch(pattern, failure.splitlines()[0]), failure.splitlines()[0]
    assert "a machine with more memory does not help" in failure
    assert "drop the stored zeros before the call: A.eliminate_zeros()" in failure
    assert session.statuses("D12/overflow.ipynb") == ["ok", "ok", "failed"]


def test_stored_zeros_show_against_the_record(own_project):
    own_project.put("D11", flat=True)
    recorded = own_project.pytest("--lecture-record", "--lecture-runs=3", "zeros.ipynb")
    assert recorded.outcomes() == {"passed": 1}
    by_cell = [
        [
            item["run"]["cells"][cell]["readings"]["peak_footprint_bytes"]["value"]
            for item in recorded.runs["zeros.ipynb"]
        ]
        for cell in range(3)
    ]
    assert all(max(peaks) / min(peaks) < 1.03 for peaks in by_cell), by_cell
    path = own_project.folder / "zeros.ipynb"
    # The changed copy stores no zeros in the first place.
    path.write_text(
        path.read_text(encoding="utf-8")
        .replace("rows, cols = np.indices((n, n))", "rows, cols = np.nonzero(dense)")
        .replace("(dense.ravel(), (rows.ravel(), cols.ravel()))", "(dense[rows, cols], (rows, cols))")
        .replace("assert B.nnz < A.nnz / 20", "assert B.nnz == A.nnz"),
        encoding="utf-8",
    )
    changed = own_project.pytest("--lecture-budget", "zeros.ipynb")
    assert changed.outcomes() == {"passed": 1}
    assert changed.peak("zeros.ipynb") < 0.8 * min(by_cell[2])
