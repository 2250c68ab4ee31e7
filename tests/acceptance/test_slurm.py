"""
Kernels as steps of a real Slurm: two nodes on this machine, as tests/slurm/slurm_up.sh brings them up.

Run by ``make test-slurm``. The node lc1 is this machine; what runs on lc2 cannot be seen from here.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import psutil
import pytest
from support.real_sessions import LectureProject, session_environment, wait_until

from pytest_lecturecheck.commands.main import main

pytestmark = pytest.mark.slurm

SLEEP = "import time\ntime.sleep(60)"
FILL = "x = bytearray({} * 2**20)"
LAUNCH = ("--lecture-budget", "--lecture-launcher=slurm")


def ask(*command):
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module", autouse=True)
def nodes():
    """Fail with the reason where no Slurm answers: these tests are only run where one is meant to."""
    try:
        found = ask("sinfo", "--noheader", "--Node", "--format=%N")
    except FileNotFoundError:
        pytest.fail("there is no Slurm here; tests/slurm/slurm_up.sh brings one up (root, Debian or Ubuntu)")
    assert found.split() == ["lc1", "lc2"]


def salloc(*options):
    return ("salloc", "--quiet", "--nodes=1", *options)


def steps():
    return ask("squeue", "--noheader", "--steps", "--format=%i").split()


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """Eight lectures on one node, two at a time, each with memory of its own."""
    project = LectureProject(tmp_path_factory.mktemp("project"))
    for name in ("a", "b", "c"):
        project.notebook(f"{name}.ipynb", f"print({name!r})", FILL.format(100))
    project.notebook("over.ipynb", FILL.format(120))
    project.notebook("hungry.ipynb", "y = 1", FILL.format(600), "print('never')")
    project.notebook("slow.ipynb", SLEEP, lecturecheck={"timeout": 3})
    project.notebook("aborts.ipynb", "import os\nos.abort()")
    project.notebook("wrong.ipynb", "1 / 0")
    project.budgets({"a.ipynb": '"400 MiB"', "over.ipynb": '"100 MiB"', "hungry.ipynb": '"200 MiB"'})
    session = project.pytest(*LAUNCH, "-n2", before=salloc("--nodelist=lc1", "--ntasks=2", "--mem=900"))
    return project, session


def test_the_one_over_its_memory_dies_alone(session):
    _, session = session
    assert session.outcomes() == {"failed": 5, "passed": 3}
    kinds = {name: session.verdict(f"{name}.ipynb")["kind"] for name in ("a", "b", "c", "hungry")}
    assert kinds == {"a": "within", "b": "no budget", "c": "no budget", "hungry": "died"}
    assert re.fullmatch(
        r"kernel was killed by the OOM killer in code cell 2: "
        r"Slurm's memory limit of step \d+\.\d+, 264 MiB, was reached",
        session.verdict("hungry.ipynb")["headline"],
    )
    assert session.statuses("hungry.ipynb") == ["ok", "died", "not run"]


def test_a_lecture_slightly_over_its_budget_is_not_killed(session):
    _, session = session
    assert session.verdict("over.ipynb")["kind"] == "over"


def test_other_ends_have_their_own_verdicts(session):
    _, session = session
    assert session.verdict("slow.ipynb")["headline"].startswith("code cell 1 timed out after 3 s")
    assert session.run("slow.ipynb")["evidence"]["stopped_by_interrupt"] is True
    assert session.verdict("aborts.ipynb")["headline"].startswith("kernel aborted (SIGABRT) in code cell 1")
    assert session.verdict("wrong.ipynb")["headline"].startswith("ZeroDivisionError: division by zero")


def test_slurm_accounting_is_in_the_records(session):
    _, session = session
    runs = [found["run"] for taken in session.runs.values() for found in taken]
    assert len(runs) == 8
    assert {run["launcher"] for run in runs} == {"slurm"}
    assert all(run["queued_seconds"] >= 0 for run in runs)
    facts = {run["lecture"]: run["scheduler"] for run in runs}
    assert len({found["step"] for found in facts.values()}) == 8
    assert facts["a.ipynb"]["state"] == "COMPLETED"
    assert facts["a.ipynb"]["memory_bytes"] == 464 * 2**20
    assert facts["b.ipynb"]["memory_bytes"] == 450 * 2**20
    assert facts["hungry.ipynb"]["state"] == "OUT_OF_MEMORY"
    assert session.run("hungry.ipynb")["evidence"]["scheduler"] == facts["hungry.ipynb"]


def test_the_kernel_is_measured_and_not_srun(session):
    _, session = session
    peak = session.run("a.ipynb")["readings"]["peak_footprint_bytes"]
    assert peak["method"] == "exact"
    assert 140 * 2**20 < peak["value"] < 300 * 2**20
    assert session.run("a.ipynb")["cap_method"] == "Slurm"


def test_nothing_is_left(session):
    project, _ = session
    assert steps() == []
    assert list((project.folder / ".lecturecheck" / "kernels").iterdir()) == []


def test_a_kernel_on_another_node(own_project):
    own_project.notebook("a.ipynb", "import socket\nprint(socket.gethostname())", "x = 1")
    own_project.notebook("slow.ipynb", SLEEP, lecturecheck={"timeout": 3})
    own_project.notebook("hungry.ipynb", FILL.format(900))
    session = own_project.pytest(*LAUNCH, before=salloc("--nodelist=lc2", "--ntasks=1", "--mem=400"))
    assert session.outcomes() == {"failed": 2, "passed": 1}
    readings = session.run("a.ipynb")["readings"]
    assert readings["wall_seconds"]["value"] > 0
    assert readings["peak_footprint_bytes"]["reason"] == "the kernel ran on another node"
    assert session.run("slow.ipynb")["evidence"]["stopped_by_interrupt"] is True
    assert session.run("hungry.ipynb")["scheduler"]["state"] == "OUT_OF_MEMORY"
    assert steps() == []


def test_a_lecture_that_fits_no_allocation(own_project):
    own_project.notebook("a.ipynb", "x = 1")
    session = own_project.pytest(*LAUNCH, "--lecture-memory-cap=3 GiB", before=salloc("--ntasks=1", "--mem=400"))
    assert session.outcomes() == {"failed": 1}
    reason = session.run("a.ipynb")["reason"]
    assert re.sub("for job [0-9]+", "for job N", reason) == (
        "Slurm created no job step for the kernel: Unable to create step for job N: Memory required by task is not "
        "available (requested: --mem=3072M --cpus-per-task=1). Get an allocation that holds it (salloc --mem=...), or "
        "give the lecture less memory (its budget, --lecture-memory-cap SIZE, [slurm] mem-default)"
    )


def test_more_workers_than_cores_wait_for_each_other(own_project):
    for name in ("a", "b"):
        own_project.notebook(f"{name}.ipynb", "x = 1")
    session = own_project.pytest(*LAUNCH, "-n2", before=salloc("--ntasks=1", "--mem=400"))
    assert session.outcomes() == {"passed": 2}
    assert {session.run(f"{name}.ipynb")["scheduler"]["memory_bytes"] for name in ("a", "b")} == {400 * 2**20}


@pytest.mark.parametrize("victim", ["worker", "session"])
def test_a_killed_worker_leaves_no_step(own_project, victim):
    own_project.notebook("a.ipynb", f"open('ready', 'w').close()\n{SLEEP}")
    command = [sys.executable, "-m", "pytest", *LAUNCH, "-n1", "--max-worker-restart=0"]
    with subprocess.Popen(
        [*salloc("--ntasks=1", "--mem=400"), *command],
        cwd=own_project.folder,
        env=session_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        wait_until((own_project.folder / "ready").exists)
        assert len(steps()) == 1
        (controller,) = psutil.Process(process.pid).children()
        workers = [child for child in controller.children() if "-c" in child.cmdline() and "-u" in child.cmdline()]
        for found in workers if victim == "worker" else [controller, *workers]:
            found.kill()
        wait_until(lambda: steps() == [])
        process.wait(timeout=60)
    assert steps() == []


def test_a_line_for_sbatch_runs_the_lecture(own_project, monkeypatch, capsys):
    own_project.notebook("it's $(touch x).ipynb", "x = 1")
    monkeypatch.chdir(own_project.folder)
    assert main(["slurm", "it's $(touch x).ipynb"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    program, *options = shlex.split(line)
    ask(program, "--wait", "--output=job.out", *options)
    assert "1 passed" in (own_project.folder / "job.out").read_text(encoding="utf-8")
    assert not (own_project.folder / "x").exists()
