import json
import os
import subprocess
import sys
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_lecturecheck.store import journal
from pytest_lecturecheck.store.journal import Event, Interrupted, Journal, read_journal, take_interrupted, take_worker
from pytest_lecturecheck.store.own_folder import make_own_folder

HEAD = {"event": Event.SESSION, "time": 1000.0, "schema": 1, "session": "s", "worker": "gw0", "pid": 1, "locked": True}
RUNNING = [
    {"event": Event.LECTURE, "time": 1001.0, "lecture": "a.md", "cells": 2, "cap": 2**30},
    {"event": Event.KERNEL, "time": 1001.5, "pid": 77},
    {"event": Event.CELL, "time": 1002.0, "cell": 1, "line": 12},
    {"event": Event.CELL_END, "time": 1003.0, "cell": 1},
    {"event": Event.CELL, "time": 1003.0, "cell": 2, "line": 20},
    {"event": Event.READING, "time": 1004.0, "footprint": 5000, "peak": 6000, "age": 0.25},
]


def lines(*facts):
    return "".join(json.dumps(item) + "\n" for item in facts)


def left(folder, *facts, name="20261129T183000Z-0a.jsonl"):
    """Leave a journal behind as a process does that was killed."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(lines(HEAD, *facts))
    return path


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "journal"


def test_the_own_folder_is_not_for_version_control(tmp_path):
    assert make_own_folder(tmp_path) == tmp_path / ".lecturecheck"
    assert (tmp_path / ".lecturecheck" / ".gitignore").read_text() == "*\n"
    (tmp_path / ".lecturecheck" / ".gitignore").write_text("mine\n")
    make_own_folder(tmp_path)
    assert (tmp_path / ".lecturecheck" / ".gitignore").read_text() == "mine\n"


def test_what_is_written_is_on_the_disk_at_once(folder):
    written = Journal(folder, session="s", worker="gw0")
    written.write(Event.LECTURE, lecture="a.md", cells=3, cap=None)
    first, second = (json.loads(line) for line in written.path.read_text().splitlines())
    assert {**first, "time": 0} == {**HEAD, "time": 0, "pid": os.getpid()}
    assert {**second, "time": 0} == {"time": 0, "event": "lecture start", "lecture": "a.md", "cells": 3, "cap": None}
    written.close()


def test_names_that_are_not_unicode_and_control_characters_are_written(folder):
    written = Journal(folder)
    written.write(Event.LECTURE, lecture="bad\udcff\x1b[2J\n.md")
    found = read_journal(written.path)
    written.close()
    assert found is not None
    assert found.lecture == "bad\udcff\x1b[2J\n.md"


def test_a_session_that_comes_to_its_end_leaves_nothing(folder):
    written = Journal(folder)
    written.close()
    written.close()
    written.write(Event.READING)
    written.sync()
    assert list(folder.iterdir()) == []


def test_the_journal_of_a_living_session_is_left_alone(folder):
    living = Journal(folder)
    living.write(Event.LECTURE, lecture="a.md")
    assert take_interrupted(folder) == ()
    assert living.path.exists()
    living.close()


def test_a_killed_process_is_reported_once(folder):
    script = """
        import os, pathlib, signal, sys
        from pytest_lecturecheck.store.journal import Event, Journal
        written = Journal(pathlib.Path(sys.argv[1]), session="s", worker="gw3")
        written.write(Event.LECTURE, lecture="big.md", cells=9, cap=None)
        written.write(Event.CELL, cell=7, line=120)
        os.abort()
    """
    subprocess.run([sys.executable, "-c", dedent(script), str(folder)], check=False, stderr=subprocess.DEVNULL)
    (found,) = take_interrupted(folder)
    assert (found.session, found.worker, found.lecture, found.cell_number, found.line) == ("s", "gw3", "big.md", 7, 120)
    assert take_interrupted(folder) == ()


def test_the_last_lines_say_what_was_going_on(folder):
    path = left(folder, *RUNNING)
    assert read_journal(path) == Interrupted(
        started=1000.0,
        ended=1004.0,
        session="s",
        worker="gw0",
        lecture="a.md",
        has_begun=True,
        cell_number=2,
        line=20,
        kernel_pid=77,
        cap_bytes=2**30,
        footprint_bytes=5000,
        peak_footprint_bytes=6000,
        reading_age_seconds=0.25,
    )


def test_the_age_of_a_reading_counts_to_the_last_line(folder):
    path = left(folder, *RUNNING, {"event": Event.CELL_END, "time": 1004.5, "cell": 2})
    found = read_journal(path)
    assert found is not None
    assert (found.reading_age_seconds, found.cell_number, found.line) == (0.75, None, None)


def test_readings_of_one_lecture_are_not_those_of_the_next(folder):
    path = left(
        folder,
        *RUNNING,
        {"event": Event.LECTURE_END, "time": 1005.0, "lecture": "a.md"},
        {"event": Event.LECTURE, "time": 1006.0, "lecture": "b.md"},
    )
    found = read_journal(path)
    assert found == Interrupted(
        started=1000.0, ended=1006.0, session="s", worker="gw0", lecture="b.md", last_lecture="a.md"
    )


def test_a_truncated_last_line_is_skipped(folder):
    path = left(folder, *RUNNING)
    whole = read_journal(path)
    path.write_text(path.read_text() + '{"time":1004.2,"event":"cell en')
    assert read_journal(path) == whole


def test_what_is_no_journal_tells_nothing(folder):
    path = left(folder)
    for text in ("", "no\n", "[]\n", lines({**HEAD, "schema": 2}), lines(RUNNING[0])):
        path.write_text(text)
        assert read_journal(path) is None
    path.unlink()
    assert read_journal(path) is None


def test_a_finished_session_that_left_its_file_is_ignored(folder):
    left(folder, *RUNNING, {"event": Event.SESSION_END, "time": 1009.0})
    assert take_interrupted(folder) == ()
    assert [path.name for path in folder.iterdir()] == ["20261129T183000Z-0a.jsonl.told"]


@given(st.binary(max_size=300), st.lists(st.sampled_from([HEAD, *RUNNING]), max_size=8), st.integers(0, 400))
def test_no_damage_stops_a_session(tmp_path_factory, noise, facts, cut):
    folder = tmp_path_factory.mktemp("journals")
    path = folder / "20261129T183000Z-0b.jsonl"
    path.write_bytes(lines(HEAD, *facts).encode()[:cut] + noise)
    found = read_journal(path)
    assert found is None or isinstance(found, Interrupted)


def test_values_of_the_wrong_kind_are_not_believed(folder):
    wrong = [
        {"event": Event.LECTURE, "time": 1001, "lecture": ["a"], "cap": "much"},
        {"event": Event.CELL, "time": 1002, "cell": True, "line": 1e300},
        {"event": Event.READING, "time": 1003, "footprint": None, "peak": "x", "age": {}},
        {"event": Event.READING, "time": "later", "footprint": 1},
    ]
    assert read_journal(left(folder, *wrong)) == Interrupted(started=1000.0, ended=1003.0, session="s", worker="gw0")


@pytest.mark.parametrize("time", [-1.0, 253_402_300_800.0, 1e17])
def test_a_moment_that_no_calendar_has_is_not_believed(folder, time):
    path = left(folder, {"event": Event.LECTURE, "time": time, "lecture": "a.md", "cap": None})
    assert read_journal(path) == Interrupted(started=1000.0, ended=1000.0, session="s", worker="gw0")


@pytest.mark.skipif(sys.platform == "win32", reason="it has no pipes among files")
def test_a_pipe_among_journals_is_not_waited_for(folder):
    left(folder, *RUNNING)
    os.mkfifo(folder / "a.jsonl")
    assert [item.lecture for item in take_interrupted(folder)] == ["a.md"]
    assert read_journal(folder / "a.jsonl") is None


def test_a_new_file_is_ignored_until_it_is_old(folder):
    path = left(folder)
    path.write_text("")
    assert take_interrupted(folder) == ()
    assert path.exists()
    os.utime(path, (1.0, 1.0))
    assert take_interrupted(folder) == ()
    assert not path.exists()


def test_where_there_are_no_locks_age_decides(folder):
    path = left(folder, *RUNNING)
    path.write_text(path.read_text().replace('"locked": true', '"locked": false'))
    assert take_interrupted(folder) == ()
    os.utime(path, (1.0, 1.0))
    assert [item.lecture for item in take_interrupted(folder)] == ["a.md"]


def test_the_last_few_files_are_kept(folder):
    for number in range(9):
        left(folder, *RUNNING, name=f"20261129T18300{number}Z-0a.jsonl")
    assert len(take_interrupted(folder)) == 9
    assert sorted(path.name for path in folder.iterdir()) == [
        f"20261129T18300{number}Z-0a.jsonl.told" for number in range(4, 9)
    ]


def test_a_worker_is_found_by_session_and_name(folder):
    left(folder, *RUNNING)
    assert take_worker(folder, session="s", worker="gw1") is None
    assert take_worker(folder, session="other", worker="gw0") is None
    found = take_worker(folder, session="s", worker="gw0")
    assert found is not None
    assert found.lecture == "a.md"
    assert take_worker(folder, session="s", worker="gw0") is None


def test_lines_are_synced_at_most_once_a_second(folder, monkeypatch):
    forced = []
    clock = [100.0]
    monkeypatch.setattr(journal.os, "fsync", forced.append)
    monkeypatch.setattr(journal.time, "monotonic", lambda: clock[0])
    written = Journal(folder)
    for moment, expected in ((100.5, 0), (101.0, 1), (101.5, 1), (102.5, 1)):
        clock[0] = moment
        written.sync()
        assert len(forced) == expected
    written.write(Event.READING)
    written.sync()
    assert len(forced) == 2
    written.close()
