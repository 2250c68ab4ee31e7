"""What an interrupted session keeps of the lecture that was running, and how often it can be interrupted."""

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

# A slow disk, so that a second Ctrl-C arrives while results are written.
SLOW_END = """
import pathlib, pytest, time

@pytest.hookimpl(tryfirst=True)
def pytest_keyboard_interrupt():
    pathlib.Path("ending").touch()
    time.sleep(1)
"""


@pytest.fixture
def interrupt(pytester, lecture):
    """Run a session with a lecture that waits in its second cell, interrupt it, and return its output."""

    def interrupted(*arguments, conftest="", again=0, number=signal.SIGINT, pause=0.0):
        pytester.makeini("[pytest]")
        pytester.makeconftest(conftest)
        lecture("a.ipynb", "x = 1", f"import time\ntime.sleep({pause})\nopen('running', 'w').close()\ntime.sleep(600)")
        session = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-p", "no:hypothesispytest", "-p", "no:cacheprovider", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # A shell that starts this in the background has it ignore SIGINT.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509 - one thread
        )
        wait_for(Path("running"), session)
        session.send_signal(number)
        for _ in range(again):
            wait_for(Path("ending"), session)
            session.send_signal(signal.SIGINT)
            time.sleep(0.1)
        text, _ = session.communicate(timeout=120)
        return session.returncode, text

    return interrupted


def wait_for(path, session):
    deadline = time.monotonic() + 120
    while not path.exists():
        assert session.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("workers", [[], ["-n1"]], ids=["alone", "worker"])
def test_what_had_run_of_the_first_lecture_is_reported_and_kept(interrupt, workers):
    options = ["--lecture-report=r.json", "--lecture-marks-after=0.1", *workers]
    code, text = interrupt("--lecture-budget", *options, number=signal.SIGTERM, pause=0.5)
    assert code == pytest.ExitCode.INTERRUPTED, text
    (kept,) = Path(".lecturecheck/runs").iterdir()
    for path in (Path("r.json"), kept):
        (found,) = json.loads(path.read_text(encoding="utf-8"))["runs"]
        assert (found["run"]["outcome"], found["run"]["reason"]) == ("stopped", "the session was interrupted")
        assert [cell["status"] for cell in found["run"]["cells"]] == ["ok", "not run"]
        marked = found["run"]["cells"][1]["marks"]["lines"]
        assert marked[0]["place"]["source"] == "time.sleep(0.5)"


def test_a_second_interrupt_lets_the_session_write_its_results(interrupt):
    code, text = interrupt("--lecture-budget", conftest=SLOW_END, again=1)
    assert code == pytest.ExitCode.INTERRUPTED
    assert "lecturecheck: the session is ending" in text
    assert "Traceback" not in text
    assert len(text.splitlines()) < 40
    assert len(list(Path(".lecturecheck/runs").iterdir())) == 1


def test_a_third_interrupt_leaves_at_once(interrupt):
    code, text = interrupt("--lecture-budget", conftest=SLOW_END, again=2)
    assert code == pytest.ExitCode.INTERRUPTED
    assert text.rstrip().endswith(
        "lecturecheck: left at once; `lecturecheck recover` keeps the lectures that had finished"
    )
    assert not Path(".lecturecheck/runs").exists()


def test_a_budget_file_that_turned_invalid_loses_no_recording(pytester, lecture):
    pytester.makeini("[pytest]")
    lecture("a.ipynb", "open('lecture-budgets/p.toml', 'w').write('nonsense = [')")
    Path("lecture-budgets").mkdir()
    record = ["--lecture-record", "--lecture-runs=1", "--lecture-platform=p", "-p", "no:cacheprovider"]
    result = pytester.runpytest_inprocess(*record)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.re_match_lines(
        [
            r"a\.ipynb +no budget .*",
            r"ERROR: lecture-budgets/p\.toml could not be written: .*",
            r"nothing measured is lost: correct the cause, then `lecturecheck record last` writes these budgets",
        ]
    )
    assert " recorded " not in result.stdout.str()
    # The session is kept: there is nothing to recover, and no later session says so.
    assert not list(Path(".lecturecheck/unfinished").iterdir())
