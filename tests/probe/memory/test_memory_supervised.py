"""A kernel below a supervisor: every orphan of the lecture belongs to the tree, whatever its environment or name."""

import shutil

import pytest
from support.fake_proc import KERNEL

from pytest_lecturecheck.model.metric import Method, Metric
from pytest_lecturecheck.units import MIB

SUPERVISOR, ORPHAN = 90, 300


@pytest.fixture
def supervised(proc):
    proc.process(SUPERVISOR, parent=1)
    proc.memory(SUPERVISOR, rss=1000)
    proc.children(SUPERVISOR, KERNEL)
    proc.usage(KERNEL, parent=SUPERVISOR)
    return proc


def adopt(proc, pid=ORPHAN, **memory):
    """Let the supervisor adopt an orphan without the run's token."""
    proc.process(pid, parent=SUPERVISOR)
    proc.memory(pid, **memory)
    proc.children(SUPERVISOR, KERNEL, pid)


def footprint(found):
    return found.readings[Metric.PEAK_FOOTPRINT]


@pytest.mark.usefixtures("supervised")
def test_the_supervisor_itself_is_not_measured(open_probe):
    probe = open_probe(supervisor_pid=SUPERVISOR)
    probe.begin_cell()
    found = footprint(probe.end_cell())
    assert (found.value, found.method) == (50 * MIB, Method.EXACT)
    assert probe.snapshot().process_count == 1


def test_an_orphan_counts_without_a_token(supervised, open_probe):
    probe = open_probe(supervisor_pid=SUPERVISOR, run_token="t")
    probe.begin_cell()
    adopt(supervised, rss=200)
    probe.sample(0.025)
    assert probe.snapshot().process_count == 2
    found = footprint(probe.end_cell())
    assert (found.value, found.method) == (200 * MIB, Method.SAMPLED)


def test_an_orphan_without_a_supervisor_is_not_found(supervised, open_probe):
    """Without a supervisor only the token finds orphans: this is what the supervisor is for."""
    probe = open_probe(run_token="t")
    probe.begin_cell()
    adopt(supervised, rss=200)
    probe.sample(0.025)
    assert footprint(probe.end_cell()).value == 50 * MIB


def test_children_of_an_orphan_count(supervised, open_probe):
    probe = open_probe(supervisor_pid=SUPERVISOR)
    probe.begin_cell()
    adopt(supervised, rss=20)
    supervised.process(301, parent=ORPHAN)
    supervised.memory(301, rss=300)
    supervised.children(ORPHAN, 301)
    found = footprint(probe.end_cell())
    assert found.value == 300 * MIB
    assert probe.snapshot().process_count == 3


def test_an_orphan_that_ended_leaves_the_tree(supervised, open_probe):
    probe = open_probe(supervisor_pid=SUPERVISOR)
    adopt(supervised, rss=200)
    probe.begin_cell()
    probe.end_cell()
    supervised.children(SUPERVISOR, KERNEL)
    supervised.end(ORPHAN)
    probe.begin_cell()
    probe.end_cell()
    assert probe.snapshot().process_count == 1


def test_usage_of_reaped_orphans_counts(supervised, open_probe):
    """Their counters are added to the supervisor's, not to the kernel's."""
    supervised.usage(SUPERVISOR, reaped_ticks=40)
    probe = open_probe(supervisor_pid=SUPERVISOR)
    probe.begin_cell()
    supervised.usage(SUPERVISOR, reaped_ticks=240, child_faults=9)
    supervised.usage(KERNEL, parent=SUPERVISOR, ticks=100)
    found = probe.end_cell()
    assert found.readings[Metric.CPU].value == pytest.approx(3.0)
    assert footprint(found).method is Method.SAMPLED


def test_usage_of_a_kernel_that_ended_counts_once(supervised, open_probe):
    """A supervisor that reaps the kernel has the kernel's counters among its own."""
    probe = open_probe(supervisor_pid=SUPERVISOR)
    probe.begin_cell()
    supervised.usage(KERNEL, parent=SUPERVISOR, ticks=100)
    probe.sample(0.025)
    supervised.end(KERNEL)
    supervised.usage(SUPERVISOR, reaped_ticks=100)
    assert probe.end_cell().readings[Metric.CPU].value == pytest.approx(1.0)


def test_orphans_are_found_without_lists_of_children(supervised, open_probe):
    for pid in (KERNEL, SUPERVISOR):
        shutil.rmtree(supervised.root / str(pid) / "task")
        (supervised.root / str(pid) / "task" / str(pid)).mkdir(parents=True)
    probe = open_probe(supervisor_pid=SUPERVISOR)
    probe.begin_cell()
    supervised.process(ORPHAN, parent=SUPERVISOR)
    supervised.memory(ORPHAN, rss=200)
    assert footprint(probe.end_cell()).value == 200 * MIB
    assert probe.snapshot().process_count == 2


def test_a_process_counts_although_its_first_thread_has_ended(supervised, open_probe):
    """The system lists it as a zombie, without the memory that its other threads hold."""
    probe = open_probe(supervisor_pid=SUPERVISOR)
    probe.begin_cell()
    adopt(supervised, rss=20)
    probe.sample(0.025)
    supervised.memory(f"{ORPHAN}/task/301", rss=300)
    supervised.write(f"{ORPHAN}/status", "Name:\tpython\nState:\tZ (zombie)\nThreads:\t2\n")
    probe.sample(0.025)
    probe.sample(0.025)
    assert footprint(probe.end_cell()).value >= 300 * MIB


def test_what_was_found_before_the_supervisor_was_killed_is_kept(supervised, open_probe):
    """The server of kernels, which would adopt it, can have been killed as well."""
    probe = open_probe(supervisor_pid=SUPERVISOR)
    probe.begin_cell()
    adopt(supervised, rss=200)
    probe.sample(0.025)
    supervised.end(SUPERVISOR)
    supervised.process(ORPHAN, parent=1)
    probe.sample(0.025)
    probe.sample(0.025)
    assert probe.snapshot().other_pids == (ORPHAN,)
    supervised.end(ORPHAN)
    probe.sample(0.025)
    assert probe.snapshot().other_pids == ()


def test_a_lost_supervisor_leaves_the_search_by_token(supervised, open_probe):
    probe = open_probe(supervisor_pid=SUPERVISOR, run_token="t")
    probe.begin_cell()
    supervised.end(SUPERVISOR)
    supervised.process(ORPHAN, parent=1, environ="A=1\0LECTURECHECK_RUN=t\0")
    supervised.memory(ORPHAN, rss=200)
    probe.sample(0.025)
    probe._mark_scan_at = 0.0
    probe.sample(0.025)
    assert footprint(probe.end_cell()).value == 200 * MIB
