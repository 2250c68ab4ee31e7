"""A session that is killed leaves the lectures that had finished, and budgets can still be written from them."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from support.real_sessions import PLATFORM, LectureProject, session_environment, wait_until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    made = LectureProject(folder)
    made.notebook("a.ipynb", "x = bytearray(30 << 20)")
    made.notebook("b.ipynb", "x = bytearray(40 << 20)")
    made.notebook("c.ipynb", "open('running', 'w').close()\nimport time; time.sleep(600)")
    return made


def end_session(project, number, *more):
    """Record three lectures, and end the session while the last one runs."""
    command = [sys.executable, "-m", "pytest", "-p", "no:hypothesispytest", f"--lecture-platform={PLATFORM}"]
    with subprocess.Popen(
        [*command, "--lecture-record", "--lecture-runs=1", *more],
        cwd=project.folder,
        env=session_environment(XDG_RUNTIME_DIR=str(project.runtime)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as session:
        wait_until((project.folder / "running").exists)
        # A worker begins the last lecture before the controller has the results of the ones before.
        wait_until(lambda: saved_count(project) == 2)
        session.send_signal(number)
        return session.communicate(timeout=120)[0]


def saved_count(project):
    """The runs that the session has written to the disk so far, below a first line about the session."""
    files = (project.folder / ".lecturecheck" / "unfinished").glob("*.jsonl")
    return sum(len(file.read_bytes().splitlines()) - 1 for file in files)


def command(project, *words):
    done = subprocess.run(
        [sys.executable, "-c", "from pytest_lecturecheck.commands.main import main; raise SystemExit(main())", *words],
        cwd=project.folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def budgets(project):
    path = project.folder / "lecture-budgets" / f"{PLATFORM}.toml"
    return path.read_text(encoding="utf-8") if path.exists() else ""


def test_finished_lectures_of_a_killed_session_are_recovered(project):
    end_session(project, signal.SIGKILL)
    assert budgets(project) == ""
    (project.folder / "c.ipynb").unlink()
    following = project.pytest("--lecture-budget", "a.ipynb")
    assert "a session that was cut off left 2 finished runs: lecturecheck recover keeps them" in following.text
    (line,) = command(project, "recover")
    assert line.endswith(": 2 runs")
    assert command(project, "recover") == [
        "nothing to recover: every session came to its end, or had finished no lecture"
    ]
    command(project, "record", line.split()[1].removesuffix(":"))
    assert [f'[lectures."{name}.ipynb"]' in budgets(project) for name in "ab"] == [True, True]


@pytest.mark.parametrize("workers", [[], ["-n2", "--dist=load"]], ids=["alone", "workers"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=["SIGTERM", "SIGHUP"])
def test_a_session_that_is_told_to_end_writes_what_has_finished(project, number, workers):
    end_session(project, number, *workers)
    assert [f'[lectures."{name}.ipynb"]' in budgets(project) for name in "abc"] == [True, True, False]
    assert not list((project.folder / ".lecturecheck" / "unfinished").glob("*"))


def test_a_session_that_ends_leaves_nothing_to_recover(project):
    (project.folder / "c.ipynb").unlink()
    assert project.pytest("--lecture-budget").code == 0
    assert not list((project.folder / ".lecturecheck" / "unfinished").glob("*"))
