"""``lecturecheck findings`` over kept sessions and reports of several machines."""

import pytest
from support.kept_documents import call, document, keep
from support.made_matrix import CPU, cpu_session, gpu_session

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
