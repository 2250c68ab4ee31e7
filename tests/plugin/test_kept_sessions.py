"""What sessions leave in .lecturecheck/runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest
from support.json_schemas import SCHEMAS

from pytest_lecturecheck.store.history import read_history
from pytest_lecturecheck.store.session_history import read_session, session_files

RUNS = Path(".lecturecheck") / "runs"


@pytest.mark.parametrize("workers", [(), ("-n1",)])
def test_each_session_leaves_its_document(pytester, lecture, workers):
    lecture("good.ipynb")
    lecture("bad.ipynb", "import json", "json.loads('no')", "x = 1")
    start = pytester.runpytest_subprocess if workers else pytester.runpytest_inprocess
    pytester.path.joinpath("lecturecheck.toml").write_text('history = "past/h.jsonl"', encoding="utf-8")
    start("--lecture-budget", "--lecture-report=r.json", *workers).assert_outcomes(failed=1, passed=1)
    (path,) = session_files(RUNS)
    session = read_session(path)
    assert {kept.run.lecture: kept.verdict.kind.value for kept in session.runs} == {
        "bad.ipynb": "failed",
        "good.ipynb": "no budget",
    }
    assert session.mode == "check"
    assert all(kept.run.timeline for kept in session.runs) or sys.platform != "linux"
    kept, reported = (json.loads(Path(name).read_text(encoding="utf-8")) for name in (path, "r.json"))
    assert kept["runs"] == reported["runs"]
    assert {**kept, "ended": ""} == {**reported, "ended": ""}
    jsonschema.validate(kept, SCHEMAS["report.schema.json"])
    for row in Path("past/h.jsonl").read_text(encoding="ascii").splitlines():
        jsonschema.validate(json.loads(row), SCHEMAS["history.schema.json"])
    # The traceback runs through the standard library and the lecture's folder; neither is told.
    text = path.read_text(encoding="ascii")
    assert "JSONDecodeError" in text
    past = Path("past/h.jsonl")
    for place in (os.path.realpath(pytester.path), str(Path.home()), sys.prefix):
        assert json.dumps(str(place))[1:-1] + "/" not in text + past.read_text(encoding="ascii")
    lines = read_history(past).lines
    assert {line.lecture: (line.verdict, line.cell) for line in lines} == {
        "bad.ipynb": ("failed", 2),
        "good.ipynb": ("no budget", None),
    }
    assert {line.session for line in lines} == {session.identity} == {path.stem}


def test_each_session_appends_to_the_history_even_if_none_is_kept(pytester, lecture):
    lecture("a.ipynb")
    pytester.path.joinpath("lecturecheck.toml").write_text("keep-runs = 0", encoding="utf-8")
    for _ in range(2):
        result = pytester.runpytest_inprocess("--lecture-budget", "--lecture-history=h.jsonl")
        result.stdout.fnmatch_lines(["history: 1 line appended to h.jsonl"])
    pytester.runpytest_inprocess("--lecture-budget", "--lecture-history=h.jsonl", "--collect-only")
    assert len({line.session for line in read_history(Path("h.jsonl")).lines}) == 2


def test_recording_sessions_are_kept_and_the_oldest_are_removed(pytester, lecture):
    lecture("a.ipynb")
    pytester.path.joinpath("lecturecheck.toml").write_text("keep-runs = 2\nruns = 1", encoding="utf-8")
    for mode in ("--lecture-record", "--lecture-budget", "--lecture-budget"):
        pytester.runpytest_inprocess(mode).assert_outcomes(passed=1)
    assert [read_session(path).mode for path in session_files(RUNS)] == ["check", "check"]
    assert Path(".lecturecheck/.gitignore").read_text(encoding="utf-8") == "*\n"


def test_nothing_is_kept_if_set_so_or_if_nothing_ran(pytester, lecture):
    lecture("a.ipynb")
    pytester.runpytest_inprocess("--lecture-budget", "-k", "nothing")
    pytester.runpytest_inprocess("--lecture-budget", "--collect-only")
    pytester.path.joinpath("lecturecheck.toml").write_text("keep-runs = 0", encoding="utf-8")
    pytester.runpytest_inprocess("--lecture-budget").assert_outcomes(passed=1)
    assert not RUNS.exists()


@pytest.mark.parametrize("value", ["-1", "true", '"many"', "1.5"])
def test_invalid_counts_are_refused(pytester, lecture, value):
    lecture("a.ipynb")
    pytester.path.joinpath("lecturecheck.toml").write_text(f"keep-runs = {value}", encoding="utf-8")
    result = pytester.runpytest_inprocess("--lecture-budget")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    expected = "is not a whole number of at least 0"
    shown = {"true": f"True {expected}", '"many"': "'many' is text; expected a whole number, without quotes"}
    message = f"lecturecheck: lecturecheck.toml: keep-runs: {shown.get(value, f'{value} {expected}')}"
    assert any(message in line for line in result.errlines)


def test_a_folder_that_cannot_be_written_fails_nothing(pytester, lecture):
    lecture("a.ipynb")
    pytester.path.joinpath(".lecturecheck").mkdir()
    RUNS.write_text("a file", encoding="utf-8")
    result = pytester.runpytest_inprocess("--lecture-budget", "--lecture-report=r.md")
    result.assert_outcomes(passed=1)
    with pytest.raises(FileExistsError) as caught:
        RUNS.mkdir()
    line = f".lecturecheck cannot be written ({caught.value.strerror}): this session is not kept"
    assert line in result.outlines
    assert Path("r.md").is_file()


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT to send to one process on Windows")
def test_an_interrupted_session_is_kept(pytester, lecture):
    lecture("a.ipynb", "x = 1")
    lecture("b.ipynb", "open('begun', 'w').close()\nimport time\ntime.sleep(600)")
    command = [sys.executable, "-m", "pytest", "--lecture-budget", "-p", "no:cacheprovider"]
    command.append("--lecture-env-profile=jax-ci")
    with Path("shown.txt").open("wb") as shown:
        process = subprocess.Popen(command, stdout=shown, cwd=pytester.path)
    while not Path("begun").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == pytest.ExitCode.INTERRUPTED
    (path,) = session_files(RUNS)
    assert read_session(path).runs[0].run.lecture == "a.ipynb"
    lines = Path("shown.txt").read_text(encoding="utf-8").split("\n")
    assert "environment profile of kernels: jax-ci" in lines
    told = [line for line in lines if line.startswith("interrupted: ")]
    assert [line.partition(", after ")[0] for line in told] == ["interrupted: b.ipynb, in code cell 1 of 1"]


def test_no_colour_is_honoured(pytester, lecture, monkeypatch):
    lecture("a.ipynb", "1 / 0")
    monkeypatch.delenv("PY_COLORS", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = pytester.runpytest_inprocess("--lecture-budget", "-v")
    monkeypatch.setenv("NO_COLOR", "1")
    bare = pytester.runpytest_inprocess("--lecture-budget", "-v")
    assert any("\x1b[31mfailed" in line for line in coloured.outlines)
    assert not any("\x1b" in line for line in bare.outlines)
