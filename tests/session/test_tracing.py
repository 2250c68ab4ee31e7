"""Which cells a lecture over its limits is traced for, and what their traces add to its entry."""

from dataclasses import replace

import pytest
from support.made_records import made_evidence, made_run

from pytest_lecturecheck.model.cell_run import CellRun, CellStatus
from pytest_lecturecheck.model.evidence import Evidence
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.memory_profile import MemoryLevels, PeakProfile
from pytest_lecturecheck.model.metric import Measurement, Method, Metric
from pytest_lecturecheck.model.profile import Bound, DeviceProfile, ProfileKind, ProfileSummary
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.session.tracing import add_traces, cells_over, with_levels_of_focus
from pytest_lecturecheck.verdict import Comparison, Verdict, VerdictKind, judge_profiled

PROFILE = ProfileSummary(
    devices=(
        DeviceProfile(device="CPU", kernel_seconds=1, gap_seconds=0, launch_count=1, op_count=1, bound=Bound.COMPUTE),
    )
)


def cell(number, **more):
    return CellRun(number=number, index=number, line=None, status=CellStatus.OK, **more)


def run_of(**more):
    cells = (cell(1), cell(2), cell(3))
    return made_run(**{"lecture": "a.md", "platform": "here", "outcome": Outcome.COMPLETED, "cells": cells, **more})


def comparison(metric, kind, number):
    named = None if number is None else cell(number)
    return Comparison(metric=metric, kind=kind, limit=1, measured=None, message="", cell=named)


def entry_of(*compared, run=None):
    verdict = Verdict(kind=VerdictKind.OVER, failed=True, headline="over", comparisons=compared)
    return Entry(run=run or run_of(), verdict=verdict, seconds=2.0)


MEMORY = comparison(Metric.PEAK_FOOTPRINT, VerdictKind.OVER, 3)
TIME = comparison(Metric.WALL, VerdictKind.NOT_FITTING, 2)


@pytest.mark.parametrize(
    ("compared", "expected"),
    [
        ([], set()),
        ([MEMORY], {3}),
        ([MEMORY, TIME], {2, 3}),
        ([MEMORY, MEMORY], {3}),
        ([comparison(Metric.WALL, VerdictKind.WITHIN, 1)], set()),
        ([comparison(Metric.WALL, VerdictKind.NOT_MEASURED, 1)], set()),
        ([comparison(Metric.WALL, VerdictKind.OVER, None)], set()),
    ],
)
def test_the_verdict_names_the_cells(compared, expected):
    assert cells_over(entry_of(*compared)) == expected


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.COMPLETED])
def test_only_a_lecture_that_ends_is_run_again(outcome):
    assert cells_over(entry_of(MEMORY, run=run_of(outcome=outcome))) == frozenset()


def test_a_run_that_was_traced_is_not_traced_again():
    assert cells_over(entry_of(MEMORY, run=run_of(is_profiled=True))) == frozenset()


def test_traces_are_added_and_measurements_stay():
    lost = Finding(kind=FindingKind.PROFILE, message="lost", cell_number=2)
    other = Finding(kind=FindingKind.SHELL, message="said by the first run as well")
    wall = Measurement(metric=Metric.WALL, value=9, method=Method.EXACT)
    slower = cell(3, profile=PROFILE, readings={Metric.WALL: wall})
    traced = run_of(cells=(cell(1), cell(2), slower), findings=(other, lost), is_profiled=True)
    before = entry_of(MEMORY)
    after = add_traces(before, traced, 5.0)
    assert after.run.cells == (cell(1), cell(2), cell(3, profile=PROFILE))
    assert after.run.findings == (lost,)
    assert (after.seconds, after.verdict.kind, after.run.is_profiled) == (7.0, before.verdict.kind, False)
    # The failure shows the cell that its comparison names.
    assert after.focus == cell(3, profile=PROFILE)


def test_a_record_of_memory_is_for_memory_alone():
    entry = entry_of(MEMORY, TIME)
    assert cells_over(entry, ProfileKind.MEMORY) == {3}
    assert cells_over(entry_of(TIME), ProfileKind.MEMORY) == frozenset()


def test_gpu_memory_over_a_limit_is_recorded():
    live = replace(MEMORY, metric=Metric.GPU_LIVE)
    assert cells_over(entry_of(live), ProfileKind.MEMORY) == {3}


def test_records_and_levels_are_added():
    record, levels = PeakProfile(peak_bytes=1), MemoryLevels(level_bytes=2)
    second = run_of(cells=(cell(1, memory_levels=levels), cell(2), cell(3, memory_profile=record)), is_profiled=True)
    after = add_traces(entry_of(MEMORY), second, 5.0)
    assert after.run.cells == (cell(1, memory_levels=levels), cell(2), cell(3, memory_profile=record))


def test_only_the_cell_of_the_failure_keeps_its_level():
    alone, whole = MemoryLevels(level_bytes=2, is_alone=True), MemoryLevels(level_bytes=2)
    cells = (cell(1, memory_levels=alone), cell(2, memory_levels=whole), cell(3, memory_levels=alone))
    assert with_levels_of_focus(entry_of(MEMORY, run=run_of(cells=cells))).run.cells == (cell(1), *cells[1:])
    passed = replace(
        entry_of(MEMORY, run=run_of(cells=cells)), verdict=Verdict(kind=VerdictKind.WITHIN, failed=False, headline="")
    )
    assert with_levels_of_focus(passed).run.cells == (cell(1), cells[1], cell(3))


def test_a_second_run_that_ends_badly_is_a_finding():
    traced = run_of(outcome=Outcome.DIED, evidence=Evidence(cell_number=2))
    (finding,) = add_traces(entry_of(MEMORY), traced, 1.0).run.findings
    assert (finding.message, finding.cell_number) == ("the second run, made for the trace, did not complete: died", 2)


def test_a_traced_run_is_compared_with_nothing():
    verdict = judge_profiled(run_of(is_profiled=True, cells=(cell(1), cell(2, profile=PROFILE))))
    assert (verdict.kind, verdict.failed, verdict.comparisons) == (VerdictKind.PROFILED, False, ())
    assert verdict.headline == "cells were traced, which takes time and memory: not compared with its limits"


def test_a_run_without_traces_does_not_mention_them():
    verdict = judge_profiled(run_of(is_profiled=True))
    assert verdict.kind is VerdictKind.PROFILED
    assert (
        verdict.headline == "cells should have been traced, which takes time and memory: not compared with its limits"
    )


def test_a_traced_run_that_ends_badly_fails():
    verdict = judge_profiled(replace(run_of(is_profiled=True), outcome=Outcome.DIED, evidence=made_evidence(signal=11)))
    assert (verdict.kind, verdict.failed) == (VerdictKind.DIED, True)
