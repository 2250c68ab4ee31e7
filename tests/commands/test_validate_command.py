"""``lecturecheck validate``: a repository's own files, every fault with its line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from support.kept_documents import call
from support.made_sessions import before, budgets

from pytest_lecturecheck.store.budget_file.files import save_budgets
from pytest_lecturecheck.store.history import append_history
from pytest_lecturecheck.verdict.history_lines import history_lines

ROOT = Path(__file__).parents[2]
BUDGETS = "lecture-budgets/linux-x86_64-cpu.toml"
NOTEBOOK = {
    "cells": [{"cell_type": "code", "source": "1", "metadata": {}, "outputs": [], "execution_count": None, "id": "a"}],
    "metadata": {"kernelspec": {"name": "python3", "display_name": "x"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A repository with settings, budgets and a history, all of them valid."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    (tmp_path / "lecturecheck.toml").write_text('timeout = "20 min"\nhistory = "h.jsonl"\n', encoding="utf-8")
    save_budgets(tmp_path / BUDGETS, budgets())
    append_history(tmp_path / "h.jsonl", history_lines(before()))
    (tmp_path / "lectures").mkdir()
    (tmp_path / "lectures/growth.md").touch()
    return tmp_path


@pytest.mark.usefixtures("book")
def test_a_valid_repository(capsys):
    note = f"note: {BUDGETS} has a budget for 'lectures/steady.md', and there is no such lecture"
    assert call(capsys, "validate") == (
        0,
        f"lecturecheck.toml: settings are valid\nlinux-x86_64-cpu: 2 budgets\n{note}\nh.jsonl: 7 lines\n",
        "",
    )


def test_every_fault_of_every_file_has_its_line(book, capsys):
    (book / "lecturecheck.toml").write_text(
        '# settings\ntimeout = "20 minutess"\nkeep-run = 3\n\n[env]\nA = 1\n', encoding="utf-8"
    )
    path = book / BUDGETS
    path.write_text(path.read_text(encoding="utf-8").replace("{ limit = ", "{ limits = ", 1), encoding="utf-8")
    status, out, err = call(capsys, "validate")
    lines = out.splitlines()
    assert (status, err, lines[-1]) == (1, "", "3 faults")
    assert lines[0].startswith("lecturecheck.toml:2: timeout: ")
    assert lines[1].startswith("lecturecheck.toml:3: unknown key 'keep-run'; did you mean keep-runs? ")
    assert re.match(rf"{BUDGETS}:\d+: .*limits: unknown key; expected one of limit, ", lines[2])


def test_faults_of_the_history_have_their_line(book, capsys):
    with (book / "h.jsonl").open("a", encoding="utf-8") as file:
        file.write("{\n")
    status, out, _ = call(capsys, "validate")
    assert status == 1
    assert out.startswith("h.jsonl:8: not JSON: ")


def test_a_settings_file_that_is_no_toml_has_the_line(book, capsys):
    (book / "lecturecheck.toml").write_text("runs = 1\nruns =\n", encoding="utf-8")
    status, out, _ = call(capsys, "validate")
    assert (status, out) == (1, "lecturecheck.toml:2: cannot be read as TOML: Invalid value\n1 fault\n")


def test_settings_in_pyproject_have_their_line(book, capsys):
    (book / "lecturecheck.toml").unlink()
    (book / "pyproject.toml").write_text(
        "[project]\nname = 'x'\n\n[[tool.mypy.overrides]]\nmodule = 'y'\n\n[tool.lecturecheck]\nruns = 0\n"
        "[tool.lecturecheck.env]\nA = []\n",
        encoding="utf-8",
    )
    status, out, _ = call(capsys, "validate")
    lines = out.splitlines()
    assert status == 1
    assert lines[0] == "pyproject.toml:8: runs: 0 is not a whole number of at least 1"
    assert lines[1].startswith("pyproject.toml:9: env: ")


def test_settings_that_do_not_fit_together_are_faults(book, capsys):
    (book / "lecturecheck.toml").write_text("\nenv-profile = 'none'\n", encoding="utf-8")
    status, out, _ = call(capsys, "validate")
    assert status == 1
    assert out.startswith("lecturecheck.toml:2: env-profile: ")


@pytest.mark.usefixtures("book")
def test_named_files_and_folders(capsys):
    assert call(capsys, "validate", "lecture-budgets", "h.jsonl", "lecturecheck.toml")[0] == 0
    assert call(capsys, "validate", BUDGETS)[1].startswith("linux-x86_64-cpu: 2 budgets\n")
    assert call(capsys, "validate", "lectures") == (0, "lectures: no budget files\n", "")
    status, _, err = call(capsys, "validate", "no.toml")
    assert status == 2
    assert err.startswith("lecturecheck: no.toml: no such file or folder; ")


def test_settings_of_lectures(book, capsys):
    (book / "good.ipynb").write_text(json.dumps(NOTEBOOK), encoding="utf-8")
    bad = {**NOTEBOOK, "metadata": {**NOTEBOOK["metadata"], "lecturecheck": {"timeot": 3}}}
    (book / "bad.ipynb").write_text(json.dumps(bad), encoding="utf-8")
    assert call(capsys, "validate", "good.ipynb") == (0, "good.ipynb: can be read\n", "")
    status, out, _ = call(capsys, "validate", "bad.ipynb")
    assert status == 1
    assert re.match(r"bad\.ipynb:\d+: .*timeot", out)


def test_an_empty_repository_has_nothing_to_check(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call(capsys, "validate") == (0, "nothing to check: no settings, no budget files, no history\n", "")


@pytest.mark.parametrize(
    ("path", "is_checked"),
    [
        ("lecturecheck.toml", True),
        ("book/pyproject.toml", True),
        (BUDGETS, True),
        ("lecture-history.jsonl", True),
        ("data/x.toml", False),
        ("lectures/growth.md", False),
    ],
)
def test_the_hook_of_pre_commit_runs_for_these_files(path, is_checked):
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert (hook["entry"], hook["language"], hook["pass_filenames"]) == ("lecturecheck validate", "python", False)
    assert bool(re.search(hook["files"], path)) is is_checked


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[variant."a\\u001b[31m b"]\n', "lecturecheck.toml:1: variant: [variant.a b]: the name 'a\\x1b[31m b'"),
        ('[axes]\ndevice = ["tpu"]\n', "lecturecheck.toml:1: axes: axis device: 'tpu' is not known; expected cpu, gpu"),
        (
            f"[axes]\na = {list(range(60))}\nb = {list(range(60))}\n",
            "lecturecheck.toml:1: axes: axes (a 60, b 60) span",
        ),
        (f"[[axes]]\na = {list(range(9999))}\n", "lecturecheck.toml:1: axes: "),
    ],
    ids=["control-characters", "axis", "product", "long"],
)
def test_hostile_axes_and_variants_are_one_short_line(book, capsys, text, said):
    (book / "lecturecheck.toml").write_text(text, encoding="utf-8")
    status, out, _ = call(capsys, "validate")
    assert status == 1
    assert out.startswith(said)
    assert len(out) < 2500
    assert "\x1b" not in out
