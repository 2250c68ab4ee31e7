"""pytest-timeout beside lectures: its limit ends the lecture, not the session, and no kernel is left."""

from __future__ import annotations

import pytest
from support.real_sessions import has_ended


@pytest.mark.parametrize("method", ["signal", "thread"])
def test_its_limit_applies_to_the_lecture(own_project, method):
    own_project.notebook(
        "slow.ipynb", "import os\nopen('pid', 'w').write(str(os.getpid()))", "import time\ntime.sleep(60)"
    )
    own_project.notebook("z_quick.ipynb", "x = 1")
    # The limit holds for the start of the kernel as well, which takes longer on a busy machine.
    for seconds in (5, 15, 45):
        session = own_project.pytest("--lecture-budget", f"--timeout={seconds}", f"--timeout-method={method}")
        if session.outcomes() == {"failed": 1, "passed": 1} and session.statuses("slow.ipynb")[0] == "ok":
            break
    assert session.outcomes() == {"failed": 1, "passed": 1}
    assert session.verdict("slow.ipynb")["kind"] == "timed out"
    assert session.verdict("slow.ipynb")["headline"].startswith(f"lecture timed out after {seconds} s, in code cell 2")
    assert has_ended(int((own_project.folder / "pid").read_text()))


def test_a_tighter_limit_of_the_lecture_s_own_stays(own_project):
    own_project.notebook("slow.ipynb", "import time\ntime.sleep(60)", lecturecheck={"timeout": 2})
    session = own_project.pytest("--lecture-budget", "--timeout=100")
    assert session.verdict("slow.ipynb")["headline"].startswith("code cell 1 timed out after 2 s")


def test_other_items_keep_their_timer(own_project):
    own_project.write("test_plain.py", "import time\ndef test_slow():\n    time.sleep(60)\n")
    session = own_project.pytest("--lecture-budget", "--timeout=2")
    assert session.outcomes() == {"failed": 1}
    assert "Timeout" in session.text
