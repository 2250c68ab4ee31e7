import datetime as dt
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples

from pytest_lecturecheck.budget.limits import HeavyCell, LectureBudget, MetricBudget, PlatformBudgets, Tolerance
from pytest_lecturecheck.budget.recording import record
from pytest_lecturecheck.model.cell_run import CellRun, CellStatus
from pytest_lecturecheck.model.metric import Measurement, Method, Metric, Unavailable
from pytest_lecturecheck.model.platform import Machine, Software
from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.units import MIB
from pytest_lecturecheck.verdict import Policy, VerdictKind, judge

PLATFORM = "linux-x86_64-cpu"
TODAY = dt.date(2025, 2, 1)
BEFORE = dt.date(2025, 1, 1)
FOOTPRINT, WALL, RSS, CPU = Metric.PEAK_FOOTPRINT, Metric.WALL, Metric.PEAK_RSS, Metric.CPU
MACHINE = Machine(system="Linux 6.8", architecture="x86_64", cpu="EPYC", core_count=2, ram_bytes=8000 * MIB + 1)
SOFTWARE = Software(python="3.12.1", packages={"numpy": "2.1.0"})
NOISE = "nothing but noise, left as recorded"
EMPTY = PlatformBudgets(platform=PLATFORM)


def measured(metric, value, method=Method.EXACT, high=None):
    return Measurement(metric=metric, value=value, method=method, high=high)


def cell(number, mib, line=None):
    readings = {FOOTPRINT: measured(FOOTPRINT, mib * MIB)}
    return CellRun(number=number, index=number, line=line, status=CellStatus.OK, readings=readings)


def run(mib=400.0, lecture="a.md", seconds=12.0, repeat=1, method=Method.EXACT, **changes):
    made = Run(
        lecture=lecture,
        platform=PLATFORM,
        outcome=Outcome.COMPLETED,
        cells=(cell(1, mib / 4, 10), cell(2, mib, 41)),
        readings={FOOTPRINT: measured(FOOTPRINT, mib * MIB, method), WALL: measured(WALL, seconds)},
        machine=MACHINE,
        software=SOFTWARE,
        repeat=repeat,
    )
    return replace(made, **changes)


def recorded(*runs, budgets=EMPTY, today=BEFORE, **options):
    return record(budgets, runs, today=today, **options)


def texts(changes):
    return [change.text for change in changes]


def test_a_first_recording_has_limits_values_and_context():
    runs = [run(400, repeat=2), run(398, repeat=1, seconds=12.3456), run(399, repeat=3)]
    budgets, changes = recorded(*runs, today=TODAY)
    assert budgets.lectures == {
        ("a.md", ""): LectureBudget(
            lecture="a.md",
            metrics={
                FOOTPRINT: MetricBudget(
                    metric=FOOTPRINT,
                    limit=464 * MIB,
                    seen=(398 * MIB, 400 * MIB, 399 * MIB),
                    method=Method.EXACT,
                ),
                WALL: MetricBudget(metric=WALL, limit=34.7, seen=(12.35, 12, 12), method=Method.EXACT),
            },
            run_count=3,
            recorded=TODAY,
            heaviest=(
                HeavyCell(number=2, line=41, peak_footprint_bytes=400 * MIB),
                HeavyCell(number=1, line=10, peak_footprint_bytes=100 * MIB),
            ),
            machine=MACHINE,
            software=SOFTWARE,
        )
    }
    assert texts(changes) == [
        "a.md: peak footprint: seen 400 MiB (new), limit 464 MiB (new)",
        "a.md: wall time: seen 12.3 s (new), limit 34.7 s (new)",
    ]


def test_metrics_without_a_default_limit_get_none():
    readings = {RSS: measured(RSS, 300 * MIB), CPU: Unavailable(metric=CPU, reason="no")}
    budgets, changes = recorded(run(readings=readings))
    assert budgets.find("a.md").metrics == {RSS: MetricBudget(metric=RSS, seen=(300 * MIB,), method=Method.EXACT)}
    assert changes == []


def test_new_values_replace_the_old_ones():
    before, _ = recorded(run(410))
    after, changes = recorded(run(600), budgets=before, today=TODAY)
    assert after.find("a.md").metrics[FOOTPRINT].seen == (600 * MIB,)
    assert after.find("a.md").run_count == 1
    assert after.find("a.md").recorded == TODAY
    assert texts(changes) == [
        "a.md: peak footprint: seen 410 MiB -> 600 MiB (+46 %), limit 474 MiB -> 664 MiB (+40 %)",
        "a.md: wall time: seen 12 s (unchanged), limit 34 s (unchanged)",
    ]


def test_limits_set_by_hand_stay_even_if_exceeded():
    by_hand = MetricBudget(metric=FOOTPRINT, limit=500 * MIB, hand_set=True)
    before = replace(EMPTY, lectures={("a.md", ""): LectureBudget(lecture="a.md", metrics={FOOTPRINT: by_hand})})
    after, changes = recorded(run(600), budgets=before)
    assert after.find("a.md").metrics[FOOTPRINT] == replace(by_hand, seen=(600 * MIB,), method=Method.EXACT)
    assert texts(changes) == [
        "a.md: peak footprint: seen 600 MiB (new), limit 500 MiB (set by hand, kept); these runs are over it",
        "a.md: wall time: seen 12 s (new), limit 34 s (new)",
    ]
    _, changes = recorded(run(450), budgets=after)
    assert changes[0].text == (
        "a.md: peak footprint: seen 600 MiB -> 450 MiB (-25 %), limit 500 MiB (set by hand, kept)"
    )


def test_a_limit_that_a_person_took_away_stays_away():
    before, _ = recorded(run(400))
    entry = before.find("a.md")
    freed = {**entry.metrics, WALL: replace(entry.metrics[WALL], limit=None)}
    before = replace(before, lectures={("a.md", ""): replace(entry, metrics=freed)})
    after, changes = recorded(run(800, seconds=99), budgets=before)
    assert after.find("a.md").metrics[WALL] == MetricBudget(metric=WALL, seen=(99,), method=Method.EXACT)
    assert [change.metric for change in changes] == [FOOTPRINT]


def test_derived_limits_are_updated_for_every_metric():
    seen = (300 * MIB,)
    limit = Tolerance().recorded_limit_for(RSS, seen)
    entry = LectureBudget(lecture="a.md", metrics={RSS: MetricBudget(metric=RSS, limit=limit, seen=seen)})
    before = replace(EMPTY, lectures={("a.md", ""): entry})
    after, _ = recorded(run(readings={RSS: measured(RSS, 900 * MIB)}), budgets=before)
    assert after.find("a.md").metrics[RSS].limit == 990 * MIB


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.COMPLETED])
def test_a_lecture_with_an_incomplete_run_is_not_recorded(outcome):
    before, _ = recorded(run(400))
    runs = [run(800), run(800, repeat=2, outcome=outcome), run(500, lecture="b.md")]
    after, changes = recorded(*runs, budgets=before, today=TODAY)
    assert after.find("a.md") == before.find("a.md")
    assert {change.lecture for change in changes} == {"b.md"}
    assert recorded(*runs[:2])[0] == EMPTY


def test_other_platforms_and_lectures_do_not_change_an_entry():
    before, _ = recorded(run(400))
    runs = [run(900, platform="darwin-arm64-cpu"), run(500, lecture="b.md")]
    after, _ = recorded(*runs, budgets=before, today=TODAY)
    assert after.find("a.md") is before.find("a.md")
    assert after.find("b.md").metrics[FOOTPRINT].seen == (500 * MIB,)


def test_variants_are_entries_of_their_own():
    budgets, changes = recorded(run(400), run(700, variant="gpu-f32"))
    assert [(key, item.metrics[FOOTPRINT].seen) for key, item in budgets.lectures.items()] == [
        (("a.md", ""), (400 * MIB,)),
        (("a.md", "gpu-f32"), (700 * MIB,)),
    ]
    assert changes[2].text == "a.md [gpu-f32]: peak footprint: seen 700 MiB (new), limit 770 MiB (new)"


@pytest.mark.parametrize(
    ("methods", "weakest"),
    [
        ((Method.EXACT, Method.EXACT), Method.EXACT),
        ((Method.EXACT, Method.BRACKET), Method.BRACKET),
        ((Method.SAMPLED, Method.EXACT), Method.SAMPLED),
        ((Method.SAMPLED, Method.BRACKET), Method.SAMPLED),
        ((Method.AGENT, Method.SAMPLED), Method.SAMPLED),
    ],
)
def test_the_weakest_method_of_the_runs_is_kept(methods, weakest):
    runs = [run(400, method=method, repeat=index) for index, method in enumerate(methods, start=1)]
    assert recorded(*runs)[0].find("a.md").metrics[FOOTPRINT].method is weakest


def test_the_upper_end_of_a_bracket_is_recorded():
    readings = {FOOTPRINT: measured(FOOTPRINT, 400 * MIB, Method.BRACKET, high=450 * MIB)}
    budgets, _ = recorded(run(readings=readings))
    assert budgets.find("a.md").metrics[FOOTPRINT].seen == (450 * MIB,)
    verdict = judge(run(readings=readings), budgets.find("a.md"), Policy())
    assert verdict.kind is VerdictKind.WITHIN


def test_the_three_heaviest_cells_of_the_heaviest_run_are_kept():
    light = run(400, repeat=1, cells=(cell(9, 400),))
    heavy = run(500, repeat=2, cells=(cell(1, 20), cell(2, 500, 7), cell(3, 90), cell(4, 90), cell(5, 10)))
    heaviest = recorded(light, heavy)[0].find("a.md").heaviest
    assert [(item.number, item.line, item.peak_footprint_bytes // MIB) for item in heaviest] == [
        (2, 7, 500),
        (3, None, 90),
        (4, None, 90),
    ]


def test_cells_that_are_as_heavy_stand_in_their_order():
    cells = [cell(1, 20), cell(2, 498), cell(3, 91), cell(4, 500), cell(5, 499), cell(6, 91.5)]
    assert [item.number for item in run(500, cells=tuple(cells)).heaviest_cells()] == [2, 4, 5, 3, 6, 1]
    assert run(500, cells=tuple(cells)).heaviest_cell().number == 2
    heaviest = recorded(run(500, cells=tuple(cells)))[0].find("a.md").heaviest
    assert [item.number for item in heaviest] == [2, 4, 5]


def test_times_are_as_high_only_where_they_are_the_same():
    walls = {1: 5.0, 2: 4.99, 3: 5.0, 4: 4.991}
    cells = tuple(replace(cell(number, 10), readings={WALL: measured(WALL, wall)}) for number, wall in walls.items())
    assert [item.number for item in run(10, cells=cells).heaviest_cells(WALL)] == [1, 3, 4, 2]


def test_runs_that_disagree_are_named():
    _, changes = recorded(run(400), run(480, repeat=2), run(464, lecture="b.md"), run(400, lecture="b.md", repeat=2))
    assert [change.disagreement for change in changes if change.metric is FOOTPRINT] == [True, False]
    assert changes[0].text == (
        "a.md: peak footprint: seen 480 MiB (new), limit 544 MiB (new); "
        "runs disagree by more than the tolerance: 400 MiB to 480 MiB"
    )


def test_an_unmeasured_metric_keeps_its_recorded_values():
    before, _ = recorded(run(400))
    gone = {FOOTPRINT: Unavailable(metric=FOOTPRINT, reason="no"), WALL: measured(WALL, 50.0)}
    after, changes = recorded(run(readings=gone), budgets=before)
    assert after.find("a.md").metrics[FOOTPRINT] == before.find("a.md").metrics[FOOTPRINT]
    assert texts(changes) == [
        "a.md: peak footprint: not measured this time; recorded values kept, limit 464 MiB (unchanged)",
        "a.md: wall time: seen 12 s -> 50 s (+317 %), limit 34 s -> 1 min 50 s (+224 %)",
    ]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_an_impossible_value_is_not_recorded(value):
    budgets, _ = recorded(run(readings={FOOTPRINT: measured(FOOTPRINT, value), WALL: measured(WALL, 1.0)}))
    assert set(budgets.find("a.md").metrics) == {WALL}


def test_noise_leaves_an_entry_as_it_is():
    before, _ = recorded(run(400), run(401, repeat=2))
    noisy = [run(416, seconds=14), run(398, repeat=2, seconds=13)]
    after, changes = recorded(*noisy, budgets=before, today=TODAY)
    assert after == before
    assert texts(changes) == [
        f"a.md: peak footprint: seen 401 MiB -> 416 MiB (+3.7 %), limit 465 MiB (unchanged): {NOISE}",
        f"a.md: wall time: seen 12 s -> 14 s (+17 %), limit 34 s (unchanged): {NOISE}",
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {"mib": 417.5},
        {"mib": 384.5},
        {"seconds": 18.0},
        {"machine": replace(MACHINE, system="Linux 6.9")},
        {"machine": replace(MACHINE, ram_bytes=16000 * MIB)},
        {"machine": None},
        {"software": replace(SOFTWARE, packages={"numpy": "2.2.0"})},
        {"cells": (cell(1, 400, 10), cell(2, 100, 41))},
        {"cells": (cell(1, 100, 10), cell(2, 400, 42))},
        {"method": Method.SAMPLED},
    ],
)
def test_anything_beyond_noise_is_recorded(changes):
    before, _ = recorded(run(401))
    assert recorded(run(401), budgets=before, today=TODAY)[0] == before
    after, _ = recorded(run(**{"mib": 401, **changes}), budgets=before, today=TODAY)
    assert after.find("a.md").recorded == TODAY


def test_sizes_of_a_machine_that_print_alike_are_one_machine():
    before, _ = recorded(run(400))
    after, _ = recorded(run(400, machine=replace(MACHINE, ram_bytes=MACHINE.ram_bytes + 999)), budgets=before)
    assert after == before


def test_another_number_of_runs_is_recorded():
    before, _ = recorded(run(400))
    after, _ = recorded(run(400), run(400, repeat=2), budgets=before, today=TODAY)
    assert after.find("a.md").recorded == TODAY


def test_new_rules_move_derived_limits_and_no_others():
    before, _ = recorded(run(400), run(1000, lecture="b.md"))
    entry = before.find("b.md")
    held = {**entry.metrics, FOOTPRINT: replace(entry.metrics[FOOTPRINT], limit=5000 * MIB, hand_set=True)}
    before = replace(before, lectures={**before.lectures, ("b.md", ""): replace(entry, metrics=held)})
    rules = Tolerance(memory_fraction=0.5)
    after, changes = recorded(budgets=before, today=TODAY, tolerance=rules)
    assert after.tolerance == rules
    assert after.find("a.md").metrics[FOOTPRINT].limit == 600 * MIB
    assert after.find("a.md").recorded == BEFORE
    assert after.find("b.md") == before.find("b.md")
    assert texts(changes) == [
        "a.md: peak footprint: seen 400 MiB (unchanged), limit 464 MiB -> 600 MiB (+29 %)",
    ]
    assert recorded(budgets=before)[0] == before


def test_a_dropped_limit_is_reported():
    before, changes = recorded(run(400))
    dropped = replace(changes[0], old_limit=464 * MIB, new_limit=None, old_seen=(400 * MIB,))
    assert dropped.text == "a.md: peak footprint: seen 400 MiB (unchanged), limit 464 MiB (dropped)"
    assert before.lectures


_runs = st.builds(
    run,
    mib=st.floats(0.5, 1e5),
    lecture=st.sampled_from(["a.md", "b.md"]),
    seconds=st.floats(0, 1e5),
    repeat=st.integers(1, 5),
    method=st.sampled_from([Method.EXACT, Method.AGENT]),
)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(_runs, max_size=6), st.lists(_runs, max_size=6))
def test_every_run_is_within_the_budget_recorded_from_it(first, second):
    before, _ = record(EMPTY, first, today=BEFORE)
    after, _ = record(before, second, today=TODAY)
    for item in second or first:
        verdict = judge(item, after.find(item.lecture), Policy())
        assert verdict.kind in {VerdictKind.WITHIN, VerdictKind.IMPROVED}


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(_runs, max_size=6, unique_by=lambda item: (item.lecture, item.repeat)), st.randoms())
def test_the_order_in_which_runs_arrive_does_not_matter(runs, order: random.Random):
    shuffled = list(runs)
    order.shuffle(shuffled)
    assert record(EMPTY, runs, today=TODAY) == record(EMPTY, shuffled, today=TODAY)


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(_runs, max_size=4))
def test_recording_the_same_runs_again_changes_nothing_unless_they_disagree(runs):
    before, changes = record(EMPTY, runs, today=BEFORE)
    after, _ = record(before, runs, today=TODAY)
    disagreeing = {(change.lecture, change.variant) for change in changes if change.disagreement}
    for key, entry in before.lectures.items():
        expected = replace(entry, recorded=TODAY) if key in disagreeing else entry
        assert after.lectures[key] == expected


def test_recording_fewer_runs_than_before_warns():
    before, _ = recorded(run(400), run(410, repeat=2), run(405, repeat=3))
    _, changes = recorded(run(480), budgets=before)
    assert [change.warnings for change in changes] == [
        ("recorded from 1 run, 3 before: a rare high value may be missing",),
        (),
    ]
    assert changes[0].text.endswith(f"; {changes[0].warnings[0]}")
    _, changes = recorded(run(480), run(480, repeat=2), run(480, repeat=3), budgets=before)
    assert [change.warnings for change in changes] == [(), ()]


def test_recording_a_lecture_with_allowed_errors_warns():
    raised = replace(cell(2, 400, 41), status=CellStatus.ALLOWED_ERROR)
    _, changes = recorded(run(cells=(cell(1, 100, 10), raised)))
    assert changes[0].warnings == (
        "recorded although 1 cell raised (allow_errors): code after the errors was not measured",
    )
