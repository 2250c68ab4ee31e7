import errno
import json
import shutil
from dataclasses import replace
from pathlib import Path

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
from pytest_lecturecheck.store.failures import NewerFailuresError, read_failures
from pytest_lecturecheck.verdict import Verdict, VerdictKind

CASE = Path(__file__).parent.parent / "cases" / "F07-fail-fast-fail-once"
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
def test_a_ci_job_is_known_by_the_variable_that_all_services_set(environ, expected):
    assert is_ci(environ) is expected


def test_a_failure_is_said_again_as_a_failure():
    said = repeat_verdict(FAILED, RUN.launch.started)
    assert said == Verdict(
        kind=VerdictKind.FAILED_BEFORE,
        failed=True,
        headline="failed before, unchanged since 2026-11-29 18:30 UTC: code cell 1 raised ValueError",
        notes=("a note", RERUN_ADVICE),
    )
    assert repeat_verdict(replace(FAILED, failed=False), "").failed
    assert repeat_verdict(FAILED, "").headline.startswith("failed before, unchanged since an unknown time: ")


def test_the_next_session_recalls_what_this_one_noted(rootdir):
    memory(rootdir).note([FAILURE], "k1")
    known = memory(rootdir).recall(SUBJECT, "k1")
    assert known == Entry(run=RUN, verdict=repeat_verdict(FAILED, RUN.launch.started))
    assert memory(rootdir).recall(SUBJECT, "k2") is None
    assert memory(rootdir).recall(("other.md", "", "linux-x86_64-cpu"), "k1") is None


def test_a_session_that_records_or_runs_again_recalls_nothing(rootdir):
    memory(rootdir).note([FAILURE], "k1")
    assert memory(rootdir, recalls=False).recall(SUBJECT, "k1") is None


def test_a_memory_that_is_off_leaves_no_trace(rootdir):
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


def test_a_failure_said_again_neither_clears_nor_renews(rootdir):
    memory(rootdir).note([FAILURE], "k1")
    again = memory(rootdir)
    again.note([again.recall(SUBJECT, "k1")], "")
    assert memory(rootdir).recall(SUBJECT, "k1").run.launch.started == RUN.launch.started


def test_of_several_runs_the_failing_one_is_remembered(rootdir):
    memory(rootdir).note([PASS, replace(FAILURE, run=replace(RUN, repeat=2))], "k1")
    assert memory(rootdir).recall(SUBJECT, "k1").run.repeat == 2


@pytest.mark.parametrize("outcome", [Outcome.STOPPED, Outcome.SKIPPED])
def test_a_run_that_says_nothing_changes_nothing(rootdir, outcome):
    memory(rootdir).note([FAILURE], "k1")
    memory(rootdir).note([replace(FAILURE, run=replace(RUN, outcome=outcome))], "k2")
    assert memory(rootdir).recall(SUBJECT, "k1") is not None


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.TIMED_OUT, Outcome.DIED])
def test_bad_ends_of_the_lecture_are_remembered(outcome):
    assert is_worth_remembering(replace(FAILURE, run=replace(RUN, outcome=outcome)))


@pytest.mark.parametrize("outcome", [Outcome.COMPLETED, Outcome.NOT_STARTED, Outcome.STOPPED, Outcome.NOTHING_TO_RUN])
def test_other_failures_are_not(outcome):
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
def test_deaths_that_others_are_the_cause_of_are_not_remembered(kind):
    verdict = Verdict(kind=VerdictKind.DIED, failed=True, headline="died", cause=Cause(kind=kind, headline="died"))
    died = replace(RUN, outcome=Outcome.DIED, evidence=made_evidence(cell_number=1, signal=6))
    assert not is_worth_remembering(Entry(run=died, verdict=verdict))
    own = replace(verdict, cause=Cause(kind=CauseKind.NATIVE_CRASH, headline="died"))
    assert is_worth_remembering(Entry(run=died, verdict=own))


@pytest.mark.parametrize("name", ["FileNotFoundError", "ModuleNotFoundError", "URLError", "ConnectionError"])
def test_errors_about_the_world_outside_are_not_remembered(name):
    evidence = Evidence(cell_number=1, error=CellError(name=name, value="no"))
    assert not is_worth_remembering(replace(FAILURE, run=replace(RUN, evidence=evidence)))


@pytest.mark.parametrize(("number", "remembered"), [(errno.EADDRINUSE, False), (errno.ENOSPC, False), (9999, True)])
def test_what_others_hold_at_that_moment_is_not_remembered(number, remembered):
    evidence = Evidence(cell_number=1, error=CellError(name="OSError", value=f"[Errno {number}] no"))
    assert is_worth_remembering(replace(FAILURE, run=replace(RUN, evidence=evidence))) is remembered


def test_a_damaged_file_is_set_aside_and_said_to_be(rootdir):
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


def test_a_folder_that_cannot_be_made_is_a_warning(rootdir):
    (rootdir / ".lecturecheck").write_text("a file")
    opened = FailureMemory(rootdir=rootdir, is_on=True, recalls=True, writes=True)
    opened.note([FAILURE], "k1")
    opened.note([FAILURE], "k1")
    (only,) = opened.warnings
    assert only.startswith("failures are not remembered: ")


# -- sessions of pytest -----------------------------------------------------------------------------------------------


@pytest.fixture
def case(pytester, monkeypatch):
    """The case's lectures in a folder of their own, as a CI job finds them."""
    monkeypatch.setenv("CI", "true")
    pytester.makeini("[pytest]")
    for path in CASE.iterdir():
        shutil.copy(path, pytester.path)
    return pytester


def check(pytester, *arguments):
    # The good cells take no time, but a busy machine may let them wait.
    start = pytester.runpytest_subprocess if "-n1" in arguments else pytester.runpytest_inprocess
    return start("--lecture-budget", "--lecture-timeout", "5", "--junitxml", "o.xml", *arguments)


def test_f07_fail_fast_fail_once(case):
    first = check(case)
    first.assert_outcomes(passed=2, failed=1)
    first.stdout.re_match_lines([r"code cell 1 timed out after 5 s \(line 8\): .*"])

    for _ in range(2):
        again = check(case)
        again.assert_outcomes(passed=2, failed=1)
        again.stdout.re_match_lines(
            [
                r"failed before, unchanged since \d{4}-\d\d-\d\d \d\d:\d\d UTC: code cell 1 timed out after 5 s .*",
                r"bad\.ipynb:8: code cell 1 of 1, which starts at line 7",
                r".*8 \| time\.sleep\(60\)",
                r"bad\.ipynb +failed before .*",
                r"3 lectures: 1 failed before, 2 no budget; 2 cells run; .*",
            ]
        )

    bad = case.path / "bad.ipynb"
    bad.write_text(bad.read_text().replace("sleep(60)", "sleep(0)"))
    edited = check(case)
    edited.assert_outcomes(passed=3)
    assert read_failures(case.path / ".lecturecheck" / "failures.json") == {}


def test_it_can_be_run_again_and_does_not_happen_on_other_machines(case, monkeypatch):
    """A failure that goes away only when it is asked: the lecture looks at a file that does not count as its input."""
    notebook = json.loads((case.path / "good1.ipynb").read_text())
    notebook["cells"][0]["source"] = "import pathlib\nassert pathlib.Path('mended.flag').exists()"
    for path in case.path.glob("*.ipynb"):
        path.unlink()
    (case.path / "flaky.ipynb").write_text(json.dumps(notebook))

    monkeypatch.setenv("CI", "false")
    check(case).assert_outcomes(failed=1)
    assert not (case.path / ".lecturecheck" / "failures.json").exists()
    check(case, "--lecture-remember-failures", "-n1").assert_outcomes(failed=1)
    (case.path / "mended.flag").touch()
    again = check(case, "--lecture-remember-failures", "-n1")
    again.assert_outcomes(failed=1)
    again.stdout.re_match_lines([r"failed before, unchanged since .* UTC: AssertionError \(code cell 1\)"])
    check(case, "--lecture-remember-failures", "--lecture-rerun-failed").assert_outcomes(passed=1)
    check(case, "--lecture-remember-failures").assert_outcomes(passed=1)


def test_recording_skips_nothing_and_the_file_settings_switch_it_off(case):
    for name in ("good1.ipynb", "good2.ipynb"):
        (case.path / name).unlink()
    (case.path / "lecturecheck.toml").write_text("remember-failures = true\n")
    check(case, "--lecture-timeout=1").assert_outcomes(failed=1)
    recorded = case.runpytest_inprocess("--lecture-record", "--lecture-timeout", "1")
    recorded.assert_outcomes(failed=1)
    recorded.stdout.re_match_lines([r"bad\.ipynb +timed out .*"])
    (case.path / "lecturecheck.toml").write_text("remember-failures = false\n")
    check(case, "--lecture-timeout=1").stdout.re_match_lines([r"bad\.ipynb +timed out .*"])


def test_a_newer_memory_is_a_usage_error(case):
    folder = case.path / ".lecturecheck"
    folder.mkdir()
    (folder / "failures.json").write_text('{"schema": 2}')
    result = check(case)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: lecturecheck: *failures.json: schema 2 is newer than 1, *"])


def test_nothing_is_made_where_nothing_runs(case):
    case.runpytest_inprocess("--collect-only", "--lecture-budget")
    case.runpytest_inprocess()
    assert not (case.path / ".lecturecheck").exists()
