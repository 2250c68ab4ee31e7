"""Sessions of pytest on GitHub Actions, as far as a process can know that it runs there."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET

import pytest

from pytest_lecturecheck.plugin.nodes import harmless_id


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


@pytest.mark.usefixtures("runner")
def test_a_file_that_cannot_be_read_has_its_line(pytester):
    pytester.path.joinpath("cut.ipynb").write_text('{\n "cells": [\n  {"cell', encoding="utf-8")
    pytester.path.joinpath("empty.ipynb").write_bytes(b"")
    result = pytester.runpytest_inprocess("--lecture-budget", "--junitxml=j.xml")
    result.assert_outcomes(errors=2)
    commands = [line for line in result.outlines if line.startswith("::")]
    name = pytester.path.name
    said = "cut.ipynb:3: is not complete JSON: the file ends in the middle (cut off or partly downloaded?)"
    assert commands == [
        f"::error file={name}/cut.ipynb,line=3,title=cut.ipynb%3A not readable::{said}",
        f"::error file={name}/empty.ipynb,title=empty.ipynb%3A not readable::empty.ipynb: is empty (0 bytes)",
    ]
    cases = ET.parse("j.xml").iter("testcase")
    properties = [{pair.get("name"): pair.get("value") for pair in case.iter("property")} for case in cases]
    assert [found["lecturecheck.verdict"] for found in properties] == ["not readable", "not readable"]
    assert [found.get("lecturecheck.line") for found in properties] == ["3", None]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no files of such names")
@pytest.mark.usefixtures("runner")
def test_hostile_file_names_are_escaped_in_log_and_xml(pytester, lecture):
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


def test_switched_off_it_still_guards_text(pytester, lecture, runner):
    lecture("bad.ipynb", HOSTILE)
    pytester.path.joinpath("lecturecheck.toml").write_text("github = false", encoding="utf-8")
    result = pytester.runpytest_inprocess("--lecture-budget", "-v")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert not runner.exists()
    assert not [line for line in result.outlines if line.lstrip().startswith("::") or "##[" in line]


def test_outside_github_text_is_unchanged(pytester, lecture):
    lecture("bad.ipynb", HOSTILE)
    result = pytester.runpytest_inprocess("--lecture-budget", "-v")
    assert [line for line in result.outlines if line.strip() == "::error::hostile"]
    assert not [line for line in result.outlines if line.startswith("::error file=")]
