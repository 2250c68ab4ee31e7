"""Variables for a shell and for later steps of GitHub Actions: nothing in a value is executed."""

import subprocess

import pytest

from pytest_lecturecheck.errors import SettingsError
from pytest_lecturecheck.repository.variable_text import render_github, render_shell

HOSTILE = "a'b\"$(touch x)`touch y`\nEOF\nPATH=/evil\n"


def test_a_shell_reads_the_same_values(tmp_path):
    lines = render_shell({"A": HOSTILE, "B": ""})
    script = "\n".join([*lines, 'printf %s "$A"'])
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, check=True)
    assert done.stdout.decode() == HOSTILE
    assert list(tmp_path.iterdir()) == []


def test_a_value_of_several_lines_sets_nothing_else():
    assert render_github({"B": "1", "A": HOSTILE}, lambda: "m") == (
        f"A<<LECTURECHECK_m\n{HOSTILE}\nLECTURECHECK_m\nB<<LECTURECHECK_m\n1\nLECTURECHECK_m\n"
    )


def test_the_mark_cannot_be_foreseen():
    assert render_github({"A": "1"}) != render_github({"A": "1"})


def test_a_value_with_the_mark_is_refused():
    with pytest.raises(SettingsError, match="holds the mark"):
        render_github({"A": "x\nLECTURECHECK_m\nPATH=/evil"}, lambda: "m")


@pytest.mark.parametrize("name", ["GITHUB_TOKEN", "RUNNER_TEMP", "NODE_OPTIONS", "github_path"])
def test_names_of_the_runner_are_refused(name):
    with pytest.raises(SettingsError, match="GitHub Actions keeps the name for itself"):
        render_github({name: "1"})
