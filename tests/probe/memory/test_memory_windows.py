"""Windows over processes as psutil shows them there; what it does on a real one is in the tests of real processes."""

from types import SimpleNamespace

import psutil
import pytest
from support.fakes import StillSampler

from pytest_lecturecheck.model.metric import Method, Metric
from pytest_lecturecheck.probe.memory._sampled import SampledProbe
from pytest_lecturecheck.probe.memory._source import ProcessReading, Unread
from pytest_lecturecheck.probe.memory._windows import WindowsSource
from pytest_lecturecheck.units import MIB

KERNEL = 100


class FakeProcess:
    """A process of Windows in psutil's words; sizes in MiB."""

    def __init__(self, pid, **sizes):
        self.pid = pid
        self.error = None
        self.below = []
        self.user = 1.0
        self.arguments = ["python.exe", "-m", "ipykernel_launcher", "-f", "connection.json"]
        self.set(**sizes)

    def set(self, *, wset=40, private=50, peak_pagefile=60, peak_wset=45):
        sizes = {"rss": wset, "private": private, "peak_pagefile": peak_pagefile, "peak_wset": peak_wset}
        self.memory = SimpleNamespace(**{name: size * MIB for name, size in sizes.items() if size is not None})

    def memory_info(self):
        if self.error is not None:
            raise self.error
        return self.memory

    def cpu_times(self):
        return SimpleNamespace(user=self.user, system=0.5)

    def cmdline(self):
        return self.arguments

    def create_time(self):
        return 1000.0 + self.pid

    def children(self, *, recursive):
        if self.error is not None:
            raise self.error
        deeper = [item for child in self.below for item in child.children(recursive=True)] if recursive else []
        return [*self.below, *deeper]


@pytest.fixture
def kernel():
    return FakeProcess(KERNEL)


@pytest.fixture
def source(kernel):
    def open_process(pid):
        if pid != KERNEL:
            raise psutil.NoSuchProcess(pid)
        return kernel

    return WindowsSource(open_process)


def open_on(source):
    return SampledProbe(KERNEL, interval_seconds=0.025, source=source, sampler=StillSampler())


def test_a_reading(source):
    assert source.read(KERNEL) == ProcessReading(
        started=1100.0,
        resident_bytes=40 * MIB,
        footprint_bytes=50 * MIB,
        lifetime_peak_bytes=60 * MIB,
        resident_peak_bytes=45 * MIB,
        cpu_seconds=1.5,
    )


def test_what_cannot_be_read(source, kernel):
    assert source.read(7) == Unread(reason="the process had ended before it could be read", is_gone=True)
    kernel.error = psutil.AccessDenied(KERNEL)
    assert source.read(KERNEL) == Unread(reason=f"psutil: {kernel.error}")
    assert source.descendants({KERNEL}) is None
    kernel.error = psutil.NoSuchProcess(KERNEL)
    assert source.read(KERNEL).is_gone
    assert source.descendants({KERNEL, 7}) == frozenset()


def test_descendants_are_read_as_they_were_found(source, kernel):
    child, grandchild = FakeProcess(7), FakeProcess(8, private=200)
    kernel.below, child.below = [child], [grandchild]
    assert source.descendants({KERNEL}) == {7, 8}
    assert source.descendants({KERNEL, 7}) == {8}
    assert source.read(8).footprint_bytes == 200 * MIB


def test_the_interpreter_behind_that_of_a_virtual_environment(source, kernel):
    assert source.worker(KERNEL) == KERNEL
    interpreter, helper = FakeProcess(7), FakeProcess(8)
    kernel.below = [interpreter]
    assert source.worker(KERNEL) == 7
    kernel.below = [helper]
    helper.arguments = ["python.exe", "-c", "from multiprocessing.spawn import spawn_main"]
    assert source.worker(KERNEL) == KERNEL
    kernel.below = [interpreter, helper]
    assert source.worker(KERNEL) == KERNEL
    kernel.error = psutil.AccessDenied(KERNEL)
    assert source.worker(KERNEL) == KERNEL


def test_a_cell_that_raises_the_lifetime_peak_is_exact(source, kernel):
    probe = open_on(source)
    probe.begin_cell()
    kernel.set(peak_pagefile=700, peak_wset=600)
    found = probe.end_cell()
    footprint, resident = found.readings[Metric.PEAK_FOOTPRINT], found.readings[Metric.PEAK_RSS]
    assert (footprint.text, footprint.method) == ("700 MiB", Method.EXACT)
    assert footprint.source == "private commit (PeakPagefileUsage)"
    assert (resident.text, resident.method) == ("600 MiB", Method.EXACT)
    assert resident.source == "working set (PeakWorkingSetSize)"
    assert found.start_footprint_bytes == 50 * MIB


def test_a_cell_that_does_not_raise_it_is_a_bracket(source, kernel):
    probe = open_on(source)
    probe.begin_cell()
    kernel.set(private=55)
    probe.sample(0.025)
    kernel.set(private=50)
    footprint = probe.end_cell().readings[Metric.PEAK_FOOTPRINT]
    assert (footprint.text, footprint.method) == ("55 MiB to 60 MiB", Method.BRACKET)
    assert footprint.source == "private commit (PrivateUsage)"


def test_metrics_that_windows_does_not_report(source, kernel):
    probe = open_on(source)
    probe.begin_cell()
    kernel.user = 3.0
    found = probe.end_cell().readings
    assert found[Metric.MAJOR_FAULTS].text == "not measured (Windows counts faults that need no disk as well)"
    assert found[Metric.DISK_WRITTEN].text == "not measured (Windows counts what goes to pipes and devices as well)"
    assert found[Metric.PEAK_COMPRESSED].text == "not measured (Windows does not report it for a process)"
    assert found[Metric.PEAK_SWAP].text == (
        "not measured (Windows does not report it for a process; the private commit includes it)"
    )
    assert (found[Metric.CPU].value, found[Metric.CPU].method) == (2.0, Method.SAMPLED)


def test_fields_that_this_psutil_lacks(source, kernel):
    kernel.set(private=None, peak_pagefile=None, peak_wset=None)
    probe = open_on(source)
    probe.begin_cell()
    found = probe.end_cell().readings
    assert found[Metric.PEAK_FOOTPRINT].text == "not measured (psutil has no private commit here)"
    assert found[Metric.PEAK_RSS].text == ">= 40 MiB"
    assert probe.snapshot().footprint_bytes == 40 * MIB
