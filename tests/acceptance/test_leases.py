"""Lectures at once under xdist: never more than the machine has, who ran beside whom, and as book builds do it."""

from __future__ import annotations

import json
import re

import pytest

SLOW = "import time\ntime.sleep(1.5)"
WAITS_FOR_THE_OTHER = """
import pathlib, time
pathlib.Path("{mine}.here").touch()
while not pathlib.Path("{other}.here").exists():
    time.sleep(0.05)
"""


def intervals(session):
    """Give when each lecture's cell ran, in seconds of the machine's clock, as the lecture itself wrote it down."""
    return {name: json.loads(runs[0]["run"]["cells"][0]["output_extract"]) for name, runs in session.runs.items()}


def overlap(first, second):
    return first[0] < second[1] and second[0] < first[1]


@pytest.fixture
def recorded(own_project):
    """Three lectures of which two fit at once."""
    for name in "abc":
        own_project.notebook(f"{name}.ipynb", f"import time\nstart = time.time()\n{SLOW}\nprint([start, time.time()])")
    return own_project


def test_lectures_wait_until_there_is_room(recorded):
    recorded.budgets({f"{name}.ipynb": '"400 MB"' for name in "abc"})
    session = recorded.pytest("--lecture-budget", "-n", "3", "--lecture-capacity=500 MB", "-v")
    assert session.outcomes() == {"passed": 3}, session.text
    # Without a terminal, and outside CI, waiting is the only progress that is shown.
    assert any(re.match(r"[abc]\.ipynb: waits for 381 MiB, 1 running", line) for line in session.lines), session.text
    times = list(intervals(session).values())
    assert not any(overlap(one, two) for place, one in enumerate(times) for two in times[:place])
    assert all("company" not in session.run(f"{name}.ipynb") for name in "abc")


def test_without_leases_they_run_as_a_book_build_would(own_project):
    for mine, other in ("ab", "ba"):
        own_project.notebook(f"{mine}.ipynb", WAITS_FOR_THE_OTHER.format(mine=mine, other=other))
    own_project.budgets({f"{name}.ipynb": '"400 MB"' for name in "ab"})
    args = ("--lecture-capacity=500 MB", "--lecture-no-leases", "--lecture-timeout=60")
    session = own_project.pytest("--lecture-budget", "-n", "2", *args)
    assert session.outcomes() == {"passed": 2}, session.text


def test_times_of_concurrent_lectures_are_not_compared(recorded):
    alone = recorded.pytest("--lecture-record", "--lecture-runs=1", "-n", "2")
    assert alone.outcomes() == {"passed": 3}
    assert all("company" not in alone.run(f"{name}.ipynb") for name in "abc")
    together = recorded.pytest("--lecture-budget", "-n", "2")
    kept = [together.run(f"{name}.ipynb").get("company", []) for name in "abc"]
    assert any(kept)
    assert set().union(*kept) <= {f"{name}.ipynb" for name in "abc"}
    assert "  shared machine: time not compared, because other lectures ran beside it" in together.lines
    for name, beside in zip("abc", kept, strict=True):
        assert (f"      {name}.ipynb, with {', '.join(beside)}" in together.lines) is bool(beside), together.text


def test_an_exclusive_lecture_runs_alone(own_project):
    text = f"import time\nstart = time.time()\n{SLOW}\nprint([start, time.time()])"
    own_project.notebook("alone.ipynb", text, lecturecheck={"exclusive": True})
    own_project.notebook("other.ipynb", text)
    session = own_project.pytest("--lecture-budget", "-n", "2")
    assert session.outcomes() == {"passed": 2}
    assert not overlap(*intervals(session).values())


def test_a_lecture_that_can_never_fit_is_refused_where_strict(own_project):
    own_project.notebook("large.ipynb", "x = 1")
    own_project.budgets({"large.ipynb": '"2 GB"'})
    soft = own_project.pytest("--lecture-budget", "--lecture-capacity=1 GB")
    assert soft.outcomes() == {"passed": 1}
    reason = "needs 1.86 GiB, 954 MiB more than the 954 MiB of memory that all runs together may use"
    assert f"it runs alone: {reason}" in soft.findings("large.ipynb")
    strict = own_project.pytest("--lecture-budget", "--lecture-capacity=1 GB", "--lecture-strict")
    assert strict.outcomes() == {"failed": 1}
    assert strict.verdict("large.ipynb") == {**strict.verdict("large.ipynb"), "kind": "not fitting", "headline": reason}


def test_a_session_inside_a_lecture_does_not_wait_for_that_lecture(own_project):
    own_project.notebook("inner.ipynb", "x = 1")
    command = 'import subprocess, sys\ncommand = [sys.executable, "-m", "pytest", "--lecture-budget", "inner.ipynb"]\n'
    text = f"{command}subprocess.run(command, check=True, timeout=200)"
    own_project.notebook("outer.ipynb", text, lecturecheck={"exclusive": True})
    session = own_project.pytest("--lecture-budget", "outer.ipynb")
    assert session.outcomes() == {"passed": 1}, session.text
