"""``lecturecheck plan`` over recorded budgets."""

import json

import pytest
from support.kept_documents import call, keep
from support.made_sessions import before

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
        "lecturecheck: lecture-budgets has no budgets for tiny; there are: linux-x86_64-cpu "
        "(choose with --platform, or record some)\n"
    )
