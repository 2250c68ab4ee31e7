"""Commands that submit lectures to Slurm."""

from __future__ import annotations

import shlex

import pytest
from support.kept_documents import call, keep
from support.made_sessions import kept, session_of

LECTURE = "---\nkernelspec:\n  name: python3\n---\n\n```{code-cell}\n1\n```\n"
BUDGET = 'schema = 1\n[lectures."known.md"]\npeak_footprint = "1 GiB"\n'


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A folder with a lecture that has a budget, one that has none, and files that are no lectures."""
    monkeypatch.chdir(tmp_path)
    for name in ("known.md", "new.md"):
        (tmp_path / name).write_text(LECTURE, encoding="utf-8")
    (tmp_path / "README.md").write_text("# Read me\n", encoding="utf-8")
    (tmp_path / "skipped.md").write_text(
        LECTURE.replace("---\n\n", "lecturecheck:\n  skip: too slow\n---\n\n"), encoding="utf-8"
    )
    (tmp_path / "lecture-budgets").mkdir()
    (tmp_path / "lecture-budgets" / "x.toml").write_text(BUDGET, encoding="utf-8")
    return tmp_path


@pytest.mark.usefixtures("book")
def test_only_lectures_are_submitted_and_the_rest_is_named(capsys):
    names = ["known.md", "README.md", "new.md", "skipped.md"]
    status, out, err = call(capsys, "slurm", "--platform", "x", *names)
    assert status == 0
    lines = [shlex.split(line) for line in out.splitlines()]
    assert [line[1] for line in lines] == ["--job-name=known.md", "--job-name=new.md"]
    assert err == "lecturecheck: left out: README.md: not a lecture\nlecturecheck: left out: skipped.md: too slow\n"


def test_memory_is_requested_only_for_a_reason(book, capsys):
    _, out, _ = call(capsys, "slurm", "--platform", "x", "known.md", "new.md")
    known, new = out.splitlines()
    assert "--mem=1383M" in known
    assert "--mem" not in new
    (book / "lecturecheck.toml").write_text("[slurm]\nmem-default = '1 GiB'\n", encoding="utf-8")
    _, out, _ = call(capsys, "slurm", "--platform", "x", "new.md")
    assert "--mem=1280M" in out


def test_measured_needs_replace_a_budget(book, capsys):
    keep(book, session_of(kept("new.md", 1000), kept("new.md", 1100, repeat=2)))
    _, out, _ = call(capsys, "slurm", "--platform", "linux-x86_64-cpu", "new.md")

    # 1100 MiB, 10 % above it, 256 MiB for pytest; twice the longest run, and two minutes.
    assert "--mem=1466M" in out
    assert "--time=3" in shlex.split(out)


def test_a_script_runs_a_package_in_one_job(book, capsys):
    keep(book, session_of(kept("new.md", 1000), kept("known.md", 200)))
    status, out, _ = call(
        capsys, "slurm", "--platform", "linux-x86_64-cpu", "--script", "known.md", "new.md", "README.md"
    )

    lines = out.splitlines()
    assert (status, lines[0]) == (0, "#!/bin/sh")
    assert lines[1] == "# 2 lectures, one after the other. Submit with: sbatch FILE"
    assert "#SBATCH --mem=1356M" in lines
    assert "#SBATCH --time=3" in lines
    assert lines[-1].endswith("--lecture-platform=linux-x86_64-cpu ./known.md ./new.md")


@pytest.mark.usefixtures("book")
def test_a_script_names_what_is_not_known(capsys):
    _, out, _ = call(capsys, "slurm", "--platform", "x", "--script", "known.md", "new.md")

    assert "# --mem is missing: nothing is known of new.md; run it once, or add #SBATCH --mem=..." in out
    assert "#SBATCH --mem" not in out.replace("add #SBATCH --mem=...", "")
    assert call(capsys, "slurm", "--script", "README.md")[0] == 2
