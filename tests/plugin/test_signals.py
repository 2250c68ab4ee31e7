"""A signal that asks a session to end ends it in order, and is named."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")


# Holds a session in the middle of its end, as a slow disk would.
HOLD = """
import pathlib, time

def pytest_keyboard_interrupt():
    pathlib.Path("held").touch()
    time.sleep(600)
"""


# Marks that the controller has taken the result of a lecture, which a worker may have sent a while before.
MARK = """
import pathlib

class Mark:
    def pytest_runtest_logreport(self, report):
        if report.when == "teardown":
            pathlib.Path("reported").touch()

def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Mark())
"""


@pytest.fixture
def running(pytester, lecture):
    """Start a session that has run one lecture and runs another."""

    def start(*arguments, conftest="", **variables):
        pytester.makeconftest(MARK + conftest)
        lecture("a.ipynb", "x = 1")
        lecture("b.ipynb", "import pathlib, time\npathlib.Path('running').touch()\ntime.sleep(600)")
        session = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--lecture-platform=p", *arguments],
            env={**os.environ, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        started.append(session)
        wait_for("running", session)
        wait_for("reported", session)
        return session

    started = []
    yield start
    for session in started:
        session.kill()
        session.communicate()


def wait_for(name, session):
    deadline = time.monotonic() + 120
    while not Path(name).exists():
        assert session.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["alone", "worker"])
def test_the_advance_signal_of_slurm_ends_a_session_in_order(running, workers):
    """What was recorded before the signal is written; a second signal does not interrupt that."""
    session = running("--lecture-record", "--lecture-runs=1", *workers, SLURM_JOB_ID="7")
    for number in (signal.SIGUSR1, signal.SIGTERM):
        os.kill(session.pid, number)
    text, _ = session.communicate(timeout=300)
    assert session.returncode == pytest.ExitCode.INTERRUPTED, text
    lines = text.splitlines()
    (heading,) = [number for number, line in enumerate(lines) if line.startswith("=") and " lectures " in line]
    # Python runs the handlers of signals that arrive together in the order of their numbers.
    assert lines[heading + 1].startswith(("SIGUSR1: Slurm's advance signal", "SIGTERM: Slurm ends the job"))
    assert lines[heading + 2].startswith("interrupted: b.ipynb, in code cell 1 of 1, after ")
    assert '[lectures."a.ipynb"]' in Path("lecture-budgets/p.toml").read_text(encoding="utf-8")
    assert len(list(Path(".lecturecheck/runs").iterdir())) == 1


def test_a_session_killed_after_a_signal_is_reported_with_it(pytester, running, lecture):
    """Slurm and cloud services send SIGTERM, and SIGKILL where the session has not come to its end."""
    session = running("--lecture-budget", conftest=HOLD)
    session.terminate()
    wait_for("held", session)
    session.kill()
    session.communicate(timeout=60)
    pytester.path.joinpath("conftest.py").unlink()
    lecture("quick.ipynb")
    after = pytester.runpytest_inprocess("--lecture-budget", "quick.ipynb", "-p", "no:cacheprovider")
    (line,) = [line for line in after.outlines if "ended without finishing" in line]
    assert line.endswith("; it had received SIGTERM: another process asked this session to end")


def test_handlers_are_put_back(pytester, lecture):
    lecture("a.ipynb")
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1)]
    pytester.runpytest_inprocess("--lecture-budget", "--collect-only", "-p", "no:cacheprovider")
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1)] == before
