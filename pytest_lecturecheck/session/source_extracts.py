"""Add the lines of a lecture's file that a failure is about to its entry."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_lecturecheck.files import read_plain_text
from pytest_lecturecheck.model.lecture import Lecture
from pytest_lecturecheck.report.entry import Entry


def with_source_of(entry: Entry, lectures: Mapping[str, Lecture]) -> Entry:
    """
    Return the entry with an extract of the source that its verdict is about.

    Args:
        entry: the run with its verdict.
        lectures: the lectures that ran, by name.
    """
    lecture = lectures.get(entry.subject.lecture)
    if lecture is None:
        return entry
    sources = {cell.number: cell.source for cell in lecture.cells}
    return entry.with_source(lambda number: sources.get(number, ""), lambda: _text_of(lecture))


def _text_of(lecture: Lecture) -> str:
    try:
        return read_plain_text(lecture.path, errors="replace")
    except OSError:
        # The lecture may have removed its own file; its failure is shown without the lines.
        return ""
