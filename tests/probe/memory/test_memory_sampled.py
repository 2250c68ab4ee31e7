"""The sampled probe over a source whose processes are what a test says; these run on every operating system."""

import pytest
from support.fakes import FakeSource, StillSampler

from pytest_lecturecheck.model.metric import Method, Metric, Unavailable
from pytest_lecturecheck.probe.memory._sampled import SampledProbe
from pytest_lecturecheck.probe.memory._source import ProcessReading, Unread
from pytest_lecturecheck.units import GIB, MIB

KERNEL = 100


class Bench:
    """A probe, its source and its clock."""

    def __init__(self, source, peak=60):
        self.source = source
        self.now = 0.0
        self.set(held=50, peak=peak)
        self.probe = SampledProbe(
            KERNEL, interval_seconds=0.025, source=source, sampler=StillSampler(), clock=lambda: self.now
        )

    def set(self, pid=KERNEL, *, held=50, rss=None, interval=None, peak=None, rss_peak=None, **known):
        """Set the sizes of a process in MiB; ``interval`` and ``peak`` are the counters of the OS."""
        sizes = {
            "footprint_bytes": held,
            "resident_bytes": held if rss is None else rss,
            "interval_peak_bytes": interval,
            "lifetime_peak_bytes": peak,
            "resident_peak_bytes": rss_peak,
        }
        known = {"started": pid, "cpu_seconds": 1.0, "major_faults_count": 1, "written_bytes": 1, **known}
        self.source.processes[pid] = ProcessReading(
            **{name: None if size is None else size * MIB for name, size in sizes.items()}, **known
        )

    def sample(self, after=0.025, **sizes):
        self.now += after
        self.set(**sizes)
        self.probe.sample(0.025)

    def begin(self):
        self.now += 1
        self.probe.begin_cell()

    def end(self):
        self.now += 1
        return self.probe.end_cell()

    def close(self):
        self.now += 1
        return self.probe.close()


@pytest.fixture
def bench():
    return Bench(FakeSource())


@pytest.fixture
def counting():
    """Return a bench whose OS can reset the counter of the peak."""
    made = Bench(FakeSource(resident_peak="", beyond_resident="beyond"))
    made.set(held=50, interval=60, peak=60)
    made.probe.sample(0.025)
    return made


def footprint(found):
    return getattr(found, "readings", found)[Metric.PEAK_FOOTPRINT]


def test_a_peak_after_a_reset_is_exact(counting):
    counting.begin()
    assert counting.source.resets == [KERNEL]
    counting.sample(held=60, interval=700, peak=700)
    first = counting.end()
    counting.begin()
    counting.set(held=61, interval=65, peak=700)
    second = counting.end()
    assert first.start_footprint_bytes == 50 * MIB
    assert (footprint(first).text, footprint(first).method) == ("700 MiB", Method.EXACT)
    assert footprint(first).source == "interval peak"
    assert footprint(first).interval_seconds is None
    assert (footprint(second).text, footprint(second).method) == ("65 MiB", Method.EXACT)
    assert (footprint(counting.close()).text, footprint(counting.close()).method) == ("700 MiB", Method.EXACT)


def test_a_counter_that_the_cell_reset_is_no_exact_peak(counting):
    counting.begin()
    counting.sample(held=60, interval=700, peak=700)
    counting.set(held=61, interval=61, peak=700)
    found = counting.end()
    assert found.was_peak_reset
    assert (footprint(found).value, footprint(found).method) == (700 * MIB, Method.SAMPLED)
    assert footprint(counting.close()).method is Method.SAMPLED


def test_the_start_of_the_kernel_is_not_the_lectures(counting):
    counting.set(held=50, interval=900, peak=900)
    counting.begin()
    counting.set(held=55, interval=58, peak=900)
    counting.end()
    assert footprint(counting.close()).text == "58 MiB"


def test_memory_between_cells_counts_for_the_lecture(counting):
    counting.begin()
    counting.set(held=55, interval=58, peak=60)
    counting.end()
    counting.set(held=55, interval=800, peak=800)
    counting.begin()
    assert footprint(counting.end()).text == "55 MiB"
    assert (footprint(counting.close()).text, footprint(counting.close()).method) == ("800 MiB", Method.EXACT)


def test_without_a_reset_the_lifetime_peak_is_used(counting):
    counting.source.can_reset = False
    counting.begin()
    counting.sample(held=55, interval=60, peak=60)
    found = footprint(counting.end())
    assert (found.method, found.text, found.source) == (Method.BRACKET, "55 MiB to 60 MiB", "footprint")
    assert found.interval_seconds == 0.025


@pytest.mark.parametrize(
    ("peak", "method", "text", "source"),
    [
        (61, Method.EXACT, "61 MiB", "lifetime peak"),
        (60, Method.BRACKET, "55 MiB to 60 MiB", "footprint"),
        (None, Method.SAMPLED, ">= 55 MiB", "footprint"),
    ],
)
def test_a_peak_of_a_whole_life(peak, method, text, source):
    before = 60 if peak else None
    made = Bench(FakeSource(), peak=before)
    made.begin()
    made.sample(held=55, peak=before)
    made.set(held=52, peak=peak)
    found = footprint(made.end())
    assert (found.method, found.text, found.source) == (method, text, source)
    assert made.source.resets == []


def test_a_lecture_is_exact_once_its_lifetime_peak_rose(bench):
    bench.begin()
    bench.set(held=52, peak=60)
    bench.end()
    bench.begin()
    bench.set(held=52, peak=300)
    bench.end()
    bench.begin()
    third = bench.end()
    assert footprint(third).text == "52 MiB to 300 MiB"
    assert (footprint(bench.close()).text, footprint(bench.close()).method) == ("300 MiB", Method.EXACT)


@pytest.mark.parametrize(
    ("rss_peak", "method", "text"),
    [(80, Method.EXACT, "80 MiB"), (70, Method.BRACKET, "40 MiB to 70 MiB"), (None, Method.SAMPLED, ">= 40 MiB")],
)
def test_resident_size(bench, rss_peak, method, text):
    bench.set(held=50, rss=30, peak=60, rss_peak=70 if rss_peak else None)
    bench.begin()
    bench.sample(held=50, rss=40, peak=60, rss_peak=70 if rss_peak else None)
    bench.set(held=50, rss=30, peak=60, rss_peak=rss_peak)
    found = bench.end().readings[Metric.PEAK_RSS]
    assert (found.method, found.text) == (method, text)


def test_a_tree_lies_between_highest_sum_and_sum_of_peaks(counting):
    counting.source.children = {KERNEL: [7], 7: [8]}
    counting.set(7, held=100, interval=900)
    counting.set(8, held=10, interval=900)
    counting.begin()
    assert sorted(counting.source.resets) == [7, 8, KERNEL]
    counting.set(7, held=100, interval=150)
    counting.set(8, held=10, interval=20)
    counting.sample(held=60, interval=80)
    found = counting.end()
    assert footprint(found).text == "170 MiB to 250 MiB"
    assert (footprint(found).method, footprint(found).source) == (Method.BRACKET, "footprint of 3 processes")
    assert found.start_footprint_bytes == 160 * MIB
    assert counting.probe.snapshot().footprint_bytes == 170 * MIB
    assert counting.probe.snapshot().process_count == 3


def test_an_ended_child_makes_it_a_lower_bound(counting):
    counting.begin()
    counting.source.children = {KERNEL: [7]}
    counting.set(7, held=100, interval=150)
    counting.sample(held=60, interval=80)
    counting.source.children = {}
    del counting.source.processes[7]
    found = footprint(counting.end())
    assert (found.method, found.text) == (Method.SAMPLED, ">= 160 MiB")
    counting.set(held=60, interval=60)
    counting.begin()
    assert footprint(counting.end()).method is Method.EXACT


def test_a_child_between_two_samples_is_noticed(counting):
    counting.begin()
    counting.set(held=60, interval=80, waited_for=5)
    found = footprint(counting.end())
    assert (found.method, found.text) == (Method.SAMPLED, ">= 80 MiB")
    counting.begin()
    assert footprint(counting.end()).method is Method.EXACT


def test_a_grandchild_between_two_samples_is_noticed(counting):
    counting.source.children = {KERNEL: [7]}
    counting.set(7, held=100, interval=100)
    counting.begin()
    counting.sample(pid=7, held=100, interval=100, waited_for=9)
    assert footprint(counting.end()).method is Method.SAMPLED


def test_a_zombie_child_is_lost_only_once(counting):
    counting.begin()
    counting.source.children = {KERNEL: [7]}
    counting.set(7, held=0, interval=900, has_ended=True)
    assert footprint(counting.end()).method is Method.SAMPLED
    counting.begin()
    assert footprint(counting.end()).method is Method.EXACT


def test_a_child_that_may_not_be_read(counting):
    counting.source.children = {KERNEL: [7]}
    counting.source.processes[7] = Unread(reason="EPERM")
    for _ in range(2):
        counting.begin()
        counting.set(held=60, interval=80)
        found = footprint(counting.end())
        assert (found.method, found.text) == (Method.SAMPLED, ">= 80 MiB")


def test_children_that_the_system_does_not_report(counting):
    counting.source.children = {KERNEL: None}
    counting.begin()
    counting.set(held=60, interval=80)
    assert footprint(counting.end()).method is Method.SAMPLED


def test_a_member_stays_after_its_parent_ended(counting):
    counting.source.children = {KERNEL: [7], 7: [8]}
    counting.set(7, held=10, interval=10)
    counting.set(8, held=100, interval=100)
    counting.begin()
    counting.source.children = {1: [8]}
    del counting.source.processes[7]
    counting.sample(held=60, interval=80)
    assert counting.probe.snapshot().footprint_bytes == 160 * MIB


def test_a_process_id_that_is_used_again(counting):
    counting.source.children = {KERNEL: [7]}
    counting.set(7, held=100, interval=100)
    counting.begin()
    counting.source.children = {}
    counting.set(7, held=9000, interval=9000, started=999)
    counting.sample(held=60, interval=80)
    assert counting.probe.snapshot().footprint_bytes == 60 * MIB
    counting.sample(held=9000, interval=9000, started=1)
    assert counting.probe.snapshot().footprint_bytes == 60 * MIB
    assert footprint(counting.end()).text == ">= 150 MiB"


def test_the_process_behind_a_launcher_is_measured(counting):
    counting.source.children = {KERNEL: [7]}
    counting.set(7, held=100, rss=90, interval=100, peak=100)
    counting.source.workers = {KERNEL: 7}
    counting.begin()
    counting.set(7, held=120, rss=90, interval=150, peak=150)
    found = counting.end()
    assert found.start_footprint_bytes == 100 * MIB
    assert (footprint(found).text, footprint(found).method) == ("150 MiB", Method.EXACT)
    assert found.readings[Metric.PEAK_RSS].text == ">= 90 MiB"
    assert counting.probe.snapshot().process_count == 1


def test_searches_for_children_are_limited():
    source = FakeSource(look_seconds=1.0)
    rare = Bench(source)
    rare.begin()
    source.children = {KERNEL: [7]}
    rare.set(7, held=100)
    rare.sample(after=0.5, held=50)
    assert rare.probe.snapshot().process_count == 1
    rare.sample(after=0.5, held=50)
    assert rare.probe.snapshot().process_count == 2
    source.children[7] = [8]
    rare.set(8, held=10)
    rare.now += 0.1
    assert footprint(rare.probe.end_cell()).source == "footprint of 3 processes"


def test_footprint_beyond_resident_size_is_compressed(counting):
    counting.source.swap_bytes = 3 * GIB
    counting.begin()
    counting.sample(after=2, held=500, rss=200, interval=500)
    counting.source.swap_bytes = GIB
    counting.sample(after=2, held=100, rss=400, interval=500)
    found = counting.end().readings
    compressed = found[Metric.PEAK_COMPRESSED]
    assert (compressed.method, compressed.text, compressed.source) == (Method.SAMPLED, ">= 300 MiB", "beyond")
    assert found[Metric.PEAK_FOOTPRINT].text == "500 MiB"
    assert found[Metric.PEAK_SWAP].text == (
        "not measured (only the machine's is known; the whole machine had up to 3 GiB in swap)"
    )
    samples = counting.probe.timeline(0)
    assert [sample.compressed_bytes for sample in samples][-3:] == [300 * MIB, None, None]
    assert all(sample.swap_bytes is None for sample in samples)


def test_file_pages_make_the_resident_size_larger(counting):
    counting.begin()
    counting.sample(held=50, rss=90, interval=50)
    found = counting.end().readings
    assert found[Metric.PEAK_RSS].text == ">= 90 MiB"
    assert found[Metric.PEAK_FOOTPRINT].text == "50 MiB"
    assert found[Metric.PEAK_COMPRESSED] == Unavailable(metric=Metric.PEAK_COMPRESSED, reason="not reported")


def test_memory_pressure_is_shown_beside_swap(bench):
    bench.begin()
    bench.source.pressure = "memory pressure was critical"
    bench.sample(after=2)
    bench.source.pressure = ""
    bench.sample(after=2)
    found = bench.end().readings[Metric.PEAK_SWAP]
    assert found.reason == "only the machine's is known, and memory pressure was critical"


def test_use_of_the_machine(counting):
    counting.set(interval=60, cpu_seconds=10.0, major_faults_count=5, written_bytes=1000)
    counting.begin()
    counting.set(interval=60, cpu_seconds=12.5, major_faults_count=9, written_bytes=4000)
    counting.end()
    counting.begin()
    counting.set(interval=60, cpu_seconds=13.0, major_faults_count=9, written_bytes=4000)
    second = counting.end().readings
    lecture = counting.close()
    assert [second[metric].value for metric in (Metric.CPU, Metric.MAJOR_FAULTS, Metric.DISK_WRITTEN)] == [0.5, 0, 0]
    counted = [metric for metric in lecture if not metric.is_memory and not isinstance(lecture[metric], Unavailable)]
    assert {metric: lecture[metric].value for metric in counted} == {
        Metric.WALL: 2.0,
        Metric.CPU: 3.0,
        Metric.MAJOR_FAULTS: 4,
        Metric.DISK_WRITTEN: 3000,
    }
    assert {lecture[metric].method for metric in counted} == {Method.EXACT}
    assert lecture[Metric.DISK_WRITTEN].source == "bytes"


def test_usage_of_a_child_is_counted_once(counting):
    kept = Bench(FakeSource(adds_children=False, is_cpu_exact=False))
    for made, parent, expected, method in ((counting, 4.0, 3.0, Method.EXACT), (kept, 2.0, 3.0, Method.SAMPLED)):
        made.begin()
        made.source.children = {KERNEL: [7]}
        made.set(7, cpu_seconds=2.0, written_bytes=500)
        made.sample(interval=60, cpu_seconds=2.0)
        made.source.children = {}
        del made.source.processes[7]
        made.set(interval=60, cpu_seconds=parent)
        found = made.end().readings
        assert (found[Metric.CPU].value, found[Metric.CPU].method) == (expected, method)
        assert (found[Metric.DISK_WRITTEN].value, found[Metric.DISK_WRITTEN].method) == (500, Method.SAMPLED)


def test_counters_that_a_system_does_not_have():
    made = Bench(FakeSource(missing={Metric.CPU: "no clock", Metric.DISK_WRITTEN: "pipes count as well"}))
    made.begin()
    made.set(cpu_seconds=None, written_bytes=None)
    found = made.end().readings
    assert found[Metric.CPU].text == "not measured (no clock)"
    assert found[Metric.DISK_WRITTEN].text == "not measured (pipes count as well)"


def test_death_keeps_the_last_sample(counting):
    counting.begin()
    counting.sample(held=300, interval=310)
    del counting.source.processes[KERNEL]
    found = counting.end().readings
    assert (found[Metric.PEAK_FOOTPRINT].method, found[Metric.PEAK_FOOTPRINT].text) == (Method.SAMPLED, ">= 310 MiB")
    assert found[Metric.PEAK_RSS].text == ">= 300 MiB"
    assert found[Metric.CPU].method is Method.SAMPLED
    counting.begin()
    gone = counting.end().readings
    reason = "the process had ended before it could be read"
    assert gone[Metric.PEAK_RSS] == Unavailable(metric=Metric.PEAK_RSS, reason=reason)
    assert gone[Metric.CPU] == Unavailable(metric=Metric.CPU, reason=reason)
    assert footprint(counting.close()).text == ">= 310 MiB"


def test_a_zombie_kernel_still_has_its_peak(counting):
    counting.begin()
    counting.sample(held=300, interval=310)
    counting.set(held=0, rss=0, interval=900, has_ended=True)
    found = footprint(counting.end())
    assert (found.method, found.text) == (Method.SAMPLED, ">= 900 MiB")
    assert counting.probe.snapshot().footprint_bytes == 300 * MIB


def test_the_end_of_the_kernel_keeps_the_lecture_exact(counting):
    counting.begin()
    counting.set(held=300, interval=310)
    counting.end()
    del counting.source.processes[KERNEL]
    assert footprint(counting.close()).method is Method.EXACT


def test_a_process_that_was_never_read():
    source = FakeSource()
    source.read = lambda pid: Unread(reason="proc_pid_rusage: Operation not permitted (EPERM)")  # noqa: ARG005
    made = Bench(source)
    made.begin()
    found = made.end()
    reason = "proc_pid_rusage: Operation not permitted (EPERM)"
    for metric in (Metric.PEAK_FOOTPRINT, Metric.PEAK_RSS, Metric.PEAK_COMPRESSED, Metric.CPU, Metric.MAJOR_FAULTS):
        assert found.readings[metric] == Unavailable(metric=metric, reason=reason)
    assert found.start_footprint_bytes is None
    assert made.probe.snapshot() is None
    assert made.probe.timeline(0) == ()
    assert footprint(made.close()).text == f"not measured ({reason})"


def test_without_a_footprint_the_resident_size_is_used():
    made = Bench(FakeSource(missing={Metric.PEAK_FOOTPRINT: "there is none"}))
    made.begin()
    made.end()
    made.set(held=None, rss=40)
    made.begin()
    made.sample(held=None, rss=70)
    assert made.probe.snapshot().footprint_bytes == 70 * MIB
    assert footprint(made.end()) == Unavailable(metric=Metric.PEAK_FOOTPRINT, reason="there is none")


def test_closing_again_returns_the_same(counting):
    counting.begin()
    counting.end()
    result = counting.close()
    counting.sample(held=9000, interval=9000)
    counting.begin()
    assert counting.close() == result
