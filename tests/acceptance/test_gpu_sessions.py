"""Whole sessions on a machine with a GPU, whose driver is a stand-in that lectures themselves write to."""

from __future__ import annotations

import sys
import tomllib

import pytest
from support.stub_library import compile_stub

GIB = 1024**3
TOTAL = 15 * GIB
IDLE = 3 * 1024**2
PREPARE = f"""
import os, sys, time, types

def hold(size):
    path, mine = os.environ["NVML_STUB"], f"process 0 compute {{os.getpid()}} "
    lines = [line for line in open(path).read().splitlines() if not line.startswith(("device", mine))]
    lines.append(f"{{mine}}{{size}}")
    used = {IDLE} + sum(int(line.split()[4]) for line in lines if line.startswith("process"))
    lines.append(f"device 0 Tesla_T4 GPU-1 {TOTAL} 0 {{used}} 50 0")
    open(path + ".new", "w").write("\\n".join(lines) + "\\n")
    os.replace(path + ".new", path)

state = types.SimpleNamespace(live=0, peak=0, pool=0)
cuda = types.SimpleNamespace(is_initialized=lambda: True, device_count=lambda: 1,
    memory_allocated=lambda i: state.live, max_memory_allocated=lambda i: state.peak,
    memory_reserved=lambda i: state.pool, max_memory_reserved=lambda i: state.pool)
"""
WITH_ALLOCATOR = "sys.modules['torch'] = types.ModuleType('torch')\nsys.modules['torch'].cuda = cuda"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the stand-in is a library of Linux")


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return compile_stub(tmp_path_factory.mktemp("nvml"))


class Card:
    """The project's machine with one card."""

    def __init__(self, project, library):
        self.project = project
        self.script = project.folder / "card.txt"
        self.variables = {"LD_LIBRARY_PATH": str(library.parent), "NVML_STUB": str(self.script)}
        self.reset()

    def reset(self):
        self.script.write_text(f"driver 550.54\ncuda 12040\ndevice 0 Tesla_T4 GPU-1 {TOTAL} 0 {IDLE} 0 0\n")

    def pytest(self, *args, **variables):
        self.reset()
        label = "--lecture-platform=linux-x86_64-tesla_t4"
        return self.project.pytest(
            label, "--lecture-exclude=card.txt", *args, apart=True, **self.variables, **variables
        )


@pytest.fixture
def card(own_project, library):
    return Card(own_project, library)


def budget(card, lecture):
    text = (card.project.folder / "lecture-budgets" / "linux-x86_64-tesla_t4.toml").read_text()
    return tomllib.loads(text)["lectures"][lecture]


def test_gpu_memory_is_recorded_and_compared(card):
    card.project.notebook(
        "sweep.ipynb",
        PREPARE,
        WITH_ALLOCATOR,
        "more = int(os.environ.get('MORE', 0))\nhold(4 * 1024**3)\ntime.sleep(0.5)\n"
        "state.live, state.peak, state.pool = 1024**3, 2 * 1024**3 + more, 3 * 1024**3",
    )
    recorded = card.pytest("--lecture-record", "--lecture-runs=1")
    assert recorded.outcomes() == {"passed": 1}, recorded.text
    found = budget(card, "sweep.ipynb")
    assert found["gpu_live"] == {"limit": "2.2 GiB", "seen": ["2 GiB"], "method": "agent"}
    assert found["gpu_pool"] == {"seen": ["3 GiB"], "method": "agent"}
    assert found["gpu_used"] == {"seen": ["4 GiB"], "method": "sampled"}

    run = recorded.run("sweep.ipynb")
    assert run["machine"]["accelerators"] == ["Tesla T4"]
    assert (run["machine"]["driver"], run["machine"]["cuda"]) == ("550.54", "12.4")
    (use,) = run["devices"]
    assert use["device"] == {"index": 0, "name": "Tesla T4", "uuid": "GPU-1", "total_bytes": TOTAL}
    assert max(sample["used_bytes"] for sample in use["timeline"]) == 4 * GIB + IDLE

    assert card.pytest("--lecture-budget").verdict("sweep.ipynb")["kind"] == "within"
    over = card.pytest("--lecture-budget", MORE=str(GIB // 2))
    assert over.verdict("sweep.ipynb")["headline"] == (
        "GPU memory live 2.5 GiB, limit 2.2 GiB: 307 MiB over (+14 %), in code cell 3; recorded: 2 GiB (1 run)"
    )


def test_without_an_allocator_held_memory_counts(card):
    card.project.notebook("numba.ipynb", PREPARE, "hold(4 * 1024**3)\ntime.sleep(0.5)")
    card.pytest("--lecture-record", "--lecture-runs=1")
    assert budget(card, "numba.ipynb")["gpu_used"] == {"limit": "4.4 GiB", "seen": ["4 GiB"], "method": "sampled"}


def test_an_unused_gpu_has_no_budget(card):
    card.project.notebook("plain.ipynb", "x = 1")
    card.pytest("--lecture-record", "--lecture-runs=1")
    # Limits follow from what is seen; of nothing seen the rules leave room for a context.
    found = budget(card, "plain.ipynb")
    assert found.get("gpu_used", {}).get("seen", ["0 B"]) == ["0 B"]


def test_lectures_that_need_a_gpu_run_here_and_are_skipped_elsewhere(card):
    for need in ("required", "narrative", "cpu"):
        card.project.notebook(
            f"{need}.ipynb", "import os\nprint(os.environ.get('JAX_PLATFORMS'))", lecturecheck={"gpu": need}
        )
    here = card.pytest("--lecture-budget")
    assert here.outcomes() == {"passed": 3}
    assert here.run("cpu.ipynb")["environment"] == {"CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu"}
    assert "devices" not in here.run("cpu.ipynb")
    elsewhere = card.project.pytest("--lecture-budget")
    assert elsewhere.outcomes() == {"passed": 1, "skipped": 2}
    assert elsewhere.run("required.ipynb")["reason"] == (
        "needs a GPU (notebook metadata lecturecheck.gpu), and there is none here"
    )
    assert elsewhere.run("narrative.ipynb")["reason"] == (
        "shows a GPU in its output (notebook metadata lecturecheck.gpu), and there is none here"
    )


def test_a_profile_divides_gpu_memory_and_caches_programs(card):
    names = ("XLA_PYTHON_CLIENT_MEM_FRACTION", "JAX_COMPILATION_CACHE_DIR", "JAX_TRACEBACK_FILTERING", "MINE")
    card.project.notebook("show.ipynb", f"import os\nprint([os.environ.get(name) for name in {names!r}])")
    card.project.write("lecturecheck.toml", "[env]\nMINE = true\n")
    session = card.pytest("--lecture-budget", "--lecture-env-profile=jax-ci", "-n", "3")
    run = session.run("show.ipynb")
    assert run["environment"] == {
        "JAX_COMPILATION_CACHE_DIR": "./.lecturecheck/jax-cache",
        "JAX_TRACEBACK_FILTERING": "off",
        "MINE": "true",
        "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.30",
    }
    # What the kernel was given is the whole path; what is kept of its output does not tell where this machine has it.
    assert run["cells"][0]["output_extract"] == "['0.30', './.lecturecheck/jax-cache', 'off', 'true']\n"


def test_an_unusable_gpu_is_reported_once(card):
    card.project.notebook("plain.ipynb", "x = 1")
    card.reset()
    card.script.write_text("error nvmlInit_v2 9\n")
    session = card.project.pytest("--lecture-budget", apart=True, **card.variables)
    assert session.outcomes() == {"passed": 1}
    assert "devices" not in session.run("plain.ipynb")


def test_a_killed_kernel_that_holds_memory_is_named(card):
    # The driver lists the killed kernel on: its process is gone, and its memory is not free.
    card.project.notebook("a_slow.ipynb", PREPARE, "hold(5000 * 1024**2)\ntime.sleep(60)", lecturecheck={"timeout": 5})
    card.project.notebook(
        "b_next.ipynb",
        PREPARE,
        "class XlaRuntimeError(RuntimeError): pass\n"
        "hold(10000 * 1024**2)\ntime.sleep(0.5)\n"
        "raise XlaRuntimeError('RESOURCE_EXHAUSTED: Out of memory while trying to allocate 2684354560 bytes.')",
    )
    session = card.pytest("--lecture-budget")
    assert session.outcomes() == {"failed": 2}
    slow, following = session.run("a_slow.ipynb"), session.run("b_next.ipynb")
    pid = slow["devices"][0]["leftovers"][0]["pid"]
    assert any(
        text.startswith(
            f"memory of GPU 0 (Tesla T4) did not come back after the teardown: 5000 MiB are still held by pid {pid}"
        )
        for text in session.findings("a_slow.ipynb")
    )
    assert any(
        f"5000 MiB are still held by pid {pid}, the kernel of a_slow.ipynb that was killed" in text
        for text in session.findings("b_next.ipynb")
    ), session.findings("b_next.ipynb")
    (holder,) = following["devices"][0]["holders"]
    assert (holder["pid"], holder["kind"], holder["was_killed"]) == (pid, "ended lecture", True)
    verdict = session.verdict("b_next.ipynb")
    assert verdict["cause"]["kind"] == "leftover holder of GPU memory", verdict
    assert verdict["headline"].startswith(
        f"leftover holder of GPU memory: 5000 MiB are still held by pid {pid}, the kernel of a_slow.ipynb that was "
    )


RACE = """
import pathlib
def claim(name):
    try:
        pathlib.Path(name).mkdir()
    except FileExistsError:
        return False
    return True

def wait_for(name):
    while not pathlib.Path(name).exists():
        time.sleep(0.02)
    # The session is to see it, though it may be held up.
    time.sleep(2.5)
"""
CONTEND = """
if claim("first"):
    hold(11305 * 1024**2)
    pathlib.Path("held").touch()
elif claim("second"):
    wait_for("held")
    hold(3422 * 1024**2)
    time.sleep(0.5)
    message = "Check failed: allocation of 2684354560 bytes: RESOURCE_EXHAUSTED\\n"
    os.write(2, message.encode())
    pathlib.Path("aborted").touch()
    os.abort()
wait_for("aborted")
"""


def test_one_of_three_kernels_loses_the_preallocation_race(card):
    card.project.notebook("race.ipynb", PREPARE, RACE, CONTEND)
    session = card.pytest("--lecture-budget", "--lecture-concurrency=3")
    assert session.outcomes() == {"failed": 1}, session.text
    (item,) = session.runs["race.ipynb"]
    members, verdict = item["run"]["members"], item["verdict"]
    ends = [member["outcome"] for member in members]
    assert sorted(ends) == ["completed", "completed", "died"]
    (loser,) = [number for number, end in enumerate(ends, 1) if end == "died"]
    (use,) = members[loser - 1]["evidence"]["devices"]
    held = {holder["lecture"]: holder["used_bytes"] // 1024**2 for holder in use["holders"]}
    (winner,) = held
    assert held[winner] == 11305
    assert {holder["kind"] for holder in use["holders"]} == {"running lecture"}
    assert winner in {f"kernel {number} of 3 of race.ipynb" for number in (1, 2, 3) if number != loser}
    assert verdict["cause"]["kind"] == "GPU preallocation race"
    assert verdict["headline"] == (
        f"1 of 3 kernels aborted: GPU preallocation race: when it started, {winner} already held 11305 of 15360 MiB "
        f"(74 %, JAX's default share); kernel {loser} of 3 of race.ipynb got 3422 MiB and aborted in cell 3"
    )
    assert verdict["cause"]["advice"] == [
        "set XLA_PYTHON_CLIENT_PREALLOCATE=false for the kernels: each then takes memory when it needs it",
        (
            "or XLA_PYTHON_CLIENT_MEM_FRACTION=0.30: 3 kernels with 4608 MiB each, and 512 MiB for the CUDA context of "
            "each, fit into 15360 MiB"
        ),
        "or run GPU lectures one at a time",
    ]
    (together,) = item["run"]["devices"]
    assert together["used"]["value"] == (11305 + 3422) * 1024**2
    assert "holders" not in together
    safe = "safe concurrency on this platform: none of those tried"
    assert f"{safe} (with 3, one of 3 kernels aborted: GPU preallocation race)" in session.text
