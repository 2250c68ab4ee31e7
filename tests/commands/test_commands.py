"""The commands over kept sessions, as people call them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.kept_documents import call, keep
from support.made_entries import over
from support.made_sessions import START, after, before, budgets, drifting, kept, session_of

from pytest_lecturecheck.commands.main import main
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.report.json_report import render_json
from pytest_lecturecheck.report.markdown_report import render_markdown
from pytest_lecturecheck.store.budget_file.files import save_budgets
from pytest_lecturecheck.store.runs import budget_to_dict, run_to_dict, verdict_to_dict


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A folder in which sessions have been kept."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


def test_the_last_session_as_a_page(book, capsys):
    _, last = keep(book, before(), after())
    status, out, err = call(capsys, "report")
    assert (status, err) == (0, "")
    assert out == f"report.html: {last.stem} of 2026-01-12 06:00 UTC, 7 runs\n"
    assert "lectures/new.md" in Path("report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("words", [["report", "-o", "a\0.html"], ["plan", "--root", "\0"], ["findings", "\0"]])
def test_a_nul_character_is_a_usage_error(capsys, words):
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    assert "holds a NUL character; expected a name, a path or a number without" in capsys.readouterr().err


def test_a_report_of_a_report_is_the_same_document(book, capsys):
    (path,) = keep(book, before())
    assert call(capsys, "report", str(path), "-o", "x.json")[0] == 0
    assert call(capsys, "report", "x.json", "-o", "y.json")[0] == 0
    assert Path("x.json").read_text(encoding="utf-8") == Path("y.json").read_text(encoding="utf-8")
    written = json.loads(Path("x.json").read_text(encoding="utf-8"))
    assert written["runs"] == json.loads(path.read_text(encoding="utf-8"))["runs"]
    assert (written["ended"], written["mode"], written["version"]) == (START.isoformat(), "check", "1.0")
    assert written["totals"]["lectures"] == 7


@pytest.mark.usefixtures("book")
def test_a_report_knows_the_budget_that_was_in_force(capsys):
    entry = over()
    record = {
        "run": run_to_dict(entry.run),
        "verdict": verdict_to_dict(entry.verdict),
        "budget": budget_to_dict(entry.budget),
        "seconds": entry.seconds,
    }
    text = render_json([record], [entry], platform="linux-x86_64-cpu", about={"ended": START.isoformat()})
    Path("x.json").write_text(text, encoding="utf-8")
    assert call(capsys, "report", "x.json", "-o", "x.md")[0] == 0
    assert Path("x.md").read_text(encoding="utf-8") == render_markdown(
        [entry], platform="linux-x86_64-cpu", machine=entry.run.machine
    )
    assert call(capsys, "report", "x.json", "-o", "y.json")[0] == 0
    assert json.loads(Path("y.json").read_text(encoding="utf-8"))["runs"] == json.loads(text)["runs"]
    assert call(capsys, "report", "y.json", "-o", "y.html")[0] == 0
    page = Path("y.html").read_text(encoding="utf-8")
    for text in ("Changed since the budget was recorded", "recorded 2025-11-02 from 3 runs", "1.21 to 1.26 GiB"):
        assert text in page


def test_markdown_from_another_folder(book, capsys, monkeypatch):
    keep(book, before(), after())
    below = book / "lectures" / "deep"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert call(capsys, "report", "last~1", "-o", "old.md")[0] == 0
    assert "lectures/old.md" in Path("old.md").read_text(encoding="utf-8")
    monkeypatch.chdir("/")
    assert call(capsys, "show", "growth.md", "--root", str(book))[1].startswith("lectures/growth.md: 2 sessions\n")


def test_a_comparison_and_its_exit_status(book, capsys):
    keep(book, before(), after())
    status, out, _ = call(capsys, "compare", "last~1", "last")
    assert (status, out.endswith("\n6 lectures compared\n")) == (0, True)
    assert call(capsys, "compare", "last~1", "last", "--fail-over", "2.5")[0] == 0
    status, out, err = call(capsys, "compare", "last~1", "last", "--fail-over", "1.2")
    assert (status, err) == (1, "")
    assert "2 grew to more than 1.2 times: lectures/gpu.md (compile time 2.08 x)" in out


@pytest.mark.parametrize("name", ["linux-x86_64-cpu", "lecture-budgets/linux-x86_64-cpu.toml"])
def test_a_comparison_with_a_budget_file(book, capsys, name):
    save_budgets(book / "lecture-budgets" / "linux-x86_64-cpu.toml", budgets())
    (path,) = keep(book, after())
    status, out, _ = call(capsys, "compare", name, "last")
    lines = out.split("\n")
    assert status == 0
    assert lines[0] == "before: budgets of linux-x86_64-cpu.toml, linux-x86_64-cpu"
    assert lines[1] == f"after:  last, {path.stem} of 2026-01-12 06:00 UTC, linux-x86_64-cpu"
    assert lines[-2] == "2 lectures compared"


def test_a_history(book, capsys):
    keep(book, *drifting())
    status, out, err = call(capsys, "show", "nuts.md")
    assert (status, err) == (0, "")
    assert "  peak footprint drifts by +4.0 % a month: " in out


def test_paragraphs_for_a_readme(book, capsys):
    keep(book, before())
    status, out, _ = call(capsys, "readme")
    assert status == 0
    assert out.startswith("### Memory, Runtime, Storage Requirements\n\n7 notebooks were run on 2026-01-05 and ")


def test_one_recorded_notebook_is_not_described_as_the_package(book, capsys):
    """A later session of one notebook renews its own values; the others keep those of the session before."""
    first, second = before(), after()
    only = next(item for item in second.runs if item.run.lecture == "lectures/growth.md")
    keep(book, first, replace(second, runs=(only,)))
    for item in first.runs:
        file = book / item.run.lecture
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    (book / "lectures" / "old.md").unlink()
    status, out, _ = call(capsys, "readme")
    assert status == 0
    assert "\n6 notebooks were run between 2026-01-05 and 2026-01-12 and measured with " in out
    assert out.count("| `lectures/growth.md` | ") == 1
    assert "| `lectures/old.md` |" not in out
    assert "\n1 notebook was run on 2026-01-12 and measured with " in call(capsys, "readme", "last")[1]


def test_runs_of_other_platforms_stand_beside_in_a_readme(book, capsys):
    first = before()
    (file,) = keep(book, replace(first, platform="darwin-arm64-cpu"))
    elsewhere = book / "mac.json"
    file.rename(elsewhere)
    keep(book, after())
    assert "#### Tested on" not in call(capsys, "readme")[1]
    status, out, _ = call(capsys, "readme", "last", "--with", str(elsewhere))
    assert status == 0
    assert "\n| notebook | `linux-x86_64-cpu` | `darwin-arm64-cpu` |\n" in out
    assert "notebooks were run on 2026-01-12 and measured" in out


def test_runs_of_a_part_are_no_notebook_of_a_readme(book, capsys):
    session = before()
    parts = tuple(replace(item, run=replace(item.run, until_cell=1)) for item in session.runs)
    keep(book, replace(session, runs=parts))
    status, _, err = call(capsys, "readme")
    assert (status, "no run of a whole notebook" in err) == (2, True)


def test_damaged_files_are_skipped_and_named(book, capsys):
    keep(book, before())
    (bad,) = keep(book, after())
    bad.write_text("[", encoding="utf-8")
    fault = f"lecturecheck: skipped: {bad}: not JSON: Expecting value: line 1 column 2 (char 1)\n"
    for arguments in (("readme",), ("show", "old.md"), ("report", "-o", "x.md")):
        status, _, err = call(capsys, *arguments)
        assert (status, err) == (0, fault)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("report", "-o", "x.pdf"),
            (
                "-o x.pdf: report 'x.pdf' has no known format; expected a name ending in .json, .md, .html, .csv, "
                ".metrics.txt, .shields.json, .customSmallerIsBetter.json, .benchmark.json or .bmf.json"
            ),
        ),
        (("report", "no.json"), "no.json: cannot be read: No such file or directory"),
        (
            ("compare", "last", "no.toml"),
            "no.toml: no such budget file; lecturecheck platform prints this machine's label",
        ),
        (
            ("compare", "last", "zzz"),
            (
                "{runs}: no kept session is named 'zzz'; expected last, last~1, or one of {name}\n"
                "'zzz' is not a platform either: there are budgets for linux-x86_64-cpu in lecture-budgets"
            ),
        ),
        (("show", "lectures/rate.md"), "{runs}: no kept session ran 'lectures/rate.md'; perhaps {near}"),
        (
            ("show", "zzz"),
            (
                "{runs}: no kept session ran 'zzz'; there are "
                "lectures/forks.md, lectures/gpu.md, lectures/growth.md and 6 more"
            ),
        ),
        (("show", "same.md"), "'same.md' matches x/same.md, y/same.md; write more of its path"),
    ],
)
def test_what_cannot_be_done_says_what_to_do(book, capsys, arguments, message):
    save_budgets(book / "lecture-budgets" / "linux-x86_64-cpu.toml", budgets())
    runs = [*before().runs, kept("x/same.md", 9), kept("y/same.md", 9)]
    (path,) = keep(book, session_of(*runs))
    status, out, err = call(capsys, *arguments)
    near = "lectures/rates.md, lectures/steady.md, lectures/growth.md"
    assert (status, out) == (2, "")
    assert err == f"lecturecheck: {message.format(runs=path.parent, name=path.stem, near=near)}\n"


def test_a_file_that_cannot_be_written(book, capsys):
    keep(book, before())
    (book / "x.md").write_text("a file")
    with pytest.raises(FileExistsError) as caught:
        (book / "x.md").mkdir()
    status, out, err = call(capsys, "report", "-o", "x.md/y.md")
    assert (status, out) == (2, "")
    assert err == f"lecturecheck: {Path('x.md/y.md')}: cannot be written: {caught.value.strerror}\n"


@pytest.mark.parametrize("arguments", [("report",), ("show", "a.md"), ("readme",)])
def test_without_sessions(book, capsys, arguments):
    status, _, err = call(capsys, *arguments)
    assert status == 2
    assert err == (
        f"lecturecheck: {book / '.lecturecheck' / 'runs'}: no session is kept here; run pytest --lecture-budget (with "
        "keep-runs above 0), or name a file that --lecture-report wrote\n"
    )


def test_a_session_that_ran_nothing_has_no_readme(book, capsys):
    run = kept("a.md", 1)
    skipped = replace(run, run=replace(run.run, outcome=Outcome.SKIPPED, cells=()))
    (path,) = keep(book, session_of(skipped))
    status, _, err = call(capsys, "readme")
    assert status == 2
    assert err == (
        f"lecturecheck: {path.stem} of 2026-01-05 06:00 UTC ran no cell, so there is nothing to report; choose "
        "another session\n"
    )


@pytest.mark.parametrize("factor", ["0.9", "nan", "inf", "x"])
def test_factors_that_are_none(capsys, factor):
    with pytest.raises(SystemExit) as caught:
        main(["compare", "a", "b", "--fail-over", factor])
    assert caught.value.code == 2
    assert f"argument --fail-over: {factor!r} is not a factor of at least 1, such as 1.2" in capsys.readouterr().err


COMMANDS = [
    "report",
    "compare",
    "show",
    "readme",
    "record",
    "record-from",
    "validate",
    "budgets",
    "explain",
    "platform",
    "slurm",
]


def help_of(capsys, command):
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_teaches_by_examples(capsys, command):
    text = help_of(capsys, command)
    assert f"\n  lecturecheck {command} " in text
    assert text.isascii()


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("columns", [40, 70])
def test_the_help_folds_its_prose_and_leaves_its_examples(capsys, monkeypatch, command, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    narrow = help_of(capsys, command).split("\n")
    assert [row for row in narrow if len(row) > columns and not row.startswith("  ")] == []
    monkeypatch.setenv("COLUMNS", "200")
    examples = [row for row in help_of(capsys, command).split("\n") if row.startswith(("  lecturecheck", "  pytest"))]
    assert [row for row in narrow if row.startswith(("  lecturecheck", "  pytest"))] == examples
    assert examples


def test_the_whole_help_of_a_command(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    assert help_of(capsys, "platform").partition("options:")[0].partition("\n\n")[2] == (
        "Print the label of this machine's budgets (the name of\n"
        "their file in lecture-budgets), and what a run can use of\n"
        "it: system, processor, cores, memory, limits, GPUs. For\n"
        "each GPU: compute capability, how slow float64 is, and\n"
        "whether it meets what the installed JAX needs. For each\n"
        "pair: peer access, and what lies between them.\n"
        "\n"
        "  lecturecheck platform                        linux-x86_64-cpu, and a line about the machine\n"
        "  pytest --lecture-platform NAME ...           use another label for a session\n"
        "\n"
    )


def test_the_command_alone_prints_its_help(capsys):
    status, out, err = call(capsys)
    assert (status, err) == (0, "")
    assert out.startswith("usage: lecturecheck ")
    assert "\n  record  " in out


def test_the_command_loads_neither_pytest_nor_a_library_of_notebooks():
    script = (
        "import sys; from pytest_lecturecheck.commands.main import main; "
        "print(sorted({'pytest', '_pytest', 'nbformat', 'nbclient', 'jinja2', 'jupytext'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


def test_help_loads_no_room():
    script = (
        "import sys; from pytest_lecturecheck.commands.main import main\n"
        "try: main(['compare', '--help'])\n"
        "except SystemExit: pass\n"
        "print('LOADED', *sorted(name for name in sys.modules if name.startswith('pytest_lecturecheck.')))"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = found.stdout.split("LOADED ")[1].split()
    rooms = ("probe", "store", "report.", "verdict", "run", "lecture", "kernel")
    unwanted = [name for name in loaded if name.removeprefix("pytest_lecturecheck.").startswith(rooms)]
    assert unwanted == ["pytest_lecturecheck.report.text"]


def test_a_terminal_of_a_poor_encoding_gets_escapes(book):
    keep(book, before())
    script = "import sys; from pytest_lecturecheck.commands.main import main; sys.exit(main(['readme']))"
    found = subprocess.run(
        [sys.executable, "-X", "utf8=0", "-c", script],
        capture_output=True,
        cwd=book,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=True,
    )
    assert b"| \\u2264 750 MiB |" in found.stdout
