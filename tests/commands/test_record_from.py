"""Budgets from the reports of several CI jobs."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
from dataclasses import replace

import pytest
from support.kept_documents import call, document
from support.made_entries import MACHINE, MIB
from support.made_sessions import kept, session_of

from pytest_lecturecheck.budget.limits import Tolerance
from pytest_lecturecheck.budget.recording import record
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.store.budget_file.files import load_budgets
from pytest_lecturecheck.verdict import VerdictKind

FILE = "lecture-budgets/linux-x86_64-cpu.toml"
STARTED = "2026-01-05T05:00:00+00:00"


@pytest.fixture
def book(tmp_path, monkeypatch):
    """An empty repository."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


def report(book, name, *runs, day=0, platform="linux-x86_64-cpu"):
    """Write the report of one job; its name is that of its session."""
    session = session_of(*runs, days=day, platform=platform)
    plain = {**json.loads(document(session)), "session": name}
    (book / f"{name}.json").write_text(json.dumps(plain), encoding="utf-8")
    return f"{name}.json"


def three(book, *, more=()):
    peaks = (50, 70, 60)
    return [
        report(book, f"job{day}", kept("a.md", peak, started=STARTED), *more, day=day) for day, peak in enumerate(peaks)
    ]


def test_three_reports_make_the_budget_of_three_runs(book, capsys):
    status, out, err = call(capsys, "record-from", *three(book))
    assert (status, err) == (0, "")
    assert out.endswith(f"1 lecture recorded; limits: 2 new\nbudgets written to {FILE}\n")
    found = load_budgets(book / FILE).find("a.md")
    assert found.metrics[Metric.PEAK_FOOTPRINT].seen == (50 * MIB, 70 * MIB, 60 * MIB)
    assert (found.run_count, found.recorded) == (3, dt.date(2026, 1, 7))


def test_the_result_is_that_of_a_recording(book, capsys):
    call(capsys, "record-from", *three(book))
    runs = [kept("a.md", peak, repeat=number).run for number, peak in enumerate((50, 70, 60), start=1)]
    empty = load_budgets(book / "linux-x86_64-cpu.toml")
    expected, _ = record(empty, runs, today=dt.date(2026, 1, 7), tolerance=Tolerance())
    metrics = expected.find("a.md").metrics
    assert load_budgets(book / FILE).find("a.md").metrics == metrics


def test_too_few_runs_are_refused_and_can_be_accepted(book, capsys):
    reports = three(book)[:2]
    status, _, err = call(capsys, "record-from", *reports)
    assert status == 2
    assert err == (
        "lecturecheck: 2 reports: no lecture has 3 complete runs (at most 2), so there is nothing to record; name more "
        "reports, or accept fewer with --least-runs 2\n"
    )
    assert not (book / "lecture-budgets").exists()
    assert call(capsys, "record-from", *reports, "--least-runs", "2")[0] == 0
    assert load_budgets(book / FILE).find("a.md").run_count == 2


@pytest.mark.parametrize("count", ["0", "-1", "x", "1.5"])
def test_counts_that_are_none(capsys, count):
    with pytest.raises(SystemExit):
        call(capsys, "record-from", "a.json", f"--least-runs={count}")
    assert f"{count!r} is not a whole number of at least 1" in capsys.readouterr().err


def test_lectures_that_failed_are_left_out_and_named(book, capsys):
    reports = three(book, more=[kept("b.md", 9, started=STARTED)])
    died = kept("b.md", 90, kind=VerdictKind.DIED, outcome=Outcome.DIED)
    reports.append(report(book, "bad", died, kept("c.md", 5), day=4))
    status, out, _ = call(capsys, "record-from", *reports)
    assert status == 0
    assert "\nnot recorded, because a run did not finish: b.md\n" in out
    assert "\nnot recorded, because there are too few runs: c.md (1)\n" in out
    assert [name for name, _ in load_budgets(book / FILE).lectures] == ["a.md"]


def test_a_strict_finding_keeps_a_lecture_out(book, capsys):
    item = kept("b.md", 9, kind=VerdictKind.FAILED)
    strict = replace(item, verdict=replace(item.verdict, failed=True))
    status, out, _ = call(capsys, "record-from", *three(book, more=[strict]))
    assert status == 0
    assert "\nnot recorded, because a finding failed it under --lecture-strict: b.md\n" in out
    assert load_budgets(book / FILE).find("b.md") is None


def test_lectures_over_their_limit_are_recorded(book, capsys):
    over = kept("b.md", 9, kind=VerdictKind.OVER)
    call(capsys, "record-from", *three(book, more=[replace(over, verdict=replace(over.verdict, failed=True))]))
    assert load_budgets(book / FILE).find("b.md") is not None


def test_skipped_and_stopped_runs_state_nothing(book, capsys):
    reports = three(book)
    for name, outcome in (("skipped", Outcome.SKIPPED), ("stopped", Outcome.STOPPED)):
        reports.append(report(book, name, kept("a.md", 1, outcome=outcome), day=5))
    assert call(capsys, "record-from", *reports)[0] == 0
    assert load_budgets(book / FILE).find("a.md").run_count == 3


def test_the_same_report_twice_counts_once(book, capsys):
    first, second, third = three(book)
    (book / "copy.json").write_bytes((book / third).read_bytes())
    status, out, _ = call(capsys, "record-from", first, second, third, "copy.json")
    assert status == 0
    assert "1 run was in several of these files and counts once" in out
    assert load_budgets(book / FILE).find("a.md").run_count == 3


def test_each_report_goes_to_the_budgets_of_its_platform(book, capsys):
    rest = [report(book, f"gpu{day}", kept("a.md", 9, platform="g4dn"), day=day, platform="g4dn") for day in range(3)]
    status, out, _ = call(capsys, "record-from", *three(book), *rest)
    assert status == 0
    assert "budgets written to lecture-budgets/g4dn.toml" in out
    assert load_budgets(book / "lecture-budgets/g4dn.toml").find("a.md").run_count == 3


def test_limits_set_by_hand_are_kept(book, capsys):
    (book / "lecture-budgets").mkdir()
    text = 'schema = 1\n\n[lectures."a.md"]\npeak_footprint = "2 GiB"  # agreed\n'
    (book / FILE).write_text(text, encoding="utf-8")
    call(capsys, "record-from", *three(book))
    found = load_budgets(book / FILE).find("a.md").metrics[Metric.PEAK_FOOTPRINT]
    assert (found.limit, found.hand_set) == (2048 * MIB, True)
    assert "# agreed" in (book / FILE).read_text(encoding="utf-8")


def test_several_machines_are_said(book, capsys):
    reports = three(book)
    reports.append(report(book, "other", kept("a.md", 55, machine=replace(MACHINE, cpu="Other CPU")), day=6))
    out = " ".join(call(capsys, "record-from", *reports)[1].split())
    assert "these runs were made on 2 classes of machine; recorded times are those of all of them" in out


def test_a_dry_run_writes_nothing(book, capsys):
    out = call(capsys, "record-from", *three(book), "--dry-run", "--patch", "x.patch")[1]
    assert out.endswith(f"nothing written to {FILE} (--dry-run)\n")
    assert not (book / "lecture-budgets").exists()
    assert not (book / "x.patch").exists()


@pytest.mark.parametrize("is_new", [True, False])
def test_git_applies_the_patch(book, capsys, is_new):
    """Rootdir is a folder of the repository; the patch is applied at its top."""
    subprocess.run(["git", "init", "-q", str(book)], check=True)
    root = book / "my book"
    root.mkdir()
    reports = [str(book / name) for name in three(book)]
    if not is_new:
        call(capsys, "record-from", reports[0], "--least-runs=1", "--root", str(root))
    path = root / FILE
    before = path.read_bytes() if path.exists() else None
    status, out, _ = call(capsys, "record-from", *reports, "--root", str(root), "--patch", "b.patch")
    assert status == 0
    assert f"nothing written to {FILE} (--patch)\n" in out
    assert (path.read_bytes() if path.exists() else None) == before
    subprocess.run(["git", "-C", str(book), "apply", "b.patch"], check=True)
    applied = path.read_bytes()
    if is_new:
        path.unlink()
    else:
        path.write_bytes(before)
    call(capsys, "record-from", *reports, "--root", str(root))
    assert path.read_bytes() == applied


def test_what_is_no_report_is_named(book, capsys):
    (book / "x.json").write_text("[]", encoding="utf-8")
    status, _, err = call(capsys, "record-from", "x.json")
    assert (status, err) == (
        2,
        "lecturecheck: x.json: schema None is not understood; expected an object with 'schema': 1\n",
    )


def test_reports_of_failures_only_record_nothing(book, capsys):
    name = report(book, "bad", kept("a.md", 5, kind=VerdictKind.DIED, outcome=Outcome.DIED))
    status, _, err = call(capsys, "record-from", name)
    assert (status, err) == (
        2,
        "lecturecheck: 1 report: no lecture has complete runs only, so there is nothing to record\n",
    )
