"""A session that is killed leaves the lectures that had finished, and budgets can still be written from them."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from support.plain_user import as_plain_user, give_to_plain_user, is_root
from support.real_sessions import PLATFORM, LectureProject, session_environment, wait_until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


@pytest.fixture
def project():
    # Not in pytest's own temporary folder, which is closed to other users.
    with tempfile.TemporaryDirectory(prefix="lecturecheck-test-", ignore_cleanup_errors=True) as place:
        Path(place).chmod(0o755)
        folder = Path(place, "project")
        folder.mkdir()
        made = LectureProject(folder)
        made.notebook("a.ipynb", "x = bytearray(30 << 20)")
        made.notebook("b.ipynb", "x = bytearray(40 << 20)")
        made.notebook("c.ipynb", "open('running', 'w').close()\nimport time; time.sleep(600)")
        yield made


def become_plain(project):
    """Return the command before sessions of a plain user; where the tests run as one already, there is none."""
    if not is_root():
        return []
    give_to_plain_user(project.folder, project.runtime)
    return as_plain_user([])


def end_session(project, number, *more, before=()):
    """Record three lectures, and end the session while the last one runs."""
    command = [sys.executable, "-m", "pytest", "-p", "no:hypothesispytest", f"--lecture-platform={PLATFORM}"]
    with subprocess.Popen(
        [*before, *command, "--lecture-record", "--lecture-runs=1", *more],
        cwd=project.folder,
        env=session_environment(XDG_RUNTIME_DIR=str(project.runtime), HOME=str(project.folder)),
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


def command(project, *words, before=()):
    done = subprocess.run(
        [
            *before,
            sys.executable,
            "-c",
            "from pytest_lecturecheck.commands.main import main; raise SystemExit(main())",
            *words,
        ],
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
    before = become_plain(project)
    end_session(project, signal.SIGKILL, before=before)
    assert budgets(project) == ""
    (project.folder / "c.ipynb").unlink()
    following = project.pytest("--lecture-budget", "a.ipynb", before=before, HOME=str(project.folder))
    assert "a session that was cut off left 2 finished runs: lecturecheck recover keeps them" in following.text
    (line,) = command(project, "recover", before=before)
    assert line.endswith(": 2 runs")
    assert command(project, "recover", before=before) == [
        "nothing to recover: every session came to its end, or had finished no lecture"
    ]
    command(project, "record", line.split()[1].removesuffix(":"), before=before)
    assert [f'[lectures."{name}.ipynb"]' in budgets(project) for name in "ab"] == [True, True]


@pytest.mark.parametrize("workers", [[], ["-n2", "--dist=load"]], ids=["alone", "workers"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=["SIGTERM", "SIGHUP"])
def test_a_session_that_is_told_to_end_writes_what_has_finished(project, number, workers):
    # Each signal and each kind of session as root and as a plain user, at the cost of one of them.
    before = become_plain(project) if (number == signal.SIGTERM) == bool(workers) else []
    end_session(project, number, *workers, before=before)
    assert [f'[lectures."{name}.ipynb"]' in budgets(project) for name in "abc"] == [True, True, False]
    assert not list((project.folder / ".lecturecheck" / "unfinished").glob("*"))


def test_a_session_that_ends_leaves_nothing_to_recover(project):
    (project.folder / "c.ipynb").unlink()
    assert project.pytest("--lecture-budget").code == 0
    assert not list((project.folder / ".lecturecheck" / "unfinished").glob("*"))
