"""Opening the GPUs of a machine: with none, with signs of one, and through the stand-in of the library."""

import json
import os
import subprocess
import sys

import pytest
from support.card_benches import T4, FakeCards

from pytest_lecturecheck.model.device import Device
from pytest_lecturecheck.model.probe import RUN_LECTURE_VARIABLE, RUN_TOKEN_VARIABLE
from pytest_lecturecheck.probe.gpu._presence import has_device
from pytest_lecturecheck.probe.gpu._readings import UNNAMED
from pytest_lecturecheck.probe.gpu.accelerators import Accelerators, describe_accelerators, detect_accelerators
from pytest_lecturecheck.probe.gpu.monitor import open_gpu_monitor
from pytest_lecturecheck.probe.machine import detect_platform
from pytest_lecturecheck.units import GIB, MIB

NO_GPU = "no NVIDIA GPU: there is neither a device nor the driver's library"
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="the stand-in is a library of Linux")


def run_python(code, environ):
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_without_a_gpu_nothing_is_loaded(tmp_path):
    code = (
        "import json, sys; from pathlib import Path;"
        "from pytest_lecturecheck.probe.gpu.monitor import open_gpu_monitor;"
        f"monitor = open_gpu_monitor(environ={{}}, root=Path({str(tmp_path)!r}));"
        "print(json.dumps([monitor.reason, monitor.open_probe(1, 't'), monitor.accelerators.model,"
        "'pynvml' in sys.modules, 'psutil' in sys.modules]))"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    assert run_python(code, environ) == [NO_GPU, None, "cpu", False, False]


def test_accelerators_without_a_gpu(tmp_path):
    assert detect_accelerators(environ={}, root=tmp_path) == Accelerators(reason=NO_GPU)
    assert detect_platform(Accelerators().model) == detect_platform()


@on_linux
@pytest.mark.parametrize("name", ["dev/nvidiactl", "dev/nvidia0", "proc/driver/nvidia/version"])
def test_signs_of_a_device(tmp_path, name):
    assert not has_device(tmp_path, {})
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).touch()
    assert has_device(tmp_path, {})


@on_linux
def test_a_device_without_its_library_is_reported(tmp_path):
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidiactl").touch()
    code = (
        "import json; from pathlib import Path;"
        "from pytest_lecturecheck.probe.gpu.monitor import open_gpu_monitor;"
        f"monitor = open_gpu_monitor(environ={{}}, root=Path({str(tmp_path)!r}));"
        "readings, uses = monitor.open_probe(1, 't').close();"
        "print(json.dumps([monitor.reason, [item.text for item in readings.values()], uses]))"
    )
    (tmp_path / "libnvidia-ml.so.1").write_text("no library")
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    environ["LD_LIBRARY_PATH"] = str(tmp_path)
    reason = "the driver's library libnvidia-ml.so.1 cannot be loaded"
    assert run_python(code, environ) == [reason, [f"not measured ({reason})"], []]


DESCRIBE = """
import dataclasses, json, sys
from pathlib import Path
from pytest_lecturecheck.probe.gpu.accelerators import detect_accelerators
from pytest_lecturecheck.probe.gpu.monitor import open_gpu_monitor
monitor = open_gpu_monitor()
print(json.dumps([dataclasses.asdict(detect_accelerators()), dataclasses.asdict(monitor.accelerators), monitor.reason]))
monitor.close()
"""


@pytest.fixture(scope="module")
def stub(stub_environ):
    return stub_environ()


@on_linux
def test_the_machine_as_the_library_describes_it(stub):
    environ, script = stub
    script.write_text(f"driver 550.1\ncuda 12040\ndevice 0 Tesla_T4 GPU-0 {16 * GIB} 0 0 0 0\n")
    found = {
        "names": ["Tesla T4"],
        "driver": "550.1",
        "cuda": "12.4",
        "reason": "",
        "devices": [
            {
                "index": 0,
                "name": "Tesla T4",
                "uuid": "GPU-0",
                "total_bytes": 16 * GIB,
                "is_slice": False,
                "compute_capability": "",
            }
        ],
        "is_fault": False,
        "links": [],
    }
    assert run_python(DESCRIBE, environ) == [found, found, ""]
    hidden = {
        **found,
        "names": [],
        "driver": None,
        "cuda": None,
        "reason": "CUDA_VISIBLE_DEVICES names no GPU",
        "devices": [],
    }
    assert run_python(DESCRIBE, {**environ, "CUDA_VISIBLE_DEVICES": ""}) == [hidden, hidden, ""]


MACHINE = """
import json
from pytest_lecturecheck.model.platform import Machine
from pytest_lecturecheck.probe.gpu.accelerators import detect_accelerators
machine = Machine(system="Linux", architecture="x86_64", cpu="c", core_count=2, ram_bytes=1)
machine = detect_accelerators().added_to(machine)
print(json.dumps([[item.text for item in machine.cards], [item.text for item in machine.card_links]]))
"""


@on_linux
def test_what_cards_can_do_and_how_they_reach_each_other(stub):
    environ, script = stub
    lines = [f"device {n} NVIDIA_L40S GPU-{n} {48 * GIB} 0 0 0 -1" for n in range(3)]
    lines += ["capability 0 89", "capability 1 89", "link 0 1 10 0 0", "link 0 2 50 1 5"]
    script.write_text("\n".join(["driver 580.1", "cuda 13000", *lines, ""]))
    cards, links = run_python(MACHINE, environ)
    assert cards == [
        "GPU 0 NVIDIA L40S (SM 8.9, float64 at 1/64 of float32)",
        "GPU 1 NVIDIA L40S (SM 8.9, float64 at 1/64 of float32)",
        "GPU 2 NVIDIA L40S",
    ]
    assert links == [
        "GPU 0 and 1: peer access, through NVLink",
        "GPU 0 and 2: no peer access, through the interconnect between CPUs",
        "GPU 1 and 2: peer access not known",
    ]
    assert run_python(MACHINE, {**environ, "CUDA_VISIBLE_DEVICES": "0,2"})[1] == [links[1]]


@on_linux
@pytest.mark.parametrize(
    ("text", "reason"),
    [("", "the NVIDIA driver lists no GPU"), ("error nvmlInitWithFlags 9\n", "the NVIDIA driver is not loaded")],
)
def test_a_library_without_a_card_leaves_lectures_alone(stub, text, reason):
    environ, script = stub
    script.write_text(text)
    code = (
        "import json; from pathlib import Path; from pytest_lecturecheck.probe.gpu.monitor import open_gpu_monitor;"
        "monitor = open_gpu_monitor(root=Path('/nowhere'));"
        "print(json.dumps([monitor.reason, monitor.open_probe(1, 't')]))"
    )
    assert run_python(code, environ) == [reason, None]


def test_cards_of_several_models():
    cards = FakeCards(T4, Device(index=1, name="NVIDIA A100"), Device(index=2, name=UNNAMED))
    found = describe_accelerators(cards, {})
    assert found == Accelerators(names=("Tesla T4", "NVIDIA A100"), driver="550.54", cuda="12.4", devices=cards.devices)
    assert found.smallest_bytes == T4.total_bytes
    assert found.model == "Tesla T4"
    assert describe_accelerators(FakeCards(Device(index=0, name=UNNAMED)), {}).reason == "no GPU can be used"


WATCH = """
import json, os, subprocess, sys, time
from pathlib import Path
from pytest_lecturecheck.probe.gpu.monitor import open_gpu_monitor
script = Path(os.environ["NVML_STUB"])
card = "driver 550.1\\ncuda 12040\\ndevice 0 Tesla_T4 GPU-0 17179869184 0 {} 5 0\\n"

def stand(used, pid=None):
    # Replaced at once: the sampler reads it meanwhile.
    text = card.format(used * 2**20) + (f"process 0 compute {pid} {used * 2**20}\\n" if pid else "")
    script.with_suffix(".new").write_text(text)
    script.with_suffix(".new").rename(script)

def wait_for(condition):
    for _ in range(3000):
        if condition(probe.snapshot()[0]):
            return
        time.sleep(0.01)
    sys.exit(f"not seen: {probe.snapshot()}")

stand(3)
monitor = open_gpu_monitor()
marks = {MARKS}
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env={**os.environ, **marks})
probe = monitor.open_probe(child.pid, "token")
probe.begin_cell()
stand(700, child.pid)
wait_for(lambda use: use.used.value == 700 * 2**20)
cell = probe.end_cell()
child.kill(); child.wait(); child.stdin.close()
readings, (use,) = probe.close()
after = monitor.open_probe(os.getpid(), "next")
(holder,) = after.snapshot()[0].holders
stand(3)
_, (gone,) = after.close()
monitor.close()
print(json.dumps({
    "cell": [item.value for item in cell.values()],
    "lecture": [item.value for item in readings.values()],
    "before, after": [use.before_bytes, use.after_bytes],
    "leftovers": [[item.pid == child.pid, item.lecture, item.used_bytes] for item in use.leftovers],
    "holder": [holder.pid == child.pid, holder.kind, holder.lecture, holder.was_there_first],
    "thread": [point.seconds >= 0 for point in use.timeline][:1],
    "gone": gone.after_bytes,
}))
"""


@on_linux
def test_a_real_process_is_watched_through_the_library(stub):
    environ, _ = stub
    marks = {RUN_TOKEN_VARIABLE: "token", RUN_LECTURE_VARIABLE: "a.md"}
    assert run_python(WATCH.replace("{MARKS}", repr(marks)), environ) == {
        "cell": [700 * MIB],
        "lecture": [700 * MIB],
        "before, after": [3 * MIB, 700 * MIB],
        "leftovers": [[True, "a.md", 700 * MIB]],
        "holder": [True, "ended lecture", "a.md", True],
        "thread": [True],
        "gone": 3 * MIB,
    }


def test_this_machine():
    monitor = open_gpu_monitor()
    assert bool(monitor.devices) == (monitor.reason == "")
    assert monitor.accelerators == detect_accelerators()
    for device in monitor.devices:
        assert device.total_bytes is None or device.total_bytes > MIB
    monitor.close()
