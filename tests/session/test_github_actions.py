"""The job summary and annotations of GitHub Actions."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_lecturecheck.plugin.nodes import harmless_id
from pytest_lecturecheck.session.github_actions import GitHub, guard_for, guard_longrepr


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("lectures/étude - été [1].ipynb", "lectures/étude - été [1].ipynb"),
        ("::error::a.md", ": :error::a.md"),
        ("a:\u200b:b.md", "a:\\u200b:b.md"),
        (":::a", ": ::a"),
        ("a\n##[error]b.md", "a\\n# #[error]b.md"),
        ("a\x1b[31m\x07.md", "a\\x1b[31m\\x07.md"),
        ("caf\udce9.md", "caf\\udce9.md"),
    ],
)
def test_harmless_ids(name, shown):
    assert harmless_id(name) == shown


def github(tmp_path, **environ):
    return GitHub({"GITHUB_STEP_SUMMARY": str(tmp_path / "s.md"), **environ}, tmp_path, is_on=True)


def test_without_entries_nothing_is_written(tmp_path):
    assert github(tmp_path).write_summary([], platform="here", machine=None) == ""
    assert list(tmp_path.iterdir()) == []


def test_a_summary_that_cannot_be_written_is_reported(tmp_path, entries):
    (tmp_path / "s.md").write_bytes(b"x" * 1024 * 1024)
    full = github(tmp_path).write_summary(entries, platform="here", machine=None)
    assert full == "the job's summary (GITHUB_STEP_SUMMARY) is full: this session is not in it"
    assert (tmp_path / "s.md").stat().st_size == 1024 * 1024
    (tmp_path / "s.md").unlink()
    (tmp_path / "s.md").mkdir()
    fault = github(tmp_path).write_summary(entries, platform="here", machine=None)
    reason = "it is a folder; expected a regular file"
    assert fault == f"the job's summary (GITHUB_STEP_SUMMARY) cannot be written: {reason}"


def test_two_sessions_of_a_job_are_both_in_the_summary(tmp_path, entries):
    for _ in range(2):
        assert github(tmp_path).write_summary(entries, platform="here", machine=None) == ""
    text = (tmp_path / "s.md").read_text(encoding="utf-8")
    assert text.count("## Lecture check\n") == 2
    first, second = text.split("## Lecture check\n")[1:]
    assert first == f"{second}\n"


@pytest.fixture
def entries():
    from support.made_entries import failed, within  # noqa: PLC0415 - a helper of other tests

    return [within(), failed()]


@pytest.mark.parametrize(
    ("workspace", "prefix"), [("", ""), ("{root}", "./"), ("{parent}", "{name}/"), ("/somewhere/else", "")]
)
def test_annotations_count_from_the_repository(tmp_path, entries, workspace, prefix):
    known = {"root": tmp_path, "parent": tmp_path.parent, "name": tmp_path.name}
    place = github(tmp_path, GITHUB_ACTIONS="true", GITHUB_WORKSPACE=workspace.format(**known))
    (line,) = place.annotations(entries)
    assert line.startswith(f"::error file={prefix.format(**known).removeprefix('./')}lectures/bang.md,line=43,")


def test_annotations_only_on_github(tmp_path, entries):
    assert github(tmp_path).annotations(entries) == []
    assert GitHub({"GITHUB_ACTIONS": "true"}, tmp_path, is_on=False).annotations(entries) == []
    assert guard_for({})("::x") == "::x"
    assert guard_for({"GITHUB_ACTIONS": "true"})("::x") == ": :x"
    assert guard_for({"TF_BUILD": "True"})("##vso[task.complete]") == "# #vso[task.complete]"


def test_failures_and_skips_are_guarded():
    guarded = guard_for({"GITHUB_ACTIONS": "true"})
    assert guard_longrepr(("a.md", 3, "Skipped: ##[x]"), guarded) == ("a.md", 3, "Skipped: # #[x]")
    assert guard_longrepr(None, guarded) is None
    entry = SimpleNamespace(lines=["::a", "b"])
    found = SimpleNamespace(
        reprtraceback=SimpleNamespace(reprentries=[entry]), reprcrash=SimpleNamespace(message="##[c]")
    )
    assert guard_longrepr(found, guarded) is found
    assert entry.lines == [": :a", "b"]
    assert found.reprcrash.message == "# #[c]"
