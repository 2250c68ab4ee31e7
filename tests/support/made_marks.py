"""A made-up long cell: an hour in which memory rises in one line of a loop, with the marks that samples of it give."""

from __future__ import annotations

from pytest_lecturecheck.model.cell_marks import CodePlace, LineSample, LoopState
from pytest_lecturecheck.model.cell_run import CellRun, CellStatus
from pytest_lecturecheck.model.mark_log import marks_of
from pytest_lecturecheck.model.metric import Measurement, Method, Metric
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.model.timeline import MemorySample
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.verdict import Comparison, Verdict, VerdictKind
from support.made_records import made_run

MIB = 1 << 20
CLIMBS = CodePlace(
    place="code cell 3, line 114",
    source="paths.append(simulate(model, n=<b>))",
    called="scipy/linalg/_basic.py in solve",
    cell_number=3,
    file_line=114,
)
PLOTS = CodePlace(
    place="paths.py:12 in draw",
    function="draw",
    source="figure.savefig(name)",
    called="matplotlib/figure.py in Figure.savefig",
    caller="code cell 3, line 121",
)
STARTED = 20.0
WALL = 3600.0
INTERVAL = 5.0


def samples(seconds=WALL, stop=500):
    """Samples of a cell that computes for three quarters of its time and then plots."""
    turn = 0.75 * seconds
    for number in range(int((seconds - 60) / INTERVAL)):
        at = 60 + number * INTERVAL
        climbs = at < turn
        yield LineSample(
            seconds=STARTED + at,
            place=CLIMBS if climbs else PLOTS,
            footprint_bytes=round(300 + 5000 * min(at, turn) / turn) * MIB,
            loop=LoopState(name="i", value=int(stop * at / turn), stop=stop) if climbs else None,
        )


def long_cell(**more):
    """The cell with its marks."""
    readings = {
        Metric.WALL: Measurement(metric=Metric.WALL, value=WALL, method=Method.EXACT),
        Metric.PEAK_FOOTPRINT: Measurement(metric=Metric.PEAK_FOOTPRINT, value=5310 * MIB, method=Method.EXACT),
    }
    values = {"number": 3, "index": 2, "line": 101, "status": CellStatus.OK, "readings": readings, **more}
    marks = values.pop("marks", None) or marks_of(samples(), INTERVAL)
    return CellRun(started_seconds=STARTED, ended_seconds=STARTED + WALL, marks=marks, **values)


def long_entry(kind=VerdictKind.OVER, **more):
    """A lecture with that cell."""
    item = long_cell(**more)
    timeline = [MemorySample(seconds=0.0, footprint_bytes=60 * MIB)]
    timeline += [
        MemorySample(seconds=STARTED + at, footprint_bytes=round(300 + 5000 * min(at, 2700) / 2700) * MIB)
        for at in range(0, int(WALL), 20)
    ]
    run = made_run(lecture="a.md", platform="here", outcome=Outcome.COMPLETED, cells=(item,), timeline=tuple(timeline))
    compared = Comparison(metric=Metric.PEAK_FOOTPRINT, kind=kind, limit=1, measured=None, message="", cell=item)
    verdict = Verdict(kind=kind, failed=kind is VerdictKind.OVER, headline="over", comparisons=(compared,))
    return Entry(run=run, verdict=verdict, seconds=WALL)
