"""The exit status of a session whose lectures fit what is declared one by one, but not together."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from support.made_entries import MACHINE, cell, comparison, run_of, verdict

from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.plugin.session_end import ControllerEnd
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.session.results import Results
from pytest_lecturecheck.verdict import VerdictKind


def entry(lecture, seconds):
    run = run_of(lecture, [cell(1, None, 100, 50, seconds)])
    fits = comparison(run, Metric.WALL, VerdictKind.FITS, 3600.0)
    return Entry(run=run, verdict=verdict(VerdictKind.FITS, "fits", comparisons=(fits,)))


def exit_status(entries, status, monkeypatch):
    results = object.__new__(Results)
    results.entries = entries
    shown = SimpleNamespace(entries=entries, platform="here", finish=lambda _: True, package_fits=results.package_fits)
    context = SimpleNamespace(results=shown, machine=MACHINE)
    github = SimpleNamespace(write_summary=lambda *_, **__: "")
    notices = SimpleNamespace(add=lambda *_: None)
    saver = SimpleNamespace(end=lambda **_: None)
    filler = SimpleNamespace(is_whole=True)
    collected = SimpleNamespace(explain=lambda: "", empty_part="")
    state = SimpleNamespace(context=context, close=lambda: None)
    session = SimpleNamespace(exitstatus=status, config=SimpleNamespace(getoption=lambda _: False))
    end = ControllerEnd(state, github, notices, saver=saver, filler=filler, collected=collected)
    monkeypatch.setattr(end, "_build_differences", list)
    end.pytest_sessionfinish(session)
    return session.exitstatus


@pytest.mark.parametrize(
    ("seconds", "before", "after"),
    [
        (1800.0, pytest.ExitCode.OK, pytest.ExitCode.OK),
        (2400.0, pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED),
        (2400.0, pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERRUPTED),
    ],
)
def test_a_package_over_its_declared_time_fails_the_session(monkeypatch, seconds, before, after):
    assert exit_status([entry("a.ipynb", seconds), entry("b.ipynb", seconds)], before, monkeypatch) == after
