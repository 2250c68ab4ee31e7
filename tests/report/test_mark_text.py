"""Where a long cell was, as text and in the page."""

import json
import re
from dataclasses import replace

from support.made_marks import long_cell, long_entry

from pytest_lecturecheck.model.cell_run import CellStatus
from pytest_lecturecheck.report.html.page import render_html
from pytest_lecturecheck.report.mark_text import climb_text, long_cell_lines
from pytest_lecturecheck.report.terminal.failure import render_failure
from pytest_lecturecheck.report.terminal.progress import ShownProgress, render_live

CLIMBS = "+4.77 GiB  75 %  code cell 3, line 114, 1 min 00 s to 44 min 55 s, i from 11 to 499 of 500: paths.append("


def test_the_failure_shows_where_time_and_memory_went():
    expected = f"""
Where code cell 3 was
   {CLIMBS}simulate(model, n=<b>))
    +4.5 MiB  25 %  paths.py:12 in draw, 45 min 00 s to 59 min 55 s: figure.savefig(name)
"""
    assert expected in render_failure(long_entry(), width=140) + "\n"


def test_a_cell_that_was_killed_says_where_it_was_last():
    text = render_failure(long_entry(status=CellStatus.DIED), width=140)
    assert "  it was last in paths.py:12 in draw for the last 14 min 55 s of samples" in text.splitlines()


def test_rows_fit_the_terminal_and_are_five_at_most():
    marks = long_cell().marks
    many = replace(marks, lines=tuple(replace(marks.lines[0], rise_bytes=1 << 30) for _ in range(9)))
    entry = long_entry(status=CellStatus.DIED, marks=many)
    _, _, rest = render_failure(entry, width=60).partition("Where code cell 3 was\n")
    rows = rest.split("\n\n")[0].split("\n")
    assert len(rows) == 5
    assert all(len(row) <= 60 for row in rows)


def test_silence_at_the_end_is_explained():
    silent = replace(long_cell().marks, silent_seconds=130.0)
    *_, last = long_cell_lines(long_entry(status=CellStatus.TIMED_OUT, marks=silent).run)
    assert last.endswith(
        "; then Python did not answer for 2 min 10 s, as it does while a call into C holds the interpreter"
    )


def test_the_line_that_climbed_is_named():
    assert climb_text(long_cell().marks) == "memory rose most in code cell 3, line 114: +4.77 GiB"


def test_the_page_has_marks_on_the_timeline_and_a_table():
    page = render_html([long_entry()])
    assert "paths.append(simulate(model, n=&lt;b&gt;))" in page
    assert "called by code cell 3, line 121, calls matplotlib/figure.py in Figure.savefig" in page
    data = json.loads(re.search(r'class="data">(.*?)</script>', page)[1])
    assert data["marks"] == [[80000, 2720000, 0], [2720000, 3620000, 1]]
    assert data["mark_lines"][1] == "paths.py:12 in draw: figure.savefig(name)"


def test_marks_that_were_edited_by_hand_are_left_out():
    marks = long_cell().marks
    wrong = replace(marks, marks=tuple(replace(mark, line=99) for mark in marks.marks))
    assert '"marks":' not in render_html([long_entry(marks=wrong, status=CellStatus.DIED)])


def test_the_live_line_names_the_line_of_a_long_cell():
    progress = ShownProgress(name="a.md", cell=3, total=12, elapsed_seconds=75.0, place="line 114")
    assert render_live(progress, width=60) == "a.md  cell  3/12 line 114   1:15"
