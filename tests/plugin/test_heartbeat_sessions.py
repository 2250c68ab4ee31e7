"""Progress in the log of a session of pytest."""

from __future__ import annotations

import re

import pytest

# pytester has the session write to a file of this name, beside the lectures.
UNTIL_TOLD = """
while "a.ipynb: cell 2 of 3" not in pathlib.Path("stdout").read_text():
    time.sleep(0.05)
"""


@pytest.mark.parametrize("workers", [(), ("-n1",)])
def test_progress_in_the_log_of_a_session(pytester, lecture, workers):
    lecture("a.ipynb", "import pathlib, time", UNTIL_TOLD, "x = 1")
    lecture("b.ipynb", "1 / 0")
    pytester.path.joinpath("lecturecheck.toml").write_text("heartbeat = '1 s'", encoding="utf-8")
    result = pytester.runpytest_subprocess("--lecture-budget", "--lecture-timeout=60", *workers)
    text = "\n".join(result.outlines)
    lines = [line for line in result.outlines if re.match(r"[ab]\.ipynb: (starts|cell|kernel|no budget|failed)", line)]
    assert lines[0] == "a.ipynb: starts, 3 code cells"
    assert any(
        re.fullmatch(r"a\.ipynb: cell 2 of 3, [\d.]+ s, [\d.]+ MiB(, peak [\d.]+ MiB)?; machine .* free of .*", line)
        for line in lines
    )
    assert any(re.fullmatch(r"a\.ipynb: no budget after [\d.]+ s, peak [\d.]+ MiB", line) for line in lines)
    assert "b.ipynb: starts, 1 code cell" in lines
    assert any(line.startswith("b.ipynb: failed after ") and "ZeroDivisionError" in line for line in lines)
    assert text.index("a.ipynb: starts") < text.index("a.ipynb: no budget") < text.index("b.ipynb: failed")
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("case", "shows"),
    [
        ((None, "true", ()), True),
        ((None, None, ()), False),
        (("off", "true", ()), False),
        ((None, "true", ("-q",)), False),
    ],
)
def test_where_the_log_has_progress(pytester, lecture, monkeypatch, case, shows):
    setting, variable, arguments = case
    lecture("a.ipynb")
    if variable:
        monkeypatch.setenv("CI", variable)
    if setting:
        pytester.path.joinpath("lecturecheck.toml").write_text(f"heartbeat = {setting!r}", encoding="utf-8")
    result = pytester.runpytest_inprocess("--lecture-budget", *arguments)
    assert ("a.ipynb: starts, 1 code cell" in result.outlines) is shows
    assert any("100%" in line for line in result.outlines)
