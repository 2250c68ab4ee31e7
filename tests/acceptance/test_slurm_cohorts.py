"""Cohorts as steps of a real Slurm, and what is told of kernels that queue there; see test_slurm.py."""

from __future__ import annotations

import re
import subprocess

import pytest

pytestmark = pytest.mark.slurm

LAUNCH = ("--lecture-budget", "--lecture-launcher=slurm")
WHERE = "import os\nprint(os.environ['SLURMD_NODENAME'])\nx = bytearray(100 * 2**20)"
FIRST_UNTIL_ANOTHER_QUEUES = """
    import os, pathlib, subprocess, time
    try:
        pathlib.Path("first").mkdir()
    except FileExistsError:
        pass
    else:
        command = ["scontrol", "show", "steps", os.environ["SLURM_JOB_ID"]]
        while "State=PENDING" not in subprocess.run(command, capture_output=True, text=True, check=True).stdout:
            time.sleep(0.1)
        time.sleep(4)
    """
"""Holds its step, the first to run, until another one has been queued for 4 s."""


def salloc(*options):
    return ("salloc", "--quiet", *options)


def steps():
    command = ["squeue", "--noheader", "--steps", "--format=%i"]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout.split()


def members(session, lecture="a.ipynb"):
    return session.run(lecture)["members"]


@pytest.mark.parametrize(
    ("allocation", "nodes"),
    [
        (("--nodes=1", "--nodelist=lc1", "--ntasks=2", "--mem=900"), {"lc1"}),
        (("--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--mem=450"), {"lc1", "lc2"}),
    ],
    ids=["one node", "two nodes"],
)
def test_a_cohort_runs_as_steps_that_start_together(own_project, allocation, nodes):
    own_project.notebook("a.ipynb", WHERE, "y = 1")
    session = own_project.pytest(*LAUNCH, "--lecture-concurrency=2", before=salloc(*allocation))
    assert session.outcomes() == {"passed": 1}, session.text
    found = members(session)
    assert {run["cells"][0]["output_extract"].strip() for run in found} == nodes
    assert len({run["scheduler"]["step"] for run in found}) == 2
    assert min(run["first_cell_seconds"] for run in found) == 0
    together = session.run("a.ipynb")["readings"]["peak_footprint_bytes"]
    peaks = [run["readings"]["peak_footprint_bytes"].get("value") for run in found]
    if len(nodes) == 1:
        assert max(peaks) < together["value"] <= together.get("high", together["value"])
    else:
        # What runs on the other node is not measured: what is known of the sum is a lower bound.
        assert (together["method"], together["value"]) == ("sampled", next(peak for peak in peaks if peak))
    assert steps() == []


def test_a_cohort_that_its_allocation_cannot_hold_does_not_wait_for_ever(own_project):
    own_project.notebook("a.ipynb", "x = 1")
    session = own_project.pytest(
        *LAUNCH,
        "--lecture-concurrency=2",
        "--lecture-startup-timeout=15",
        before=salloc("--nodes=1", "--ntasks=1", "--mem=450"),
    )
    assert sorted(run["outcome"] for run in members(session)) == ["completed", "not started"], session.text
    assert session.verdict("a.ipynb")["headline"] == (
        "1 of 2 kernels did not start: the kernel was still queued after the others of its cohort had waited for it "
        "for 15 s: there is no room for all of them at once; get an allocation that holds them (salloc --ntasks=... "
        "--mem=...), or try fewer kernels"
    )
    assert steps() == []


def test_cohorts_of_several_workers_take_turns(own_project):
    for name in ("a", "b"):
        own_project.notebook(f"{name}.ipynb", "x = 1")
    own_project.notebook("c.ipynb", "x = 1", lecturecheck={"concurrency": 1})
    session = own_project.pytest(
        *LAUNCH,
        "-n3",
        "--lecture-concurrency=2",
        before=salloc("--nodes=1", "--nodelist=lc1", "--ntasks=2", "--mem=900"),
    )
    assert session.outcomes() == {"passed": 3}, session.text
    assert [len(members(session, f"{name}.ipynb")) for name in ("a", "b")] == [2, 2]


def test_queueing_is_shown_and_counted_separately(own_project):
    for name in ("a", "b"):
        own_project.notebook(f"{name}.ipynb", FIRST_UNTIL_ANOTHER_QUEUES)
    own_project.write("lecturecheck.toml", 'heartbeat = "1 s"\n')
    session = own_project.pytest(*LAUNCH, "-n2", "-v", before=salloc("--ntasks=1", "--mem=450"))
    assert session.outcomes() == {"passed": 2}, session.text
    queued = {name: session.run(f"{name}.ipynb")["queued_seconds"] for name in ("a", "b")}
    last = max(queued, key=queued.get)
    assert queued[last] >= 4
    told = [line for line in session.lines if line.startswith(f"{last}.ipynb: ")]
    assert told[0] == f"{last}.ipynb: queued in Slurm"
    assert any(re.fullmatch(rf"{last}\.ipynb: queued in Slurm for \d[\d.]* s", line) for line in told), told
    assert told.count(f"{last}.ipynb: starts, 1 code cell") == 1
