"""Budgets from kept sessions and reports."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pytest
from support.kept_documents import call, document, keep
from support.made_entries import MIB
from support.made_sessions import after, before, kept, session_of

from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.store.budget_file.files import load_budgets
from pytest_lecturecheck.verdict import VerdictKind

FILE = "lecture-budgets/linux-x86_64-cpu.toml"


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A folder in which sessions are kept."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


def test_the_last_session_becomes_budgets(book, capsys):
    keep(book, before(), after())
    status, out, err = call(capsys, "record")
    assert (status, err) == (0, "")
    assert out.endswith(f": lectures/loop.md\nbudgets written to {FILE}\n")
    found = load_budgets(book / FILE)
    growth = found.find("lectures/growth.md")
    assert growth.metrics[Metric.PEAK_FOOTPRINT].seen == (977 * MIB,)
    assert growth.recorded == dt.date(2026, 1, 12)
    assert found.find("lectures/loop.md") is None


def test_a_report_of_another_platform_becomes_its_budgets(book, capsys):
    (book / "artifact.json").write_text(
        document(session_of(kept("a.md", 50, platform="g4dn"), platform="g4dn")), encoding="utf-8"
    )
    assert call(capsys, "record", "artifact.json")[0] == 0
    assert load_budgets(book / "lecture-budgets" / "g4dn.toml").find("a.md") is not None


def test_a_dry_run_writes_nothing(book, capsys):
    keep(book, before())
    status, out, _ = call(capsys, "record", "last", "--dry-run")
    assert status == 0
    assert out.endswith(f"nothing written to {FILE} (--dry-run)\n")
    assert "lectures/growth.md" in out
    assert not (book / FILE).exists()


def test_recording_the_same_session_again_changes_nothing(book, capsys):
    keep(book, before())
    call(capsys, "record")
    text = (book / FILE).read_text(encoding="utf-8")
    assert call(capsys, "record")[1].endswith(f"budgets in {FILE} are unchanged\n")
    assert (book / FILE).read_text(encoding="utf-8") == text


def test_a_lecture_with_strict_findings_is_not_recorded(book, capsys):
    strict = kept("b.md", 50, kind=VerdictKind.FAILED)
    keep(book, session_of(kept("a.md", 50), replace(strict, verdict=replace(strict.verdict, failed=True))))
    out = call(capsys, "record")[1]
    assert "not recorded, because a finding failed it under --lecture-strict: b.md\n" in out
    assert [lecture for lecture, _ in load_budgets(book / FILE).lectures] == ["a.md"]


def test_the_settings_choose_folder_and_rules(book, capsys):
    (book / "lecturecheck.toml").write_text("budget-dir = 'b'\nmemory-slack = '1 GiB'\n", encoding="utf-8")
    keep(book, session_of(kept("a.md", 50)))
    call(capsys, "record")
    found = load_budgets(book / "b" / "linux-x86_64-cpu.toml").find("a.md")
    assert found.metrics[Metric.PEAK_FOOTPRINT].limit // MIB == 1074


def test_a_session_without_a_complete_run_is_refused(book, capsys):
    keep(book, session_of(kept("a.md", 50, kind=VerdictKind.DIED, outcome=Outcome.DIED)))
    status, _, err = call(capsys, "record")
    assert status == 2
    assert err.endswith("has no complete run of a lecture, so there is nothing to record; choose another session\n")
    assert not (book / "lecture-budgets").exists()
