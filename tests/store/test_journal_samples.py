"""Samples of a long cell in the journal of a session that was killed."""

import json

import pytest

from pytest_lecturecheck.model.cell_marks import CodePlace, LineSample, LoopState
from pytest_lecturecheck.model.mark_log import marks_of
from pytest_lecturecheck.store.journal_samples import SampleReader, write_sample

PLACE = CodePlace(place="code cell 3, line 14", source="f(x)", cell_number=3, file_line=14)
SAMPLES = [
    LineSample(seconds=80.0, place=PLACE, footprint_bytes=100, loop=LoopState(name="i", value=4)),
    LineSample(seconds=85.0, place=PLACE, footprint_bytes=400),
    LineSample(seconds=90.0, place=CodePlace(called="selectors.py in select")),
]


class Lines:
    """A journal that keeps its lines."""

    def __init__(self):
        self.lines = []

    def write(self, event, **facts):
        self.lines.append(json.loads(json.dumps({"event": event, "time": 1000.0 + facts["at"], **facts})))


def read(lines):
    reader = SampleReader(1015.0)
    for line in lines:
        reader.add(line)
    return reader


def test_marks_survive_the_journal():
    written = Lines()
    for sample, is_elsewhere in zip(SAMPLES, (True, False, True), strict=True):
        write_sample(written, sample, 5.0, has_place=is_elsewhere)
    reader = read(written.lines)
    assert reader.marks() == marks_of(SAMPLES, 5.0)
    assert reader.cell_started_seconds == 15.0


@pytest.mark.parametrize(
    "damage",
    [{"at": None}, {"every": "x"}, {"at": float("nan")}, {"at": -1}],
)
def test_damaged_lines_are_skipped(damage):
    assert read([{"event": "mark", "time": 1080.0, "at": 80.0, "every": 5.0, **damage}]).marks() is None


@pytest.mark.parametrize("damage", [{"place": 7}, {"place": {"place": 3}}, {"loop": [1, 2, 3]}, {"footprint": "x"}])
def test_damaged_parts_are_left_out(damage):
    marks = read([{"event": "mark", "time": 1080.0, "at": 80.0, "every": 5.0, **damage}]).marks()
    assert marks.lines[0].place == CodePlace()
