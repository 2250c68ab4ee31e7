"""``lecturecheck plan`` over recorded budgets."""

import json
import shutil

import pytest
from support.kept_documents import call, keep
from support.made_sessions import before, kept, session_of

SETTINGS = """
[machines.small]
cores = 16
gpus = 1
gpu-memory = "16 GB"
memory = "64 GB"
platform = "linux-x86_64-cpu"

[machines.tiny]
cores = 1
memory = "500 MB"
"""


LECTURE = """---
kernelspec: {name: python3}
---

```{code-cell}
1
```
"""


@pytest.fixture
def book(tmp_path, monkeypatch, capsys):
    """A folder with budgets and two types of machines."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    (tmp_path / "lecturecheck.toml").write_text(SETTINGS, encoding="utf-8")
    keep(tmp_path, before())
    assert call(capsys, "record")[0] == 0
    return tmp_path


@pytest.mark.usefixtures("book")
def test_a_plan_states_workers_order_and_bound(capsys):
    status, out, err = call(capsys, "plan", "--on", "small")
    assert (status, err) == (0, ""), out
    lines = out.splitlines()
    assert lines[0].endswith(" lectures with budgets of linux-x86_64-cpu")
    assert lines[1].startswith("small: 16 cores, 56.6 GiB for lectures, 1 GPU: -n ")
    assert lines[2].lstrip().startswith("0 s  lectures/")
    assert lines[-1].startswith("all lectures end after ")


@pytest.mark.usefixtures("book")
def test_what_no_machine_holds_is_named(capsys):
    status, out, _ = call(capsys, "plan", "--on", "tiny", "--platform", "linux-x86_64-cpu", "--json")
    plan = json.loads(out)
    assert status == 1
    assert plan["left_out"]
    assert {item["name"] for item in plan["machines"]} == {"tiny"}
    _, out, _ = call(capsys, "plan", "--on", "tiny", "--platform", "linux-x86_64-cpu")
    # It lacks a card, and not only memory.
    assert "does not fit anywhere: lectures/gpu.md (990 MiB, 1 core, 2.7 GiB of GPU memory)" in out.splitlines()


def test_a_card_of_unknown_size_is_refused(book, capsys):
    (book / "lecturecheck.toml").write_text("[machines.card]\nmemory = '64 GB'\ngpus = 1\n", encoding="utf-8")
    status, _, err = call(capsys, "plan", "--on", "card", "--platform", "linux-x86_64-cpu")
    assert status == 2
    assert err == "lecturecheck: [machines.card]: gpu-memory is missing; expected for example gpu-memory = '16 GB'\n"


@pytest.mark.usefixtures("book")
def test_an_unknown_machine_is_refused_with_the_known_ones(capsys):
    status, _, err = call(capsys, "plan", "--on", "smal")
    assert status == 2
    assert err == (
        "lecturecheck: machine 'smal' is not in [machines]; did you mean small? expected one of small, tiny\n"
    )


@pytest.mark.usefixtures("book")
def test_a_platform_without_budgets_is_explained(capsys):
    status, _, err = call(capsys, "plan", "--on", "tiny")
    assert status == 2
    assert err == (
        "lecturecheck: lecture-budgets has no budgets for tiny, and no kept session has a complete run on it; budgets: "
        "linux-x86_64-cpu (choose with --platform). Run the lectures once on such a machine, and plan again: "
        "pytest --lecture-record\n"
    )


def test_kept_runs_are_planned_where_nothing_is_recorded(book, capsys):
    shutil.rmtree(book / "lecture-budgets")
    (book / "new.md").write_text(LECTURE, encoding="utf-8")
    status, out, _ = call(capsys, "plan", "--on", "small", "--json")
    plan = json.loads(out)
    assert status == 0
    assert plan["from_runs"] == sorted(start["lecture"] for start in plan["starts"])
    assert plan["not_measured"] == ["new.md"]
    lines = call(capsys, "plan", "--on", "small")[1].splitlines()
    count = len(plan["from_runs"])
    assert lines[0] == f"0 lectures with budgets of linux-x86_64-cpu, and {count} with kept runs only"
    assert lines[-2].startswith("by kept runs, without a recorded time: lectures/")
    assert lines[-1] == (
        "not planned, because no complete run is known: new.md; run them once with pytest --lecture-budget, or record "
        "them with pytest --lecture-record"
    )


def test_variants_of_earlier_sessions_are_not_planned(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lecturecheck.toml").write_text(SETTINGS, encoding="utf-8")
    tried, usual = (session_of(kept("a.md", 100, variant=name), days=n) for n, name in enumerate(("size=9", "size=1")))
    keep(tmp_path, tried, usual)
    plan = json.loads(call(capsys, "plan", "--on", "small", "--json")[1])
    assert plan["from_runs"] == ["a.md [size=1]"]
