"""Marks of a long cell: neighbours merged, old marks thinned out, time and memory given to lines."""

from itertools import pairwise

import pytest

from pytest_lecturecheck.model.cell_marks import OTHER_LINES, CodePlace, LineSample, LoopState
from pytest_lecturecheck.model.mark_log import MOST_LINES, MOST_MARKS, MarkLog, marks_of

MIB = 1 << 20


def at(line, function=""):
    return CodePlace(place=f"code cell 1, line {line}", function=function)


def sample(seconds, line, mebibytes=None, loop=None):
    footprint = None if mebibytes is None else mebibytes * MIB
    return LineSample(seconds=seconds, place=at(line), footprint_bytes=footprint, loop=loop)


def by_line(marks):
    return {use.place.place.rpartition(" ")[2]: use for use in marks.lines}


def test_neighbours_on_one_line_are_one_mark():
    marks = marks_of([sample(60, 3, 10), sample(65, 3, 20), sample(70, 4, 30), sample(75, 3, 40)], 5)
    assert [(mark.line, mark.seconds, mark.until_seconds, mark.sample_count) for mark in marks.marks] == [
        (0, 60, 65, 2),
        (1, 70, 70, 1),
        (0, 75, 75, 1),
    ]
    assert (marks.marks[0].footprint_bytes, marks.marks[0].until_footprint_bytes) == (10 * MIB, 20 * MIB)


def test_memory_goes_to_the_line_at_both_ends_of_an_interval():
    marks = marks_of([sample(60, 3, 100), sample(65, 3, 300), sample(70, 4, 400), sample(75, 4, 400)], 5)
    lines = by_line(marks)
    assert {name: (use.rise_bytes // MIB, use.busy_seconds) for name, use in lines.items()} == {
        "3": (250, 7.5),
        "4": (50, 7.5),
    }


def test_shares_add_up_to_the_whole():
    samples = [sample(60 + 5 * turn, turn % 7, 100 + turn * 3) for turn in range(5000)]
    marks = marks_of(samples, 5)
    assert sum(use.rise_bytes for use in marks.lines) == 3 * 4999 * MIB
    assert sum(use.sample_count for use in marks.lines) == marks.sample_count == 5000
    assert marks.busy_seconds == pytest.approx(5 * 4999)


def test_twelve_hours_keep_some_hundred_marks_evenly():
    samples = [sample(60 + 5 * turn, turn % 2, 100) for turn in range(12 * 720)]
    marks = marks_of(samples, 5)
    assert MOST_MARKS // 2 <= len(marks.marks) <= MOST_MARKS + 1
    gaps = {later.seconds - earlier.seconds for earlier, later in pairwise(marks.marks[:-1])}
    assert len(gaps) == 1
    assert (marks.marks[0].seconds, marks.marks[-1].seconds) == (60, samples[-1].seconds)


def test_the_last_mark_is_kept_although_others_are_not():
    log = MarkLog(5, most_marks=8)
    for turn in range(101):
        log.add(sample(turn, turn))
        assert log.finish().marks[-1].seconds == turn
        assert len(log.finish().marks) <= 9


def test_a_line_that_goes_on_is_one_mark_after_thinning_too():
    log = MarkLog(5, most_marks=4)
    for turn in range(40):
        log.add(sample(turn, min(turn, 20)))
    last = log.finish().marks[-1]
    assert (last.seconds, last.until_seconds, last.sample_count) == (20, 39, 20)


def test_more_lines_than_are_kept_count_together():
    marks = marks_of([sample(turn, turn, turn) for turn in range(500)], 5)
    assert len(marks.lines) == MOST_LINES + 1
    assert marks.lines[-1].place.place == OTHER_LINES
    assert marks.lines[-1].sample_count == 500 - MOST_LINES


def test_a_loop_shows_from_where_to_where_it_came():
    states = [LoopState(name="i", value=value, stop=9) for value in (2, 5, 8)]
    marks = marks_of([sample(turn, 3, loop=state) for turn, state in enumerate(states)], 5)
    (use,) = marks.lines
    assert (use.first_loop, use.last_loop, marks.marks[0].loop) == (states[0], states[2], states[2])


def test_unknown_memory_is_no_rise():
    marks = marks_of([sample(0, 1, 5), sample(5, 1), sample(10, 1, 9)], 5)
    assert marks.lines[0].rise_bytes == 0


def test_a_cell_without_samples_has_no_marks():
    assert marks_of([], 5) is None


def test_a_sample_that_is_late_is_dropped():
    marks = marks_of([sample(10, 1), sample(9, 2)], 5)
    assert marks.sample_count == len(marks.lines) == 1
