"""The journal that a session writes, and the report on one that was cut off."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from support.made_marks import long_cell

from pytest_lecturecheck.kernel.run.ports import RunProgress
from pytest_lecturecheck.model.cell_marks import CodePlace, LineSample
from pytest_lecturecheck.model.cell_run import CellStatus
from pytest_lecturecheck.model.lecture import Cell, Lecture, LectureFormat
from pytest_lecturecheck.model.probe import Snapshot
from pytest_lecturecheck.model.settings import NO_LIMIT, RunSettings
from pytest_lecturecheck.probe.machine import detect_machine
from pytest_lecturecheck.session.journal_writer import (
    JournalWriter,
    lost_run,
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


def test_events_of_a_run_are_written_in_order(tmp_path):
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


def test_each_new_reason_for_waiting_is_written(tmp_path):
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
def test_a_cap_without_a_number_is_not_written(tmp_path, cap):
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


def test_a_folder_that_cannot_be_written_is_reported(tmp_path):
    (tmp_path / ".lecturecheck").write_text("a file")
    journal = JournalWriter(tmp_path)
    journal.begin(LECTURE, None)
    journal.note(progress(1))
    journal.close()
    assert try_folder(tmp_path) == (
        ".lecturecheck cannot be written (File exists): after a crash no journal will show what was running"
    )
    assert report_interrupted(tmp_path) == []


def test_an_interrupted_session_is_one_line():
    (line,) = render_interrupted([BIG])
    assert line == (
        "the last session ended without finishing (2026-11-29 18:30:05 UTC): lectures/big.md was running code cell 7 "
        "(line 120), footprint 11.2 GiB 0.4 s before the last entry"
    )


def test_a_signal_before_the_end_is_named_once():
    first = replace(BIG, signal="SIGTERM: Slurm ends the job at its time limit", worker="gw0")
    (line,) = render_interrupted([first, replace(first, worker="gw1")])
    assert line.endswith("; it had received SIGTERM: Slurm ends the job at its time limit")
    assert line.count("SIGTERM") == 1


def test_a_signal_is_written(tmp_path):
    journal = JournalWriter(tmp_path)
    journal.note_signal("SIGTERM: too early")
    journal.begin(LECTURE, None)
    journal.note_signal("SIGTERM: why")
    assert written(tmp_path)[-1] == {"event": "signal", "signal": "SIGTERM: why"}
    journal.close()


def test_workers_of_one_session_share_a_line():
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


def test_the_state_has_all_readings_and_no_escape_sequence():
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
    readings = "footprint 1 GiB at the last entry, peak 1 GiB, cap 2 GiB"
    assert text.endswith(f".md was waiting for its kernel to be ready, {readings}")
    assert render_state(replace(state, has_begun=True)).endswith(f".md was between cells or ending, {readings}")


def test_a_lost_lecture_keeps_the_marks_of_its_cell():
    cell = long_cell()
    state = Interrupted(
        started=1.0, ended=2.0, lecture="a.md", has_begun=True, kernel_pid=4, cell_number=3, line=101, marks=cell.marks
    )
    text = render_state(state)
    assert "running code cell 3 (line 101), it was last in paths.py:12 in draw for the last 14 min 55 s" in text
    assert "memory rose most in code cell 3, line 114: +4.77 GiB" in text
    run = lost_run(state, platform="here", machine=detect_machine())
    assert [(item.number, item.status, item.marks) for item in run.cells] == [(3, CellStatus.DIED, cell.marks)]


def test_samples_are_written_once_and_places_where_they_change(tmp_path):
    journal = JournalWriter(tmp_path)
    journal.begin(LECTURE, None)
    place = CodePlace(place="code cell 2, line 20", source="f()")
    for seconds in (60.0, 60.0, 65.0):
        sample = LineSample(seconds=seconds, place=place, footprint_bytes=7)
        journal.note(replace(progress(2), sample=sample, sample_seconds=5.0))
    marks = [line for line in written(tmp_path) if line["event"] == "mark"]
    assert [(line["at"], "place" in line) for line in marks] == [(60.0, True), (65.0, False)]
    journal.close()
