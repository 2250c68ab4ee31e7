"""Memory over time as text, and every cell of every lecture."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.made_entries import cell, golden_path, run_of, verdict, within
from support.made_html import with_timeline
from support.made_sessions import SESSION_RENDERINGS

from pytest_lecturecheck.model.timeline import MemorySample
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.terminal.summary import render_summary
from pytest_lecturecheck.report.terminal.timelines import bars_for, sparkline
from pytest_lecturecheck.verdict import VerdictKind

BARS = "▁▂▃▄▅▆▇█"


def samples(*levels, step=1.0):
    return [MemorySample(seconds=step * number, footprint_bytes=level) for number, level in enumerate(levels)]


@pytest.mark.parametrize(
    ("levels", "columns", "expected"),
    [
        ((0, 1, 2, 3, 4, 5, 6, 7, 8), 8, "▁▂▃▄▅▆▇█"),
        ((8, 8, 8), 3, "███"),
        ((0, 0, 0), 3, "▁▁▁"),
        ((8,), 4, "████"),
        ((1, 1, 800, 1, 1, 1), 3, "▁█▁"),
        ((0, 8), 4, "▁▁▁█"),
        ((), 4, ""),
        ((1, 2), 0, ""),
    ],
)
def test_sparkline_follows_the_samples(levels, columns, expected):
    assert sparkline(samples(*levels), columns) == expected


def test_resident_size_is_drawn_without_footprint():
    assert sparkline([MemorySample(seconds=0, rss_bytes=1), MemorySample(seconds=1, rss_bytes=8)], 2) == "▂█"


@given(
    st.lists(st.tuples(st.floats(0, 1e6), st.integers(0, 2**50)), min_size=1, max_size=60),
    st.integers(1, 80),
)
def test_sparkline_has_the_requested_width_and_full_height(points, columns):
    found = [MemorySample(seconds=seconds, footprint_bytes=level) for seconds, level in sorted(points)]
    text = sparkline(found, columns)
    assert len(text) == columns
    assert set(text) <= set(BARS)
    assert ("█" in text) == any(level > 0 for _, level in points)


@pytest.mark.parametrize(
    ("encoding", "bars"),
    [("utf-8", BARS), ("cp437", None), ("latin-1", None), ("ascii", None), (None, None), ("no such", None)],
)
def test_terminals_without_blocks_get_ascii(encoding, bars):
    assert bars_for(encoding) == (bars or "_.-=+*#@")
    assert len(bars_for(encoding)) == len(BARS)


@pytest.mark.parametrize("name", ["summary-verbose-80.txt", "summary-cells-80.txt", "summary-ascii-80.txt"])
def test_texts_are_as_expected(name):
    assert SESSION_RENDERINGS[name]() + "\n" == golden_path(name).read_text(encoding="utf-8")


def test_all_cells_of_a_long_lecture_are_listed():
    cells = [cell(number, 10 * number, 100) for number in range(1, 31)]
    entry = Entry(run=run_of("a.md", cells), verdict=verdict(VerdictKind.WITHIN, "fine"), seconds=1.0)
    lines = render_summary([entry], width=80, colour=False, verbosity=2)
    start = lines.index("Cells of a.md")
    assert [line.split()[0] for line in lines[start + 2 : start + 32]] == [str(number) for number in range(1, 31)]
    assert "lighter" not in "\n".join(lines)


def test_colour_changes_nothing_but_colour():
    entries = [with_timeline(within())]
    bare = render_summary(entries, width=80, colour=False, verbosity=2)
    coloured = "\n".join(render_summary(entries, width=80, colour=True, verbosity=2))
    assert "\x1b[36m" in coloured
    assert len(coloured.split("\n")) == len(bare)


def test_without_verbosity_nothing_is_drawn():
    entries = [with_timeline(within())]
    assert render_summary(entries, width=80, colour=False) == render_summary([within()], width=80, colour=False)
