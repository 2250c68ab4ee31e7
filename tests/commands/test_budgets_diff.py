"""``lecturecheck budgets diff``: what a branch changes, in a git repository."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt
from support.kept_documents import call
from support.made_entries import MIB, budget_of

from pytest_lecturecheck.budget.limits import HeavyCell, PlatformBudgets
from pytest_lecturecheck.budget.relations import parse_relation
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.store.budget_file.files import save_budgets

LABEL = "linux-x86_64-cpu"


def cell(number, line, peak):
    return (HeavyCell(number=number, line=line, peak_footprint_bytes=peak * MIB),)


GROWTH = budget_of("lectures/growth.md", 823, (740, 748), heaviest=cell(3, 41, 748))
STEADY = budget_of("lectures/steady.md", 420, (299, 300))
OLD = budget_of("lectures/old.md", 100, (30,))
GROWN = budget_of("lectures/growth.md", 1075, (970, 977), heaviest=cell(7, 96, 977))
NEW = budget_of("lectures/new | <b>.md", 200, (100,), wall=40.0)


def git(folder, *arguments):
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    names = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
    subprocess.run(["git", "-C", str(folder), *names, *arguments], check=True, capture_output=True, env=environment)


def save(root, *entries, label=LABEL):
    budgets = PlatformBudgets(platform=label, lectures={(item.lecture, item.variant): item for item in entries})
    save_budgets(root / "lecture-budgets" / f"{label}.toml", budgets)


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A repository with a commit of budgets, below its top."""
    root = tmp_path / "book"
    root.mkdir()
    monkeypatch.chdir(root)
    git(tmp_path, "init")
    save(root, GROWTH, STEADY, OLD)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "budgets")
    return root


def test_growth_comes_first_with_its_cells(book, capsys):
    save(book, GROWN, STEADY, NEW)
    status, out, err = call(capsys, "budgets", "diff", "main")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "## Budgets compared with <code>main</code>"
    assert lines[2] == "3 lectures: 1 limit raised, 1 added, 1 removed"
    changed = lines[lines.index("### Changed") + 4]
    assert changed == (
        "| <code>lectures/growth.md</code> | <code>linux-x86_64-cpu</code> | peak footprint | 823 MiB → 1.05 GiB | "
        "**+31 %** | 748 MiB → 977 MiB | cell 3, line 41 → cell 7, line 96 |"
    )
    assert lines[lines.index("### Removed") + 4].startswith("| <code>lectures/old.md</code> | ")
    added = lines[lines.index("### Added") + 4]
    assert "<code>lectures/new &#124; &lt;b&gt;.md</code>" in added
    assert "steady" not in out


def test_limits_set_by_hand_are_marked(book, capsys):
    metrics = {**STEADY.metrics}
    metrics[Metric.PEAK_FOOTPRINT] = replace(metrics[Metric.PEAK_FOOTPRINT], limit=500 * MIB, hand_set=True)
    save(book, GROWTH, replace(STEADY, metrics=metrics), OLD)
    out = call(capsys, "budgets", "diff", "HEAD")[1]
    (row,) = [line for line in out.splitlines() if "steady" in line]
    assert "500 MiB ✋ |" in row
    assert out.endswith("✋ marks a limit that a person has set; recording keeps it.\n")


def test_json_has_numbers(book, capsys):
    save(book, GROWN, STEADY, OLD)
    found = json.loads(call(capsys, "budgets", "diff", "main", "--json")[1])
    (item,) = found["differences"]
    assert (found["schema"], found["reference"], len(found["commit"])) == (1, "main", 40)
    assert (item["platform"], item["lecture"], item["state"]) == (LABEL, "lectures/growth.md", "changed")
    peak = item["metrics"][0]
    assert (peak["metric"], peak["old_highest"], peak["new_highest"]) == (
        "peak_footprint_bytes",
        748 * MIB,
        977 * MIB,
    )
    assert peak["growth_fraction"] == pytest.approx(0.306, abs=0.01)
    assert (item["old_cell"]["number"], item["new_cell"]["line"]) == (3, 96)


def test_relations_that_differ_are_shown(book, capsys):
    related = replace(STEADY, relations=(parse_relation("gpu_live <= 1.1 * reported.planned"),))
    save(book, GROWTH, related, OLD)
    out = call(capsys, "budgets", "diff", "main")[1]
    assert "1 lecture: 1 relation added" in out
    (row,) = [line for line in out.splitlines() if "steady" in line]
    assert "| relation | <code>gpu_live &lt;= 1.1 &#42; reported.planned</code> ✋ | added |" in row
    found = json.loads(call(capsys, "budgets", "diff", "main", "--json")[1])["differences"]
    assert [(item["added_relations"], item["removed_relations"]) for item in found] == [
        (["gpu_live <= 1.1 * reported.planned"], [])
    ]
    git(book, "commit", "-am", "relation")
    save(book, GROWTH, STEADY, OLD)
    assert "1 lecture: 1 relation removed" in call(capsys, "budgets", "diff", "HEAD")[1]


@pytest.mark.usefixtures("book")
def test_without_differences(capsys):
    assert call(capsys, "budgets", "diff", "main")[1] == (
        "## Budgets compared with <code>main</code>\n\nNo budget differs.\n"
    )


def test_a_new_platform_and_a_removed_one(book, capsys):
    save(book, GROWTH, label="g4dn")
    (book / "lecture-budgets" / f"{LABEL}.toml").unlink()
    found = json.loads(call(capsys, "budgets", "diff", "main", "--json")[1])["differences"]
    assert [(item["platform"], item["state"]) for item in found] == [
        ("g4dn", "added"),
        *[(LABEL, "removed")] * 3,
    ]


def test_markdown_has_one_table_for_each_heading(book, capsys):
    save(book, GROWN, STEADY, NEW)
    out = call(capsys, "budgets", "diff", "main")[1]
    tokens = MarkdownIt("commonmark").enable("table").parse(out)
    assert sum(token.type == "table_open" for token in tokens) == 3
    assert {len(row.split(" | ")) for row in out.splitlines() if row.startswith("| <code>")} == {7}


@pytest.mark.usefixtures("book")
@pytest.mark.parametrize("reference", ["no-such-branch", "--help-me", "-x", ""])
def test_a_reference_that_is_none(capsys, reference):
    arguments = ["--", reference] if reference.startswith("-") else [reference]
    status, out, err = call(capsys, "budgets", "diff", *arguments)
    assert (status, out) == (2, "")
    assert f"{reference!r} names no commit" in err


def test_faults_of_the_old_budgets_name_the_commit(book, capsys):
    path = book / "lecture-budgets" / f"{LABEL}.toml"
    good = path.read_bytes()
    path.write_text("schema = 1\nnonsense = 2\n", encoding="utf-8")
    git(book, "commit", "-am", "bad")
    path.write_bytes(good)
    status, _, err = call(capsys, "budgets", "diff", "main")
    assert status == 2
    assert f"main:lecture-budgets/{LABEL}.toml line 2: nonsense: unknown key" in err


def test_outside_a_repository(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.chdir(tmp_path)
    status, _, err = call(capsys, "budgets", "diff", "main")
    assert status == 2
    assert "not a git repository" in err
