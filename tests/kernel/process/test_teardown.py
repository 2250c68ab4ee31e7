"""After a run no process, file or socket is left."""

import os
import re
import tempfile
import time
from pathlib import Path

import pytest
from support.benches import messages, run_to_limit

from pytest_lecturecheck.model.cell_run import CellStatus
from pytest_lecturecheck.model.probe import RUN_TOKEN_VARIABLE
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.model.settings import AUTOMATIC_CAP, NO_LIMIT

SLEEPER = "import time; time.sleep(600)"
IN_NEW_SESSION = f"""
import subprocess, sys
left = subprocess.Popen([sys.executable, "-c", "{SLEEPER}"], start_new_session=True)
print(left.pid)
"""
DAEMON = """
import os, sys, time
reader, writer = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(writer, str(os.getpid()).encode())
        time.sleep(600)
    os._exit(0)
os.wait()
print(os.read(reader, 99).decode())
"""
CHANGED_ENVIRONMENT = f"""
import subprocess, sys
left = subprocess.Popen([sys.executable, "-c", "{SLEEPER}"], env={{}})
print(left.pid)
"""


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def marked_processes():
    """Processes on this machine that carry the mark of a run that this process made."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            text = environ.read_bytes()
        except OSError:
            continue
        # The server that forks kernels has dashes instead of a token.
        is_marked = re.search(rb"(^|\0)%s=[0-9a-f]" % RUN_TOKEN_VARIABLE.encode(), text) is not None
        if is_marked and f"LECTURECHECK_TEST={os.getpid()}".encode() in text:
            found.append(environ.parent.name)
    return found


@pytest.fixture(autouse=True)
def _marked(monkeypatch):
    monkeypatch.setenv("LECTURECHECK_TEST", str(os.getpid()))


@pytest.mark.parametrize("code", [IN_NEW_SESSION, DAEMON, CHANGED_ENVIRONMENT])
def test_processes_that_a_lecture_leaves_are_killed_and_named(bench, code):
    run = bench.run("import warnings\nwarnings.simplefilter('ignore')", code)
    assert run.outcome is Outcome.COMPLETED, run.cells[1].error
    pid = int(run.cells[1].output_extract)
    assert not is_alive(pid)
    assert any(re.match(rf"left a process running: pid {pid}, ", text) for text in messages(run))


@pytest.mark.parametrize(
    ("end", "seconds", "outcome"),
    [
        ("1 / 0", 60.0, Outcome.FAILED),
        ("import os; os._exit(1)", 60.0, Outcome.DIED),
        ("import time; time.sleep(600)", 2.0, Outcome.TIMED_OUT),
    ],
)
def test_whatever_the_end_nothing_is_alive(bench, end, seconds, outcome):
    run = run_to_limit(
        lambda limit: bench.run(IN_NEW_SESSION, end, timeout_seconds=limit),
        lambda run: run.cells[0].status is CellStatus.OK,
        seconds,
    )
    assert run.outcome is outcome
    assert not is_alive(int(run.cells[0].output_extract))
    assert marked_processes() == []


@pytest.mark.parametrize("cap", [AUTOMATIC_CAP, NO_LIMIT], ids=["capped", "uncapped"])
def test_an_endless_chain_of_forks_is_killed(bench, tmp_path, cap):
    (tmp_path / "go").touch()
    code = """
    import os, time
    if os.fork() == 0:
        while os.path.exists("go"):
            if os.fork():
                time.sleep(0.02)
                os._exit(0)
        os._exit(0)
    """
    try:
        run = bench.run("import warnings\nwarnings.simplefilter('ignore')", code, memory_cap_bytes=cap)
        assert marked_processes() == []
    finally:
        (tmp_path / "go").unlink()
    assert run.outcome is Outcome.COMPLETED


def test_files_of_a_run_are_removed(bench, tmp_path, monkeypatch):
    place = tmp_path / "t"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    assert bench.run("x = 1", run_in_temp=True).outcome is Outcome.COMPLETED
    assert bench.run("import os; os._exit(1)").outcome is Outcome.DIED
    assert list(place.iterdir()) == []


def test_descriptors_do_not_pile_up(bench):
    bench.run("x = 1")
    before = len(list(Path("/proc/self/fd").iterdir()))
    bench.run("x = 1")
    bench.run("import os; os._exit(1)")
    # The sockets' own thread closes them a little later.
    deadline = time.monotonic() + 60
    while len(list(Path("/proc/self/fd").iterdir())) > before:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_of_many_processes_that_were_left_the_first_are_named(bench):
    code = """
    import subprocess
    left = [subprocess.Popen(["sleep", "600"]) for _ in range(13)]
    """
    run = bench.run("import warnings\nwarnings.simplefilter('ignore')", code)
    found = [text for text in messages(run) if "running" in text]
    assert len(found) == 11
    assert found[-1] == "left 3 more processes running; they were killed"
    assert marked_processes() == []
