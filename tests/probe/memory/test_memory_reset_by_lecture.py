"""A cell can reset the counter of its own peak; its peak is then not exact, and the cell is reported."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fake_proc import KERNEL

from pytest_lecturecheck.model.metric import Method, Metric
from pytest_lecturecheck.probe.memory._high_watermark import HighWatermark
from pytest_lecturecheck.probe.memory._linux import counter_lag_bytes
from pytest_lecturecheck.probe.memory_limits import read_group_peak
from pytest_lecturecheck.units import MIB

GROUP = "0::/lecturecheck-abc\n"


def peak(found):
    return found.readings[Metric.PEAK_FOOTPRINT]


def reset_in_cell(proc, probe):
    """Run a cell that holds 111 MiB at a sample and then resets the mark at 51 MiB."""
    probe.begin_cell()
    proc.memory(KERNEL, rss=111)
    probe.sample(0.025)
    proc.memory(KERNEL, rss=51)
    return probe.end_cell()


def test_a_reset_makes_the_peak_a_lower_bound(proc, open_probe):
    probe = open_probe()
    found = reset_in_cell(proc, probe)
    assert found.was_peak_reset
    assert (peak(found).value, peak(found).method) == (111 * MIB, Method.SAMPLED)
    assert peak(found).source == "VmHWM and VmRSS as sampled, because the lecture reset VmHWM"
    assert found.readings[Metric.PEAK_RSS].method is Method.SAMPLED
    lecture = probe.close()[Metric.PEAK_FOOTPRINT]
    assert (lecture.value, lecture.method) == (111 * MIB, Method.SAMPLED)


def test_the_groups_peak_is_the_upper_end(proc, open_probe):
    proc.write("100/cgroup", GROUP)
    proc.write("self/cgroup", "0::/\n")
    proc.write("../sys/fs/cgroup/lecturecheck-abc/memory.peak", f"{150 * MIB}\n")
    proc.write("../sys/fs/cgroup/lecturecheck-abc/memory.swap.peak", "0\n")
    probe = open_probe()
    found = reset_in_cell(proc, probe)
    assert (peak(found).value, peak(found).high, peak(found).method) == (111 * MIB, 150 * MIB, Method.BRACKET)
    lecture = probe.close()[Metric.PEAK_FOOTPRINT]
    assert (lecture.value, lecture.high, lecture.method) == (111 * MIB, 150 * MIB, Method.BRACKET)


def test_other_cells_stay_exact(proc, open_probe):
    probe = open_probe()
    reset_in_cell(proc, probe)
    probe.begin_cell()
    proc.memory(KERNEL, rss=60, mark=80)
    found = probe.end_cell()
    assert (peak(found).value, peak(found).method) == (80 * MIB, Method.EXACT)
    assert not found.was_peak_reset


def test_our_own_reset_is_none(proc, open_probe):
    """Memory freed between the reading before the reset and the reset itself is no reset by the lecture."""
    proc.memory(KERNEL, rss=500)
    probe = open_probe()
    probe.begin_cell()
    proc.memory(KERNEL, rss=50)
    found = probe.end_cell()
    assert not found.was_peak_reset
    assert peak(found).method is Method.EXACT


def test_a_lagging_counter_is_no_reset(proc, open_probe):
    lag_kib = 2 * counter_lag_bytes(1) // 1024
    probe = open_probe()
    probe.begin_cell()
    proc.write("100/status", f"Name:\tpython\nVmHWM:\t{60_000 + lag_kib} kB\nVmRSS:\t60000 kB\nThreads:\t1\n")
    probe.sample(0.025)
    proc.write("100/status", "Name:\tpython\nVmHWM:\t60000 kB\nVmRSS:\t60000 kB\nThreads:\t1\n")
    assert not probe.end_cell().was_peak_reset


@given(st.lists(st.integers(0, 1000), min_size=1), st.integers(0, 1000))
def test_a_drop_is_noticed_only_below_an_earlier_mark(sizes, last):
    mark, peak_bytes = HighWatermark(), 0
    for size in sizes:
        peak_bytes = max(peak_bytes, size)
        mark.note(size, peak_bytes)
    assert mark.drop_bytes == 0
    mark.note(last, last)
    assert mark.drop_bytes == max(0, peak_bytes - last)
    assert mark.bytes == max(peak_bytes, last)


@pytest.mark.parametrize(
    ("own", "other", "files", "has_swap", "expected"),
    [
        ("0::/\n", GROUP, {"lecturecheck-abc/memory.peak": "7\n"}, False, 7),
        ("0::/\n", GROUP, {"lecturecheck-abc/memory.peak": "7\n"}, True, None),
        (
            "0::/\n",
            GROUP,
            {"lecturecheck-abc/memory.peak": "7\n", "lecturecheck-abc/memory.swap.peak": "2\n"},
            True,
            9,
        ),
        (GROUP, GROUP, {"lecturecheck-abc/memory.peak": "7\n"}, False, None),
        ("4:memory:/\n", "4:memory:/g\n", {"memory/g/memory.memsw.max_usage_in_bytes": "8\n"}, True, 8),
        ("4:memory:/\n", "4:memory:/g\n", {"memory/g/memory.max_usage_in_bytes": "8\n"}, True, None),
        ("4:memory:/\n", "4:memory:/g\n", {"memory/g/memory.max_usage_in_bytes": "8\n"}, False, 8),
        ("0::/\n", "0::/../x\n", {"x/memory.peak": "7\n"}, False, None),
        ("0::/\n", "3:cpu:/x\n", {"x/memory.peak": "7\n"}, False, None),
    ],
)
def test_the_peak_of_the_runs_own_group(proc, own, other, files, has_swap, expected):
    proc.write("self/cgroup", own)
    proc.write("100/cgroup", other)
    for name, text in files.items():
        proc.write(f"../sys/fs/cgroup/{name}", text)
    assert read_group_peak(proc.root.parent, KERNEL, has_swap=has_swap) == expected
