"""A failure that is not repeated: sessions of pytest with remembered failures."""

import json
import shutil
from pathlib import Path

import pytest

from pytest_lecturecheck.store.failures import read_failures

CASE = Path(__file__).parent.parent / "cases" / "F07-fail-fast-fail-once"


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


def test_it_is_run_again_on_request_and_outside_ci(case, monkeypatch):
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
    again.stdout.re_match_lines([r"failed before, unchanged since .* UTC: AssertionError: .* \(code cell 1\)"])
    check(case, "--lecture-remember-failures", "--lecture-rerun-failed").assert_outcomes(passed=1)
    check(case, "--lecture-remember-failures").assert_outcomes(passed=1)


def test_recording_and_the_settings_file_switch_it_off(case):
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


def test_collecting_creates_no_file(case):
    case.runpytest_inprocess("--collect-only", "--lecture-budget")
    case.runpytest_inprocess()
    assert not (case.path / ".lecturecheck").exists()
