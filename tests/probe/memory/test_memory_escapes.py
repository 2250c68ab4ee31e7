"""What a lecture does to hide its memory from the probe, with real processes: as this user and as a plain one."""

import json
import os
import subprocess
import sys

import pytest
from support import measured_kernel
from support.plain_user import as_plain_user, open_to_all

from pytest_lecturecheck.units import MIB

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="subreapers and clear_refs are of Linux")
HOLD = """
import os, time
x = bytearray(b'1') * 150_000_000
open('READY', 'w').close()
while not os.path.exists('STOP'):
    time.sleep(0.01)
"""
# A process with another environment, session and parent than the kernel's: its starter has ended.
ORPHAN = f"""
import os, subprocess, sys, time
os.chdir(folder)
start = "import subprocess as s, sys; s.Popen([sys.executable, '-c', sys.argv[1]], start_new_session=True, env={{}})"
subprocess.run([sys.executable, "-c", start, {HOLD!r}], env={{"PATH": "/bin"}}, check=True)
while not os.path.exists("READY"):
    time.sleep(0.01)
"""
END_ORPHAN = """
open("STOP", "w").close()
"""
RESET = """
import time
x = bytearray(b'1') * 100_000_000
time.sleep(1)
del x
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")
"""
BUSY_ORPHAN = """
import os, subprocess, sys, time
os.chdir(folder)
work = "import os, time\\nwhile time.process_time() < 1: pass\\nopen('DONE', 'w').close()"
start = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1]], env={})"
subprocess.run([sys.executable, "-c", start, work], env={}, check=True)
while not os.path.exists("DONE"):
    time.sleep(0.01)
time.sleep(0.5)
"""


@pytest.fixture(params=["this user", "plain user"])
def measure(request, tmp_path):
    """Return a function that measures a cell, run as this user or as a user without privileges."""
    command = [sys.executable, measured_kernel.__file__, str(tmp_path)]
    if request.param == "plain user":
        command = as_plain_user(command)
        open_to_all(tmp_path)

    def measured(source):
        ended = subprocess.run(
            command,
            input=source,
            capture_output=True,
            text=True,
            check=False,
            env={"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"},
        )
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)

    return measured


def test_an_orphan_with_another_environment_counts(measure):
    found = measure(ORPHAN + END_ORPHAN)
    assert found["cell_bytes"] >= 150_000_000
    assert found["cell_bytes"] < 300 * MIB
    assert found["lecture_bytes"] >= found["cell_bytes"]


def test_cpu_time_of_an_orphan_that_ended_counts(measure):
    assert measure(BUSY_ORPHAN)["cpu_seconds"] >= 1


def test_a_cell_that_resets_its_own_peak_is_not_exact(measure):
    found = measure(RESET)
    assert found["was_peak_reset"]
    assert found["cell_bytes"] >= 100_000_000
    assert found["method"] != "exact"
