"""macOS over a stand-in of its library; what it does on a real one is in the tests of real processes."""

import errno

import pytest
from support.fakes import StillSampler

from pytest_lecturecheck.model.metric import Method, Metric, Unavailable
from pytest_lecturecheck.probe.libsystem import open_libsystem
from pytest_lecturecheck.probe.memory._darwin import DarwinSource
from pytest_lecturecheck.probe.memory._sampled import SampledProbe
from pytest_lecturecheck.probe.memory._source import ProcessReading, Unread
from pytest_lecturecheck.units import MIB

KERNEL = 100
MEMORY = (Metric.PEAK_FOOTPRINT, Metric.PEAK_RSS, Metric.PEAK_COMPRESSED, Metric.MAJOR_FAULTS, Metric.DISK_WRITTEN)


def process(pid=KERNEL, parent=1, **sizes):
    """Write a process as the stand-in reads it; sizes in MiB."""
    counts = ("user", "system", "child_user", "child_system", "pageins", "child_pageins", "child_elapsed", "exit")
    fields = {name: value if name in counts else value * MIB for name, value in sizes.items()}
    return f"process {pid} {parent} start={pid} " + " ".join(f"{name}={value}" for name, value in fields.items())


def open_on(system):
    return SampledProbe(KERNEL, interval_seconds=0.025, source=DarwinSource(system), sampler=StillSampler())


def test_a_reading(mac):
    mac.say(
        "timebase 125 3",
        process(
            resident=4,
            footprint=8,
            interval=12,
            lifetime=16,
            user=12_000_000,
            system=6_000_000,
            child_user=3_000_000,
            child_system=3_000_000,
            pageins=5,
            child_pageins=2,
            written=3,
            child_elapsed=9,
        ),
    )
    assert DarwinSource(mac.system).read(KERNEL) == ProcessReading(
        started=100,
        resident_bytes=4 * MIB,
        footprint_bytes=8 * MIB,
        interval_peak_bytes=12 * MIB,
        lifetime_peak_bytes=16 * MIB,
        cpu_seconds=pytest.approx(1.0),
        major_faults_count=7,
        written_bytes=3 * MIB,
        fetched_bytes=0,
        waited_for=9,
    )


def test_a_system_that_counts_no_peaks(mac):
    mac.say(process(resident=4, footprint=8))
    reading = DarwinSource(mac.system).read(KERNEL)
    assert (reading.interval_peak_bytes, reading.lifetime_peak_bytes) == (None, None)


def test_descendants(mac):
    mac.say(process(7, 100), process(8, 7), process(9, 8), process(10, 1))
    source = DarwinSource(mac.system)
    assert source.descendants({100}) == {7, 8, 9}
    assert source.descendants({100, 8}) == {7, 9}
    mac.say(process(7, 100), f"error proc_listpids:7 {errno.EPERM}")
    assert source.descendants({100}) is None


@pytest.mark.parametrize(
    ("levels", "words"),
    [
        ([1], ""),
        ([1, 2, 1], "the system warned of memory pressure"),
        ([4, 2], "memory pressure was critical"),
        ([None], ""),
    ],
)
def test_memory_pressure_is_the_worst_so_far(mac, levels, words):
    source = DarwinSource(mac.system)
    for level in levels:
        mac.say(*([f"number kern.memorystatus_vm_pressure_level 4 {level}"] if level is not None else []))
        found = source.memory_pressure()
    assert found == words


def test_a_cell(mac):
    mac.say(process(resident=40, footprint=50, interval=60, lifetime=60))
    probe = open_on(mac.system)
    probe.begin_cell()
    assert mac.resets.read_text("ascii") == "100\n"
    mac.say(
        f"swap {9 * MIB} {7 * MIB}",
        process(resident=30, footprint=900, interval=1000, lifetime=1000, pageins=3, written=2),
    )
    found = probe.end_cell()
    footprint = found.readings[Metric.PEAK_FOOTPRINT]
    assert (footprint.text, footprint.method) == ("1000 MiB", Method.EXACT)
    assert footprint.source == "ri_interval_max_phys_footprint"
    assert found.start_footprint_bytes == 50 * MIB
    compressed = found.readings[Metric.PEAK_COMPRESSED]
    assert (compressed.text, compressed.source) == (">= 870 MiB", "phys_footprint beyond the resident size")
    assert found.readings[Metric.PEAK_RSS].text == ">= 40 MiB"
    assert found.readings[Metric.MAJOR_FAULTS].value == 3
    assert found.readings[Metric.DISK_WRITTEN].value == 2 * MIB
    assert "the footprint includes it" in found.readings[Metric.PEAK_SWAP].reason
    assert probe.close()[Metric.PEAK_FOOTPRINT].text == "1000 MiB"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (errno.EPERM, "proc_pid_rusage: Operation not permitted (EPERM)"),
        (errno.ESRCH, "the process had ended before it could be read"),
        (errno.EINVAL, "proc_pid_rusage of this system does not know RUSAGE_INFO_V4"),
    ],
)
def test_a_refusal_is_a_reason_and_never_zero(mac, error, reason):
    mac.say(process(resident=40, footprint=50), f"error proc_pid_rusage {error}")
    assert DarwinSource(mac.system).read(KERNEL) == Unread(reason=reason, is_gone=error == errno.ESRCH)
    probe = open_on(mac.system)
    probe.begin_cell()
    found = probe.end_cell().readings
    assert all(found[metric] == Unavailable(metric=metric, reason=reason) for metric in (*MEMORY, Metric.CPU))
    assert probe.snapshot() is None


def test_an_older_system_has_a_reason(old_mac):
    probe = open_on(old_mac.system)
    probe.begin_cell()
    found = probe.end_cell().readings[Metric.PEAK_FOOTPRINT]
    assert found.text == "not measured (proc_pid_rusage of this system does not know RUSAGE_INFO_V4)"


def test_a_missing_library_has_a_reason(tmp_path):
    probe = open_on(open_libsystem(str(tmp_path / "libSystem.B.dylib")))
    probe.begin_cell()
    found = probe.end_cell().readings
    assert {found[metric].reason.split(":")[0] for metric in MEMORY} == {"libSystem.B.dylib cannot be loaded"}
    assert found[Metric.WALL].value >= 0
    probe.close()


def test_a_refused_reset_leaves_the_lifetime_peak(mac):
    sizes = {"resident": 40, "footprint": 50, "interval": 60, "lifetime": 60}
    mac.say(process(**sizes), f"error proc_reset_footprint_interval {errno.EACCES}")
    probe = open_on(mac.system)
    probe.begin_cell()
    first = probe.end_cell().readings[Metric.PEAK_FOOTPRINT]
    assert (first.method, first.text) == (Method.BRACKET, "50 MiB to 60 MiB")
    probe.begin_cell()
    mac.say(process(**{**sizes, "lifetime": 80}), f"error proc_reset_footprint_interval {errno.EACCES}")
    second = probe.end_cell().readings[Metric.PEAK_FOOTPRINT]
    assert (second.method, second.text, second.source) == (
        Method.EXACT,
        "80 MiB",
        "ri_lifetime_max_phys_footprint",
    )


def test_times_of_a_translated_python_are_not_known(mac):
    mac.say("number sysctl.proc_translated 4 1", process(footprint=50, user=5))
    probe = open_on(mac.system)
    probe.begin_cell()
    found = probe.end_cell().readings[Metric.CPU]
    assert found.reason == "Python is translated (Rosetta), and the unit of the system's times is not known"
