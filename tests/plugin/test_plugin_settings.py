"""
Options and settings: what is wrong with them is said before any kernel starts.

Sessions that start kernels run in processes of their own: pytester forgets the modules of a session in its process.
"""

import json

import pytest


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ["--lecture-budget", "--lecture-record"],
            "--lecture-budget and --lecture-record cannot be given together: check, or record",
        ),
        (["--lecture-budget", "--lecture-runs=0"], "--lecture-runs: '0' is not a whole number of at least 1"),
        (["--lecture-budget", "--lecture-runs=two"], "--lecture-runs: 'two' is not a whole number of at least 1"),
        (["--lecture-budget", "--lecture-timeout=nan"], "--lecture-timeout: 'nan' is not a number of seconds"),
        (["--lecture-budget", "--lecture-timeout=soon"], "--lecture-timeout: *'soon'*"),
        (["--lecture-budget", "--lecture-declared-memory=24"], "--lecture-declared-memory: *'24'*"),
        (["--lecture-budget", "--lecture-declared-memory=24 Gb"], "--lecture-declared-memory: *'24 Gb'*"),
        (["--lecture-budget", "--lecture-declared-time=5"], "--lecture-declared-time: *'5'*"),
        (["--lecture-budget", "--lecture-platform=../x"], "--lecture-platform: *'../x'*"),
        (
            ["--lecture-budget", "--lecture-suffix=md"],
            "--lecture-suffix: suffix 'md' cannot be added; expected for example '.qmd', '.Rmd' or '.py'",
        ),
        (
            ["--lecture-budget", "--lecture-concurrency=1,0"],
            "--lecture-concurrency: concurrency '1,0' is not understood: expected numbers of kernels from 1 to 64, *",
        ),
        (["--lecture-budget", "--lecture-report=x.pdf"], "--lecture-report: report 'x.pdf' has no known format; *"),
    ],
)
def test_invalid_options_are_reported(pytester, lecture, args, message):
    lecture("lecture.ipynb", "open('ran', 'w')")
    result = pytester.runpytest_inprocess(*args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.re_match_lines(["ERROR: lecturecheck: --lecture-"])
    result.stderr.fnmatch_lines([f"ERROR: lecturecheck: {message.replace('[', '[[]')}"])
    assert not (pytester.path / "ran").exists()


@pytest.mark.parametrize(
    ("name", "head"),
    [("pyproject", "[tool.lecturecheck]\n"), ("lecturecheck", "")],
)
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "time-out = 3",
            "unknown key 'time-out'; did you mean timeout[?] expected one of suffix, exclude, *",
        ),
        ("budget = true", "unknown key 'budget'; did you mean budget-dir[?] expected one of *"),
        ("strict = 'yes'", "strict: 'yes' is neither true nor false"),
        ("exclude = 'x'", "exclude: 'x' is not a list"),
        ("memory-fraction = nan", "memory-fraction: nan is not a number of at least 0"),
        ("memory-slack = 64", "memory-slack: *64*"),
        ("concurrency = [1, 'x']", "concurrency: concurrency [[]1, 'x'] is not understood: *"),
        ("cohort.x.lecture = 3", "cohort: [[]cohort.x]: unknown key 'lecture'; expected: lectures"),
        (
            "cohort.x.lectures = ['no.md']\nvariant.x.gpu = 'cpu'",
            "[[]cohort.x] and [[]variant.x] would share a budget; give one another name",
        ),
        ("cohort.x.lectures = ['no.md']", "[[]cohort.x]: there is no lecture 'no.md' below rootdir *"),
        ("keep-runs = '3'", "keep-runs: '3' is text; expected a whole number, without quotes"),
        ("runs = '3'", "runs: '3' is text; expected a whole number, without quotes"),
        ("runs = true", "runs: True is not a whole number of at least 1"),
    ],
)
def test_invalid_settings_are_reported(pytester, lecture, name, head, body, message):
    lecture("lecture.ipynb")
    pytester.makefile(".toml", **{name: head + body})
    result = pytester.runpytest_inprocess("--lecture-budget", "--rootdir=.")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    shown = "pyproject.toml [[]tool.lecturecheck]" if head else "lecturecheck.toml"
    result.stderr.fnmatch_lines([f"ERROR: lecturecheck: {shown}: {message}"])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--lecture-budget", "--lecture-report=taken.md"], "report *taken.md is a folder; expected a file"),
        (
            ["--lecture-budget", "--lecture-report=lecture.ipynb/r.html"],
            "report *r.html cannot be written: *lecture.ipynb is a file; expected a folder",
        ),
        (["--lecture-budget", "--lecture-history=no.report"], "--lecture-history: history 'no.report' is not named *"),
        (
            ["--lecture-budget", "--lecture-history=report.md/h.jsonl"],
            "history *h.jsonl cannot be written: *report.md is a file; expected a folder",
        ),
        (["--lecture-budget"], "the budget folder *lecture-budgets is a file; expected a folder"),
        (["--lecture-record"], "the budget folder *lecture-budgets is a file; expected a folder"),
    ],
)
def test_outputs_that_cannot_be_written_stop_the_session(pytester, lecture, args, message):
    lecture("lecture.ipynb", "open('ran', 'w')")
    pytester.mkdir("taken.md")
    pytester.path.joinpath("report.md").write_text("", encoding="utf-8")
    if "report" not in args[-1]:
        pytester.path.joinpath("lecture-budgets").write_text("", encoding="utf-8")
    result = pytester.runpytest_inprocess(*args, "--rootdir=.")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: lecturecheck: {message}"])
    assert not (pytester.path / "ran").exists()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("strict = = 1", "*line 1*"),
        ("runs = 1" + "0" * 5000, "Exceeds the limit*"),
        ("env = " + "[" * 5000 + "]" * 5000, "*recursion*"),
    ],
)
def test_settings_that_are_not_toml(pytester, lecture, text, problem):
    lecture("lecture.ipynb")
    pytester.makefile(".toml", lecturecheck=text)
    result = pytester.runpytest_inprocess("--lecture-budget", "--rootdir=.")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    # Garbage of earlier tests that is collected in the depth of a recursion prints something before it.
    result.stderr.fnmatch_lines([f"*ERROR: lecturecheck: lecturecheck.toml: cannot be read as TOML: {problem}"])


def test_precedence_of_timeouts(pytester, lecture):
    """The source of the limit that a lecture's endless cell meets: each source is short, the weaker ones too long."""
    endless = "while True: pass"
    lecture("book/own.ipynb", endless, execution={"timeout": 1})
    lecture("book/plain.ipynb", endless)
    pytester.path.joinpath("book", "_config.yml").write_text("execute:\n  timeout: 2\n", encoding="utf-8")
    report = pytester.path / "r.json"

    def limits(*args):
        pytester.runpytest_inprocess("--lecture-budget", "--rootdir=.", f"--lecture-report={report}", *args)
        runs = [item["run"] for item in json.loads(report.read_text(encoding="utf-8"))["runs"]]
        return {run["lecture"]: run["evidence"]["timeout_seconds"] for run in runs}

    assert limits("book") == {"book/own.ipynb": 1, "book/plain.ipynb": 2}
    pytester.makefile(".toml", lecturecheck="timeout = 1.5")
    assert limits("book/plain.ipynb") == {"book/plain.ipynb": 1.5}
    given = limits("--lecture-timeout=0.5", "book")
    assert given == {"book/own.ipynb": 1, "book/plain.ipynb": 0.5}


def test_a_replaced_flag_is_reported_in_failure_and_summary(pytester, lecture):
    lecture("lecture.ipynb", "while True: pass", execution={"timeout": 1})
    lecture("other.ipynb", "1", execution={"timeout": 1})
    result = pytester.runpytest_inprocess("--lecture-budget", "--rootdir=.", "--lecture-timeout=30", "--lecture-runs=2")
    text = "timeout 1 from {}.ipynb, line *, instead of --lecture-timeout 30"
    result.stdout.fnmatch_lines(
        ["*FAILURES*", f"*{text.format('lecture')}", "*= lectures =*", f"*{text.format('other')}"]
    )
    assert result.stdout.str().count("from other.ipynb") == 1


def test_a_package_that_does_not_fit_fails_the_session(pytester, lecture):
    for name in ("a.ipynb", "b.ipynb"):
        lecture(name, "import time; time.sleep(1.2)")
    result = pytester.runpytest_inprocess("--lecture-budget", "--rootdir=.", "--lecture-declared-time=2.2 s")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*total wall time *, declared 2.2 s: * over *"])


def test_allowed_errors_fail_under_strict_unless_excepted(pytester, lecture):
    lecture("lecture.ipynb", "import no_such_module_at_all", execution={"allow_errors": True})
    pytester.runpytest_inprocess("--lecture-record", "--rootdir=.", "--lecture-runs=1").assert_outcomes(passed=1)
    args = ("--lecture-budget", "--rootdir=.", "--lecture-strict")
    result = pytester.runpytest_inprocess(*args)
    result.stdout.fnmatch_lines(["strict: 1 of 1 cells raised and the lecture went on (allow_errors), *"])
    result.assert_outcomes(failed=1)
    result = pytester.runpytest_inprocess(*args, "--lecture-strict-except=allowed-error")
    result.stdout.fnmatch_lines(["*1 of 1 cells raised and the lecture went on*"])
    result.assert_outcomes(passed=1)


def test_recording_under_strict_leaves_out_lectures_with_strict_findings(pytester, lecture):
    lecture("good.ipynb", "x = 1")
    lecture("loose.ipynb", "!exit 3")
    args = ("--lecture-record", "--rootdir=.", "--lecture-strict", "--lecture-runs=1", "--lecture-platform=here")
    result = pytester.runpytest_inprocess(*args)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["strict: shell line 'exit 3' ended with code 3 *"])
    result.stdout.fnmatch_lines(["not recorded, because a finding failed it under --lecture-strict: loose.ipynb"])
    budgets = pytester.path / "lecture-budgets" / "here.toml"
    assert "loose.ipynb" not in budgets.read_text(encoding="utf-8")
    result = pytester.runpytest_inprocess(*args, "--lecture-strict-except=shell", "loose.ipynb")
    result.assert_outcomes(passed=1)
    assert '"loose.ipynb"' in budgets.read_text(encoding="utf-8")


def test_a_strict_finding_without_a_cell_has_its_line(pytester, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    header = "# ---\n# jupyter:\n#   kernelspec:\n#     name: python3\n# ---\n"
    pytester.path.joinpath("quiet.py").write_text(f"{header}\n# %%\nx = 1\n\n# %% [markdown]\n# Text\nassert x\n")
    args = ("--lecture-budget", "--rootdir=.", "--lecture-strict", "--lecture-declared-memory=1GB", "--junitxml=j.xml")
    result = pytester.runpytest_inprocess(*args, "quiet.py")
    result.stdout.fnmatch_lines(["quiet.py:12", "*> * 12 | assert x", "::error file=quiet.py,line=12,*"])
    assert 'name="lecturecheck.line" value="12"' in pytester.path.joinpath("j.xml").read_text(encoding="utf-8")


def test_an_override_wins_over_a_lectures_own_value(pytester, lecture):
    lecture("lecture.ipynb", "while True: pass", execution={"timeout": 60})
    result = pytester.runpytest_inprocess("--lecture-budget", "--rootdir=.", "--lecture-override=timeout=0.5")
    result.stdout.fnmatch_lines(["*0.5 s*"])
    result.assert_outcomes(failed=1)


def test_settings_from_pyproject_hold(pytester, lecture):
    lecture("lecture.ipynb")
    lecture("left.ipynb")
    text = "[tool.lecturecheck]\nplatform = 'my-machine'\nexclude = ['left*']\nbudget-dir = 'b'\nruns = 2\n"
    pytester.makefile(".toml", pyproject=text)
    result = pytester.runpytest_inprocess("--lecture-record", "--rootdir=.")
    result.assert_outcomes(passed=1)
    written = (pytester.path / "b" / "my-machine.toml").read_text(encoding="utf-8")
    assert "\nruns = 2\n" in written
    assert "left.ipynb" not in written
