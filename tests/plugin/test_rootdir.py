"""A report outside the project must not move pytest's rootdir, and with it the budgets."""

from __future__ import annotations

import pytest

from pytest_lecturecheck.plugin.rootdir import explain_moved_rootdir

FLAGS = ["--lecture-report", "--lecture-budget-dir"]


@pytest.fixture
def outside(tmp_path_factory):
    path = tmp_path_factory.mktemp("outside") / "report.json"
    path.write_text("{}")
    return path


def test_a_report_that_moves_it_is_refused(pytester, lecture, outside):
    lecture("a.ipynb")
    result = pytester.runpytest_inprocess("--lecture-budget", "--collect-only", "--lecture-report", str(outside))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    line = (
        f"ERROR: lecturecheck: --lecture-report {outside}: pytest takes a value after a space for a path to "
        f"test, and made * its rootdir instead of {pytester.path}; write --lecture-report={outside}"
    )
    result.stderr.fnmatch_lines([line])


@pytest.mark.parametrize("joined", [True, False])
def test_a_report_that_does_not_move_it_is_accepted(pytester, lecture, outside, joined):
    lecture("a.ipynb")
    inside = pytester.path / "report.json"
    inside.write_text("{}")
    words = [f"--lecture-report={outside}"] if joined else ["--lecture-report", str(inside)]
    result = pytester.runpytest_inprocess("--lecture-budget", "--collect-only", *words)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines([f"rootdir: {pytester.path}"])


def test_a_configuration_file_keeps_it(tmp_path, outside):
    (tmp_path / "pytest.ini").touch()
    (tmp_path / "lectures").mkdir()
    words = ["--lecture-report", str(outside), "lectures"]
    where = {"flags": FLAGS, "tests": ["lectures"], "invocation_dir": tmp_path}
    assert explain_moved_rootdir(words, rootdir=tmp_path, **where) == ""
    assert "instead of" in explain_moved_rootdir(words, rootdir=tmp_path.parent, **where)


def test_options_of_other_plugins_are_ignored(tmp_path, outside):
    words = ["--junitxml", str(outside)]
    where = {"flags": FLAGS, "tests": [], "invocation_dir": tmp_path, "rootdir": tmp_path.parent}
    assert explain_moved_rootdir(words, **where) == ""
