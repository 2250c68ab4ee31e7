"""``lecturecheck findings`` over kept sessions and reports of several machines."""

import json
import subprocess

import pytest
from support.git_repository import write
from support.kept_documents import call, document, keep
from support.made_matrix import CPU, cpu_session, gpu_session, rounds
from support.made_sessions import kept, session_of

SETTINGS = f"""
[machines.small]
price = 0.1
cores = 4
memory = "16 GB"
platform = "{CPU}"

[priors.twice]
of = "float64-penalty {CPU} work.md size=10000"
between = [1.5, 2.5]
"""


@pytest.fixture
def book(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    (tmp_path / "lecturecheck.toml").write_text(SETTINGS, encoding="utf-8")
    return tmp_path


def test_sessions_of_two_machines_become_one_report(book, capsys):
    keep(book, cpu_session())
    (book / "gpu.json").write_text(document(gpu_session()), encoding="utf-8")
    status, out, err = call(capsys, "findings", ".lecturecheck", "gpu.json", "-o", "out")
    assert (status, err) == (0, "")
    assert out.startswith("1. What does float64 cost?\n  Of 8 comparisons: float64 takes longer in ")
    assert out.endswith("\nwritten to out\n")
    names = {path.name for path in (book / "out").iterdir()}
    assert {"findings.md", "findings.html", "break-even.svg", "break-even-picture.csv", "priors.csv"} <= names
    assert "confirmed" in (book / "out" / "findings.md").read_text(encoding="utf-8")


def test_values_are_printed_for_priors(book, capsys):
    keep(book, cpu_session())
    status, out, _ = call(capsys, "findings", "--values")
    assert status == 0
    assert f"float64-penalty {CPU} work.md size=10000: " in out
    assert not (book / "build").exists()


@pytest.mark.usefixtures("book")
def test_a_folder_without_sessions_is_explained(capsys):
    status, _, err = call(capsys, "findings", ".")
    assert status == 2
    assert err == ("lecturecheck: .: holds no kept sessions; expected a folder .lecturecheck, or a JSON report\n")


def test_timeouts_are_a_patch_that_git_applies(book, capsys):
    files = {
        "a.md": "---\nkernelspec: {name: python3}\n---\n",
        "_config.yml": "execute:\n  timeout: 9000\n",
        ".github/workflows/ci.yml": (
            "on: push\njobs:\n  build:\n    runs-on: ubuntu-latest\n    steps:\n      - run: jb build .\n"
        ),
    }
    write(book, files)
    subprocess.run(["git", "init", "-q"], cwd=book, check=True)
    runs = [kept("a.md", 100, 400.0), *(kept(f"{number}.ipynb", 100, 5.0) for number in range(19))]
    keep(book, session_of(*runs))
    status, out, _ = call(capsys, "findings", "--timeouts", "t.patch")
    assert status == 0
    assert out.startswith("cells: 60 s for all, from 20 lectures; jobs: ")
    subprocess.run(["git", "apply", "t.patch"], cwd=book, check=True)
    assert "lecturecheck:\n  timeout: 1200\n" in (book / "a.md").read_text(encoding="utf-8")
    assert (book / "_config.yml").read_text(encoding="utf-8") == "execute:\n  timeout: 60\n"
    assert "    timeout-minutes: " in (book / ".github/workflows/ci.yml").read_text(encoding="utf-8")


def test_timeouts_without_a_workflow_are_a_patch_too(book, capsys):
    write(book, {"_config.yml": "execute:\n  timeout: 9000\n"})
    keep(book, session_of(kept("1.ipynb", 100, 5.0)))
    status, out, err = call(capsys, "findings", "--timeouts", "t.patch")
    assert (status, err) == (0, "")
    assert "+  timeout: 60" in (book / "t.patch").read_text(encoding="utf-8")
    assert "written to t.patch" in out


def test_timeouts_leave_files_outside_of_the_repository_alone(book, capsys):
    root = book / "inner"
    root.mkdir()
    (book / "secret.md").write_text("---\ntoken: 1\n---\n", encoding="utf-8")
    write(root, {"_config.yml": "execute:\n  timeout: 9000\n"})
    runs = [kept("../secret.md", 100, 400.0), *(kept(f"{number}.ipynb", 100, 5.0) for number in range(19))]
    keep(root, session_of(*runs))
    status, out, _ = call(capsys, "findings", "--root", "inner", "--timeouts", "t.patch")
    assert status == 0
    assert "../secret.md: not changed, set it by hand" in out
    patch = (book / "t.patch").read_text(encoding="utf-8")
    assert "token" not in patch
    assert "+  timeout: 60" in patch


def test_a_session_counts_once_however_often_it_is_named(book, capsys):
    runs = [run for value in ("f32", "f64") for run in rounds(f"precision={value}", 1.0, count=4)]
    (path,) = keep(book, session_of(*runs, name="s", platform=CPU))
    named = json.loads(path.read_text(encoding="utf-8")) | {"session": "20260105T060000Z-bbbbbb"}
    for name in ("report.json", "copy.json"):
        (book / name).write_text(json.dumps(named), encoding="utf-8")
    status, out, _ = call(capsys, "findings", "report.json", "copy.json", "-o", "out")
    assert status == 0
    assert "too few runs to conclude in 1." in out
    assert "1 session was there twice and counts once\nwritten to out\n" in out


@pytest.mark.parametrize("number", ["0", "-1", "x", "9" * 5000])
def test_builds_per_year_that_cannot_be_used(capsys, number):
    with pytest.raises(SystemExit):
        call(capsys, "findings", "--builds-per-year", number)
    assert "is not a whole number of at least 1" in capsys.readouterr().err
