"""The process that cleans up after a session that could not."""

import os
import subprocess
import sys
import time

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


WRITER = """
import pathlib, sys, time
while True:
    path = pathlib.Path(sys.argv[1])
    path.parent.mkdir(exist_ok=True)
    path.touch()
"""
GUARDING = """
import os, sys
from pytest_lecturecheck.session.reaper import Reaper
reaper, (folder, token, pid) = Reaper(), sys.argv[1:]
reaper.add("folder", pid=0, folders=[folder], group=None)
reaper.add(token, pid=int(pid), folders=[], group=None)
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


def test_folders_of_all_runs_are_removed_after_the_runs(tmp_path):
    folder = tmp_path / "lecturecheck-compiled-x"
    folder.mkdir()
    token = f"{os.getpid()}-reaper-folder"
    run = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder / "program")], env={**os.environ, RUN_TOKEN_VARIABLE: token}
    )
    try:
        subprocess.run([sys.executable, "-c", GUARDING, str(folder), token, str(run.pid)], check=False, timeout=60)
        assert run.wait(timeout=60) == -9
        deadline = time.monotonic() + 60
        while folder.exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
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
