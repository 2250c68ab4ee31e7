from __future__ import annotations

import datetime as dt
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.made_records import changed, made_evidence, made_run

from pytest_lecturecheck.budget.limits import LectureBudget, MetricBudget
from pytest_lecturecheck.model.cell_run import CellError, CellRun, CellStatus
from pytest_lecturecheck.model.evidence import Evidence
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.metric import Measurement, Method, Metric, Unavailable
from pytest_lecturecheck.model.platform import Machine
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.units import GIB, MIB
from pytest_lecturecheck.verdict import Policy, VerdictKind, judge

PLATFORM = "linux-x86_64-cpu"
MACHINE = Machine(system="Linux 6.18", architecture="x86_64", cpu="EPYC", core_count=2, ram_bytes=24 * GIB)
OTHER_MACHINE = replace(MACHINE, cpu="Xeon", core_count=8)
DEFAULT = Policy()
STRICT = Policy(strict=True)
PEAK = Metric.PEAK_FOOTPRINT


def figure(metric, value, method=Method.EXACT, **changes):
    return Measurement(metric=metric, value=value, method=method, **changes)


def cell(number, *readings):
    return CellRun(
        number=number,
        index=2 * number,
        line=6 * number,
        status=CellStatus.OK,
        readings={item.metric: item for item in readings},
    )


def run(*readings, cells=None, **changes):
    if cells is None:
        cells = (cell(1), cell(2, *(item for item in readings if isinstance(item, Measurement))))
    return made_run(
        **(
            {
                "lecture": "a.md",
                "platform": PLATFORM,
                "outcome": Outcome.COMPLETED,
                "cells": cells,
                "readings": {item.metric: item for item in readings},
                "machine": MACHINE,
            }
            | changes
        )
    )


def budget(*items, machine=MACHINE):
    return LectureBudget(
        lecture="a.md",
        metrics={item.metric: item for item in items},
        run_count=3,
        recorded=dt.date(2026, 1, 2),
        machine=machine,
    )


def limit(metric, value, seen=(), method=Method.EXACT, **changes):
    return MetricBudget(metric=metric, limit=value, seen=seen, method=method, **changes)


PEAK_LIMIT = limit(PEAK, 600 * MIB, seen=(530.0 * MIB, 545.0 * MIB, 540.0 * MIB))


def check(verdict, kind, headline, *, failed):
    assert (verdict.kind, verdict.failed, verdict.headline) == (kind, failed, headline)
    return verdict


# Against a budget


def test_over_holds_metric_figures_difference_cell_and_what_was_seen():
    verdict = check(
        judge(run(figure(PEAK, 634 * MIB)), budget(PEAK_LIMIT), DEFAULT),
        VerdictKind.OVER,
        "peak footprint 634 MiB, limit 600 MiB: 34 MiB over (+5.7 %), in code cell 2, line 12; "
        "530 MiB to 545 MiB when recorded (3 runs)",
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
                "530 MiB to 545 MiB when recorded (3 runs)"
            ),
        ),
    ],
)
def test_limits_are_inclusive_and_close_figures_look_different(value, kind, headline):
    verdict = judge(run(figure(PEAK, value)), budget(PEAK_LIMIT), DEFAULT)
    check(verdict, kind, headline, failed=kind is VerdictKind.OVER)


def test_every_exceeded_limit_is_listed():
    readings = (figure(PEAK, 634 * MIB), figure(Metric.WALL, 30.0), figure(Metric.PEAK_SWAP, 0))
    limits = (PEAK_LIMIT, limit(Metric.WALL, 25.0, seen=(7.5,)), limit(Metric.PEAK_SWAP, 0, hand_set=True))
    verdict = check(
        judge(
            run(*readings, cells=(cell(3, figure(PEAK, 500 * MIB), figure(Metric.WALL, 21.0)),)),
            budget(*limits),
            DEFAULT,
        ),
        VerdictKind.OVER,
        "peak footprint 634 MiB, limit 600 MiB: 34 MiB over (+5.7 %), most of it in code cell 3, line 18: 500 MiB; "
        "530 MiB to 545 MiB when recorded (3 runs); "
        "wall time 30 s, limit 25 s: 5 s over (+20 %), most of it in code cell 3, line 18: 21 s; "
        "7.5 s when recorded (1 run)",
        failed=True,
    )
    assert [item.kind for item in verdict.comparisons] == [VerdictKind.OVER, VerdictKind.OVER, VerdictKind.WITHIN]


def test_a_limit_of_zero_and_a_limit_set_by_hand_are_told():
    none_allowed = budget(MetricBudget(metric=Metric.PEAK_SWAP, limit=0, hand_set=True))
    check(
        judge(run(figure(Metric.PEAK_SWAP, 5 * MIB)), none_allowed, DEFAULT),
        VerdictKind.OVER,
        "peak swap 5 MiB, limit 0 B: 5 MiB over, in code cell 2, line 12; limit set by hand",
        failed=True,
    )
    check(
        judge(run(figure(PEAK, 634 * MIB), cells=()), budget(replace(PEAK_LIMIT, hand_set=True)), DEFAULT),
        VerdictKind.OVER,
        "peak footprint 634 MiB, limit 600 MiB: 34 MiB over (+5.7 %); "
        "530 MiB to 545 MiB when recorded (3 runs); limit set by hand",
        failed=True,
    )


@pytest.mark.parametrize(
    ("hand_set", "cure"), [(False, "record it again"), (True, "lower the limit that was set by hand")]
)
def test_a_limit_far_too_large_is_told_and_does_not_fail(hand_set, cure):
    check(
        judge(run(figure(PEAK, 60 * MIB)), budget(limit(PEAK, 30_000 * MIB, hand_set=hand_set)), STRICT),
        VerdictKind.IMPROVED,
        f"peak footprint 60 MiB is far under its limit 29.3 GiB, which is 500 times too high: {cure}",
        failed=False,
    )


def test_far_under_begins_at_twice_what_would_be_derived_now():
    # 60 MiB would give 124 MiB.
    at_twice = budget(limit(PEAK, 248 * MIB))
    assert judge(run(figure(PEAK, 60 * MIB)), at_twice, DEFAULT).kind is VerdictKind.WITHIN
    assert judge(run(figure(PEAK, 60 * MIB - 1)), at_twice, DEFAULT).kind is VerdictKind.IMPROVED


# How figures were had


@pytest.mark.parametrize(
    ("measured", "kind", "message"),
    [
        (
            figure(PEAK, 590 * MIB, Method.BRACKET, high=610 * MIB),
            VerdictKind.NOT_MEASURED,
            "peak footprint between 590 MiB and 610 MiB, limit 600 MiB: it may or may not be over",
        ),
        (
            figure(PEAK, 590 * MIB, Method.BRACKET, high=600 * MIB),
            VerdictKind.WITHIN,
            "peak footprint 590 MiB, limit 600 MiB",
        ),
        (
            figure(PEAK, 0, Method.BRACKET, high=590 * MIB),
            VerdictKind.WITHIN,
            "peak footprint between 0 B and 590 MiB, limit 600 MiB",
        ),
        (
            figure(PEAK, 0, Method.BRACKET, high=40 * MIB),
            VerdictKind.IMPROVED,
            (
                "peak footprint between 0 B and 40 MiB is far under its limit 600 MiB, which is 15 times too high: "
                "record it again"
            ),
        ),
        (
            figure(PEAK, 590 * MIB, Method.SAMPLED, source="RSS at 20 Hz"),
            VerdictKind.WITHIN,
            "peak footprint at least 590 MiB, limit 600 MiB (a lower bound now, exact when recorded)",
        ),
        (
            figure(PEAK, 264 * MIB, Method.SAMPLED, source="RSS at 20 Hz"),
            VerdictKind.NOT_MEASURED,
            (
                "peak footprint at least 264 MiB, limit 600 MiB: only a lower bound now (RSS at 20 Hz), "
                "exact when recorded; record it again to compare like with like"
            ),
        ),
        (
            figure(PEAK, 590 * MIB, Method.SAMPLED, high=595 * MIB),
            VerdictKind.WITHIN,
            "peak footprint 590 MiB, limit 600 MiB",
        ),
        (
            figure(PEAK, 634 * MIB, Method.SAMPLED),
            VerdictKind.OVER,
            (
                "peak footprint at least 634 MiB, limit 600 MiB: 34 MiB over (+5.7 %), in code cell 2, line 12; "
                "530 MiB to 545 MiB when recorded (3 runs)"
            ),
        ),
        (
            figure(PEAK, math.nan),
            VerdictKind.NOT_MEASURED,
            "peak footprint not measured (the value was nan), limit 600 MiB",
        ),
    ],
)
def test_lower_bounds_and_brackets_claim_no_more_than_they_know(measured, kind, message):
    check(judge(run(measured), budget(PEAK_LIMIT), DEFAULT), kind, message, failed=kind is VerdictKind.OVER)


def test_a_lower_bound_is_within_where_the_record_knew_no_better():
    sampled = budget(replace(PEAK_LIMIT, method=Method.SAMPLED))
    check(
        judge(run(figure(PEAK, 590 * MIB, Method.SAMPLED)), sampled, STRICT),
        VerdictKind.WITHIN,
        "peak footprint at least 590 MiB, limit 600 MiB",
        failed=False,
    )
    check(
        judge(run(figure(PEAK, 634 * MIB)), sampled, DEFAULT),
        VerdictKind.OVER,
        "peak footprint 634 MiB, limit 600 MiB: 34 MiB over (+5.7 %), in code cell 2, line 12; "
        "530 MiB to 545 MiB when recorded (3 runs, sampled)",
        failed=True,
    )


@pytest.mark.parametrize("strict", [False, True])
def test_a_metric_that_was_not_measured_says_why_and_fails_when_strict(strict):
    missing = run(Unavailable(metric=PEAK, reason="no access to /proc"), figure(Metric.WALL, 1.0))
    check(
        judge(missing, budget(PEAK_LIMIT, limit(Metric.WALL, 9.0)), Policy(strict=strict)),
        VerdictKind.NOT_MEASURED,
        "peak footprint not measured (no access to /proc), limit 600 MiB",
        failed=strict,
    )


def test_times_are_compared_on_the_same_class_of_machine_only():
    slow = run(figure(PEAK, 590 * MIB), figure(Metric.WALL, 30.0))
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
def test_limits_that_do_not_hold_here_are_no_missing_budget(strict):
    only_time = budget(limit(Metric.WALL, 25.0), machine=OTHER_MACHINE)
    check(
        judge(run(figure(Metric.WALL, 1.0)), only_time, Policy(strict=strict)),
        VerdictKind.NOT_MEASURED,
        "nothing compared: the only limits are times of another class of machine",
        failed=strict,
    )


# No budget


@pytest.mark.parametrize("strict", [False, True])
def test_without_a_budget_the_other_platforms_are_named_and_never_compared(strict):
    known = {"linux-x86_64-tesla_t4": 2 * GIB, "darwin-arm64-cpu": 120 * MIB}
    check(
        judge(run(figure(PEAK, 634 * MIB)), None, Policy(strict=strict, known_platforms=known)),
        VerdictKind.NO_BUDGET,
        "no budget for linux-x86_64-cpu (recorded: darwin-arm64-cpu: 120 MiB, linux-x86_64-tesla_t4: 2 GiB)",
        failed=strict,
    )


def test_without_any_budget_recording_is_advised():
    check(
        judge(run(figure(PEAK, MIB)), None, DEFAULT),
        VerdictKind.NO_BUDGET,
        "no budget for linux-x86_64-cpu; record one with --lecture-record",
        failed=False,
    )
    check(
        judge(run(figure(PEAK, MIB)), budget(limit(PEAK, None, seen=(5.0,))), DEFAULT),
        VerdictKind.NO_BUDGET,
        "no limit set for linux-x86_64-cpu, only recorded values",
        failed=False,
    )


# Against what is declared

DECLARED = Policy(declared_memory_bytes=256_000_000)


def test_what_does_not_fit_says_what_is_needed_by_which_method_and_where():
    found = run(figure(PEAK, 570 * MIB), figure(Metric.PEAK_RSS, 549 * MIB))
    verdict = check(
        judge(found, None, DECLARED),
        VerdictKind.NOT_FITTING,
        "needs 570 MiB (peak footprint, exact, in code cell 2, line 12), declared 244 MiB (256 MB); "
        "peak RSS of the kernel 549 MiB",
        failed=True,
    )
    assert verdict.notes == ("peak footprint exactly: 597,688,320 bytes, limit 256,000,000 bytes",)


def test_beside_what_is_declared_only_budgets_of_other_platforms_are_noted():
    found = run(figure(PEAK, MIB))
    assert judge(found, None, DECLARED).notes == ()
    known = replace(DECLARED, known_platforms={"darwin-arm64-cpu": 120 * MIB})
    assert judge(found, None, known).notes == ("no budget for linux-x86_64-cpu (recorded: darwin-arm64-cpu: 120 MiB)",)


@pytest.mark.parametrize("measured", [(Method.SAMPLED, None), (Method.BRACKET, 700 * MIB)])
def test_of_a_lower_bound_that_does_not_fit_at_least_that_is_needed(measured):
    method, high = measured
    headline = judge(run(figure(PEAK, 570 * MIB, method, high=high)), None, DECLARED).headline
    assert headline.startswith("needs at least 570 MiB (peak footprint, ")


@pytest.mark.parametrize(
    ("measured", "kind", "headline"),
    [
        (
            figure(PEAK, 256_000_000),
            VerdictKind.FITS,
            "244 MiB (peak footprint, exact, in code cell 2, line 12) fits the declared 244 MiB (256 MB)",
        ),
        (
            figure(PEAK, 256_000_001),
            VerdictKind.NOT_FITTING,
            ("needs 244.14063 MiB (peak footprint, exact, in code cell 2, line 12), declared 244.14062 MiB (256 MB)"),
        ),
        (
            figure(PEAK, 100 * MIB, Method.SAMPLED),
            VerdictKind.FITS,
            (
                "at least 100 MiB (peak footprint, sampled, a lower bound, in code cell 2, line 12) "
                "fits the declared 244 MiB (256 MB)"
            ),
        ),
        (
            figure(PEAK, 240 * MIB, Method.BRACKET, high=250 * MIB),
            VerdictKind.NOT_MEASURED,
            (
                "between 240 MiB and 250 MiB (peak footprint, bracket, in code cell 2, line 12), "
                "declared 244 MiB (256 MB): it may or may not fit"
            ),
        ),
        (
            Unavailable(metric=PEAK, reason="no access"),
            VerdictKind.NOT_MEASURED,
            "peak footprint not measured (no access), declared 244 MiB (256 MB)",
        ),
    ],
)
def test_a_declared_memory_fits_or_not_without_any_budget(measured, kind, headline):
    check(judge(run(measured), None, DECLARED), kind, headline, failed=kind is VerdictKind.NOT_FITTING)


def test_strict_asks_for_no_budget_where_something_declared_was_checked():
    verdict = judge(run(figure(PEAK, MIB)), None, replace(DECLARED, strict=True))
    assert (verdict.kind, verdict.failed) == (VerdictKind.FITS, False)


def test_a_declared_time_is_checked_on_every_machine():
    found = run(figure(Metric.WALL, 150.0), cells=(cell(1, figure(Metric.WALL, 100.0)),), machine=None)
    check(
        judge(found, None, Policy(declared_time_seconds=120.0)),
        VerdictKind.NOT_FITTING,
        "took 2 min 30 s (wall time, exact, most of it in code cell 1, line 6: 1 min 40 s), declared 2 min 00 s",
        failed=True,
    )


def test_declared_and_recorded_limits_that_are_exceeded_are_both_listed():
    headline = judge(run(figure(PEAK, 634 * MIB)), budget(PEAK_LIMIT), DECLARED).headline
    assert headline == (
        "needs 634 MiB (peak footprint, exact, in code cell 2, line 12), declared 244 MiB (256 MB); "
        "peak footprint 634 MiB, limit 600 MiB: 34 MiB over (+5.7 %), in code cell 2, line 12; "
        "530 MiB to 545 MiB when recorded (3 runs)"
    )


# Bad ends


@pytest.mark.parametrize(
    ("outcome", "kind", "failed"),
    [
        (Outcome.FAILED, VerdictKind.FAILED, True),
        (Outcome.TIMED_OUT, VerdictKind.TIMED_OUT, True),
        (Outcome.DIED, VerdictKind.DIED, True),
        (Outcome.NOT_STARTED, VerdictKind.DIED, True),
        (Outcome.NOTHING_TO_RUN, VerdictKind.NOTHING_TO_RUN, False),
        (Outcome.SKIPPED, VerdictKind.SKIPPED, False),
        (Outcome.STOPPED, VerdictKind.STOPPED, True),
    ],
)
def test_an_end_without_evidence_gives_its_reason(outcome, kind, failed):
    check(judge(run(outcome=outcome, reason="because"), None, STRICT), kind, "because", failed=failed)
    check(judge(run(outcome=outcome), budget(PEAK_LIMIT), DEFAULT), kind, outcome.value, failed=failed)


def test_the_runners_own_words_stand_where_nothing_was_observed():
    evidence = made_evidence(ready=False)
    unclear = run(outcome=Outcome.NOT_STARTED, reason="the kernel answered in no known protocol", evidence=evidence)
    assert judge(unclear, None, DEFAULT).headline == "the kernel answered in no known protocol"
    clear = replace(unclear, evidence=changed(evidence, exit_code=3))
    assert judge(clear, None, DEFAULT).headline == "kernel exited with code 3 before it was ready"


def test_a_bad_end_is_diagnosed_and_exceeded_limits_are_noted():
    evidence = Evidence(cell_number=3, line=41, error=CellError(name="ValueError", value="short and clear"))
    ended = run(figure(PEAK, 634 * MIB), figure(Metric.WALL, 1.0), outcome=Outcome.FAILED, evidence=evidence)
    verdict = check(
        judge(ended, budget(PEAK_LIMIT, limit(Metric.WALL, 9.0)), DEFAULT),
        VerdictKind.FAILED,
        "ValueError: short and clear (code cell 3, line 41)",
        failed=True,
    )
    assert verdict.cause is not None
    assert verdict.notes == (
        (
            "before it ended: peak footprint 634 MiB, limit 600 MiB: 34 MiB over (+5.7 %), in code cell 2, line 12; "
            "530 MiB to 545 MiB when recorded (3 runs)"
        ),
    )
    assert [item.metric for item in verdict.comparisons] == [PEAK]


# Strict findings

SHELL = Finding(
    kind=FindingKind.SHELL, message="shell line ended with code 4", cell_number=1, line=5, fails_when_strict=True
)
NESTED = Finding(kind=FindingKind.NESTED_CELL, message="1 nested code-cell is not run", fails_when_strict=True)
MILD = Finding(kind=FindingKind.FORMAT, message="no matter")
FOUND = (SHELL, MILD, NESTED)
FOUND_TEXTS = ("shell line ended with code 4 (code cell 1, line 5)", "1 nested code-cell is not run")


@pytest.mark.parametrize("outcome", [Outcome.COMPLETED, Outcome.NOTHING_TO_RUN])
def test_strict_findings_fail_what_would_have_passed(outcome):
    found = run(figure(PEAK, 590 * MIB), findings=FOUND, outcome=outcome)
    check(
        judge(found, budget(PEAK_LIMIT), STRICT),
        VerdictKind.FAILED,
        "strict: " + "; ".join(FOUND_TEXTS),
        failed=True,
    )
    assert not judge(found, budget(PEAK_LIMIT), DEFAULT).failed


def test_strict_findings_stand_beside_other_failures():
    verdict = judge(run(figure(PEAK, 590 * MIB), findings=FOUND), None, STRICT)
    assert (verdict.kind, verdict.failed) == (VerdictKind.NO_BUDGET, True)
    assert verdict.notes == tuple(f"strict: {text}" for text in FOUND_TEXTS)


def test_a_skipped_lecture_is_not_failed_for_what_was_noticed():
    assert not judge(run(outcome=Outcome.SKIPPED, reason="tagged", findings=FOUND), None, STRICT).failed


# Properties

LIMITS = st.integers(0, 2 * GIB)
METHODS = st.sampled_from(list(Method))


@given(
    values=st.tuples(LIMITS, LIMITS).map(sorted),
    spread=st.integers(0, GIB),
    how=METHODS,
    against=st.builds(limit, st.just(PEAK), LIMITS, method=st.none() | METHODS).map(budget),
    policy=st.builds(Policy, declared_memory_bytes=st.none() | LIMITS, strict=st.booleans()),
)
def test_more_memory_never_turns_a_failing_verdict_into_a_passing_one(values, spread, how, against, policy):
    def failed(value):
        high = value + spread if how is Method.BRACKET else None
        return judge(run(figure(PEAK, value, how, high=high)), against, policy).failed

    less, more = values
    assert failed(more) or not failed(less)


@given(value=LIMITS, limit_bytes=LIMITS)
def test_an_exact_figure_fails_above_its_limit_and_nowhere_else(value, limit_bytes):
    verdict = judge(run(figure(PEAK, value)), budget(limit(PEAK, limit_bytes)), STRICT)
    assert verdict.failed == (value > limit_bytes)
    shown, shown_limit = PEAK.format_values_apart(value, limit_bytes)
    if value != limit_bytes:
        assert shown != shown_limit
    assert shown in verdict.headline
    assert shown_limit in verdict.headline
