"""What is in the memory of cells: planted allocations are found by line, name and size, in real kernels."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from support.benches import lecture, statuses

from pytest_lecturecheck.config.options import DEFAULTS
from pytest_lecturecheck.kernel.run import memory_watch
from pytest_lecturecheck.kernel.run.memory_watch import is_level_small
from pytest_lecturecheck.model.cell_run import CellRun, CellStatus
from pytest_lecturecheck.model.finding import FindingKind
from pytest_lecturecheck.model.memory_profile import PartKind
from pytest_lecturecheck.model.metric import Measurement, Method, Metric
from pytest_lecturecheck.session.trace_plan import plan_levels_over, plan_memory

MIB = 1 << 20
SET_UP = """
    import os, threading
    import numpy as np
    import planted
    """
PLANTED = """
    line = bytearray(40 << 20)
    array = np.ones(30 << 17)
    def work():
        global in_thread
        in_thread = bytearray(24 << 20)
    thread = threading.Thread(target=work); thread.start(); thread.join()
    numbers = [float(index) for index in range(1_000_000)]
    helped = planted.make(50)
    pid = os.fork()
    if pid == 0:
        forked = bytearray(64 << 20)
        os._exit(0)
    os.waitpid(pid, 0);
    """
KEPT = """
    view = array[::2]
    paths = [np.ones(1 << 17) for _ in range(8)]
    np.ones(5 << 17)
    """
STATE = """
    own = 'run_ast_nodes' in vars(get_ipython())
    print(sorted(name for name in dir() if 'lecturecheck' in name), len(In), len(Out), own)
    """
MODULE = "def make(mebibytes):\n    return bytearray(mebibytes << 20)\n"


def over_plan(folder, limit_bytes):
    return plan_levels_over(folder, None, limit_bytes)


def run(bench, folder, *sources, cells=(), plan=None, **settings):
    """Run a lecture whose memory is observed; with the real probe, for footprints."""
    made = lecture(folder, *sources)
    plan = plan or plan_memory(folder, made, 1, frozenset(cells))
    bench._bench._ports = bench._real_ports
    layer = replace(DEFAULTS, **{"timeout_seconds": 60.0, **settings})
    return bench._bench.run(made, layer, 1, memory=plan)


def profile_messages(record):
    return [item.message for item in record.findings if item.kind is FindingKind.PROFILE]


@pytest.fixture(scope="module")
def recorded(_bench, tmp_path_factory):
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "planted.py").write_text(MODULE)
    return folder, run(_bench, folder, SET_UP, PLANTED, KEPT, STATE, cells={2, 9})


def test_a_recorded_run_ends_well_and_is_marked(recorded):
    _, record = recorded
    assert record.is_profiled
    assert set(statuses(record)) == {"ok"}
    assert [cell.number for cell in record.cells if cell.memory_profile is not None] == [2]
    assert profile_messages(record) == ["the memory of code cell 9 was not recorded: the lecture has 4 code cells"]


@pytest.mark.parametrize(
    ("source", "size_bytes"),
    [
        ("line = bytearray(40 << 20)", 40 * MIB),
        ("array = np.ones(30 << 17)", 30 * MIB),
        ("in_thread = bytearray(24 << 20)", 24 * MIB),
        ("return bytearray(mebibytes << 20)", 50 * MIB),
        ("forked = bytearray(64 << 20)", 64 * MIB),
        # Each number takes 32 bytes of Python's own allocator, and 8 in the list, which grows by an eighth.
        ("numbers = [float(index) for index in range(1_000_000)]", 32_000_000 + 8_448_728),
    ],
)
def test_planted_allocations_are_found_within_two_percent(recorded, source, size_bytes):
    (line,) = (item for item in recorded[1].cells[1].memory_profile.lines if item.source == source)
    assert line.size_bytes == pytest.approx(size_bytes, rel=0.02)


def test_lines_name_their_places(recorded):
    profile = recorded[1].cells[1].memory_profile
    first = recorded[1].cells[1].line
    by_source = {line.source: line for line in profile.lines}
    assert by_source["line = bytearray(40 << 20)"].place == f"code cell 2, line {first}"
    assert by_source["line = bytearray(40 << 20)"].cell_line == 1
    helper = by_source["return bytearray(mebibytes << 20)"]
    assert (helper.place, helper.caller) == ("planted.py:2 in make", f"code cell 2, line {first + 7}")
    assert by_source["array = np.ones(30 << 17)"].inner.startswith("numpy/_core/numeric.py:")
    assert profile.process_count == 2


def test_only_the_flame_graph_is_kept(recorded):
    folder, record = recorded
    profile = record.cells[1].memory_profile
    path = folder / profile.flame_graph
    assert [item.name for item in path.parent.iterdir()] == ["flamegraph.html"]
    assert "planted.py" in path.read_text()


def test_levels_name_what_stayed(recorded):
    levels = recorded[1].cells[2].memory_levels
    sizes = {part.name: (part.kind, part.grown_bytes) for part in levels.parts}
    # The list around the arrays is counted with them.
    kind, size = sizes["paths"]
    assert (kind, size) == (PartKind.ARRAY, pytest.approx(8 * MIB, rel=0.001))
    assert sizes["Out[3]"] == (PartKind.HISTORY, 5 * MIB)
    # A view of an array is counted once, with its owner.
    assert "view" not in sizes
    # Some of it was free in the process before.
    assert levels.stayed_bytes >= 10 * MIB
    assert sum(part.grown_bytes for part in levels.parts if part.name == "array") == 0


def test_observing_leaves_no_trace_in_the_kernel(recorded):
    assert recorded[1].cells[3].output_extract == "[] 5 1 False\n"


def test_levels_alone_leave_a_run_comparable(bench):
    record = run(bench, bench.folder, "kept = bytearray(8 << 20)", "del kept")
    assert not record.is_profiled
    first, second = (cell.memory_levels for cell in record.cells)
    assert [(part.name, part.grown_bytes // MIB) for part in first.parts if part.name == "kept"] == [("kept", 8)]
    assert second.stayed_bytes < -7 * MIB


def test_cells_over_the_limit_show_what_is_in_memory(bench):
    sources = ("kept = 1", "large = bytearray(300 << 20)", "more = 2", "larger = bytearray(30 << 20)")
    record = run(bench, bench.folder, *sources, plan=over_plan(bench.folder, 200 * MIB))
    assert not record.is_profiled
    levels = [cell.memory_levels for cell in record.cells]
    assert [found is not None and found.is_alone for found in levels] == [False, True, False, True]
    sizes = [{part.name: part.grown_bytes // MIB for part in found.parts} for found in levels if found is not None]
    assert [(found.get("large"), found.get("larger")) for found in sizes] == [(300, None), (300, 30)]


def test_a_level_that_would_shift_the_blame_is_not_taken():
    def peak(mebibytes):
        reading = Measurement(metric=Metric.PEAK_FOOTPRINT, value=mebibytes * MIB, method=Method.EXACT)
        return CellRun(number=1, index=0, line=1, status=CellStatus.OK, readings={Metric.PEAK_FOOTPRINT: reading})

    forked, other = SimpleNamespace(has_own_interpreter=True), SimpleNamespace(has_own_interpreter=False)
    assert is_level_small(forked, peak(60))
    assert [is_level_small(other, peak(size)) for size in (255, 256)] == [False, True]


def test_a_killed_kernel_leaves_its_record(bench):
    record = run(bench, bench.folder, "import os\nkept = bytearray(32 << 20)\nos.kill(os.getpid(), 9)", cells={1})
    assert statuses(record) == ["died"]
    profile = record.cells[0].memory_profile
    assert profile.is_cut
    assert (profile.lines[0].source, profile.lines[0].size_bytes // MIB) == ("kept = bytearray(32 << 20)", 32)
    assert record.cells[0].memory_levels.reason == "the kernel has ended"


def test_a_record_stops_at_its_size_and_says_so(bench):
    source = """
        kept = bytearray(32 << 20)
        import threading
        while any(thread.name == "lecturecheck-record" for thread in threading.enumerate()):
            small = [bytes(600 + number % 300) for number in range(10_000)]
        late = bytearray(64 << 20)
        """
    made = plan_memory(bench.folder, lecture(bench.folder, source), 1, frozenset({1}))
    record = run(bench, bench.folder, source, plan=replace(made, record_bytes=1 << 20))
    profile = record.cells[0].memory_profile
    assert (statuses(record), profile.full_bytes, profile.is_cut) == (["ok"], MIB, False)
    sizes = {line.source: line.size_bytes // MIB for line in profile.lines}
    assert sizes["kept = bytearray(32 << 20)"] == 32
    assert "late = bytearray(64 << 20)" not in sizes


def test_without_memray_the_way_to_install_it_is_said(bench):
    hidden = "import sys; sys.modules['memray'] = None"
    record = run(bench, bench.folder, hidden, "kept = bytearray(8 << 20)", cells={2})
    assert profile_messages(record) == [f"the memory of code cell 2 was not recorded: {memory_watch._NO_MEMRAY}"]
    assert record.cells[1].memory_profile is None
    assert record.cells[1].memory_levels is not None


def test_a_cell_with_its_own_recorder_is_left_alone(bench):
    record = run(bench, bench.folder, "# memray is used here", cells={1})
    assert profile_messages(record) == [
        "the memory of code cell 1 was not recorded: it uses memray itself, and only one recorder can be at work"
    ]
