"""Cells that a session chooses by number or by its kept sessions."""

import datetime as dt
from dataclasses import replace

import pytest
from support.benches import lecture
from support.kept_documents import keep
from support.made_records import made_evidence

from pytest_lecturecheck.config.option_values import read_captured_cell, read_last_cell
from pytest_lecturecheck.config.options import Mode, resolve
from pytest_lecturecheck.errors import SettingsError
from pytest_lecturecheck.model.cell_run import CellRun, CellStatus
from pytest_lecturecheck.model.metric import Measurement, Method, Metric
from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.session.cell_lookup import findings_of_cohort, slice_of
from pytest_lecturecheck.verdict import Verdict, VerdictKind
from pytest_lecturecheck.verdict.kept_session import KeptRun, KeptSession

CELLS = ("a = 1", "b = 2", "c = 3")


def sliced(folder, **given):
    settings = resolve({"budget": True, **given}, folder, folder)
    return slice_of(lecture(folder, *CELLS), "", settings, folder)


def cell(number, mib):
    found = Measurement(metric=Metric.PEAK_FOOTPRINT, value=mib * 2.0**20, method=Method.EXACT, source="VmHWM")
    readings = {Metric.PEAK_FOOTPRINT: found}
    return CellRun(number=number, index=number - 1, line=None, status=CellStatus.OK, readings=readings)


def keep_run(folder, run, minute):
    verdict = Verdict(kind=VerdictKind.WITHIN, failed=False, headline="")
    ended = dt.datetime(2026, 1, 1, 0, minute, tzinfo=dt.UTC)
    keep(folder, KeptSession(name="", platform="p", runs=(KeptRun(run=run, verdict=verdict),), ended=ended))


RUN = Run(lecture="lecture.md", platform="p", outcome=Outcome.COMPLETED, cells=(cell(1, 1), cell(2, 90), cell(3, 2)))


def test_cells_after_the_last_one_are_left_out(tmp_path):
    part = sliced(tmp_path, until=read_last_cell("2"))
    assert part.until_cell == 2
    assert [item.skip_reason for item in part.lecture.cells] == ["", "", "after code cell 2 (--lecture-until)"]


def test_several_kernels_at_once_are_not_captured_and_it_is_said(tmp_path):
    given = {"replay-capture": read_captured_cell("2"), "until": read_last_cell("2")}
    asked = findings_of_cohort(resolve({"budget": True, **given}, tmp_path, tmp_path))

    assert asked[0].message.startswith("no state was saved for a replay: lectures with several kernels at once")
    assert asked[1].message.startswith("the whole lecture was run: --lecture-until does not stop lectures")
    assert findings_of_cohort(resolve({"budget": True}, tmp_path, tmp_path)) == ()


@pytest.mark.parametrize("number", ["3", "9"])
def test_a_last_cell_at_the_end_leaves_nothing_out(tmp_path, number):
    part = sliced(tmp_path, until=read_last_cell(number))
    assert (part.until_cell, part.findings) == (None, ())


def test_without_kept_sessions_the_whole_lecture_runs_and_says_so(tmp_path):
    part = sliced(tmp_path, until=read_last_cell("heaviest"))
    assert part.until_cell is None
    assert part.findings[0].message == (
        "the whole lecture was run: no kept session has a run of it whose heaviest cell is known; run it once before, "
        "or name the cell by its number"
    )


def test_the_latest_run_names_heaviest_and_failing_cells(tmp_path):
    keep_run(tmp_path, RUN, 1)
    keep_run(tmp_path, replace(RUN, outcome=Outcome.DIED, evidence=made_evidence(cell_number=3, signal=9)), 2)
    assert sliced(tmp_path, until=read_last_cell("heaviest")).until_cell == 2
    capture = sliced(tmp_path, **{"replay-capture": read_captured_cell("failing")}).capture
    assert (capture.cell_number, capture.limit_bytes) == (3, 4 * 10**9)
    assert capture.folder.relative_to(tmp_path).as_posix().startswith(".lecturecheck/replay/lecture.md-")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"replay-capture": read_captured_cell("7")}, "the lecture has 3 code cells"),
        (
            {"replay-capture": read_captured_cell("3"), "until": read_last_cell("1")},
            "code cell 3 does not run: after code cell 1 (--lecture-until)",
        ),
    ],
)
def test_cells_that_cannot_be_captured_are_reported(tmp_path, given, why):
    part = sliced(tmp_path, **given)
    assert part.capture is None
    assert part.findings[0].message == f"no state was saved for a replay: {why}"


@pytest.mark.parametrize("flag", ["replay-capture", "until"])
def test_parts_and_captures_are_not_recorded(tmp_path, flag):
    with pytest.raises(SettingsError, match=rf"--lecture-{flag} and --lecture-record cannot be given together"):
        resolve({"record": True, flag: read_last_cell("1")}, tmp_path, tmp_path)
    assert resolve({"record": True}, tmp_path, tmp_path).mode is Mode.RECORD


@pytest.mark.parametrize("value", ["0", "first", "", True, "1.5", "failing"])
def test_choices_that_mean_no_cell_are_refused(value):
    with pytest.raises(SettingsError, match="is not understood; expected the number of a code cell"):
        read_last_cell(value)
