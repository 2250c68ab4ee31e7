"""Sessions and workers that were killed are reported."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

SLOW = """\
---
kernelspec:
  name: python3
  display_name: Python 3
jupytext:
  text_representation:
    format_name: myst
---

```{code-cell}
import os, signal, time
open("started.flag", "w").close()
END
time.sleep(60)
```
"""
QUICK = SLOW[: SLOW.index("```{code-cell}")] + "```{code-cell}\n1\n```\n"


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no such signal")
def test_a_killed_session_is_reported_by_the_next(pytester):
    pytester.makeini("[pytest]")
    (pytester.path / "slow.md").write_text(SLOW.replace("END\n", ""))
    (pytester.path / "quick.md").write_text(QUICK)
    command = [sys.executable, "-m", "pytest", "-q", "--lecture-budget", "slow.md"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as killed:
        while not (pytester.path / "started.flag").exists():
            assert killed.poll() is None
            time.sleep(0.05)
        killed.kill()
    reported = r"the last session ended without finishing \(.* UTC\): slow\.md was running code cell 1 \(line 11\).*"
    after = pytester.runpytest_inprocess("--lecture-budget", "quick.md")
    after.stdout.re_match_lines([reported])
    assert sum("ended without finishing" in line for line in after.outlines) == 1
    assert "ended without finishing" not in pytester.runpytest_inprocess("--lecture-budget", "quick.md").stdout.str()


@pytest.mark.skipif(os.name == "nt", reason="a process cannot kill its parent's parent there by number")
def test_a_worker_that_went_down_is_in_the_summary(pytester):
    pytester.makeini("[pytest]")
    end = "os.kill(int(open('worker.pid').read()), signal.SIGKILL)\n"
    (pytester.path / "slow.md").write_text(SLOW.replace("END\n", end))
    pytester.makeconftest(
        "import os, pathlib\n"
        "def pytest_runtest_setup(item):\n"
        "    pathlib.Path('worker.pid').write_text(str(os.getpid()))\n"
    )
    result = pytester.runpytest_subprocess(
        "--lecture-budget", "-n1", "--max-worker-restart=0", "--lecture-report=report.json", "slow.md"
    )
    result.stdout.re_match_lines(
        [
            r"worker gw0 went down: slow\.md was running code cell 1 \(line 11\).*",
            r"slow\.md +died .*",
            r"1 lecture: 1 died; .*",
        ]
    )
    report = json.loads((pytester.path / "report.json").read_text())
    (entry,) = report["runs"]
    assert entry["verdict"]["headline"].startswith(
        "the worker that ran it went down: slow.md was running code cell 1 (line 11)"
    )
    assert entry["run"]["evidence"]["cell_number"] == 1
    assert result.ret == 1


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no such signal")
def test_a_lecture_whose_worker_went_down_before_it_began_has_an_entry(pytester):
    pytester.makeini("[pytest]")
    (pytester.path / "quick.md").write_text(QUICK)
    pytester.makeconftest(
        "import os, pytest, signal\n"
        "@pytest.hookimpl(tryfirst=True)\n"
        "def pytest_runtest_protocol(item):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    pytester.runpytest_subprocess(
        "--lecture-budget", "-n1", "--max-worker-restart=0", "--lecture-report=report.json", "quick.md"
    )
    (entry,) = json.loads((pytester.path / "report.json").read_text())["runs"]
    assert (entry["run"]["lecture"], entry["run"]["outcome"]) == ("quick.md", "not started")
    assert entry["run"]["reason"] == "its worker went down before the lecture began"
