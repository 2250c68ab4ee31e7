"""Lectures that try to hide memory from a session, run as this user and as a user without privileges."""

import sys

import pytest
from support.plain_user import as_plain_user, give_to_plain_user, open_to_all
from support.real_sessions import LectureProject

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="supervisors and clear_refs are of Linux")

# Another environment, session and parent than the kernel's: the process that started it has ended.
ORPHAN = """
import os, subprocess, sys, time
hold = "import time; x = bytearray(b'1') * 150_000_000; open('READY', 'w').close(); time.sleep(600)"
start = "import subprocess as s, sys; s.Popen([sys.executable, '-c', sys.argv[1]], start_new_session=True, env={})"
subprocess.run([sys.executable, "-c", start, hold], env={"PATH": "/bin"}, check=True)
while not os.path.exists("READY"):
    time.sleep(0.01)
"""
RESET = """
import time
x = bytearray(b'1') * 100_000_000
time.sleep(1)
del x
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")
"""


@pytest.fixture(params=["this user", "plain user"])
def run(request, tmp_path):
    """Return a function that runs a session with one notebook, ``a.ipynb``."""
    project = LectureProject(tmp_path)
    before = as_plain_user([]) if request.param == "plain user" else []

    def ran(*cells):
        project.notebook("a.ipynb", *cells)
        if before:
            open_to_all(tmp_path)
            give_to_plain_user(project.runtime)
        return project.pytest("--lecture-budget", before=before, HOME=str(tmp_path))

    return ran


def test_an_orphan_with_another_environment_counts_and_is_ended(run):
    session = run("x = 1", ORPHAN)
    assert session.peak("a.ipynb") > 150_000_000
    assert any("left a process running" in message for message in session.findings("a.ipynb"))


def test_a_cell_that_resets_its_own_peak_is_a_finding(run):
    session = run("x = 1", RESET)
    reading = session.run("a.ipynb")["cells"][1]["readings"]["peak_footprint_bytes"]
    assert reading["method"] in {"sampled", "bracket"}
    assert reading["value"] > 100_000_000
    expected = "the cell reset the system's counter of its own memory peak (/proc/self/clear_refs)"
    assert any(finding.startswith(expected) for finding in session.findings("a.ipynb"))
