"""``lecturecheck explain``: failures for programs."""

from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import pytest
from support.hostile import HOSTILE, UNSAFE
from support.json_schemas import SCHEMAS
from support.kept_documents import call, keep
from support.made_entries import died, failed, over, quiet_ones, within
from support.made_sessions import before, session_of

from pytest_lecturecheck.model.run import PROGRAM_LAUNCHER
from pytest_lecturecheck.report.explanation import next_commands, render_explanation
from pytest_lecturecheck.verdict.kept_session import KeptRun


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A folder in which a session with failures is kept."""
    monkeypatch.chdir(tmp_path)
    entries = [within(), over(), died()]
    runs = [KeptRun(run=entry.run, verdict=entry.verdict, seconds=1.0) for entry in entries]
    keep(tmp_path, session_of(*runs))
    return tmp_path


@pytest.mark.usefixtures("book")
def test_json_has_cause_evidence_and_next_commands(capsys):
    status, out, err = call(capsys, "explain", "--json")
    found = json.loads(out)
    jsonschema.validate(found, SCHEMAS["explain.schema.json"])
    assert (status, err, found["schema"], found["runs"]) == (1, "", 1, 3)
    grown, dead = found["failures"]
    assert (grown["verdict"], grown["cell"], grown["line"]) == ("over", over().focus.number, over().line)
    assert grown["limits"][0]["metric"] == "peak_footprint_bytes"
    assert grown["limits"][0]["measured"] > grown["limits"][0]["limit"]
    assert (dead["cause"], dead["evidence"]) == (died().verdict.cause.kind.value, list(died().verdict.cause.evidence))
    name = over().run.lecture
    assert [item["command"] for item in grown["next"]] == [
        f"pytest --lecture-budget --lecture-rerun-failed ./{name}",
        f"lecturecheck show {name}",
        f"pytest --lecture-budget --lecture-profile=memory ./{name}",
        f"pytest --lecture-record ./{name}",
        f"lecturecheck report {found['session']} -o report.html",
    ]


@pytest.mark.usefixtures("book")
def test_text_has_a_paragraph_for_each_failure(capsys):
    status, out, _ = call(capsys, "explain")
    assert status == 1
    first, second = out.split("\n\n")
    assert first.startswith(f"{over().location}: over: ")
    assert "\n  cause: " in second
    assert "\n  next: pytest --lecture-budget --lecture-rerun-failed " in second


def test_without_failures_the_exit_status_is_zero(book, capsys):
    (path,) = keep(book, replace(before(), ended=session_of(days=1).ended))
    status, out, _ = call(capsys, "explain")
    assert (status, out) == (0, f"{path.stem}: nothing failed in 7 runs\n")


def test_every_verdict_has_a_valid_explanation():
    entries = [over(), failed(), died(), *quiet_ones()]
    found = json.loads(render_explanation(entries, session="s", platform="p"))
    jsonschema.validate(found, SCHEMAS["explain.schema.json"])
    assert len(found["failures"]) == sum(entry.verdict.failed for entry in entries)


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("-rf.md", "pytest --lecture-budget --lecture-rerun-failed ./-rf.md"),
        ("a; rm x.md", "pytest --lecture-budget --lecture-rerun-failed './a; rm x.md'"),
        ("$(x)'.md", "pytest --lecture-budget --lecture-rerun-failed './$(x)'\"'\"'.md'"),
    ],
)
def test_commands_are_quoted_for_a_shell(name, command):
    entry = failed(lecture=name)
    assert next_commands(entry, "s")[0].command == command


def test_a_hostile_name_has_no_commands():
    entry = failed(lecture=HOSTILE)
    assert next_commands(entry, "s") == ()
    assert not UNSAFE.search(render_explanation([entry], session="s", platform="p"))


def test_programs_are_recorded_from_their_session():
    entry = over()
    launch = replace(entry.run.launch, launcher=PROGRAM_LAUNCHER)
    found = next_commands(replace(entry, run=replace(entry.run, launch=launch)), "s")
    assert [item.command for item in found] == [
        f"lecturecheck show {entry.run.lecture}",
        "lecturecheck record s",
        "lecturecheck report s -o report.html",
    ]


@pytest.mark.parametrize("command", ["explain", "compare"])
def test_names_of_lectures_are_no_commands_to_the_runner(tmp_path, monkeypatch, capsys, command):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("COLUMNS", "100")
    name = "::stop-commands::x.md"
    entry = failed()
    run = KeptRun(run=replace(entry.run, lecture=name), verdict=entry.verdict, seconds=1.0)
    keep(tmp_path, session_of(run), session_of(run, days=1.0))
    _, out, _ = call(capsys, command, *(["last~1", "last"] if command == "compare" else []))
    assert ": :stop-commands::x.md" in out
    assert not any(line.lstrip().startswith("::") for line in out.splitlines())
