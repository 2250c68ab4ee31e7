"""Kept sessions: written, found again, skipped and removed."""

from __future__ import annotations

import datetime as dt
import json
import os
from dataclasses import replace
from pathlib import PurePosixPath, PureWindowsPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_lecturecheck.errors import RunFileError
from pytest_lecturecheck.model.cell_run import CellRun, CellStatus
from pytest_lecturecheck.model.device import Device, DeviceSample, DeviceUse
from pytest_lecturecheck.model.metric import Measurement, Method, Metric
from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.model.timeline import MemorySample
from pytest_lecturecheck.store.path_redaction import hide_places
from pytest_lecturecheck.store.runs import NewerRunFileError, run_to_dict, verdict_to_dict
from pytest_lecturecheck.store.session_history import (
    find_session,
    keep_session,
    read_session,
    read_sessions,
    session_files,
    with_short_timelines,
)
from pytest_lecturecheck.verdict import Verdict, VerdictKind

NOON = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
RUN = Run(lecture="a.md", platform="here", outcome=Outcome.COMPLETED)
VERDICT = Verdict(kind=VerdictKind.WITHIN, failed=False, headline="fine")


def document(*runs, **rest):
    records = [{"run": run_to_dict(run), "verdict": verdict_to_dict(VERDICT), "seconds": 1.5} for run in runs or [RUN]]
    return json.dumps({"schema": 1, "platform": "here", "ended": NOON.isoformat(), **rest, "runs": records})


def keep(folder, minutes=0, most=50, text=None):
    # Sessions of one microsecond would differ in one random digit only, and their short names might be equal.
    ended = NOON + dt.timedelta(minutes=minutes, microseconds=minutes)
    return keep_session(folder, text or document(), now=ended, most=most)


def test_a_session_is_found_again(tmp_path):
    path = keep(tmp_path, text=document(mode="check", version="1.2"))
    assert path.parent == tmp_path
    assert path.name.startswith("20260301T120000Z-")
    session = read_session(path)
    assert (session.name, session.platform, session.ended) == (path.stem, "here", NOON)
    assert (session.mode, session.version) == ("check", "1.2")
    assert session.title == f"{path.stem} of 2026-03-01 12:00 UTC"
    (kept,) = session.runs
    assert (kept.run, kept.verdict, kept.seconds, kept.subject) == (RUN, VERDICT, 1.5, ("a.md", ""))
    assert kept.speaks
    assert list(session.of("b.md")) == []


def test_the_name_is_in_utc(tmp_path):
    east = dt.timezone(dt.timedelta(hours=9))
    path = keep_session(tmp_path, document(), now=NOON.astimezone(east), most=1)
    assert path.name.startswith("20260301T120000Z-")


def test_the_oldest_are_removed_and_nothing_else(tmp_path):
    (tmp_path / "notes.json").write_text("mine")
    names = [keep(tmp_path, minutes, most=3).name for minutes in range(5)]
    assert [path.name for path in session_files(tmp_path)] == names[2:]
    assert (tmp_path / "notes.json").read_text() == "mine"


def test_keeping_no_sessions_leaves_old_ones(tmp_path):
    old = keep(tmp_path)
    assert keep(tmp_path, 1, most=0) is None
    assert session_files(tmp_path) == (old,)


def test_a_folder_that_is_not_there_holds_no_sessions(tmp_path):
    assert session_files(tmp_path / "no") == ()
    with pytest.raises(RunFileError) as caught:
        find_session(tmp_path / "no", "last")
    assert str(caught.value) == (
        f"{tmp_path / 'no'}: no session is kept here; run pytest --lecture-budget (with keep-runs above 0), or name a "
        "file that --lecture-report wrote"
    )


def test_sessions_by_position_and_by_name(tmp_path):
    paths = [keep(tmp_path, minutes) for minutes in range(3)]
    for reference, path in (
        ("last", paths[2]),
        ("last~0", paths[2]),
        ("last~2", paths[0]),
        (paths[1].stem[:15], paths[1]),
        (paths[1].stem[-6:], paths[1]),
    ):
        session, faults = find_session(tmp_path, reference)
        assert (session.name, faults) == (path.stem, ())


def test_the_last_session_at_a_commit(tmp_path):
    text = document(commit="0123abc" + "4" * 33)
    keep(tmp_path, text=text)
    path = keep(tmp_path, 1, text=text)
    keep(tmp_path, 2)
    session, _ = find_session(tmp_path, "0123abc4")
    assert session.name == path.stem
    assert session.title == f"{path.stem} of 2026-03-01 12:00 UTC at 0123abc44"
    with pytest.raises(RunFileError, match="no kept session is named '0123abd'"):
        find_session(tmp_path, "0123abd")


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("last~3", "there is no session so far back; 3 kept sessions can be read"),
        ("20260301", "3 kept sessions are named '20260301'; expected last, last~1, or one of {all}"),
        ("zz", "no kept session is named 'zz'; expected last, last~1, or one of {all}"),
        ("", "3 kept sessions are named ''; expected last, last~1, or one of {all}"),
        ("last~-1", "no kept session is named 'last~-1'; expected last, last~1, or one of {all}"),
    ],
)
def test_references_that_name_no_session(tmp_path, reference, message):
    names = ", ".join(keep(tmp_path, minutes).stem for minutes in range(3))
    with pytest.raises(RunFileError) as caught:
        find_session(tmp_path, reference)
    assert str(caught.value) == f"{tmp_path}: {message.format(all=names)}"


def test_damaged_files_are_named_and_skipped(tmp_path):
    good = keep(tmp_path)
    bad = keep(tmp_path, 1, text="{")
    fault = f"{bad}: not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"
    sessions, faults = read_sessions(tmp_path)
    assert ([session.name for session in sessions], faults) == ([good.stem], (fault,))
    session, faults = find_session(tmp_path, "last")
    assert (session.name, faults) == (good.stem, (fault,))
    with pytest.raises(RunFileError) as caught:
        find_session(tmp_path, "last~1")
    assert str(caught.value) == (f"{tmp_path}: there is no session so far back; 1 kept session can be read\n{fault}")


def test_a_newer_file_is_never_skipped(tmp_path):
    keep(tmp_path)
    path = keep(tmp_path, 1, text=document().replace('"schema": 1', '"schema": 2', 1))
    for read in (lambda: read_sessions(tmp_path), lambda: find_session(tmp_path, "last~1")):
        with pytest.raises(NewerRunFileError) as caught:
            read()
        assert str(caught.value) == (
            f"{path}: schema 2 is newer than 1, the newest this version reads; update pytest-lecturecheck"
        )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "schema None is not understood; expected an object with 'schema': 1"),
        ('{"schema": 1}', "found NoneType; expected a list of runs under the key 'runs'"),
        ('{"schema": 1, "runs": [3]}', "run 1: found int; expected an object with 'run' and 'verdict'"),
        (
            '{"schema": 1, "runs": [{"run": {}, "verdict": null}]}',
            "run 1: it has no verdict; expected a document of a session",
        ),
        (
            '{"schema": 1, "runs": [{"run": {}, "verdict": {}, "seconds": "1"}]}',
            "run 1: seconds '1' is not a number of seconds",
        ),
        (
            '{"schema": 1, "runs": [{"run": {}, "verdict": {}, "seconds": 1e13}]}',
            "run 1: seconds 10000000000000.0 is not a number of seconds",
        ),
        ('{"schema": 1, "runs": [], "platform": 3}', "platform: found int; expected text"),
        ('{"schema": 1, "runs": [], "ended": "now"}', "ended: 'now' is not a time in ISO 8601"),
    ],
)
def test_documents_that_are_none(tmp_path, text, message):
    path = tmp_path / "x.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(RunFileError) as caught:
        read_session(path)
    assert str(caught.value) == f"{path}: {message}"


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        ({}, "budget: lecture missing"),
        ({"lecture": "a.md", "recorded": "x"}, "budget.recorded: found 'x'; expected a day as ISO 8601 writes it"),
        (
            {"lecture": "a.md", "metrics": {"wall_seconds": {"metric": "wall_seconds", "limit": -1}}},
            "budget.metrics.wall_seconds: wall_seconds = -1 cannot be a value or a limit: expected a finite number",
        ),
        ({"lecture": "a.md", "run_count": 10**30}, "run 1: budget.run_count: found 1e+30; expected a finite number"),
    ],
)
def test_budgets_that_are_none(tmp_path, budget, message):
    path = tmp_path / "x.json"
    plain = json.loads(document())
    plain["runs"][0]["budget"] = {"schema": 1, **budget}
    path.write_text(json.dumps(plain), encoding="utf-8")
    with pytest.raises(RunFileError) as caught:
        read_session(path)
    assert str(caught.value).startswith(f"{path}: {message}")


def test_a_document_of_an_older_version_has_no_moment(tmp_path):
    path = tmp_path / "old.json"
    path.write_text('{"schema": 1, "runs": []}')
    session = read_session(path)
    assert (session.title, session.ended, session.platform) == ("old", None, "")


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.COMPLETED])
def test_runs_that_did_not_come_to_their_end_say_nothing(tmp_path, outcome):
    (kept,) = read_session(keep(tmp_path, text=document(replace(RUN, outcome=outcome)))).runs
    assert not kept.speaks


def day_long(lecture):
    """A run of a day, with as many samples as runs keep, and two GPUs."""
    samples = tuple(
        MemorySample(seconds=43.2 * number, footprint_bytes=10**10 + 7 * number, rss_bytes=10**10, swap_bytes=10**9)
        for number in range(2000)
    )
    used = Measurement(metric=Metric.GPU_USED, value=1e10, method=Method.SAMPLED)
    devices = tuple(
        DeviceUse(
            device=Device(index=index, name="Tesla T4", total_bytes=2**34),
            used=used,
            timeline=tuple(
                DeviceSample(seconds=43.2 * number, used_bytes=10**10 + number, run_bytes=10**10)
                for number in range(2000)
            ),
        )
        for index in range(2)
    )
    return Run(lecture=lecture, platform="here", outcome=Outcome.COMPLETED, timeline=samples, devices=devices)


def test_a_run_of_a_day_stays_under_a_megabyte():
    (run,) = with_short_timelines([day_long("a.md")])
    assert len(run.timeline) == 2000
    assert len(json.dumps(run_to_dict(run))) < 10**6


def test_timelines_of_many_lectures_are_short_and_keep_peaks():
    runs = with_short_timelines([day_long("a.md")] * 200)
    assert {len(run.timeline) for run in runs} <= set(range(60, 101))
    assert {len(use.timeline) for run in runs for use in run.devices} <= set(range(30, 51))
    whole = day_long("a.md").timeline
    assert runs[0].timeline[0] == whole[0]
    assert runs[0].timeline[-1] == whole[-1]


def test_the_lightest_of_very_many_cells_are_kept_without_measurements():
    def cell(number):
        readings = {
            metric: Measurement(metric=metric, value=float(value), method=Method.EXACT)
            for metric, value in ((Metric.PEAK_FOOTPRINT, 10**7 + number), (Metric.WALL, 5001 - number))
        }
        status = CellStatus.FAILED if number == 2500 else CellStatus.OK
        return CellRun(number=number, index=number, line=number, status=status, readings=readings, output_extract="x")

    (run,) = with_short_timelines([replace(RUN, cells=tuple(map(cell, range(1, 5001))))])
    assert [item.number for item in run.cells] == list(range(1, 5001))
    assert [item.number for item in run.cells if item.readings] == [*range(1, 251), 2500, *range(4751, 5001)]
    assert len(json.dumps(run_to_dict(run), separators=(",", ":"))) < 10**6


HOME, PREFIX, ROOT = (PurePosixPath(path) for path in ("/home/ann", "/home/ann/env", "/home/ann/book"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"/home/ann/book/a.md"', '"./a.md"'),
        ('"/home/ann/book"', '"."'),
        ('"/home/ann/books/a.md"', '"~/books/a.md"'),
        ('"/home/anna/x"', '"/home/anna/x"'),
        ('"/home/ann.old/x"', '"/home/ann.old/x"'),
        ('"see /home/ann."', '"see ~."'),
        ('"File /home/ann/env/lib/x.py\\nnext"', '"File {prefix}/lib/x.py\\nnext"'),
    ],
)
def test_folders_of_the_machine_are_hidden(text, expected):
    assert hide_places(text, root=ROOT, home=HOME, prefix=PREFIX) == expected


def test_folders_of_windows_are_hidden_too():
    places = {"root": PureWindowsPath(r"C:\book"), "home": PureWindowsPath(r"C:\Users\ann")}
    value = {"a": r"C:\book\a.md, C:\Users\ann\x and C:\Users\anna"}
    hidden = json.loads(hide_places(json.dumps(value), **places, prefix=PureWindowsPath(r"C:\Python")))
    assert hidden == {"a": r".\a.md, ~\x and C:\Users\anna"}


def test_folders_that_say_nothing_stay():
    text = '"/usr/lib/python3/x.py /a"'
    top = PurePosixPath("/")
    assert hide_places(text, root=top, home=top, prefix=PurePosixPath("/usr")) == text


@given(st.text(), st.text(st.characters(categories=["Ll"]), min_size=1, max_size=3))
def test_hiding_places_leaves_json(text, name):
    folder = PurePosixPath("/home") / name
    value = {"a": f"{folder}/{text}"}
    hidden = json.loads(hide_places(json.dumps(value), root=folder / "b", home=folder, prefix=PurePosixPath("/usr")))
    assert list(hidden) == ["a"]
    assert not hidden["a"].startswith(f"{folder}/")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes on this system")
def test_a_pipe_among_them_is_not_waited_for(tmp_path):
    kept = keep(tmp_path)
    # No session ends in this microsecond: there are a million of them, which is fewer.
    os.mkfifo(tmp_path / f"{kept.stem[:-6]}ffffff.json")
    assert session_files(tmp_path) == (kept,)
