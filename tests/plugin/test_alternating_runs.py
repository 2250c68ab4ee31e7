"""What is kept of alternating runs of a lecture's variants when a session ends early."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")

LECTURE = """---
kernelspec:
  name: python3
---

```{code-cell}
:tags: [parameters]

size = 1
```

```{code-cell}
import pathlib, time
earlier = pathlib.Path("runs.txt").read_text() if pathlib.Path("runs.txt").exists() else ""
pathlib.Path("runs.txt").write_text(f"{earlier}{size}")
LAST
```
"""
SETTINGS = "[axes]\nsize = [1, 2]\n"
ARGUMENTS = ["--lecture-budget", "--lecture-no-leases", "--lecture-runs=3", "-p", "no:cacheprovider"]
WAIT_IN_THIRD_RUN = "if len(earlier) == 2:\n    pathlib.Path('running').touch()\n    time.sleep(600)"


@pytest.fixture
def repository(pytester):
    def write(last):
        pytester.makeini("[pytest]")
        (pytester.path / "a.md").write_text(LECTURE.replace("LAST", last))
        (pytester.path / "lecturecheck.toml").write_text(SETTINGS)
        return pytester

    return write


def ended_in_third_run(number):
    session = subprocess.Popen([sys.executable, "-m", "pytest", *ARGUMENTS], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not Path("running").exists():
        assert session.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    session.send_signal(number)
    session.communicate(timeout=120)
    return session.returncode


def read_runs(records):
    return sorted(
        (record["run"]["variant"], record["run"].get("repeat", 1), record["run"].get("outcome", "completed"))
        for record in records
    )


def kept_runs():
    (path,) = Path(".lecturecheck/runs").iterdir()
    return read_runs(json.loads(path.read_text(encoding="utf-8"))["runs"])


def test_an_interrupted_session_keeps_the_runs_of_all_variants(repository):
    repository(WAIT_IN_THIRD_RUN)
    assert ended_in_third_run(signal.SIGTERM) == pytest.ExitCode.INTERRUPTED
    assert kept_runs() == [("size=1", 1, "completed"), ("size=1", 2, "stopped"), ("size=2", 1, "completed")]
    assert not list(Path(".lecturecheck/unfinished").iterdir())


def test_a_killed_session_leaves_the_runs_of_all_variants(repository):
    repository(WAIT_IN_THIRD_RUN)
    ended_in_third_run(signal.SIGKILL)
    (path,) = Path(".lecturecheck/unfinished").iterdir()
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()[1:]]
    assert read_runs(records) == [("size=1", 1, "completed"), ("size=2", 1, "completed")]


def test_runs_of_variants_whose_turn_did_not_come_are_kept(repository):
    pytester = repository("if size == 1 and len(earlier) > 1:\n    1 / 0")
    result = pytester.runpytest_inprocess(*ARGUMENTS, "-x")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(failed=1)
    assert [run[:2] for run in kept_runs()] == [
        ("size=1", 1),
        ("size=1", 2),
        ("size=2", 1),
        ("size=2", 2),
        ("size=2", 3),
    ]
    assert Path("runs.txt").read_text() == "12122"
