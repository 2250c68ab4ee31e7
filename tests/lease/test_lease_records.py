from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_lecturecheck.lease.admission import Demand, DeviceNeed, Holding
from pytest_lecturecheck.lease.records import (
    UNREADABLE,
    Admission,
    QueueEntry,
    parse_admission,
    parse_holding,
    parse_queue_entry,
    render_admission,
    render_holding,
    render_queue_entry,
    shown_label,
)

COUNTS = st.integers(0, 2**70)
# Names of files may hold anything, line ends and lone surrogates included.
LABELS = st.text(st.characters(exclude_categories=()))
DEMANDS = st.builds(
    Demand,
    label=LABELS,
    host_bytes=COUNTS,
    devices=st.lists(
        st.builds(DeviceNeed, index=st.none() | st.integers(0, 9), size_bytes=st.none() | COUNTS),
        unique_by=lambda need: need.index,
        max_size=3,
    ).map(tuple),
    core_count=COUNTS,
    is_exclusive=st.booleans(),
)
DEMANDS = DEMANDS.map(lambda demand: replace(demand, label=shown_label(demand.label)))
ENDLESS = (
    '{"schema": 1, "pid": Infinity, "started": "", "place": 1e999, "arrival": 1, "number": 1e999, "lease": "a", '
    '"beside": [], "demand": {"label": "", "host_bytes": 1, "devices": [], "core_count": 1, "is_exclusive": false}}'
)
HOLDINGS = st.builds(Holding, demand=DEMANDS, pid=COUNTS, started=LABELS)


@settings(deadline=None)
@given(HOLDINGS, COUNTS, COUNTS)
def test_what_is_written_is_read_back(holding, first, second):
    assert parse_holding(render_holding(holding)) == holding
    ticket = QueueEntry(demand=holding.demand, position=first, arrival=second)
    assert parse_queue_entry(render_queue_entry(ticket)) == ticket
    admission = Admission(number=first, lease="ab", holding=holding, beside=("c", "d"))
    assert parse_admission(render_admission(admission)) == admission
    assert render_admission(admission).isascii()
    assert len(render_admission(admission).splitlines()) == 1


@settings(deadline=None)
@given(LABELS | st.text("./\\\\aC:\x1b", max_size=300))
def test_names_of_other_sessions_are_harmless_and_short(label):
    shown = shown_label(label)
    assert shown.isprintable()
    assert len(shown) <= 120
    assert shown_label(shown) == shown


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("lectures/a.md", "lectures/a.md"),
        ("lectures/a.md [c=2]", "lectures/a.md [c=2]"),
        ("../../home/alice/a.md", "a.md"),
        ("/home/alice/a.md [c=2]", "a.md [c=2]"),
        (r"D:\\alice\a.md", "a.md"),
        ("a\x1b[2J\u202e.md", "a?[2J?.md"),
        ("x" * 130, "x" * 58 + "..." + "x" * 58),
    ],
)
def test_names_of_other_sessions_reveal_no_folders(label, shown):
    holding = Holding(demand=Demand(label=label))
    assert parse_holding(render_holding(holding)).demand.label == shown


@settings(deadline=None)
@given(HOLDINGS, st.data())
def test_truncated_text_is_not_read(holding, data):
    text = render_admission(Admission(number=1, lease="ab", holding=holding))
    part = text[: data.draw(st.integers(0, len(text) - 1))]
    assert parse_holding(part) == UNREADABLE
    assert parse_queue_entry(part) is None
    assert parse_admission(part) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{}",
        '{"schema": 2, "pid": 1, "started": "", "number": 1, "lease": "a", "beside": [], "demand": {}}',
        '{"schema": 1, "pid": 1, "started": "", "number": 1, "lease": "a", "beside": [], "demand": {}}',
        '{"schema": 1, "pid": 1, "started": "", "place": null, "arrival": 1, "number": [], "demand": []}',
        ENDLESS,
        "[" * 100_000,
    ],
)
def test_what_is_no_record_is_not_read(text):
    assert parse_holding(text) == UNREADABLE
    assert parse_queue_entry(text) is None
    assert parse_admission(text) is None
