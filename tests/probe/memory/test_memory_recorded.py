"""The probe of Linux over recorded trees; these run on every operating system."""

from support.fake_proc import KERNEL

from pytest_lecturecheck.model.metric import Measurement, Method, Metric, Unavailable
from pytest_lecturecheck.probe.memory._linux import counter_lag_bytes
from pytest_lecturecheck.probe.memory._procfiles import KeptFile
from pytest_lecturecheck.probe.memory._tree import read_proportional_sizes
from pytest_lecturecheck.units import MIB


def footprint(found):
    return found.readings[Metric.PEAK_FOOTPRINT]


def test_each_cell_has_its_own_mark(proc, open_probe):
    proc.memory(KERNEL, rss=52, mark=61)
    probe = open_probe()
    probe.begin_cell()
    assert (proc.root / "100" / "clear_refs").read_text() == "5"
    proc.memory(KERNEL, rss=60, mark=640)
    first = probe.end_cell()
    probe.begin_cell()
    proc.memory(KERNEL, rss=61, mark=62)
    second = probe.end_cell()
    assert first.start_footprint_bytes == 52 * MIB
    assert footprint(first).text == "640 MiB"
    assert footprint(first).method is Method.EXACT
    assert footprint(first).tolerance > 0
    assert second.start_footprint_bytes == 60 * MIB
    assert footprint(second).value == 62 * MIB
    assert probe.close()[Metric.PEAK_FOOTPRINT].value == 640 * MIB


def test_memory_between_cells_counts_for_the_lecture(proc, open_probe):
    probe = open_probe()
    probe.begin_cell()
    first = probe.end_cell()
    proc.memory(KERNEL, rss=60, mark=900)
    probe.begin_cell()
    proc.memory(KERNEL, rss=60, mark=60)
    second = probe.end_cell()
    assert (footprint(first).value, footprint(second).value) == (50 * MIB, 60 * MIB)
    assert probe.close()[Metric.PEAK_FOOTPRINT].value == 900 * MIB


def test_a_mark_that_cannot_be_reset(proc, open_probe):
    (proc.root / "100" / "clear_refs").unlink()
    proc.memory(KERNEL, rss=50, mark=50)
    probe = open_probe()
    probe.begin_cell()
    proc.memory(KERNEL, rss=50, mark=560)
    raised = probe.end_cell()
    probe.begin_cell()
    kept = probe.end_cell()
    assert footprint(raised).value == 560 * MIB
    assert footprint(kept).text == "not measured (<= 560 MiB, the high watermark could not be reset)"
    assert probe.close()[Metric.PEAK_RSS].value == 560 * MIB


def test_swap(proc, open_probe):
    probe = open_probe()
    probe.begin_cell()
    proc.memory(KERNEL, rss=203, mark=204, swap=405)
    assert probe.sample(0.025) is False
    proc.memory(KERNEL, rss=100, mark=204, swap=0)
    found = probe.end_cell()
    assert footprint(found).text == "608 MiB to 609 MiB"
    assert found.readings[Metric.PEAK_SWAP].value == 405 * MIB
    assert found.readings[Metric.PEAK_SWAP].method is Method.SAMPLED


def test_use_of_a_cell(proc, open_probe):
    proc.usage(KERNEL, ticks=100, faults=7)
    probe = open_probe()
    probe.begin_cell()
    proc.usage(KERNEL, ticks=350, faults=9)
    proc.write("100/io", "rchar: 500\nread_bytes: 4096\nwrite_bytes: 8192\n")
    readings = probe.end_cell().readings
    ticks_per_second = readings[Metric.CPU].tolerance and round(2 / readings[Metric.CPU].tolerance)
    assert readings[Metric.CPU].value == 250 / ticks_per_second
    assert readings[Metric.MAJOR_FAULTS].value == 2
    assert readings[Metric.DISK_WRITTEN].value == 8192
    assert readings[Metric.READ_CALLS].source == "/proc/PID/io rchar"
    assert readings[Metric.WALL].value > 0
    lecture = probe.close()
    for metric in (Metric.CPU, Metric.MAJOR_FAULTS, Metric.DISK_WRITTEN, Metric.WALL):
        assert lecture[metric].value == readings[metric].value


def test_usage_before_the_first_cell_is_not_charged_to_it(proc, open_probe):
    probe = open_probe()
    proc.usage(KERNEL, ticks=500)
    probe.sample(0.025)
    probe.begin_cell()
    assert probe.end_cell().readings[Metric.CPU].value == 0


def test_io_that_may_not_be_read(proc, open_probe):
    (proc.root / "100" / "io").unlink()
    probe = open_probe()
    probe.begin_cell()
    readings = probe.end_cell().readings
    assert readings[Metric.DISK_WRITTEN].text == "not measured (/proc/PID/io cannot be read)"
    assert readings[Metric.CPU].method is Method.EXACT
    assert isinstance(probe.close()[Metric.DISK_WRITTEN], Unavailable)


def test_a_tree_is_read_by_proportional_sizes(proc, open_probe):
    probe = open_probe()
    proc.process(200, parent=KERNEL)
    proc.process(300, parent=200)
    proc.memory(KERNEL, rss=400)
    proc.memory(200, rss=400)
    proc.memory(300, rss=400)
    proc.pss(KERNEL, 150)
    proc.pss(200, 160)
    proc.pss(300, 170, swap=20)
    proc.children(KERNEL, 200)
    proc.children(200, 300)
    probe.begin_cell()
    assert probe.sample(0.025) is True
    probe.sample_deeply()
    # The footprint is known now, and the plain sum says that it did not rise.
    snapshot = probe.snapshot()
    found = probe.end_cell()
    assert footprint(found) == Measurement(
        metric=Metric.PEAK_FOOTPRINT,
        value=500 * MIB,
        method=Method.SAMPLED,
        interval_seconds=0.025,
        source="PSS of 3 processes, every 25 ms",
    )
    assert found.readings[Metric.PEAK_RSS].method is Method.EXACT
    assert (snapshot.process_count, snapshot.footprint_bytes) == (3, 500 * MIB)
    assert probe.close()[Metric.PEAK_FOOTPRINT] == footprint(found)


class Meanwhile:
    """Process ids; after they were gone through once, something happens."""

    def __init__(self, pids, action):
        self.pids, self.action = pids, action

    def __iter__(self):
        yield from self.pids
        self.action()


def test_changes_during_a_reading_are_not_counted(proc):
    for pid in (200, 300):
        proc.process(pid, parent=KERNEL)
        proc.memory(pid, rss=100)
        proc.pss(pid, 100)
    still = read_proportional_sizes((200, 300), str(proc.root))
    grown = read_proportional_sizes(Meanwhile((200, 300), lambda: proc.memory(300, rss=130)), str(proc.root))
    assert still.pss_bytes == 200 * MIB
    assert grown.pss_bytes == 170 * MIB


def test_a_reading_is_dropped_if_a_process_ended(proc):
    proc.process(200, parent=KERNEL)
    proc.process(300, parent=KERNEL)
    ended = Meanwhile((200, 300), lambda: proc.write("300/status", "Name:\tpython\nState:\tZ (zombie)\n"))
    assert read_proportional_sizes(ended, str(proc.root)) is None


def test_a_memory_group_replaces_reading_the_tree(proc, open_probe):
    held = [500 * MIB]
    probe = open_probe(read_group=lambda: held[0])
    proc.process(200, parent=KERNEL)
    proc.memory(KERNEL, rss=400)
    proc.memory(200, rss=400)
    proc.children(KERNEL, 200)
    probe.begin_cell()
    # Proportional sizes are not worth their price where the group knows.
    assert probe.sample(0.025) is False
    held[0] = 300 * MIB
    probe.sample(0.025)
    assert probe.snapshot().footprint_bytes == 400 * MIB
    found = probe.end_cell()
    assert footprint(found) == Measurement(
        metric=Metric.PEAK_FOOTPRINT,
        value=500 * MIB,
        method=Method.SAMPLED,
        interval_seconds=0.025,
        source="memory group of the run, every 25 ms",
    )
    assert probe.close()[Metric.PEAK_FOOTPRINT] == footprint(found)


def test_an_unreadable_memory_group_falls_back_to_pss(proc, open_probe):
    probe = open_probe(read_group=lambda: None)
    proc.process(200, parent=KERNEL)
    proc.memory(KERNEL, rss=400)
    proc.memory(200, rss=400)
    proc.children(KERNEL, 200)
    probe.begin_cell()
    assert probe.sample(0.025) is True


def test_pss_is_not_read_below_the_known_peak(proc, open_probe):
    probe = open_probe()
    proc.process(200, parent=KERNEL)
    proc.children(KERNEL, 200)
    probe.begin_cell()
    proc.memory(KERNEL, rss=60, mark=640)
    assert probe.sample(0.025) is False
    assert footprint(probe.end_cell()).source == "VmHWM of the main process; children not read"


def test_a_child_between_samples_is_noticed_by_its_faults(proc, open_probe):
    probe = open_probe()
    probe.begin_cell()
    proc.usage(KERNEL, child_faults=49)
    with_child = probe.end_cell()
    probe.begin_cell()
    without = probe.end_cell()
    assert footprint(with_child).method is Method.SAMPLED
    assert footprint(without).method is Method.EXACT


def test_children_before_the_probe_was_opened_do_not_count(proc, open_probe):
    proc.usage(KERNEL, child_faults=75)
    probe = open_probe()
    probe.begin_cell()
    assert footprint(probe.end_cell()).method is Method.EXACT
    assert probe.close()[Metric.PEAK_FOOTPRINT].method is Method.EXACT


def test_a_child_of_another_thread_is_found(proc, open_probe):
    probe = open_probe()
    probe.begin_cell()
    proc.process(200, parent=KERNEL)
    proc.children(KERNEL, 200, thread=101)
    proc.memory(KERNEL, rss=50, threads=2)
    assert footprint(probe.end_cell()).method is Method.SAMPLED


def test_a_zombie_counts_for_the_cell_that_made_it_only(proc, open_probe):
    probe = open_probe()
    probe.begin_cell()
    proc.process(200, parent=KERNEL)
    proc.write("200/status", "Name:\tpython\nState:\tZ (zombie)\nThreads:\t1\n")
    proc.children(KERNEL, 200)
    first = probe.end_cell()
    probe.begin_cell()
    second = probe.end_cell()
    assert (footprint(first).method, footprint(second).method) == (Method.SAMPLED, Method.EXACT)


def test_a_process_outside_the_tree_is_found_by_mark(proc, open_probe):
    proc.process(1, parent=0, environ="LECTURECHECK_RUN=tok")
    proc.process(300, parent=1, environ="LECTURECHECK_RUN=tok")
    proc.process(400, parent=1, environ="LECTURECHECK_RUN=other")
    proc.memory(300, rss=120)
    proc.pss(300, 120)
    proc.pss(KERNEL, 45)
    probe = open_probe(run_token="tok")
    probe.begin_cell()
    assert probe.sample(0.025) is True
    probe.sample_deeply()
    found = probe.end_cell()
    assert footprint(found).source == "PSS of 2 processes, every 25 ms"
    assert footprint(found).value == 165 * MIB


def test_a_system_without_lists_of_children(proc, open_probe):
    proc.process(200, parent=KERNEL)
    proc.process(300, parent=200)
    for path in proc.root.glob("*/task/*/children"):
        path.unlink()
    probe = open_probe()
    probe.begin_cell()
    assert footprint(probe.end_cell()).method is Method.SAMPLED
    assert probe.snapshot().process_count == 3


def test_death_in_mid_cell(proc, open_probe):
    probe = open_probe()
    probe.begin_cell()
    proc.memory(KERNEL, rss=300, mark=320)
    proc.usage(KERNEL, ticks=50)
    probe.sample(0.025)
    proc.end(KERNEL)
    probe.sample(0.025)
    found = probe.end_cell()
    assert footprint(found).text == ">= 320 MiB"
    assert found.readings[Metric.CPU].method is Method.SAMPLED
    assert found.readings[Metric.CPU].value > 0
    assert probe.snapshot().footprint_bytes == 300 * MIB
    lecture = probe.close()
    assert lecture[Metric.PEAK_FOOTPRINT].text == ">= 320 MiB"
    assert probe.close() == lecture
    # Late calls find a closed probe and say what is known.
    probe.begin_cell()
    assert probe.end_cell().readings.keys() == found.readings.keys()
    assert probe.sample(0.025) is False


def test_a_normal_end_keeps_the_lecture_exact(proc, open_probe):
    probe = open_probe()
    probe.begin_cell()
    proc.memory(KERNEL, rss=60, mark=640)
    probe.end_cell()
    proc.end(KERNEL)
    assert probe.close()[Metric.PEAK_FOOTPRINT].method is Method.EXACT


def test_a_process_that_was_never_there(proc, open_probe):
    proc.end(KERNEL)
    probe = open_probe()
    assert probe.snapshot() is None
    probe.begin_cell()
    readings = probe.end_cell().readings
    reason = "the process had ended before it could be read"
    for metric in (Metric.PEAK_FOOTPRINT, Metric.PEAK_RSS, Metric.CPU, Metric.DISK_WRITTEN):
        assert readings[metric] == Unavailable(metric=metric, reason=reason)
    assert isinstance(probe.close()[Metric.PEAK_FOOTPRINT], Unavailable)


def test_lag_of_the_counters():
    assert counter_lag_bytes(2, 4096) == 2 * 32 * 4096
    assert counter_lag_bytes(64, 4096) == 64 * 128 * 4096


def test_a_kept_file_is_never_opened_again(tmp_path):
    path = tmp_path / "file"
    file = KeptFile(str(path))
    assert file.read() is None
    assert isinstance(file.error, FileNotFoundError)
    path.write_bytes(b"another process")
    assert file.read() is None
    assert KeptFile(str(path)).read() == b"another process"


def test_a_long_file_is_read_whole(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * 200_000)
    file = KeptFile(str(path))
    assert file.read() == file.read() == b"x" * 200_000
    file.close()
    file.close()
