"""``lecturecheck run``: any program, without pytest."""

import json

import pytest

from pytest_lecturecheck.commands.main import main
from pytest_lecturecheck.commands.run import name_of


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--cap", "4", "--", "true"], "--cap: "),
        (["--report", "x.exe", "--", "true"], "report 'x.exe' has no known format"),
        (["--enforce-declared", "--", "true"], "--enforce-declared has nothing to enforce"),
    ],
)
def test_arguments_that_cannot_be_used_are_named(capsys, arguments, said):
    assert main(["run", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_programs_are_named_by_their_script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "main.R").write_text("", encoding="utf-8")

    assert name_of(["/usr/bin/Rscript", "--vanilla", "main.R", "12"]) == "main.R"
    assert name_of(["/usr/bin/make", "all"]) == "make all"


def test_a_program_is_run_reported_and_kept(tmp_path, monkeypatch, capfdbinary):
    monkeypatch.chdir(tmp_path)
    arguments = ["--declared-memory", "1 GB", "--name", "hello", "--report", "run.json", "--", "sh", "-c", "echo hello"]

    assert main(["run", *arguments]) == 0

    shown = capfdbinary.readouterr().out.decode()
    assert shown.startswith("hello\n")
    assert "fits" in shown
    (kept,) = json.loads((tmp_path / "run.json").read_text("utf-8"))["runs"]
    assert kept["run"]["lecture"] == "hello"
    assert main(["show", "hello"]) == 0


def test_what_the_settings_file_declares_counts_for_a_program(tmp_path, monkeypatch, capfdbinary):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lecturecheck.toml").write_text("[declared]\nmemory = '1 GB'\ntime = '0.01 s'\n", encoding="utf-8")

    assert main(["run", "--", "sleep", "0.1"]) == 1
    assert "not fitting" in capfdbinary.readouterr().out.decode()
    assert main(["run", "--declared-time", "1 min", "--", "true"]) == 0


def test_a_failing_program_fails_the_command(tmp_path, monkeypatch, capfdbinary):
    monkeypatch.chdir(tmp_path)

    assert main(["run", "--", "sh", "-c", "exit 3"]) == 1
    assert "program ended with exit code 3" in capfdbinary.readouterr().out.decode()
