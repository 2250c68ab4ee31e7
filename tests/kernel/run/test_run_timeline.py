from __future__ import annotations

import sys
from dataclasses import replace

import pytest
from support.fakes import FakeProbe

from pytest_lecturecheck.model.cell_run import CellStatus
from pytest_lecturecheck.model.metric import Measurement, Method, Metric
from pytest_lecturecheck.model.probe import CellReadings
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.model.timeline import MemorySample

HOLD_UNTIL_SEEN = """
import pathlib, time
held = bytearray(96 << 20)
while not pathlib.Path("seen").exists():
    time.sleep(0.01)
"""


def test_the_record_has_timeline_and_times_of_cells(bench):
    samples = (MemorySample(seconds=0.1, footprint_bytes=5), MemorySample(seconds=0.2, footprint_bytes=6))
    walls = (CellReadings(readings={Metric.WALL: _wall(seconds)}) for seconds in (0.25, 0.5))
    run = bench.run("x = 1", "x = 2", "  ", probe=FakeProbe(cells=list(walls), samples=samples))
    assert run.timeline == samples
    first, second, blank = run.cells
    assert 0 < first.started_seconds < second.started_seconds
    assert first.ended_seconds == pytest.approx(first.started_seconds + 0.25, abs=2e-3)
    assert second.ended_seconds == pytest.approx(second.started_seconds + 0.5, abs=2e-3)
    assert (blank.started_seconds, blank.ended_seconds) == (None, None)


def test_without_a_wall_time_the_end_is_not_known(bench):
    run = bench.run("x = 1")
    assert run.cells[0].started_seconds is not None
    assert run.cells[0].ended_seconds is None


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal")
def test_a_kernel_that_dies_leaves_its_memory_over_time(bench):
    def note(progress):
        if progress.snapshot is not None and progress.snapshot.footprint_bytes > 96 << 20:
            (bench.folder / "seen").touch()

    bench._bench._ports = replace(bench._real_ports, on_progress=note)
    run = bench._run(HOLD_UNTIL_SEEN, "import os; os.kill(os.getpid(), 9)", "x = 1")
    assert run.outcome is Outcome.DIED
    moments = [sample.seconds for sample in run.timeline]
    assert moments == sorted(moments)
    assert moments[0] < run.launch.startup_seconds
    first, dying, never = run.cells
    held = [item for item in run.timeline if first.started_seconds <= item.seconds <= first.ended_seconds]
    assert max(item.footprint_bytes for item in held) > 96 << 20
    assert max(item.rss_bytes for item in held) > 96 << 20
    before = [item for item in run.timeline if item.seconds < first.started_seconds]
    assert 0 < max(item.footprint_bytes for item in before) < 96 << 20
    assert first.started_seconds < first.ended_seconds <= dying.started_seconds <= dying.ended_seconds
    assert (never.status, never.started_seconds) == (CellStatus.NOT_RUN, None)


def _wall(seconds):
    return Measurement(metric=Metric.WALL, value=seconds, method=Method.EXACT)
