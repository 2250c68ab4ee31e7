"""Files of sessions that were changed by hand: each number in them may be anything, and no report breaks over it."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import re
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.made_cohorts import cohort, kernel
from support.made_entries import failed, quiet_ones
from support.made_html import on_gpu, pictured
from support.made_reported_values import DISTANCE, SPEEDUP
from support.made_reported_values import entry as reporting

from pytest_lecturecheck.commands.main import main
from pytest_lecturecheck.commands.session_lookup import entries_of
from pytest_lecturecheck.report.junit_properties import properties
from pytest_lecturecheck.report.terminal.failure import render_failure
from pytest_lecturecheck.report.terminal.summary import render_summary
from pytest_lecturecheck.store.runs import run_to_dict, verdict_to_dict
from pytest_lecturecheck.store.session_history import read_session


def _short(entry):
    return replace(entry, run=replace(entry.run, timeline=entry.run.timeline[:4]))


ENTRIES = [
    *map(_short, (*pictured(), on_gpu())),
    failed(),
    *quiet_ones()[-2:],
    cohort(kernel(), kernel(start=0.01)),
    reporting(SPEEDUP, DISTANCE),
]
RECORDS = [
    {"run": run_to_dict(entry.run), "verdict": verdict_to_dict(entry.verdict), "seconds": entry.seconds}
    for entry in ENTRIES
]


def _places(value, place=()):
    """Return the positions of all numbers."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if isinstance(item, int | float) and not isinstance(item, bool):
            yield (*place, key)
        yield from _places(item, (*place, key))


# One of each kind: positions in lists do not matter.
PLACES = list({re.sub(r"\b\d+\b", "", str(place)): place for place in _places(RECORDS)}.values())
ODD = st.one_of(
    st.sampled_from([1e308, -1e308, 10**300, -(10**70), 2**64, 2**64 + 1, 0, -1, 5e-324, "nan", "inf", "-inf"]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(),
)


def document(place, value):
    record = copy.deepcopy(RECORDS[place[0]])
    holder = record
    for key in place[1:-1]:
        holder = holder[key]
    holder[place[-1]] = value
    return json.dumps({"schema": 1, "platform": "here", "ended": "2026-01-05T06:00:00+00:00", "runs": [record]})


def call(*arguments):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        return main(arguments), err.getvalue()


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.sampled_from(PLACES), value=ODD)
def test_a_number_is_refused_or_shown(tmp_path, place, value):
    path, out = tmp_path / "x.json", tmp_path / "report"
    path.write_text(document(place, value), encoding="utf-8")
    status, err = call("report", str(path), "-o", f"{out}.json")
    if status:
        assert err.startswith(f"lecturecheck: {path}: ")
        return
    assert call("report", f"{out}.json", "-o", f"{out}.md") == (0, "")
    assert call("report", str(path), "-o", f"{out}.html") == (0, "")
    assert call("compare", str(path), str(path), "--fail-over", "1.2") == (0, "")
    assert call("readme", str(path))[0] in {0, 2}
    folder = tmp_path / ".lecturecheck" / "runs"
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(2):
        (folder / f"20260105T06000{number}Z-aaaaaa.json").write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    assert call("show", RECORDS[place[0]]["run"]["lecture"], "--root", str(tmp_path)) == (0, "")
    (entry,) = entries_of(read_session(path))
    assert render_failure(entry)
    assert render_summary([entry], width=80, colour=False, verbosity=2)
    assert properties(entry)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (
            (0, "run", "readings", "wall_seconds", "value"),
            1e308,
            "run.readings.wall_seconds.value: found 1e+308; expected a finite number of at most 2^64 in size",
        ),
        ((0, "run", "timeline", 1, "seconds"), "nan", None),
        ((0, "run", "cells", 1, "number"), -(10**70), None),
        ((0, "verdict", "comparisons", 0, "limit"), "inf", None),
    ],
)
def test_numbers_that_no_machine_gives_are_named(tmp_path, place, value, message):
    path = tmp_path / "x.json"
    path.write_text(document(place, value), encoding="utf-8")
    status, err = call("report", str(path))
    assert status == 2
    assert message is None or err == f"lecturecheck: {path}: {message.replace('run.', 'run 1.', 1)}\n"
    assert "expected a finite number of at most" in err


def test_a_reported_value_may_be_any_finite_number(tmp_path):
    place = next(place for place in PLACES if "figures" in place and place[-1] == "value")
    path = tmp_path / "x.json"
    path.write_text(document(place, 1e308), encoding="utf-8")
    assert call("report", str(path), "-o", str(tmp_path / "x.md"))[0] == 0
    assert "1e+308" in (tmp_path / "x.md").read_text(encoding="utf-8")


def test_names_of_lectures_are_harmless_in_errors_too(tmp_path):
    folder = tmp_path / ".lecturecheck" / "runs"
    folder.mkdir(parents=True)
    text = document((0, "run", "lecture"), "\x1b[2Jnuts\x07.md")
    (folder / "20260105T060000Z-aaaaaa.json").write_text(text, encoding="utf-8")
    status, err = call("show", "nuts.md", "--root", str(tmp_path))
    assert (status, err) == (2, f"lecturecheck: {folder}: no kept session ran 'nuts.md'; perhaps nuts\\x07.md\n")
