"""Options for Slurm, and the output of its programs as Slurm 22.05 prints it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_lecturecheck.config.slurm_settings import SlurmSettings
from pytest_lecturecheck.errors import SettingsError
from pytest_lecturecheck.kernel.launchers.port import LaunchRequest, ProcessEnd
from pytest_lecturecheck.kernel.launchers.slurm_format import (
    JobStepText,
    check_allocation,
    choose_state,
    default_step_bytes,
    parse_memory,
    parse_sacct,
    parse_sstat,
    read_end,
    refusal_text,
    step_options,
)
from pytest_lecturecheck.kernel.launchers.slurm_launcher import SlurmLauncher
from pytest_lecturecheck.model.settings import GpuNeed
from pytest_lecturecheck.units import GIB, MIB

REQUEST = LaunchRequest(
    lecture="part 1/kesten; rm.md",
    token="ab12",
    memory_bytes=300 * MIB,
    gpu=None,
    connection_file=Path("/book/.lecturecheck/kernels/lc-x/kernel.json"),
    cwd=Path("/book/part 1"),
)
MARK = "lecturecheck-0123"
POLLED = "slurmstepd-vm: error: StepId=5.0 exceeded memory limit (404201472 > 314572800), being killed"
OVER_MEMORY = ProcessEnd(
    signal=9, text="Slurm counted a kill for memory in the kernel's step, of the kernel or of a child of it"
)
OWN_OOM = "srun: error: vm: task 0: Out Of Memory"


def step_end(step, why=""):
    return f"slurmstepd-vm: error: *** STEP {step} ON vm CANCELLED AT 2026-11-29T22:01:09{why} ***"


# -- what is asked ----------------------------------------------------------------------------------------------------


def test_the_options_of_a_step():
    assert step_options(REQUEST, SlurmSettings(), 300 * MIB + 1) == [
        "--exact",
        "--nodes=1",
        "--ntasks=1",
        "--cpus-per-task=1",
        "--mem=301M",
        "--job-name=kesten_rm.md",
        "--gres=none",
        "--quiet",
        "--label",
        "--input=none",
        "--mpi=none",
        "--export=ALL,LECTURECHECK_RUN=ab12",
        "--chdir=/book/part 1",
    ]


def test_the_options_of_a_lecture_that_needs_a_gpu():
    settings = SlurmSettings(partition="p", account="a", time="60", gres="gpu:1", cpus=4, extra=("--nodelist=n1",))
    request = LaunchRequest(
        lecture=REQUEST.lecture,
        token=REQUEST.token,
        memory_bytes=None,
        gpu=GpuNeed.REQUIRED,
        connection_file=REQUEST.connection_file,
        cwd=REQUEST.cwd,
    )
    options = step_options(request, settings, GIB)
    assert {"--cpus-per-task=4", "--mem=1024M", "--gres=gpu:1", "--time=60"} <= set(options)
    assert options[-1] == "--nodelist=n1"
    # A step is made in the partition of its allocation.
    assert not [word for word in options if "partition" in word or "account" in word]


def test_arguments_of_the_kernel_are_not_split(tmp_path):
    launcher = SlurmLauncher(SlurmSettings(), tmp_path, environment={"SLURM_JOB_ID": "7"}, srun="/bin/srun")
    launch = launcher.prepare(REQUEST)
    command = launch.command(["python", "-m", "ipykernel_launcher", "-f", "$(touch x).json"])
    assert command[-5:] == ["python", "-m", "ipykernel_launcher", "-f", "$(touch x).json"]
    srun = command.index("srun")
    assert [Path(word).name for word in command[1:srun]][1] == "srun_parent_watch.py"
    assert "sh" not in command
    assert launch.memory_bytes == 300 * MIB
    assert (launch.holder, launch.location) == ("Slurm", None)


def test_srun_gets_neither_token_nor_options_of_the_allocation(tmp_path):
    launcher = SlurmLauncher(SlurmSettings(), tmp_path, environment={"SLURM_JOB_ID": "7"}, srun="/bin/srun")
    variables = {"LECTURECHECK_RUN": "ab12", "SLURM_MEM_PER_NODE": "900", "SLURM_JOB_ID": "7", "MKL_NUM_THREADS": "1"}
    assert launcher.prepare(REQUEST).environment(variables) == {"SLURM_JOB_ID": "7", "MKL_NUM_THREADS": "1"}


@pytest.mark.parametrize(
    ("asked", "settings", "environment", "expected"),
    [
        (300 * MIB, SlurmSettings(), {}, 300 * MIB),
        (10 * MIB, SlurmSettings(), {}, 256 * MIB),
        (None, SlurmSettings(), {}, 2 * GIB),
        (None, SlurmSettings(mem_default_bytes=GIB), {"SLURM_MEM_PER_CPU": "700"}, GIB),
        (None, SlurmSettings(), {"SLURM_MEM_PER_CPU": "700"}, 700 * MIB),
        (None, SlurmSettings(cpus=2), {"SLURM_MEM_PER_CPU": "700"}, 1400 * MIB),
        (None, SlurmSettings(), {"SLURM_MEM_PER_NODE": "900", "SLURM_CPUS_ON_NODE": "2"}, 450 * MIB),
        (None, SlurmSettings(), {"SLURM_MEM_PER_NODE": "900", "SLURM_JOB_CPUS_PER_NODE": "3(x2),1"}, 300 * MIB),
        (None, SlurmSettings(cpus=8), {"SLURM_MEM_PER_NODE": "900", "SLURM_CPUS_ON_NODE": "2"}, 900 * MIB),
        (None, SlurmSettings(), {"SLURM_MEM_PER_NODE": "900"}, 2 * GIB),
        (None, SlurmSettings(), {"SLURM_MEM_PER_CPU": "many"}, 2 * GIB),
    ],
)
def test_memory_of_a_step(tmp_path, asked, settings, environment, expected):
    launcher = SlurmLauncher(settings, tmp_path, environment={"SLURM_JOB_ID": "7", **environment}, srun="/bin/srun")
    request = LaunchRequest(
        lecture="a.md", token="t", memory_bytes=asked, gpu=None, connection_file=tmp_path / "k.json", cwd=tmp_path
    )
    assert launcher.prepare(request).memory_bytes == expected


def test_a_default_that_nothing_says():
    assert default_step_bytes({}, SlurmSettings()) is None


def test_no_slurm_here():
    with pytest.raises(SettingsError) as raised:
        check_allocation({"SLURM_JOB_ID": "7"}, None, SlurmSettings())
    assert str(raised.value) == (
        "--lecture-launcher slurm: srun is not on the path; Slurm's client commands are needed where pytest runs"
    )


@pytest.mark.parametrize("environment", [{}, {"SLURM_JOB_ID": ""}, {"SLURM_JOB_ID": "x"}])
def test_no_allocation(environment):
    with pytest.raises(SettingsError) as raised:
        check_allocation(environment, "/bin/srun", SlurmSettings(partition="short", account="econ"))
    assert str(raised.value) == (
        "--lecture-launcher slurm: this is not a Slurm allocation (SLURM_JOB_ID is not set); get one and run pytest in "
        "it: salloc --partition=short --account=econ --ntasks=2 --mem=8G pytest --lecture-budget --lecture-launcher "
        "slurm -n 2 ..., or let `lecturecheck slurm LECTURES...` print a job for each lecture"
    )


def test_an_allocation():
    assert check_allocation({"SLURM_JOB_ID": "812"}, "/bin/srun", SlurmSettings()) == "812"


# -- what srun prints -------------------------------------------------------------------------------------------------


def test_labelled_output_is_taken_apart():
    text = JobStepText(MARK)
    announced = '{"pid": 41, "step": "2.0", "connection": {"ip": "10.0.0.7"}}'
    own = text.feed(f"srun: lua: hello\n0: {MARK} {announced}\n0: two\n0: \n0: no e")
    own += text.feed("nd\nsrun: error: vm: task 0: Aborted\n")
    assert own == "two\n\nno end\n"
    assert text.announced == {"pid": 41, "step": "2.0", "connection": {"ip": "10.0.0.7"}}
    assert text.srun_lines == ["srun: lua: hello", "srun: error: vm: task 0: Aborted"]


def test_the_last_line_may_have_no_end():
    text = JobStepText(MARK)
    assert text.feed("0: a\n0: b") == "a\n"
    assert text.feed("", is_end=True) == "b\n"
    assert text.feed("", is_end=True) == ""


def test_a_lecture_cannot_speak_for_slurm():
    text = JobStepText(MARK)
    own = text.feed(f"0: {OWN_OOM}\n0: lecturecheck-ffff {{}}\n0: 0: {MARK} {{}}\n")
    assert own == f"{OWN_OOM}\nlecturecheck-ffff {{}}\n0: {MARK} {{}}\n"
    assert text.srun_lines == []
    assert text.announced is None


def test_a_second_announcement_is_the_lecture_s():
    text = JobStepText(MARK)
    text.feed(f'0: {MARK} {{"pid": 1}}\n')
    assert text.feed(f'0: {MARK} {{"pid": 2}}\n') == f'{MARK} {{"pid": 2}}\n'
    assert text.announced == {"pid": 1}


@pytest.mark.parametrize("damaged", ["{", "[1]", "3", ""])
def test_a_damaged_announcement_is_none(damaged):
    text = JobStepText(MARK)
    text.feed(f"0: {MARK} {damaged}\n")
    assert not text.announced


def test_what_slurm_says_is_bounded():
    text = JobStepText(MARK)
    text.feed("".join(f"srun: {number}\n" for number in range(1000)))
    assert len(text.srun_lines) <= 100
    assert text.srun_lines[0] == "srun: 0"
    assert text.srun_lines[-1] == "srun: 999"


def test_a_line_without_an_end_is_bounded():
    text = JobStepText(MARK)
    own = text.feed("0: " + "x" * 200_000)
    assert len(own) == 200_001


@given(st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=20)), st.data())
def test_whatever_the_pieces_the_lines_are_the_same(lines, data):
    whole = "".join(f"0: {line}\n" for line in lines)
    text, own, position = JobStepText(MARK), "", 0
    while position < len(whole):
        size = data.draw(st.integers(min_value=1, max_value=len(whole) - position))
        own += text.feed(whole[position : position + size])
        position += size
    assert own == "".join(f"{line}\n" for line in lines)
    assert text.srun_lines == []


@pytest.mark.parametrize(
    ("code", "said", "cancelled", "state", "end"),
    [
        (0, [], [], "COMPLETED", ProcessEnd(exit_code=0)),
        (3, ["srun: error: vm: task 0: Exited with exit code 3"], [], "FAILED", ProcessEnd(exit_code=3)),
        (137, ["srun: error: vm: task 0: Exited with exit code 137"], [], "FAILED", ProcessEnd(exit_code=137)),
        (137, ["srun: error: vm: task 0: Killed"], [], "FAILED", ProcessEnd(signal=9)),
        (134, ["srun: error: vm: task 0: Aborted"], [], "FAILED", ProcessEnd(signal=6)),
        (143, ["srun: error: vm: task 0: Terminated"], [], "FAILED", ProcessEnd(signal=15)),
        (137, [], [], "FAILED", ProcessEnd(exit_code=137)),
        (
            143,
            ["srun: error: vm: task 0: Terminated"],
            [step_end("5.0", " DUE TO TIME LIMIT")],
            "TIMEOUT",
            ProcessEnd(signal=15),
        ),
        (137, ["srun: error: vm: task 0: Killed"], [step_end("5.0")], "CANCELLED", ProcessEnd(signal=9)),
        (137, ["srun: error: vm: task 0: Killed"], [step_end("4.0")], "FAILED", ProcessEnd(signal=9)),
        (
            0,
            ["srun: error: Node failure on vm"],
            [],
            "NODE_FAIL",
            ProcessEnd(signal=9, text="the kernel's node failed"),
        ),
        (
            1,
            [OWN_OOM],
            [],
            "OUT_OF_MEMORY",
            OVER_MEMORY,
        ),
        (137, ["srun: error: vm: task 0: Killed"], [POLLED, step_end("5.0")], "OUT_OF_MEMORY", OVER_MEMORY),
        (-9, [], [], "CANCELLED", ProcessEnd(signal=9)),
    ],
)
def test_ends_of_steps(code, said, cancelled, state, end):
    found = read_end(code, said, cancelled, "5.0")
    assert (found.state, found.process) == (state, end)


def test_a_step_that_was_refused():
    said = ["srun: error: Unable to create step for job 2: Memory required by task is not available"]
    assert refusal_text(said, 1, memory_bytes=3000 * MIB, settings=SlurmSettings(cpus=2)) == (
        "Slurm created no job step for the kernel: Unable to create step for job 2: Memory required by task is not "
        "available (requested: --mem=3000M --cpus-per-task=2). Get an allocation that holds it (salloc --mem=...), or "
        "give the lecture less memory (its budget, --lecture-memory-cap SIZE, [slurm] mem-default)"
    )
    assert refusal_text([], 1, memory_bytes=MIB, settings=SlurmSettings()).startswith(
        "Slurm created no job step for the kernel: srun ended with 1 (requested: "
    )


# -- what the accounting prints ---------------------------------------------------------------------------------------

SACCT = """\
812|RUNNING|0:0|
812.0|COMPLETED|0:0|85416K
812.1|OUT_OF_MEMORY|0:125|322M
812.2|CANCELLED by 1000|0:9|
812.3|RUNNING|0:0|
812.10|FAILED|3:0|0
"""


@pytest.mark.parametrize(
    ("step", "row"),
    [
        ("812.0", {"state": "COMPLETED", "exit": "0:0", "max_rss": "85416K"}),
        ("812.1", {"state": "OUT_OF_MEMORY", "exit": "0:125", "max_rss": "322M"}),
        ("812.2", {"state": "CANCELLED", "exit": "0:9", "max_rss": ""}),
        ("812.3", None),
        ("812.4", None),
        ("812.10", {"state": "FAILED", "exit": "3:0", "max_rss": "0"}),
    ],
)
def test_rows_of_sacct(step, row):
    assert parse_sacct(SACCT, step) == row


@pytest.mark.parametrize(
    ("said", "accounted", "state"),
    [
        ("FAILED", "OUT_OF_MEMORY", "OUT_OF_MEMORY"),
        # A kernel that aborted.
        ("FAILED", "CANCELLED", "FAILED"),
        ("CANCELLED", "CANCELLED", "CANCELLED"),
        ("", "CANCELLED", "CANCELLED"),
        ("TIMEOUT", "TIMEOUT", "TIMEOUT"),
    ],
)
def test_srun_and_the_accounting_settled(said, accounted, state):
    assert choose_state(said, accounted) == state


def test_lines_of_sstat():
    assert parse_sstat("812.0|6872K\n812.1|\n", "812.0") == 6872 * 1024
    assert parse_sstat("812.0|6872K\n812.1|\n", "812.1") is None
    assert parse_sstat("", "812.0") is None


@pytest.mark.parametrize(
    ("text", "size"),
    [("6872K", 6872 * 1024), ("1.50M", 3 * MIB // 2), ("2G", 2 * GIB), ("0", 0), ("", None), ("16?", None)],
)
def test_sizes_of_the_accounting(text, size):
    assert parse_memory(text) == size
