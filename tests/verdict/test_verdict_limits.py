"""Verdicts of completed runs that are compared with recorded limits."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from support.made_verdicts import (
    DEFAULT,
    OTHER_MACHINE,
    PEAK,
    PEAK_LIMIT,
    STRICT,
    budget,
    cell,
    check,
    limit,
    measurement,
    run,
)

from pytest_lecturecheck.budget.limits import MetricBudget
from pytest_lecturecheck.model.metric import Method, Metric, Unavailable
from pytest_lecturecheck.model.platform import Software
from pytest_lecturecheck.model.run import PROGRAM_LAUNCHER, LaunchFacts
from pytest_lecturecheck.units import GIB, MIB
from pytest_lecturecheck.verdict import Policy, VerdictKind, judge


def test_over_names_values_difference_cell_and_recorded_values():
    verdict = check(
        judge(run(measurement(PEAK, 634 * MIB)), budget(PEAK_LIMIT), DEFAULT),
        VerdictKind.OVER,
        "peak footprint 634 MiB, limit 600 MiB: 34 MiB over (+5.7 %), in code cell 2, line 12; "
        "recorded: 530 MiB to 545 MiB (3 runs)",
        failed=True,
    )
    assert verdict.notes == ("peak footprint exactly: 664,797,184 bytes, limit 629,145,600 bytes",)


@pytest.mark.parametrize(
    ("value", "kind", "headline"),
    [
        (600 * MIB, VerdictKind.WITHIN, "peak footprint 600 MiB, limit 600 MiB"),
        (600 * MIB - 1, VerdictKind.WITHIN, "peak footprint 599.999999 MiB, limit 600 MiB"),
        (
            600 * MIB + 1,
            VerdictKind.OVER,
            (
                "peak footprint 600.000001 MiB, limit 600 MiB: 1 B over (+0.00000016 %), in code cell 2, line 12; "
                "recorded: 530 MiB to 545 MiB (3 runs)"
            ),
        ),
    ],
)
def test_limits_are_inclusive_and_close_values_look_different(value, kind, headline):
    verdict = judge(run(measurement(PEAK, value)), budget(PEAK_LIMIT), DEFAULT)
    check(verdict, kind, headline, failed=kind is VerdictKind.OVER)


def test_every_exceeded_limit_is_listed():
    readings = (measurement(PEAK, 634 * MIB), measurement(Metric.WALL, 30.0), measurement(Metric.PEAK_SWAP, 0))
    limits = (PEAK_LIMIT, limit(Metric.WALL, 25.0, seen=(7.5,)), limit(Metric.PEAK_SWAP, 0, hand_set=True))
    verdict = check(
        judge(
            run(*readings, cells=(cell(3, measurement(PEAK, 500 * MIB), measurement(Metric.WALL, 21.0)),)),
            budget(*limits),
            DEFAULT,
        ),
        VerdictKind.OVER,
        "peak footprint 634 MiB, limit 600 MiB: 34 MiB over (+5.7 %), most of it in code cell 3, line 18: 500 MiB; "
        "recorded: 530 MiB to 545 MiB (3 runs); "
        "wall time 30 s, limit 25 s: 5 s over (+20 %), most of it in code cell 3, line 18: 21 s; "
        "recorded: 7.5 s (1 run)",
        failed=True,
    )
    assert [item.kind for item in verdict.comparisons] == [VerdictKind.OVER, VerdictKind.OVER, VerdictKind.WITHIN]


def test_limits_of_zero_and_limits_set_by_hand_are_named():
    none_allowed = budget(MetricBudget(metric=Metric.PEAK_SWAP, limit=0, hand_set=True))
    check(
        judge(run(measurement(Metric.PEAK_SWAP, 5 * MIB)), none_allowed, DEFAULT),
        VerdictKind.OVER,
        "peak swap 5 MiB, limit 0 B: 5 MiB over, in code cell 2, line 12; limit set by hand",
        failed=True,
    )
    check(
        judge(run(measurement(PEAK, 634 * MIB), cells=()), budget(replace(PEAK_LIMIT, hand_set=True)), DEFAULT),
        VerdictKind.OVER,
        "peak footprint 634 MiB, limit 600 MiB: 34 MiB over (+5.7 %); "
        "recorded: 530 MiB to 545 MiB (3 runs); limit set by hand",
        failed=True,
    )


@pytest.mark.parametrize(
    ("hand_set", "cure"), [(False, "record it again"), (True, "lower the limit that was set by hand")]
)
def test_a_limit_far_too_high_is_reported_but_passes(hand_set, cure):
    check(
        judge(run(measurement(PEAK, 60 * MIB)), budget(limit(PEAK, 30_000 * MIB, hand_set=hand_set)), STRICT),
        VerdictKind.IMPROVED,
        f"peak footprint 60 MiB is far under its limit 29.3 GiB, which is 500 times too high: {cure}",
        failed=False,
    )


def test_an_improvement_names_variables_that_changed():
    """Variables of NumPy and of glibc change memory by factors, without any change of the lecture."""
    then = Software(variables={"OMP_NUM_THREADS": "8", "MALLOC_ARENA_MAX": "2"})
    now = Software(variables={"OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2", "JAX_ENABLE_X64": "1"})
    recorded = replace(budget(limit(PEAK, 30_000 * MIB)), software=then)
    found = judge(replace(run(measurement(PEAK, 60 * MIB)), software=now), recorded, DEFAULT)
    assert found.kind is VerdictKind.IMPROVED
    assert found.headline.endswith(
        "record it again (changed since it was recorded: JAX_ENABLE_X64 unset -> 1, OMP_NUM_THREADS 8 -> 1)"
    )


def test_far_under_starts_at_twice_the_limit_derived_now():
    # 60 MiB would give 124 MiB.
    at_twice = budget(limit(PEAK, 248 * MIB))
    assert judge(run(measurement(PEAK, 60 * MIB)), at_twice, DEFAULT).kind is VerdictKind.WITHIN
    assert judge(run(measurement(PEAK, 60 * MIB - 1)), at_twice, DEFAULT).kind is VerdictKind.IMPROVED


# How values were measured


@pytest.mark.parametrize(
    ("measured", "kind", "message"),
    [
        (
            measurement(PEAK, 590 * MIB, Method.BRACKET, high=610 * MIB),
            VerdictKind.NOT_MEASURED,
            "peak footprint between 590 MiB and 610 MiB, limit 600 MiB: it may or may not be over",
        ),
        (
            measurement(PEAK, 590 * MIB, Method.BRACKET, high=600 * MIB),
            VerdictKind.WITHIN,
            "peak footprint 590 MiB, limit 600 MiB",
        ),
        (
            measurement(PEAK, 0, Method.BRACKET, high=590 * MIB),
            VerdictKind.WITHIN,
            "peak footprint between 0 B and 590 MiB, limit 600 MiB",
        ),
        (
            measurement(PEAK, 0, Method.BRACKET, high=40 * MIB),
            VerdictKind.IMPROVED,
            (
                "peak footprint between 0 B and 40 MiB is far under its limit 600 MiB, which is 15 times too high: "
                "record it again"
            ),
        ),
        (
            measurement(PEAK, 590 * MIB, Method.SAMPLED, source="RSS at 20 Hz"),
            VerdictKind.WITHIN,
            "peak footprint at least 590 MiB, limit 600 MiB (a lower bound now, recorded as exact)",
        ),
        (
            measurement(PEAK, 264 * MIB, Method.SAMPLED, source="RSS at 20 Hz"),
            VerdictKind.NOT_MEASURED,
            (
                "peak footprint at least 264 MiB, limit 600 MiB: only a lower bound now (RSS at 20 Hz), "
                "recorded as exact; record it again to compare like with like"
            ),
        ),
        (
            measurement(PEAK, 590 * MIB, Method.SAMPLED, high=595 * MIB),
            VerdictKind.WITHIN,
            "peak footprint 590 MiB, limit 600 MiB",
        ),
        (
            measurement(PEAK, 634 * MIB, Method.SAMPLED),
            VerdictKind.OVER,
            (
                "peak footprint at least 634 MiB, limit 600 MiB: 34 MiB over (+5.7 %), in code cell 2, line 12; "
                "recorded: 530 MiB to 545 MiB (3 runs)"
            ),
        ),
        (
            measurement(PEAK, math.nan),
            VerdictKind.NOT_MEASURED,
            "peak footprint not measured (the value was nan), limit 600 MiB",
        ),
    ],
)
def test_lower_bounds_and_brackets_claim_only_what_is_known(measured, kind, message):
    check(judge(run(measured), budget(PEAK_LIMIT), DEFAULT), kind, message, failed=kind is VerdictKind.OVER)


def test_a_lower_bound_is_within_a_sampled_limit():
    sampled = budget(replace(PEAK_LIMIT, method=Method.SAMPLED))
    check(
        judge(run(measurement(PEAK, 590 * MIB, Method.SAMPLED)), sampled, STRICT),
        VerdictKind.WITHIN,
        "peak footprint at least 590 MiB, limit 600 MiB",
        failed=False,
    )
    check(
        judge(run(measurement(PEAK, 634 * MIB)), sampled, DEFAULT),
        VerdictKind.OVER,
        "peak footprint 634 MiB, limit 600 MiB: 34 MiB over (+5.7 %), in code cell 2, line 12; "
        "recorded: 530 MiB to 545 MiB (3 runs, sampled)",
        failed=True,
    )


@pytest.mark.parametrize("strict", [False, True])
def test_an_unmeasured_metric_gives_its_reason_and_fails_under_strict(strict):
    missing = run(Unavailable(metric=PEAK, reason="no access to /proc"), measurement(Metric.WALL, 1.0))
    check(
        judge(missing, budget(PEAK_LIMIT, limit(Metric.WALL, 9.0)), Policy(strict=strict)),
        VerdictKind.NOT_MEASURED,
        "peak footprint not measured (no access to /proc), limit 600 MiB",
        failed=strict,
    )


def test_times_are_compared_on_the_same_machine_class_only():
    slow = run(measurement(PEAK, 590 * MIB), measurement(Metric.WALL, 30.0))
    elsewhere = budget(PEAK_LIMIT, limit(Metric.WALL, 25.0), machine=OTHER_MACHINE)
    verdict = check(
        judge(slow, elsewhere, STRICT), VerdictKind.WITHIN, "peak footprint 590 MiB, limit 600 MiB", failed=False
    )
    assert verdict.notes == ("time not compared: its limit was recorded on another class of machine (Xeon, 8 cores)",)
    by_hand = budget(PEAK_LIMIT, limit(Metric.WALL, 25.0, hand_set=True), machine=OTHER_MACHINE)
    verdict = judge(slow, by_hand, DEFAULT)
    assert (verdict.kind, verdict.notes) == (VerdictKind.OVER, ())
    unknown = judge(slow, replace(elsewhere, machine=None), DEFAULT)
    assert unknown.notes == (
        "time not compared: its limit was recorded on another class of machine (an unknown machine)",
    )


@pytest.mark.parametrize("strict", [False, True])
def test_limits_that_do_not_apply_are_no_missing_budget(strict):
    only_time = budget(limit(Metric.WALL, 25.0), machine=OTHER_MACHINE)
    check(
        judge(run(measurement(Metric.WALL, 1.0)), only_time, Policy(strict=strict)),
        VerdictKind.NOT_MEASURED,
        "nothing compared: the only limits are times of another class of machine",
        failed=strict,
    )


# No budget


@pytest.mark.parametrize("strict", [False, True])
def test_budgets_of_other_platforms_are_named_but_never_compared(strict):
    known = {"linux-x86_64-tesla_t4": 2 * GIB, "darwin-arm64-cpu": 120 * MIB}
    check(
        judge(run(measurement(PEAK, 634 * MIB)), None, Policy(strict=strict, known_platforms=known)),
        VerdictKind.NO_BUDGET,
        "no budget for linux-x86_64-cpu (recorded: darwin-arm64-cpu: 120 MiB, linux-x86_64-tesla_t4: 2 GiB)",
        failed=strict,
    )


def test_without_any_budget_recording_is_advised():
    check(
        judge(run(measurement(PEAK, MIB)), None, DEFAULT),
        VerdictKind.NO_BUDGET,
        "no budget for linux-x86_64-cpu; record one with --lecture-record",
        failed=False,
    )
    check(
        judge(run(measurement(PEAK, MIB)), budget(limit(PEAK, None, seen=(5.0,))), DEFAULT),
        VerdictKind.NO_BUDGET,
        "no limit set for linux-x86_64-cpu, only recorded values",
        failed=False,
    )


# Against what is declared


def test_a_budget_under_another_spelling_is_named():
    verdict = judge(run(measurement(PEAK, 500 * MIB)), None, Policy(former_name="A.md"))
    check(
        verdict,
        VerdictKind.NO_BUDGET,
        "no budget for linux-x86_64-cpu; perhaps renamed from 'A.md', which has one: rename its table too",
        failed=False,
    )


def test_a_limit_set_by_hand_is_shown_in_its_own_unit():
    by_hand = budget(limit(PEAK, 2_000_000_000, hand_set=True))
    verdict = judge(run(measurement(PEAK, 3 * GIB)), by_hand, DEFAULT)
    assert verdict.headline.startswith("peak footprint 3 GiB, limit 1.86 GiB (2 GB): 1.14 GiB over (+61 %)")
    verdict = judge(run(measurement(PEAK, 1.5 * GIB)), by_hand, DEFAULT)
    assert verdict.headline == "peak footprint 1.5 GiB, limit 1.86 GiB (2 GB)"


def test_a_value_of_zero_far_under_its_limit_is_named_as_unused():
    unused = budget(limit(Metric.GPU_LIVE, 400 * MIB, hand_set=True))
    verdict = judge(run(measurement(Metric.GPU_LIVE, 0)), unused, DEFAULT)
    check(
        verdict,
        VerdictKind.IMPROVED,
        "GPU memory live 0 B, limit 400 MiB: none was used; lower the limit that was set by hand",
        failed=False,
    )


def test_programs_are_recorded_by_the_command():
    program = replace(run(measurement(PEAK, MIB)), launch=LaunchFacts(launcher=PROGRAM_LAUNCHER))
    check(
        judge(program, None, DEFAULT),
        VerdictKind.NO_BUDGET,
        "no budget for linux-x86_64-cpu; record one with 'lecturecheck record'",
        failed=False,
    )
