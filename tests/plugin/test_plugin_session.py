"""The session: pytest's own options, what is told to others, and how it ends."""

import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

CI_SAFE = ("-p", "no:cacheprovider")


def test_stop_at_the_first_failure(pytester, lecture):
    lecture("a.ipynb", "1 / 0")
    lecture("b.ipynb", "open('b_ran', 'w')")
    result = pytester.runpytest_inprocess("--lecture-budget", "-x")
    result.assert_outcomes(failed=1)
    assert not (pytester.path / "b_ran").exists()


def test_what_failed_last_runs_again(pytester, lecture):
    path = lecture("a.ipynb", "1 / 0")
    lecture("b.ipynb")
    pytester.runpytest_inprocess("--lecture-budget").assert_outcomes(failed=1, passed=1)
    path.write_text(path.read_text(encoding="utf-8").replace("1 / 0", "1 / 1"), encoding="utf-8")
    pytester.runpytest_inprocess("--lecture-budget", "--lf").assert_outcomes(passed=1)


def test_without_a_terminal_or_xdist(pytester, lecture):
    lecture("a.ipynb", "1 / 0")
    lecture("b.ipynb")
    result = pytester.runpytest_inprocess(
        "--lecture-budget",
        "-p",
        "no:terminal",
        "-p",
        "no:xdist",
        *(f"--lecture-report=r.{form}" for form in ("json", "md", "html")),
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "".join(result.outlines) == ""
    verdicts = [run["verdict"]["kind"] for run in json.loads(Path("r.json").read_text(encoding="utf-8"))["runs"]]
    assert verdicts == ["failed", "no budget"]
    assert "ZeroDivisionError: division by zero" in Path("r.md").read_text(encoding="utf-8")
    page = Path("r.html").read_text(encoding="utf-8")
    assert "<title>Lecture check: 1 of 2 lectures failed</title>" in page
    assert '"title":"Memory over time"' in page or sys.platform != "linux"


def test_a_quiet_session(pytester, lecture):
    lecture("a.ipynb")
    result = pytester.runpytest_inprocess("--lecture-budget", "-q")
    assert result.outlines[-1].startswith("1 passed in ")
    assert not [line for line in result.outlines if "\x1b" in line]


def test_collecting_only_writes_nothing(pytester, lecture):
    lecture("a.ipynb")
    pytester.path.joinpath("r.json").write_text("of an earlier session", encoding="utf-8")
    for mode in ("--lecture-budget", "--lecture-record"):
        result = pytester.runpytest_inprocess(mode, "--collect-only", "-q", "--lecture-report=r.json")
        assert result.ret == pytest.ExitCode.OK
        assert not [line for line in result.outlines if "lectures" in line]
    assert Path("r.json").read_text(encoding="utf-8") == "of an earlier session"
    assert not Path("lecture-budgets").exists()


def test_junit(pytester, lecture):
    lecture("a.ipynb", "print('\\x1b[31m\\x00 ]]> é')\nraise ValueError('\\x1b[31m\\x08 ]]> é')")
    pytester.runpytest_inprocess("--lecture-budget", "--junitxml=j.xml", "--color=yes")
    (case,) = ET.parse("j.xml").getroot().iter("testcase")
    assert (case.get("classname"), case.get("name")) == ("a.ipynb", "lecture")
    properties = {item.get("name"): item.get("value") for item in case.findall("properties/property")}
    assert properties["lecturecheck.verdict"] == "failed"
    assert int(properties["lecturecheck.peak_footprint_bytes"]) > 10 * 2**20
    text = case.find("failure").text
    assert "ValueError: " in text
    assert "]]> é" in text
    assert "\x1b" not in text
    assert "#x1B" not in text


def test_record_then_check(pytester, lecture):
    path = lecture("a.ipynb", "x = 1")
    result = pytester.runpytest_inprocess("--lecture-record", "--lecture-platform=here")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["1 lecture recorded; limits: 2 new", "*budgets written to lecture-budgets/here.toml"])
    checked = pytester.runpytest_inprocess("--lecture-budget", "--lecture-strict", "--lecture-platform=here")
    checked.assert_outcomes(passed=1)
    checked.stdout.fnmatch_lines(["lecturecheck: comparing with lecture-budgets/here.toml"])
    path.write_text(path.read_text(encoding="utf-8").replace("x = 1", "x = bytearray(200_000_000)"), encoding="utf-8")
    over = pytester.runpytest_inprocess("--lecture-budget", "--lecture-platform=here")
    over.assert_outcomes(failed=1)
    over.stdout.re_match_lines(
        [r"peak footprint 2[34]\d MiB, limit 1\d\d MiB: 12\d MiB over \(.*\), in code cell 1, .*"]
    )


def test_a_lecture_that_fails_is_not_recorded_beside_one_that_runs(pytester, lecture):
    lecture("a.ipynb", "x = 1")
    lecture("b.ipynb", "1 / 0")
    result = pytester.runpytest_inprocess("--lecture-record", "--lecture-runs=1", "--lecture-platform=here")
    result.assert_outcomes(passed=1, failed=1)
    written = Path("lecture-budgets/here.toml").read_text(encoding="utf-8")
    assert 'lectures."a.ipynb"' in written
    assert "b.ipynb" not in written


def test_other_plugins_and_junit_receive_verdicts(pytester, lecture):
    lecture("a.ipynb")
    lecture("b.ipynb", "1 / 0")
    pytester.makeconftest(
        """
        def pytest_lecturecheck_verdict(config, run, verdict):
            print(f"TOLD {run.lecture} {verdict.kind} {verdict.failed} {hasattr(config, 'workerinput')}")
        """
    )
    for more in ([], ["-n", "2"]):
        start = pytester.runpytest_subprocess if more else pytester.runpytest_inprocess
        result = start("--lecture-budget", "-s", "--junitxml=j.xml", *more)
        verdicts = ET.parse("j.xml").getroot().iterfind(".//property[@name='lecturecheck.verdict']")
        assert sorted(item.get("value") for item in verdicts) == ["failed", "no budget"]
        told = sorted(line[line.index("TOLD") :] for line in result.outlines if "TOLD" in line)
        assert told == ["TOLD a.ipynb no budget False False", "TOLD b.ipynb failed True False"]


def test_ordinary_tests_beside_lectures(pytester, lecture):
    lecture("a.ipynb")
    pytester.makepyfile("import pytest\n\n@pytest.mark.xfail\ndef test_x(): assert 0\n\ndef test_y(tmp_path): pass")
    pytester.runpytest_inprocess("--lecture-budget").assert_outcomes(passed=2, xfailed=1)


def test_the_library_is_not_taken_from_beside_the_lectures(pytester, lecture):
    for name in ("nbformat", "yaml", "psutil", "notebook", "zmq"):
        pytester.path.joinpath(f"{name}.py").write_text(
            f"raise RuntimeError('{name} of the lectures')", encoding="utf-8"
        )
    lecture("a.ipynb")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--lecture-budget", "-q"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


def wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def marked(mark):
    """Processes that carry both the mark of a run and that of this test, zombies left out."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            text = environ.read_bytes()
        except OSError:
            continue
        if b"LECTURECHECK_RUN=" in text and mark.encode() in text:
            found.append(environ.parent.name)
    return found


@pytest.mark.parametrize("more", [[], ["-n", "2"]], ids=["alone", "workers"])
@pytest.mark.parametrize(
    "code",
    ["time.sleep(600)", "while True:\n    try:\n        time.sleep(600)\n    except BaseException: pass"],
    ids=["sleeps", "swallows"],
)
def test_an_interrupted_session_leaves_no_kernel(pytester, lecture, code, more):
    lecture("a.ipynb", f"import pathlib, time\npathlib.Path('running').touch()\n{code}")
    lecture("b.ipynb", "import time\ntime.sleep(600)")
    mark = f"LECTURECHECK_TEST={os.getpid()}-{pytester.path.name}"
    name, _, value = mark.partition("=")
    session = subprocess.Popen(
        [sys.executable, "-m", "pytest", "--lecture-budget", *CI_SAFE, *more],
        env={**os.environ, name: value},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    wait_until(Path("running").exists)
    assert marked(mark)
    # As a terminal does it: to the whole foreground group.
    os.killpg(session.pid, signal.SIGINT)
    text, _ = session.communicate(timeout=300)
    assert session.returncode == pytest.ExitCode.INTERRUPTED, text
    # What a worker had no time to end is ended by its reaper, soon after.
    wait_until(lambda: marked(mark) == [])


@pytest.mark.parametrize("code", ["1 / 0", "1 / 1"])
def test_the_heading_is_right_above_the_table(pytester, lecture, code):
    lecture("a.ipynb", code)
    lines = pytester.runpytest_inprocess("--lecture-budget").outlines
    (place,) = [number for number, line in enumerate(lines) if line.startswith("=") and " lectures " in line]
    assert lines[place + 1].split()[:2] == ["lecture", "verdict"]


@pytest.mark.parametrize("workers", ["0", "2"])
def test_the_source_of_a_cell_over_its_limit_is_in_reports(pytester, lecture, workers):
    lecture("a.ipynb", "x = 1\ny = bytes(1)")
    folder = pytester.path / "lecture-budgets"
    folder.mkdir()
    folder.joinpath("p.toml").write_text(
        'schema = 1\nplatform = "p"\n\n[lectures."a.ipynb"]\npeak_footprint = "1 MiB"\n', encoding="utf-8"
    )
    more = ("--lecture-platform=p", "--lecture-report=r.md", "--lecture-report=r.json", "--lecture-report=r.html")
    start = pytester.runpytest_inprocess if workers == "0" else pytester.runpytest_subprocess
    result = start("--lecture-budget", "-n", workers, *more)
    result.assert_outcomes(failed=1)
    rows = ["     1 | x = 1", "     2 | y = bytes(1)"]
    result.stdout.fnmatch_lines(rows, consecutive=True)
    assert "\n" + "\n".join(rows) + "\n" in Path("r.md").read_text(encoding="utf-8")
    (run,) = json.loads(Path("r.json").read_text(encoding="utf-8"))["runs"]
    assert (run["verdict"]["source_extract"], run["verdict"]["source_line_count"]) == ("x = 1\ny = bytes(1)", 2)
    page = Path("r.html").read_text(encoding="utf-8")
    assert "edit the limit of peak footprint in the budget file p.toml; recording keeps limits set by hand" in page
    assert "</span>y = bytes(1)\n" in page


def test_an_error_in_a_loaded_file_names_that_file(pytester):
    (pytester.path / "tools.py").write_text("x = 1\n\n1 / 0\n", encoding="utf-8")
    head = "---\nkernelspec:\n  name: python3\n---\n"
    page = f"{head}\n```{{code-cell}}\n:load: tools.py\n```\n"
    (pytester.path / "loads.md").write_text(page, encoding="utf-8")
    result = pytester.runpytest_inprocess("--lecture-budget", "loads.md", *CI_SAFE)
    result.stdout.fnmatch_lines(
        ["ZeroDivisionError: division by zero (code cell 1)", "loads.md: code cell 1 of 1, line 3 of tools.py"],
        consecutive=True,
    )


def test_budgets_without_a_lecture_are_reported(pytester, lecture):
    lecture("new/a.ipynb")
    tables = "".join(f'[lectures."{name}"]\npeak_footprint = "9 GiB"\n\n' for name in ("gone.md", "old/a.ipynb"))
    path = pytester.path / "lecture-budgets" / "here.toml"
    path.parent.mkdir()
    path.write_text(f'schema = 1\nplatform = "here"\n\n{tables}', encoding="utf-8")
    result = pytester.runpytest_inprocess("--lecture-budget", "--lecture-platform=here", *CI_SAFE)
    result.stdout.fnmatch_lines(
        [
            "here.toml has a budget for 'gone.md', and there is no such lecture",
            "here.toml has a budget for 'old/a.ipynb', and there is no such lecture; is it 'new/a.ipynb'?",
        ],
        consecutive=True,
    )
