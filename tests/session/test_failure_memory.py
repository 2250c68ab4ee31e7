"""Which failures are remembered, and what a later session makes of them."""

import errno
from dataclasses import replace

import pytest
from support.made_records import made_evidence, made_run

from pytest_lecturecheck.diagnosis import Cause, CauseKind
from pytest_lecturecheck.model.cell_run import CellError, CellRun, CellStatus
from pytest_lecturecheck.model.evidence import Evidence
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.session.failure_memory import (
    RERUN_ADVICE,
    FailureMemory,
    is_ci,
    is_worth_remembering,
    repeat_verdict,
)
from pytest_lecturecheck.store.failures import NewerFailuresError
from pytest_lecturecheck.verdict import Verdict, VerdictKind

SUBJECT = ("intro.md", "", "linux-x86_64-cpu")
FAILED = Verdict(kind=VerdictKind.FAILED, failed=True, headline="code cell 1 raised ValueError", notes=("a note",))
PASSED = Verdict(kind=VerdictKind.WITHIN, failed=False, headline="within")
RUN = made_run(
    lecture="intro.md",
    platform="linux-x86_64-cpu",
    outcome=Outcome.FAILED,
    cells=(CellRun(number=1, index=0, line=3, status=CellStatus.FAILED),),
    evidence=Evidence(cell_number=1, error=CellError(name="ValueError", value="no")),
    started="2026-11-29T19:30:05+01:00",
)

FAILURE = Entry(run=RUN, verdict=FAILED)
PASS = Entry(run=replace(RUN, outcome=Outcome.COMPLETED, evidence=None), verdict=PASSED)


def memory(rootdir, *, is_on=True, recalls=True, writes=True):
    made = FailureMemory(rootdir=rootdir, is_on=is_on, recalls=recalls, writes=writes)
    made.load()
    return made


@pytest.fixture
def rootdir(tmp_path):
    (tmp_path / "intro.md").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, False),
        ({"CI": ""}, False),
        ({"CI": "0"}, False),
        ({"CI": "False"}, False),
        ({"CI": "true"}, True),
        ({"CI": "1"}, True),
        ({"CI": "woodpecker"}, True),
    ],
)
def test_ci_is_detected_by_its_variable(environ, expected):
    assert is_ci(environ) is expected


def test_a_repeated_failure_still_fails():
    repeated = repeat_verdict(FAILED, RUN.launch.started)
    assert repeated == Verdict(
        kind=VerdictKind.FAILED_BEFORE,
        failed=True,
        headline="failed before, unchanged since 2026-11-29 18:30 UTC: code cell 1 raised ValueError",
        notes=("a note", RERUN_ADVICE),
    )
    assert repeat_verdict(replace(FAILED, failed=False), "").failed
    assert repeat_verdict(FAILED, "").headline.startswith("failed before, unchanged since an unknown time: ")


def test_the_next_session_recalls_a_failure(rootdir):
    memory(rootdir).note([FAILURE], "k1")
    known = memory(rootdir).recall(SUBJECT, "k1")
    assert known == Entry(run=RUN, verdict=repeat_verdict(FAILED, RUN.launch.started))
    assert memory(rootdir).recall(SUBJECT, "k2") is None
    assert memory(rootdir).recall(("other.md", "", "linux-x86_64-cpu"), "k1") is None


def test_nothing_is_recalled_while_recording_or_rerunning(rootdir):
    memory(rootdir).note([FAILURE], "k1")
    assert memory(rootdir, recalls=False).recall(SUBJECT, "k1") is None


def test_a_memory_that_is_off_writes_nothing(rootdir):
    memory(rootdir, is_on=False).note([FAILURE], "k1")
    assert [path.name for path in rootdir.iterdir()] == ["intro.md"]


def test_a_worker_reads_and_does_not_write(rootdir):
    memory(rootdir, writes=False).note([FAILURE], "k1")
    assert memory(rootdir).recall(SUBJECT, "k1") is None
    memory(rootdir).note([FAILURE], "k1")
    assert memory(rootdir, writes=False).recall(SUBJECT, "k1") is not None


def test_a_pass_clears(rootdir):
    memory(rootdir).note([FAILURE], "k1")
    memory(rootdir).note([PASS], "")
    assert memory(rootdir).recall(SUBJECT, "k1") is None


def test_a_recalled_failure_changes_nothing(rootdir):
    memory(rootdir).note([FAILURE], "k1")
    again = memory(rootdir)
    again.note([again.recall(SUBJECT, "k1")], "")
    assert memory(rootdir).recall(SUBJECT, "k1").run.launch.started == RUN.launch.started


def test_the_failing_run_of_several_is_remembered(rootdir):
    memory(rootdir).note([PASS, replace(FAILURE, run=replace(RUN, repeat=2))], "k1")
    assert memory(rootdir).recall(SUBJECT, "k1").run.repeat == 2


@pytest.mark.parametrize("outcome", [Outcome.STOPPED, Outcome.SKIPPED])
def test_stopped_and_skipped_runs_change_nothing(rootdir, outcome):
    memory(rootdir).note([FAILURE], "k1")
    memory(rootdir).note([replace(FAILURE, run=replace(RUN, outcome=outcome))], "k2")
    assert memory(rootdir).recall(SUBJECT, "k1") is not None


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.TIMED_OUT, Outcome.DIED])
def test_failures_of_the_lecture_are_remembered(outcome):
    assert is_worth_remembering(replace(FAILURE, run=replace(RUN, outcome=outcome)))


@pytest.mark.parametrize("outcome", [Outcome.COMPLETED, Outcome.NOT_STARTED, Outcome.STOPPED, Outcome.NOTHING_TO_RUN])
def test_other_failures_are_not_remembered(outcome):
    over = Verdict(kind=VerdictKind.OVER, failed=True, headline="over")
    assert not is_worth_remembering(Entry(run=replace(RUN, outcome=outcome), verdict=over))


@pytest.mark.parametrize(
    "kind",
    [
        CauseKind.KILLED,
        CauseKind.TIMED_OUT_STARVED,
        CauseKind.PREALLOCATION_RACE,
        CauseKind.LEFTOVER_HOLDER,
        CauseKind.OTHER_TENANT,
        CauseKind.DEVICE_NOT_USABLE,
        CauseKind.DRIVER_ERROR,
    ],
)
def test_deaths_caused_by_others_are_not_remembered(kind):
    verdict = Verdict(kind=VerdictKind.DIED, failed=True, headline="died", cause=Cause(kind=kind, headline="died"))
    died = replace(RUN, outcome=Outcome.DIED, evidence=made_evidence(cell_number=1, signal=6))
    assert not is_worth_remembering(Entry(run=died, verdict=verdict))
    own = replace(verdict, cause=Cause(kind=CauseKind.NATIVE_CRASH, headline="died"))
    assert is_worth_remembering(Entry(run=died, verdict=own))


@pytest.mark.parametrize("name", ["FileNotFoundError", "ModuleNotFoundError", "URLError", "ConnectionError"])
def test_errors_about_something_outside_are_not_remembered(name):
    evidence = Evidence(cell_number=1, error=CellError(name=name, value="no"))
    assert not is_worth_remembering(replace(FAILURE, run=replace(RUN, evidence=evidence)))


@pytest.mark.parametrize(("number", "remembered"), [(errno.EADDRINUSE, False), (errno.ENOSPC, False), (9999, True)])
def test_a_momentary_shortage_is_not_remembered(number, remembered):
    evidence = Evidence(cell_number=1, error=CellError(name="OSError", value=f"[Errno {number}] no"))
    assert is_worth_remembering(replace(FAILURE, run=replace(RUN, evidence=evidence))) is remembered


def test_a_damaged_file_is_renamed_with_a_warning(rootdir):
    memory(rootdir).note([FAILURE], "k1")
    path = rootdir / ".lecturecheck" / "failures.json"
    path.write_text("{")
    opened = memory(rootdir)
    assert opened.recall(SUBJECT, "k1") is None
    (warning,) = opened.warnings
    assert warning == (
        f"remembered failures are not used: {path}: not JSON: Expecting property name enclosed in double quotes: "
        "line 1 column 2 (char 1). The file is now .lecturecheck/failures.json.damaged; every lecture is run again"
    )
    assert path.with_name("failures.json.damaged").read_text() == "{"
    assert memory(rootdir).warnings == []


def test_a_newer_file_stops_the_session(rootdir):
    memory(rootdir).note([FAILURE], "k1")
    (rootdir / ".lecturecheck" / "failures.json").write_text('{"schema": 9}')
    with pytest.raises(NewerFailuresError):
        memory(rootdir)


def test_a_folder_that_cannot_be_created_is_a_warning(rootdir):
    (rootdir / ".lecturecheck").write_text("a file")
    opened = FailureMemory(rootdir=rootdir, is_on=True, recalls=True, writes=True)
    opened.note([FAILURE], "k1")
    opened.note([FAILURE], "k1")
    (only,) = opened.warnings
    assert only.startswith("failures are not remembered: ")
