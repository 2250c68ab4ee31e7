"""Sessions on GitHub Actions, as far as a process can tell that it runs there."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import pytest

from pytest_lecturecheck.plugin.nodes import harmless_id
from pytest_lecturecheck.session.github_actions import GitHub, guard_for, guard_longrepr


@pytest.fixture
def runner(pytester, monkeypatch):
    """Set what GitHub's runner sets; the repository is one folder above rootdir."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(pytester.path.parent))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
    return pytester.path / "summary.md"


HOSTILE = "raise ValueError('no\\n::error::hostile\\n  ##[warning]hostile')"


@pytest.mark.parametrize("workers", [(), ("-n1",)])
def test_summary_and_annotations(pytester, lecture, runner, workers):
    lecture("good.ipynb")
    lecture("bad.ipynb", "x = 1", HOSTILE)
    runner.write_text("of an earlier step\n", encoding="utf-8")
    start = pytester.runpytest_subprocess if workers else pytester.runpytest_inprocess
    result = start("--lecture-budget", "-v", *workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    text = runner.read_text(encoding="utf-8")
    assert text.startswith("of an earlier step\n\n## Lecture check\n\n**2 lectures: 1 failed, 1 no budget; ")
    assert text.index("<code>bad.ipynb:") < text.index("<code>good.ipynb</code>")
    commands = [line for line in result.outlines if line.lstrip().startswith("::") or "##[" in line]
    assert len(commands) == 1
    name = pytester.path.name
    assert commands[0].startswith(f"::error file={name}/bad.ipynb,line=")
    assert ",title=bad.ipynb%3A failed::ValueError: no ::error::hostile # #[warning]hostile" in commands[0]
    assert [line for line in result.outlines if line.lstrip().startswith(": :error::hostile")]


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
def test_names_that_pytest_may_print(name, shown):
    assert harmless_id(name) == shown


@pytest.mark.skipif(os.name == "nt", reason="Windows has no files of such names")
@pytest.mark.usefixtures("runner")
def test_file_names_speak_neither_to_the_runner_nor_to_readers_of_xml(pytester, lecture):
    names = ["x\n::error::owned.ipynb", "::error::b.ipynb", "y\x1b[31m\x07##[error]z.ipynb"]
    for name in names:
        lecture(name, "1 / 0")
    result = pytester.runpytest_inprocess("--lecture-budget", "--junitxml=j.xml", "-vv")
    result.assert_outcomes(failed=3)
    commands = [line for line in result.outlines if line.startswith("::") or "##[" in line or "\x1b" in line]
    assert len(commands) == 3
    assert all(line.startswith("::error file=") for line in commands)
    cases = ET.parse("j.xml").iter("testcase")
    assert sorted((case.get("classname"), case.get("name")) for case in cases) == sorted(
        (harmless_id(name).replace("::", "."), "lecture") for name in names
    )
    # And by such an id a lecture is left out.
    left_out = pytester.runpytest_inprocess("--lecture-budget", f"--deselect={harmless_id(names[0])}")
    left_out.assert_outcomes(failed=2, deselected=1)


def test_it_can_be_switched_off_and_text_stays_harmless(pytester, lecture, runner):
    lecture("bad.ipynb", HOSTILE)
    pytester.path.joinpath("lecturecheck.toml").write_text("github = false", encoding="utf-8")
    result = pytester.runpytest_inprocess("--lecture-budget", "-v")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert not runner.exists()
    assert not [line for line in result.outlines if line.lstrip().startswith("::") or "##[" in line]


def test_elsewhere_nothing_is_written_and_text_stays(pytester, lecture):
    lecture("bad.ipynb", HOSTILE)
    result = pytester.runpytest_inprocess("--lecture-budget", "-v")
    assert [line for line in result.outlines if line.strip() == "::error::hostile"]
    assert not [line for line in result.outlines if line.startswith("::error file=")]


def github(tmp_path, **environ):
    return GitHub({"GITHUB_STEP_SUMMARY": str(tmp_path / "s.md"), **environ}, tmp_path, is_on=True)


def test_without_entries_nothing_is_written(tmp_path):
    assert github(tmp_path).write_summary([], platform="here", machine=None) == ""
    assert list(tmp_path.iterdir()) == []


def test_a_summary_that_is_full_or_cannot_be_written_is_told(tmp_path, entries):
    (tmp_path / "s.md").write_bytes(b"x" * 1024 * 1024)
    full = github(tmp_path).write_summary(entries, platform="here", machine=None)
    assert full == "the job's summary (GITHUB_STEP_SUMMARY) is full: this session is not in it"
    assert (tmp_path / "s.md").stat().st_size == 1024 * 1024
    (tmp_path / "s.md").unlink()
    (tmp_path / "s.md").mkdir()
    fault = github(tmp_path).write_summary(entries, platform="here", machine=None)
    reasons = ("Is a directory", "Permission denied")
    assert fault in {f"the job's summary (GITHUB_STEP_SUMMARY) cannot be written: {reason}" for reason in reasons}


def test_two_sessions_of_a_job_stand_below_each_other(tmp_path, entries):
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
def test_where_the_repository_begins(tmp_path, entries, workspace, prefix):
    known = {"root": tmp_path, "parent": tmp_path.parent, "name": tmp_path.name}
    place = github(tmp_path, GITHUB_ACTIONS="true", GITHUB_WORKSPACE=workspace.format(**known))
    (line,) = place.annotations(entries)
    assert line.startswith(f"::error file={prefix.format(**known).removeprefix('./')}lectures/bang.md,line=43,")


def test_annotations_are_for_the_runner_alone(tmp_path, entries):
    assert github(tmp_path).annotations(entries) == []
    assert GitHub({"GITHUB_ACTIONS": "true"}, tmp_path, is_on=False).annotations(entries) == []
    assert guard_for({})("::x") == "::x"
    assert guard_for({"GITHUB_ACTIONS": "true"})("::x") == ": :x"


def test_what_pytest_prints_of_a_failure_or_a_skip_is_guarded():
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
