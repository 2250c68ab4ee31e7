import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_lecturecheck.kernel.run.ports import RunProgress
from pytest_lecturecheck.model.lecture import Cell, Lecture, LectureFormat
from pytest_lecturecheck.model.probe import Snapshot
from pytest_lecturecheck.model.settings import NO_LIMIT, RunSettings
from pytest_lecturecheck.session.journal_writer import (
    JournalWriter,
    render_interrupted,
    render_state,
    report_interrupted,
    try_folder,
)
from pytest_lecturecheck.store.journal import Interrupted, read_journal

GIB = 1024**3
LECTURE = Lecture(
    path=Path("a.md"),
    name="a.md",
    format=LectureFormat.MYST,
    kernel_name=None,
    language="python",
    cells=(Cell(index=0, number=1, source="1", line=12), Cell(index=1, number=2, source="2", line=None)),
    settings=RunSettings(),
    findings=(),
    document=None,
)
SNAPSHOT = Snapshot(footprint_bytes=5000, peak_footprint_bytes=6000, age_seconds=0.01234)
BIG = Interrupted(
    started=1795977000.0,
    ended=1795977005.0,
    lecture="lectures/big.md",
    cell_number=7,
    line=120,
    kernel_pid=77,
    footprint_bytes=int(11.2 * GIB),
    reading_age_seconds=0.4,
)


def progress(number, snapshot=None):
    return RunProgress(lecture="a.md", number=number, total=2, elapsed_seconds=1.0, snapshot=snapshot)


def written(rootdir):
    (path,) = (rootdir / ".lecturecheck" / "journal").glob("*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "time"} for line in lines[1:]]


def test_a_run_is_written_down_as_it_comes(tmp_path):
    journal = JournalWriter(tmp_path)
    journal.begin(LECTURE, float(GIB))
    journal.note(progress(0))
    journal.note_kernel(77)
    journal.note(progress(1, SNAPSHOT))
    journal.note(progress(1, SNAPSHOT))
    journal.note(progress(2))
    journal.note(progress(0))
    journal.end("a.md", "completed")
    journal.note(progress(1))
    assert written(tmp_path) == [
        {"event": "lecture start", "lecture": "a.md", "cells": 2, "cap": GIB},
        {"event": "kernel start", "pid": 77},
        {"event": "cell start", "cell": 1, "line": 12},
        {"event": "reading", "footprint": 5000, "peak": 6000, "age": 0.012},
        {"event": "cell end", "cell": 1},
        {"event": "cell start", "cell": 2, "line": None},
        {"event": "cell end", "cell": 2},
        {"event": "lecture end", "lecture": "a.md", "outcome": "completed"},
    ]
    journal.close()
    journal.close()
    assert list((tmp_path / ".lecturecheck" / "journal").iterdir()) == []


def test_what_is_waited_for_is_written_down_whenever_it_changes(tmp_path):
    journal = JournalWriter(tmp_path)
    journal.wait("a.md", "waits for 3.1 GiB, 2 running")
    journal.wait("a.md", "waits for 3.1 GiB, 1 running")
    found = read_journal(*(tmp_path / ".lecturecheck" / "journal").glob("*.jsonl"))
    assert render_state(found) == "a.md was waiting to start (waits for 3.1 GiB, 1 running)"
    journal.end("a.md", "refused")
    journal.wait("a.md", "waits to run alone, 1 running", variant="c=2")
    journal.begin(LECTURE, None, variant="c=2")
    queued = RunProgress(
        lecture="a.md [c=2]", number=0, total=2, elapsed_seconds=1.0, snapshot=None, waits_for="queued in Slurm"
    )
    journal.note(queued)
    journal.note(replace(queued, elapsed_seconds=2.0))
    found = read_journal(*(tmp_path / ".lecturecheck" / "journal").glob("*.jsonl"))
    assert render_state(found) == "a.md [c=2] was waiting to start (queued in Slurm)"
    assert (found.lecture, found.variant, found.last_lecture) == ("a.md", "c=2", "a.md")
    journal.note(replace(queued, waits_for=""))
    assert [line["event"] for line in written(tmp_path)] == [
        *("waiting", "waiting", "lecture end", "waiting", "lecture start", "waiting", "waiting")
    ]
    found = read_journal(*(tmp_path / ".lecturecheck" / "journal").glob("*.jsonl"))
    assert render_state(found) == "a.md [c=2] was starting its kernel"
    journal.close()


@pytest.mark.parametrize("cap", [None, 0.0, NO_LIMIT])
def test_a_cap_that_is_no_figure_is_not_written(tmp_path, cap):
    journal = JournalWriter(tmp_path)
    journal.begin(LECTURE, cap)
    assert written(tmp_path)[0]["cap"] is None
    journal.close()


def test_a_session_without_lectures_writes_nothing(tmp_path):
    journal = JournalWriter(tmp_path)
    journal.note_kernel(1)
    journal.note(progress(1))
    journal.end("a.md", "completed")
    journal.sync()
    journal.close()
    assert list(tmp_path.iterdir()) == []


def test_where_nothing_can_be_written_the_session_goes_on_and_says_so(tmp_path):
    (tmp_path / ".lecturecheck").write_text("a file")
    journal = JournalWriter(tmp_path)
    journal.begin(LECTURE, None)
    journal.note(progress(1))
    journal.close()
    assert try_folder(tmp_path) == (
        ".lecturecheck cannot be written (File exists): after a crash no journal will show what was running"
    )
    assert report_interrupted(tmp_path) == []


def test_a_session_that_was_cut_off_is_told_in_one_line():
    (line,) = render_interrupted([BIG])
    assert line == (
        "the last session ended without finishing (2026-11-29 18:30:05 UTC): lectures/big.md was running code cell 7 "
        "(line 120), footprint 11.2 GiB 0.4 s before the last entry"
    )


def test_workers_of_one_session_stand_together_and_the_last_session_last():
    earlier = Interrupted(started=1795970000.0, ended=1795970001.0, session="x", lecture="a.md")
    one = Interrupted(started=1795977000.0, ended=1795977001.0, session="s", worker="gw0", last_lecture="b.md")
    two = Interrupted(
        started=1795977000.0, ended=1795977004.0, session="s", worker="gw1", lecture="c.md", kernel_pid=4, cell_number=1
    )
    assert render_interrupted([one, two, earlier]) == [
        "an earlier session ended without finishing (2026-11-29 16:33:21 UTC): a.md was starting its kernel",
        "the last session ended without finishing (2026-11-29 18:30:04 UTC): c.md was running code cell 1",
    ]
    assert render_interrupted([one]) == [
        "the last session ended without finishing (2026-11-29 18:30:01 UTC): no lecture was running, after b.md"
    ]


def test_the_state_says_all_that_is_known_and_is_harmless_on_a_terminal():
    state = Interrupted(
        started=1.0,
        ended=2.0,
        lecture="a\x1b[2J.md",
        kernel_pid=4,
        cap_bytes=2 * GIB,
        footprint_bytes=GIB,
        peak_footprint_bytes=GIB,
    )
    text = render_state(state)
    assert "\x1b" not in text
    figures = "footprint 1 GiB at the last entry, peak 1 GiB, cap 2 GiB"
    assert text.endswith(f".md was waiting for its kernel to be ready, {figures}")
    assert render_state(replace(state, has_begun=True)).endswith(f".md was between cells or ending, {figures}")


# -- sessions of pytest -----------------------------------------------------------------------------------------------

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
def test_a_session_that_was_killed_is_told_of_by_the_next_one(pytester):
    pytester.makeini("[pytest]")
    (pytester.path / "slow.md").write_text(SLOW.replace("END\n", ""))
    (pytester.path / "quick.md").write_text(QUICK)
    command = [sys.executable, "-m", "pytest", "-q", "--lecture-budget", "slow.md"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as killed:
        while not (pytester.path / "started.flag").exists():
            assert killed.poll() is None
            time.sleep(0.05)
        killed.kill()
    told = r"the last session ended without finishing \(.* UTC\): slow\.md was running code cell 1 \(line 11\).*"
    after = pytester.runpytest_inprocess("--lecture-budget", "quick.md")
    after.stdout.re_match_lines([told])
    assert sum("ended without finishing" in line for line in after.outlines) == 1
    assert "ended without finishing" not in pytester.runpytest_inprocess("--lecture-budget", "quick.md").stdout.str()


@pytest.mark.skipif(os.name == "nt", reason="a process cannot kill its parent's parent there by number")
def test_the_last_words_of_a_worker_that_went_down_are_in_the_summary(pytester):
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
