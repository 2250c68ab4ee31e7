"""The process that cleans up after a session that could not."""

import os
import subprocess
import sys

import psutil
import pytest

from pytest_lecturecheck.model.probe import RUN_TOKEN_VARIABLE
from pytest_lecturecheck.session.reaper import Reaper

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is none on Windows")

SESSION = """
import os, sys
from pytest_lecturecheck.session.reaper import Reaper
reaper = Reaper()
for number, (token, pid) in enumerate(zip(sys.argv[1::2], sys.argv[2::2])):
    reaper.add(token, pid=int(pid), folders=[], group=None)
    if number == 0:
        reaper._process.kill()
        reaper._process.wait()
os.kill(os.getpid(), 9)
"""


def sleeper(token):
    return subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], env={**os.environ, RUN_TOKEN_VARIABLE: token}
    )


def test_a_killed_reaper_is_replaced_and_knows_all_runs():
    tokens = [f"{os.getpid()}-reaper-{number}" for number in range(2)]
    runs = [sleeper(token) for token in tokens]
    try:
        words = [word for token, run in zip(tokens, runs, strict=True) for word in (token, str(run.pid))]
        subprocess.run([sys.executable, "-c", SESSION, *words], check=False, timeout=60)
        assert [run.wait(timeout=60) for run in runs] == [-9, -9]
    finally:
        for run in runs:
            run.kill()
            run.wait()


def test_the_reaper_exits_with_its_session():
    before = {child.pid for child in psutil.Process().children()}
    reaper = Reaper()
    reaper.add("a", pid=os.getpid(), folders=[], group=None)
    (process,) = (child for child in psutil.Process().children() if child.pid not in before)
    reaper.remove("a")
    reaper.close()
    assert not process.is_running()
