"""The real pynvml over a stand-in of the driver's library: every call that is used, and what comes of its failures."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_lecturecheck.units import GIB, MIB

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the stand-in is a library of Linux")

HEAD = "driver 550.54.15\ncuda 12040\n"
T4 = f"device 0 Tesla_T4 GPU-0 {16 * GIB} {256 * MIB} {900 * MIB} 37 0\n"
SECOND = f"device 1 Tesla_T4 GPU-1 {16 * GIB} 0 {3 * MIB} 0 -1\n"
PROCESSES = f"process 0 compute 101 {700 * MIB}\nprocess 0 compute 102 {100 * MIB}\nprocess 0 graphics 7 {50 * MIB}\n"
DIVIDED = (
    f"device 0 A100 GPU-0 {40 * GIB} 0 {900 * MIB} -1 1\n"
    f"slice 0 1 A100_MIG_1g.5gb MIG-1 {5 * GIB} 0 {30 * MIB}\n"
    f"slice 0 4 A100_MIG_2g.10gb MIG-4 {10 * GIB} 0 {600 * MIB}\n"
    f"process 0.4 compute 101 {500 * MIB}\n"
)
NOT_AVAILABLE = 2**64 - 1
LIBRARY = "libnvidia-ml.so.1"


class Reader:
    """A process that reads scripts with the real pynvml."""

    def __init__(self, environ):
        code = Path(__file__).parents[2] / "support" / "nvml_reader.py"
        self.shutdowns = Path(environ["NVML_STUB_SHUTDOWN"])
        self.process = subprocess.Popen(
            [sys.executable, str(code)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ
        )

    def __call__(self, first, *later):
        self.process.stdin.write(json.dumps([first, later]) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.communicate(timeout=60)


@pytest.fixture(scope="module")
def read(stub_environ):
    reader = Reader(stub_environ()[0])
    yield reader
    reader.close()


@pytest.fixture(scope="module")
def read_old(stub_environ):
    reader = Reader(stub_environ("-DOLD_DRIVER")[0])
    yield reader
    reader.close()


def listed(*pairs):
    return [{"pid": pid, "used_bytes": used} for pid, used in pairs]


def moment(used_bytes, processes, utilisation=None, reason=""):
    return {
        "seconds": 1.5,
        "used_bytes": used_bytes,
        "processes": processes,
        "no_list_reason": reason,
        "utilisation_fraction": utilisation,
    }


def device(index, name, uuid, total_bytes, *, is_slice=False):
    # The stub is an older library, which does not know the compute capability.
    found = {"index": index, "name": name, "uuid": uuid, "total_bytes": total_bytes, "is_slice": is_slice}
    return {**found, "compute_capability": ""}


def failure(reason, *, is_lasting=True):
    return {"reason": reason, "is_lasting": is_lasting}


def test_cards_with_all_that_is_read(read):
    answer = read(HEAD + T4 + SECOND + PROCESSES)
    assert answer == {
        "devices": [device(0, "Tesla T4", "GPU-0", 16 * GIB), device(1, "Tesla T4", "GPU-1", 16 * GIB)],
        "driver": "550.54.15",
        "cuda": "12.4",
        "moments": [
            [
                moment(900 * MIB, listed((7, 50 * MIB), (101, 700 * MIB), (102, 100 * MIB)), 0.37),
                moment(3 * MIB, [], 0.0),
            ]
        ],
    }


def test_an_older_driver_is_read_by_older_calls(read_old):
    answer = read_old(HEAD + T4 + PROCESSES)
    # What the driver keeps for itself counts as used in the older call.
    found = moment(1156 * MIB, listed((7, 50 * MIB), (101, 700 * MIB), (102, 100 * MIB)), 0.37)
    if answer["moments"][0][0]["processes"] is None:
        # The oldest releases of nvidia-ml-py know the newest call only.
        found |= {"processes": None, "no_list_reason": f"the driver's library {LIBRARY} is too old"}
    assert answer["moments"] == [[found]]
    assert (answer["driver"], answer["cuda"]) == ("550.54.15", "12.4")


@pytest.mark.parametrize("code", [3, 13, 25])
def test_an_unsupported_call_falls_back_to_the_older_one(read, code):
    answer = read(HEAD + T4 + f"error nvmlDeviceGetMemoryInfo_v2 {code}\n")
    assert answer["moments"][0][0]["used_bytes"] == 1156 * MIB


def test_slices_replace_their_card(read):
    answer = read(HEAD + DIVIDED)
    assert answer["devices"] == [
        device(0, "A100 MIG 1g.5gb", "MIG-1", 5 * GIB, is_slice=True),
        device(0, "A100 MIG 2g.10gb", "MIG-4", 10 * GIB, is_slice=True),
    ]
    assert answer["moments"] == [[moment(30 * MIB, []), moment(600 * MIB, listed((101, 500 * MIB)))]]


@pytest.mark.parametrize(
    "error",
    ["nvmlDeviceGetMaxMigDeviceCount 4", "nvmlDeviceGetMigDeviceHandleByIndex 4"],
)
def test_a_divided_card_without_slices_to_read(read, error):
    answer = read(HEAD + DIVIDED + f"error {error}\n")
    assert answer["devices"] == [device(0, "A100", "GPU-0", 40 * GIB)]
    assert answer["moments"] == [[failure("the card is divided (MIG), and none of its slices can be read")]]


@pytest.mark.parametrize("code", [3, 4, 13])
def test_a_card_that_does_not_know_of_slices_is_whole(read, code):
    answer = read(HEAD + T4 + f"error nvmlDeviceGetMigMode {code}\n")
    assert answer["devices"] == [device(0, "Tesla T4", "GPU-0", 16 * GIB)]


@pytest.mark.parametrize(
    ("code", "reason", "is_lasting"),
    [
        (1, "the driver's library was shut down", True),
        (3, "the card does not report it (N/A)", False),
        (4, "no permission to read the card", True),
        (8, "the card's power cables are not attached correctly", True),
        (9, "the NVIDIA driver is not loaded", True),
        (10, "the card did not answer in time", False),
        (11, "the card's interrupts do not reach the driver", False),
        (12, f"the driver's library {LIBRARY} cannot be loaded", True),
        (13, f"the driver's library {LIBRARY} is too old", True),
        (15, "the GPU is lost (it has fallen off the bus)", True),
        (16, "the GPU must be reset before it can be used again", True),
        (17, "the operating system has blocked the request", False),
        (
            18,
            "the driver's library and the loaded driver are of different versions; restart the machine",
            True,
        ),
        (20, "NVML error 20: Insufficient Memory", False),
        (23, "NVML error 23: made up by the stub", False),
        (999, "NVML error 999: Unknown Error", False),
    ],
)
def test_every_failure_has_a_text(read, code, reason, is_lasting):
    said = failure(reason, is_lasting=is_lasting)
    assert read(HEAD + T4 + f"error nvmlInitWithFlags {code}\n") == {"failure": said}
    assert read(HEAD + T4 + f"error nvmlDeviceGetCount_v2 {code}\n") == {"failure": said}
    broken = HEAD + T4 + SECOND + f"error nvmlDeviceGetHandleByIndex_v2:0 {code}\n"
    answer = read(broken)
    assert [item["name"] for item in answer["devices"]] == ["unnamed GPU", "Tesla T4"]
    assert answer["moments"] == [[said, moment(3 * MIB, [], 0.0)]]
    both = f"error nvmlDeviceGetMemoryInfo_v2:0 {code}\nerror nvmlDeviceGetMemoryInfo:0 {code}\n"
    answer = read(HEAD + T4 + SECOND, HEAD + T4 + SECOND + both)
    assert answer["moments"][1] == [said, moment(3 * MIB, [], 0.0)]


@pytest.mark.parametrize("code", [3, 4, 15, 999])
@pytest.mark.parametrize("kind", ["Compute", "Graphics"])
def test_a_refused_list_is_not_empty(read, kind, code):
    name = f"nvmlDeviceGet{kind}RunningProcesses"
    answer = read(HEAD + T4 + PROCESSES + f"error {name}_v3 {code}\nerror {name}_v2 {code}\n")
    words = {
        3: "the card does not report it (N/A)",
        4: "no permission to read the card",
        15: "the GPU is lost (it has fallen off the bus)",
        999: "NVML error 999: Unknown Error",
    }
    found = moment(900 * MIB, None, 0.37, words[code])
    if (kind, code) == ("Graphics", 3):
        # A card that cannot draw.
        found = moment(900 * MIB, listed((101, 700 * MIB), (102, 100 * MIB)), 0.37)
    assert answer["moments"] == [[found]]


def test_bytes_that_are_not_available_are_none(read):
    answer = read(HEAD + T4 + "process 0 compute 101 -1\nprocess 0 compute 102 0\n")
    assert answer["moments"][0][0]["processes"] == listed((101, None), (102, 0))


def test_a_process_that_computes_and_draws_counts_once(read):
    both = f"process 0 compute 101 {5 * MIB}\nprocess 0 graphics 101 {6 * MIB}\n"
    unknown = f"process 0 compute 102 {5 * MIB}\nprocess 0 graphics 102 -1\n"
    answer = read(HEAD + T4 + both + unknown)
    assert answer["moments"][0][0]["processes"] == listed((101, 6 * MIB), (102, 5 * MIB))


def test_unavailable_memory_is_no_value(read):
    answer = read(HEAD + f"device 0 Tesla_T4 GPU-0 {16 * GIB} 0 {NOT_AVAILABLE} 1 0\n")
    assert answer["devices"][0]["total_bytes"] is None
    assert answer["moments"] == [[failure("the card does not report it (N/A)", is_lasting=False)]]


@pytest.mark.parametrize("used", [2**64 - 2, 2**63, 2**60 + 1])
def test_a_marker_instead_of_a_size_is_no_value(read, used):
    """NVML marks values that are not available by numbers near 2**64."""
    process = f"process 0 compute 101 {used}\nprocess 0 compute 102 {5 * MIB}\n"
    assert read(HEAD + T4 + process)["moments"][0][0]["processes"] == listed((101, None), (102, 5 * MIB))
    answer = read(HEAD + f"device 0 Tesla_T4 GPU-0 {2**64 - 1} 0 {used} 1 0\n")
    assert answer["devices"][0]["total_bytes"] is None
    assert answer["moments"] == [[failure("the card does not report it (N/A)", is_lasting=False)]]


def test_no_process_holds_more_than_its_card(read):
    answer = read(HEAD + T4 + f"process 0 compute 101 {200 * GIB}\n")
    assert answer["moments"][0][0]["processes"] == listed((101, None))


@pytest.mark.parametrize("code", [3, 15])
def test_utilisation_that_is_not_available(read, code):
    answer = read(HEAD + T4 + f"error nvmlDeviceGetUtilizationRates {code}\n")
    assert answer["moments"] == [[moment(900 * MIB, [])]]


def test_names_and_versions_that_are_not_available(read):
    errors = "".join(
        f"error {name} 4\n"
        for name in (
            "nvmlDeviceGetName",
            "nvmlDeviceGetUUID",
            "nvmlSystemGetDriverVersion",
            "nvmlSystemGetCudaDriverVersion",
            "nvmlSystemGetCudaDriverVersion_v2",
        )
    )
    answer = read(HEAD + T4 + errors)
    assert answer["devices"] == [device(0, "unnamed GPU", "", 16 * GIB)]
    assert (answer["driver"], answer["cuda"]) == (None, None)


def test_a_lost_card_leaves_the_others(read):
    lost = f"error nvmlDeviceGetMemoryInfo_v2:0 15\nprocess 1 compute 9 {MIB}\n"
    answer = read(HEAD + T4 + SECOND, HEAD + T4 + SECOND + lost, HEAD + SECOND)
    gone = failure("the GPU is lost (it has fallen off the bus)")
    assert answer["moments"] == [
        [moment(900 * MIB, [], 0.37), moment(3 * MIB, [], 0.0)],
        [gone, moment(3 * MIB, listed((9, MIB)), 0.0)],
        [gone, moment(3 * MIB, [], 0.0)],
    ]


def test_the_library_is_shut_down_once_for_each_start(read):
    before = len(read.shutdowns.read_text()) if read.shutdowns.exists() else 0
    read(HEAD + T4)
    assert len(read.shutdowns.read_text()) == before + 1
    read(HEAD + T4 + "error nvmlDeviceGetCount_v2 999\n")
    assert len(read.shutdowns.read_text()) == before + 2
    read(HEAD + T4 + "error nvmlInitWithFlags 9\n")
    assert len(read.shutdowns.read_text()) == before + 2
    assert read(HEAD + T4 + "error nvmlShutdown 999\n")["driver"] == "550.54.15"


def test_no_library_at_all(tmp_path):
    environ = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "NVML_STUB": str(tmp_path / "script")}
    environ |= {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    environ |= {"NVML_STUB_SHUTDOWN": str(tmp_path / "shutdowns")}
    (tmp_path / LIBRARY).write_text("no library")
    reader = Reader(environ)
    assert reader(HEAD) == {"failure": failure(f"the driver's library {LIBRARY} cannot be loaded")}
    reader.close()
