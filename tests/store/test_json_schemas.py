"""The published JSON Schemas: they follow the stored classes, and real files are valid."""

from __future__ import annotations

import copy
import datetime as dt
import json
import tomllib
from pathlib import Path

import jsonschema
import pytest
from support.json_schemas import FOLDER, SCHEMAS, text_of
from support.kept_documents import document
from support.made_cohorts import cohort, kernel
from support.made_entries import died, failed, not_started, over, quiet_ones, within
from support.made_sessions import after, before, budgets

from pytest_lecturecheck.report.json_report import render_json
from pytest_lecturecheck.store.budget_file.files import save_budgets
from pytest_lecturecheck.store.history import line_to_dict
from pytest_lecturecheck.store.runs import entry_to_dict
from pytest_lecturecheck.verdict.history_lines import history_lines

ROOT = Path(__file__).parents[2]
REPORT, HISTORY, BUDGETS = (SCHEMAS[f"{name}.schema.json"] for name in ("report", "history", "budgets"))


def report_of(entries):
    records = [entry_to_dict(entry.run, entry.verdict, seconds=entry.seconds, budget=entry.budget) for entry in entries]
    about = {"session": "s", "ended": "", "mode": "check", "version": "1", "commit": ""}
    return json.loads(render_json(records, entries, platform="p", about=about))


def budgets_of(path):
    def plain(value):
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        return value.isoformat() if isinstance(value, dt.date) else value

    return plain(tomllib.loads(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", SCHEMAS)
def test_published_schemas_follow_the_layout_of_records(name):
    """If this fails, the layout has changed: write the schemas anew with tests/support/json_schemas.py."""
    assert (FOLDER / name).read_text(encoding="utf-8") == text_of(SCHEMAS[name])
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])


def test_every_published_schema_is_made():
    assert sorted(path.name for path in FOLDER.glob("*.json")) == sorted(SCHEMAS)


@pytest.mark.parametrize("session", [before(), after()], ids=["before", "after"])
def test_kept_sessions_and_their_history_are_valid(session):
    jsonschema.validate(json.loads(document(session)), REPORT)
    for line in history_lines(session):
        jsonschema.validate(line_to_dict(line), HISTORY)


def test_reports_of_every_verdict_are_valid():
    entries = [within(), over(), failed(), died(), not_started(), *quiet_ones()]
    jsonschema.validate(report_of(entries), REPORT)


def test_a_report_of_a_cohort_is_valid():
    jsonschema.validate(report_of([cohort(kernel(), kernel())]), REPORT)


@pytest.mark.parametrize("path", sorted(ROOT.glob("fixtures/budgets/*.toml")), ids=lambda path: path.stem)
def test_recorded_budget_files_are_valid(path):
    jsonschema.validate(budgets_of(path), BUDGETS)


def test_a_written_budget_file_is_valid(tmp_path):
    path = tmp_path / "linux-x86_64-cpu.toml"
    save_budgets(path, budgets())
    jsonschema.validate(budgets_of(path), BUDGETS)


def test_the_budget_file_of_the_reference_is_valid():
    page = (ROOT / "docs/reference/budget-files.md").read_text(encoding="utf-8")
    text = page.split("```toml\n")[1].split("```")[0]
    plain = tomllib.loads(text)
    for entry in plain["lectures"].values():
        for item in (entry, *entry.get("variants", {}).values()):
            item["recorded"] = str(item["recorded"])
    jsonschema.validate(plain, BUDGETS)


@pytest.mark.parametrize(
    ("schema", "plain", "change"),
    [
        (REPORT, report_of([within()]), lambda plain: plain["runs"][0]["run"].update(new_key=1)),
        (REPORT, report_of([within()]), lambda plain: plain["runs"][0]["run"].pop("lecture")),
        (REPORT, report_of([within()]), lambda plain: plain["runs"][0]["verdict"].update(kind="fine")),
        (HISTORY, line_to_dict(history_lines(before())[0]), lambda plain: plain.update(runs="3")),
        (HISTORY, line_to_dict(history_lines(before())[0]), lambda plain: plain["values"].update(joules={})),
        (BUDGETS, {"schema": 1, "lectures": {"a.md": {"wall": "90 s"}}}, lambda plain: plain.update(schema=2)),
        (
            BUDGETS,
            {"schema": 1, "lectures": {"a.md": {"wall": "90 s"}}},
            lambda plain: plain["lectures"]["a.md"].update(wall=90),
        ),
    ],
)
def test_schemas_refuse_what_readers_refuse(schema, plain, change):
    jsonschema.validate(plain, schema)
    changed = copy.deepcopy(plain)
    change(changed)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(changed, schema)
