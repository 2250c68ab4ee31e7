"""Lectures that disturb each other over a file of their folder."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

import pytest
from support.made_records import made_evidence, made_run

from pytest_lecturecheck.lecture.reading import read_lecture
from pytest_lecturecheck.model.cell_run import CellError
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.session.shared_files import shared_file_findings

HEADER = "---\nfile_format: mystnb\nkernelspec:\n  name: python3\n---\n\n"
NOW = dt.datetime.now(dt.UTC)


def page(folder, name, *sources):
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(HEADER + "\n".join(f"```{{code-cell}}\n{source}\n```\n" for source in sources), encoding="utf-8")
    return read_lecture(path, name=name, root=folder)


def write(path, *, seconds_ago=0.0):
    path.parent.mkdir(exist_ok=True)
    path.write_text("x", encoding="utf-8")
    then = NOW.timestamp() - seconds_ago
    os.utime(path, (then, then))


def findings(folder, lecture, *beside, **more):
    facts = {"platform": "linux-x86_64-cpu", "outcome": Outcome.COMPLETED, **more}
    started = NOW.isoformat(timespec="seconds")
    run = made_run(lecture=lecture.name, company=beside, started=started, **facts)
    return list(shared_file_findings(run, lecture, folder))


@pytest.fixture
def own(tmp_path):
    return page(tmp_path, "a.md", "x = 1", "y = 2\nopen('out/data.csv')")


def test_a_file_that_both_use_and_one_changed_is_named(tmp_path, own):
    page(tmp_path, "b.md", "open('out/data.csv', 'w')")
    write(tmp_path / "out" / "data.csv")
    assert findings(tmp_path, own, "b.md", "gone.md") == [
        Finding(
            kind=FindingKind.FILES,
            message=(
                "'out/data.csv' changed while 'b.md' ran in the same folder, which uses it too: the two may disturb "
                "each other; give each a file of its own, or set run-in-temp"
            ),
            cell_number=2,
            line=13,
            may_explain=True,
        )
    ]


@pytest.mark.parametrize(
    ("other", "source", "seconds_ago"),
    [
        ("b.md", "open('out/data.csv')", 60),
        ("b.md", "open('out/data.csv.bak')", 0),
        ("sub/b.md", "open('out/data.csv', 'w')", 0),
    ],
)
def test_files_that_are_not_shared_or_did_not_change_say_nothing(tmp_path, own, other, source, seconds_ago):
    page(tmp_path, other, source)
    write(tmp_path / "out" / "data.csv", seconds_ago=seconds_ago)
    assert findings(tmp_path, own, other) == []


@pytest.mark.parametrize(("source", "is_told"), [("os.remove('out/data.csv')", True), ("open('out/data.csv')", False)])
def test_a_file_that_the_other_lecture_removed_is_named(tmp_path, own, source, is_told):
    page(tmp_path, "b.md", source)
    error = CellError(name="FileNotFoundError", value="[Errno 2] No such file or directory: 'out/data.csv'")
    evidence = made_evidence(cell_number=2, error=error)
    found = findings(tmp_path, own, "b.md", outcome=Outcome.FAILED, evidence=evidence)
    assert [item.kind for item in found] == [FindingKind.FILES] * is_told


def test_many_files_are_counted(tmp_path):
    names = [f"data-{number}.csv" for number in range(5)]
    source = "\n".join(f"open({name!r}, 'w')" for name in names)
    own = page(tmp_path, "a.md", source)
    page(tmp_path, "b.md", source)
    for name in names:
        write(Path(tmp_path, name))
    (finding,) = findings(tmp_path, own, "b.md")
    assert finding.message.startswith("'data-0.csv', 'data-1.csv', 'data-2.csv' and 2 more files changed while 'b.md'")
    assert finding.line == 8
