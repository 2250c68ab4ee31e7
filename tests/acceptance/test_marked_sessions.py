"""A session with a long cell: its failure names the line, and a session that is killed leaves it in its journal."""

import signal
import subprocess
import sys

import pytest
from support.real_sessions import PLATFORM, session_environment, wait_until

from pytest_lecturecheck.session.journal_writer import report_interrupted

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="named pipes of POSIX")

WAITS = "import time\nfor turn in range(900):\n    time.sleep(1)"


def test_a_long_cell_names_its_line_also_in_the_journal(own_project):
    own_project.notebook("a.ipynb", WAITS)
    session = own_project.pytest("--lecture-budget", "--lecture-timeout=1.2", "--lecture-marks-after=0.3")
    (cell,) = session.run("a.ipynb")["cells"]
    assert cell["marks"]["lines"][0]["place"]["source"] == "time.sleep(1)"
    assert "Where code cell 1 was" in session.lines
    assert any("turn at " in line and "of 900" in line for line in session.lines)

    command = [sys.executable, "-m", "pytest", "-p", "no:hypothesispytest", f"--lecture-platform={PLATFORM}"]
    with subprocess.Popen(
        [*command, "--lecture-budget", "--lecture-marks-after=0.3", "--lecture-rerun-failed"],
        cwd=own_project.folder,
        env=session_environment(XDG_RUNTIME_DIR=str(own_project.runtime)),
        stdout=subprocess.DEVNULL,
    ) as killed:
        journals = own_project.folder / ".lecturecheck" / "journal"
        wait_until(lambda: any(b'"mark"' in path.read_bytes() for path in journals.glob("*.jsonl")))
        killed.send_signal(signal.SIGKILL)
    (line,) = report_interrupted(own_project.folder)
    assert "was running code cell 1, it was last in code cell 1, line 3" in line
