"""The probe of this machine on real processes; an interpreter that is fed through a pipe stands in for a kernel."""

import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Mapping

import psutil
import pytest

from pytest_lecturecheck.model.metric import Measurement, Method, Metric, Unavailable
from pytest_lecturecheck.model.probe import RUN_TOKEN_VARIABLE, CellReadings, Snapshot
from pytest_lecturecheck.probe.marked_processes import find_marked
from pytest_lecturecheck.probe.memory import _darwin, _windows, open_memory_probe
from pytest_lecturecheck.units import MIB

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="the exact figures of Linux")
on_macos = pytest.mark.skipif(sys.platform != "darwin", reason="the exact figures of macOS")
on_windows = pytest.mark.skipif(sys.platform != "win32", reason="the figures of Windows")
SERVE = """
import sys
for line in sys.stdin:
    exec(eval(line), globals())
    print(flush=True)
"""


class Kernel:
    """A process that runs one source after another, under measurement."""

    def __init__(self, open_probe=open_memory_probe, **known):
        self.token = uuid.uuid4().hex
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={RUN_TOKEN_VARIABLE: self.token},
        )
        self.send("pass")
        self.probe = open_probe(self.process.pid, **known)

    def send(self, source):
        self.process.stdin.write(f"{source!r}\n")
        self.process.stdin.flush()
        self.process.stdout.readline()

    def cell(self, source):
        self.probe.begin_cell()
        self.send(source)
        return self.probe.end_cell()

    def end(self):
        self.process.kill()
        self.process.communicate()
        return self.probe.close()


@pytest.fixture
def start():
    kernels = []

    def started(*args, **known):
        kernels.append(Kernel(*args, **known))
        return kernels[-1]

    yield started
    for kernel in kernels:
        kernel.end()


def wait_until(condition):
    """Wait for the sampler to see something, however seldom it gets to look."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def mib(found, metric=Metric.PEAK_FOOTPRINT):
    return found.readings[metric].value / MIB


def method(found):
    return found.readings[Metric.PEAK_FOOTPRINT].method


def check_readings(readings: Mapping):
    for metric, reading in readings.items():
        assert reading.metric is metric
        if isinstance(reading, Unavailable):
            assert reading.reason
            continue
        assert isinstance(reading, Measurement)
        assert reading.value >= 0
        assert reading.tolerance >= 0
        assert reading.high is None or reading.high >= reading.value
        assert reading.source
        if reading.method is Method.EXACT:
            assert reading.interval_seconds is None
        if metric.is_memory:
            assert reading.value == int(reading.value)
            assert reading.value < psutil.virtual_memory().total + psutil.swap_memory().total


def darwin_probe(pid):
    return _darwin.open_probe(pid, interval_seconds=0.025)


def windows_probe(pid):
    return _windows.open_probe(pid, interval_seconds=0.025)


@pytest.mark.parametrize("open_probe", [open_memory_probe, windows_probe])
def test_contract(start, open_probe):
    kernel = start(open_probe)
    found = kernel.cell("x = bytearray(30_000_000)")
    assert isinstance(found, CellReadings)
    check_readings(found.readings)
    expected = {metric for metric in Metric if not metric.value.startswith("gpu") and metric is not Metric.COMPILE}
    assert found.readings.keys() == expected
    assert mib(found, Metric.PEAK_RSS) > 30
    assert found.readings[Metric.WALL].value > 0
    snapshot = kernel.probe.snapshot()
    assert isinstance(snapshot, Snapshot)
    assert 0 < snapshot.footprint_bytes <= snapshot.peak_footprint_bytes
    assert snapshot.age_seconds >= 0
    lecture = kernel.end()
    check_readings(lecture)
    assert lecture.keys() == expected
    assert lecture[Metric.PEAK_RSS].value >= found.readings[Metric.PEAK_RSS].value
    assert kernel.probe.close() == lecture


@pytest.mark.parametrize("open_probe", [open_memory_probe, windows_probe])
def test_contract_after_death(start, open_probe):
    kernel = start(open_probe)
    kernel.probe.begin_cell()
    kernel.process.kill()
    kernel.process.wait()
    check_readings(kernel.probe.end_cell().readings)
    kernel.probe.begin_cell()
    gone = kernel.probe.end_cell().readings[Metric.PEAK_RSS]
    assert gone == Unavailable(metric=Metric.PEAK_RSS, reason="the process had ended before it could be read")
    check_readings(kernel.end())


@pytest.mark.skipif(sys.platform == "darwin", reason="about systems without its library")
def test_a_missing_library_is_a_reason(start):
    kernel = start(darwin_probe)
    found = kernel.cell("pass").readings
    reasons = {reading.reason for reading in found.values() if isinstance(reading, Unavailable)}
    assert found.keys() - {Metric.WALL, Metric.PEAK_SWAP} == {
        metric for metric, reading in found.items() if str(reading).count("libSystem.B.dylib cannot be loaded: ")
    }
    assert len(reasons) == 2
    assert kernel.probe.snapshot() is None


@on_linux
def test_pages_of_mapped_files_are_told_apart(start, tmp_path):
    data = tmp_path / "data"
    data.write_bytes(bytes(100 * MIB))
    kernel = start()
    opened = f"import mmap; f = open({str(data)!r}, 'rb'); m = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)"
    before = kernel.cell("x = bytearray(b'1') * 50_000_000")
    mapped = kernel.cell(f"{opened}; sum(m[::4096])")
    assert 100 * MIB <= mapped.mapped_file_bytes - before.mapped_file_bytes < 120 * MIB
    assert mib(mapped) - mib(before) > 90


@on_macos
def test_a_spike_is_charged_exactly_on_macos(start):
    kernel = start(interval_seconds=1.0)
    kernel.cell("pass")
    for _ in range(2):
        spike = kernel.cell("x = bytearray(b'1') * 600_000_000; del x")
        after = kernel.cell("pass")
        assert method(spike) is Method.EXACT
        assert spike.readings[Metric.PEAK_FOOTPRINT].source == "ri_interval_max_phys_footprint"
        assert mib(spike) - spike.start_footprint_bytes / MIB == pytest.approx(600_000_000 / MIB, abs=20)
        assert mib(after) < mib(spike) - 300
    assert kernel.end()[Metric.PEAK_FOOTPRINT].method is Method.EXACT


@on_macos
def test_a_child_is_noticed_on_macos(start):
    kernel = start(interval_seconds=5.0)
    kernel.cell("import subprocess")
    child = kernel.cell("subprocess.run(['/usr/bin/true'])")
    assert method(child) is Method.SAMPLED
    assert method(kernel.cell("pass")) is Method.EXACT
    busy = kernel.cell("import time\nwhile time.process_time() < 0.5: pass")
    assert 0.3 < busy.readings[Metric.CPU].value < 1.5


@on_windows
def test_a_spike_is_charged_exactly_on_windows(start):
    kernel = start(interval_seconds=1.0)
    kernel.cell("pass")
    spike = kernel.cell("x = bytearray(b'1') * 600_000_000; del x")
    after = kernel.cell("pass")
    assert method(spike) is Method.EXACT
    assert mib(spike) - spike.start_footprint_bytes / MIB == pytest.approx(600_000_000 / MIB, abs=20)
    assert method(after) is Method.BRACKET
    assert after.readings[Metric.PEAK_FOOTPRINT].high >= spike.readings[Metric.PEAK_FOOTPRINT].value
    assert kernel.end()[Metric.PEAK_FOOTPRINT].method is Method.EXACT


def test_no_thread_stays_behind(start):
    kernel = start()
    kernel.cell("pass")
    kernel.end()
    for thread in threading.enumerate():
        if thread.name == "lecturecheck-sampler":
            thread.join(20)
            assert not thread.is_alive()


@on_linux
def test_a_short_spike_is_charged_exactly(start):
    kernel = start(interval_seconds=1.0)
    kernel.cell("import numpy as np")
    for _ in range(3):
        spike = kernel.cell("s = np.ones(75_000_000).sum()")
        after = kernel.cell("pass")
        assert method(spike) is Method.EXACT
        assert spike.readings[Metric.PEAK_FOOTPRINT].source == "VmHWM"
        raised = mib(spike) - spike.start_footprint_bytes / MIB
        assert raised == pytest.approx(600_000_000 / MIB, abs=2)
        assert mib(after) < 100
    assert kernel.end()[Metric.PEAK_FOOTPRINT].method is Method.EXACT


@on_linux
def test_a_cell_is_not_charged_for_an_earlier_one(start):
    kernel = start()
    first = kernel.cell("x = bytearray(500_000_000); del x")
    later = [kernel.cell(source) for source in ("y = 1", "z = [i for i in range(10)]", "assert y")]
    assert 477 < mib(first) < 500
    assert all(mib(cell) < 30 for cell in later)
    assert kernel.end()[Metric.PEAK_FOOTPRINT].value == first.readings[Metric.PEAK_FOOTPRINT].value


@on_linux
def test_memory_of_the_parent_is_not_inherited():
    ballast = bytearray(b"x") * 300_000_000
    kernel = Kernel()
    try:
        assert mib(kernel.cell("pass")) < 50
    finally:
        assert len(ballast) == 300_000_000
        kernel.end()


@on_linux
def test_forked_children_share(start):
    kernel = start()
    kernel.cell("import os; big = bytearray(b'x') * 400_000_000")
    kernel.probe.begin_cell()
    kernel.send(
        "reader, writer = os.pipe()\n"
        "children = []\n"
        "for _ in range(4):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        os.read(reader, 1); os._exit(0)\n"
        "    children.append(child)"
    )
    wait_until(lambda: kernel.probe._tree_bytes is not None)
    kernel.send("os.write(writer, b'x' * 4)\nfor child in children: os.waitpid(child, 0)")
    found = kernel.probe.end_cell()
    after = kernel.cell("pass")
    assert method(found) is Method.SAMPLED
    assert 380 < mib(found) < 520
    assert "PSS of" in found.readings[Metric.PEAK_FOOTPRINT].source
    assert method(after) is Method.EXACT


@on_linux
def test_memory_of_children_is_counted(start):
    kernel = start()
    kernel.probe.begin_cell()
    kernel.send(
        "import subprocess, sys\n"
        "code = 'b = bytearray(200_000_000); input()'\n"
        "child = subprocess.Popen([sys.executable, '-c', code], stdin=subprocess.PIPE)"
    )
    wait_until(lambda: kernel.probe.snapshot().footprint_bytes > 190 * MIB)
    kernel.send("child.communicate(b'\\n')")
    found = kernel.probe.end_cell()
    # While a single child grows, its own resident size is known between two readings of the whole tree.
    assert 190 < mib(found) < 260
    assert mib(found, Metric.PEAK_RSS) < 60


@on_linux
def test_shared_memory_is_counted_once(start):
    kernel = start()
    alone = kernel.cell(
        "import mmap, os, time\n"
        "shared = mmap.mmap(-1, 200_000_000)\n"
        "for i in range(0, 200_000_000, 4096): shared[i] = 1"
    )
    together = kernel.cell(
        "children = []\n"
        "for _ in range(3):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        s = sum(shared[i] for i in range(0, 200_000_000, 4096)); time.sleep(1); os._exit(0)\n"
        "    children.append(child)\n"
        "for child in children: os.waitpid(child, 0)"
    )
    assert method(alone) is Method.EXACT
    assert 190 < mib(alone) < 230
    assert 190 < mib(together) < 300


@on_linux
def test_a_late_thread_is_charged_to_the_running_cell(start):
    kernel = start()
    first = kernel.cell(
        "import threading, time\n"
        "go = threading.Event()\n"
        "def later():\n"
        "    global block\n"
        "    go.wait(); block = bytearray(300_000_000); done.set()\n"
        "done = threading.Event()\n"
        "threading.Thread(target=later, daemon=True).start()"
    )
    second = kernel.cell("quick = 1")
    third = kernel.cell("go.set(); done.wait()")
    assert mib(first) < 40
    assert mib(second) < 40
    assert mib(third) > 286
    assert kernel.end()[Metric.PEAK_FOOTPRINT].value == third.readings[Metric.PEAK_FOOTPRINT].value


@on_linux
def test_a_daemon_is_part_of_the_lecture():
    kernel = Kernel()
    kernel.probe.close()
    kernel.probe = open_memory_probe(kernel.process.pid, run_token=kernel.token)
    try:
        first = kernel.cell(
            "import os, time\n"
            "reader, writer = os.pipe()\n"
            "child = os.fork()\n"
            "if child == 0:\n"
            "    os.setsid()\n"
            "    if os.fork() == 0:\n"
            "        block = bytearray(120_000_000); os.write(writer, b'x'); time.sleep(60)\n"
            "    os._exit(0)\n"
            "os.waitpid(child, 0); os.read(reader, 1)"
        )
        kernel.probe.begin_cell()
        wait_until(lambda: kernel.probe.snapshot().footprint_bytes > 115 * MIB)
        second = kernel.probe.end_cell()
        assert method(first) is Method.SAMPLED
        assert 115 < mib(second) < 150
        assert kernel.probe.snapshot().process_count == 2
        found = set(find_marked(kernel.token))
        assert kernel.process.pid in found
        assert len(found) == 2
    finally:
        for pid in find_marked(kernel.token):
            psutil.Process(pid).kill()
        kernel.end()


@on_linux
def test_a_tiny_child_is_noticed_every_time(start):
    kernel = start(interval_seconds=5.0)
    kernel.cell("import os")
    for _ in range(20):
        assert method(kernel.cell("os.waitpid(os.fork() or os._exit(0), 0)")) is Method.SAMPLED
        assert method(kernel.cell("pass")) is Method.EXACT


@on_linux
def test_use_of_the_machine(start, tmp_path):
    kernel = start()
    busy = kernel.cell("import os, time\nwhile time.process_time() < 0.5: pass")
    assert 0.3 < busy.readings[Metric.CPU].value < 1.5
    assert busy.readings[Metric.WALL].value > 0.3
    path = str(tmp_path / "file")
    kernel.cell(f"f = os.open({path!r}, os.O_WRONLY | os.O_CREAT)\nos.write(f, b'x' * 5_000_000); os.fsync(f)")
    idle = kernel.cell("time.sleep(0.2)")
    assert idle.readings[Metric.CPU].value <= 0.1
    assert idle.readings[Metric.DISK_WRITTEN].value == 0


@on_linux
def test_an_independent_witness_agrees(start):
    kernel = start()
    kernel.cell("x = bytearray(100_000_000)")
    rss_bytes = psutil.Process(kernel.process.pid).memory_info().rss
    found = kernel.cell("pass")
    assert found.start_footprint_bytes == pytest.approx(rss_bytes, abs=2 * MIB)


@on_linux
def test_death_in_mid_cell_keeps_the_last_sample(start):
    kernel = start()
    kernel.probe.begin_cell()
    kernel.send("x = bytearray(200_000_000)")
    wait_until(lambda: kernel.probe.snapshot().footprint_bytes >= 190 * MIB)
    kernel.process.kill()
    kernel.process.wait()
    found = kernel.probe.end_cell()
    assert method(found) is Method.SAMPLED
    assert mib(found) > 190
    assert kernel.end()[Metric.PEAK_FOOTPRINT].text.startswith(">= ")


SUPERVISOR = """
import ctypes, os, subprocess, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
kernel = subprocess.Popen([sys.executable, "-c", sys.argv[1]], env={})
print(kernel.pid, flush=True)
sys.stdin.readline()
kernel.kill()
"""
ORPHAN = """
import subprocess, sys, time
held = "held = bytearray(300 << 20); print(flush=True); import time; time.sleep(600)"
subprocess.Popen([sys.executable, "-c", "import os, subprocess, sys; subprocess.Popen(sys.argv[1:])",
    sys.executable, "-c", held]).wait()
time.sleep(600)
"""


@on_linux
def test_orphans_without_a_mark_are_counted_below_a_supervisor():
    supervisor = subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR, ORPHAN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        probe = open_memory_probe(int(supervisor.stdout.readline()), supervisor_pid=supervisor.pid)
        probe.begin_cell()
        supervisor.stdout.readline()
        deadline = time.monotonic() + 60
        while probe.snapshot().footprint_bytes < 300 * MIB:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        reading = probe.end_cell().readings[Metric.PEAK_FOOTPRINT]
        probe.close()
    finally:
        for child in psutil.Process(supervisor.pid).children(recursive=True):
            child.kill()
        supervisor.communicate("")
    assert reading.value > 300 * MIB
    assert reading.method is Method.SAMPLED
