"""Verdicts of runs that are compared with what a README declares."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.made_verdicts import (
    PEAK,
    PEAK_LIMIT,
    budget,
    cell,
    check,
    measurement,
    run,
)

from pytest_lecturecheck.model.metric import Method, Metric, Unavailable
from pytest_lecturecheck.units import MIB
from pytest_lecturecheck.verdict import Policy, VerdictKind, judge

DECLARED = Policy(declared_memory_bytes=256_000_000)


def test_not_fitting_names_need_method_and_cell():
    found = run(measurement(PEAK, 570 * MIB), measurement(Metric.PEAK_RSS, 549 * MIB))
    verdict = check(
        judge(found, None, DECLARED),
        VerdictKind.NOT_FITTING,
        "needs 570 MiB (peak footprint, exact, in code cell 2, line 12), declared 244 MiB (256 MB); "
        "peak RSS of the kernel 549 MiB",
        failed=True,
    )
    assert verdict.notes == ("peak footprint exactly: 597,688,320 bytes, limit 256,000,000 bytes",)


def test_declared_values_leave_a_note_about_other_platforms():
    found = run(measurement(PEAK, MIB))
    assert judge(found, None, DECLARED).notes == ()
    known = replace(DECLARED, known_platforms={"darwin-arm64-cpu": 120 * MIB})
    assert judge(found, None, known).notes == ("no budget for linux-x86_64-cpu (recorded: darwin-arm64-cpu: 120 MiB)",)


@pytest.mark.parametrize("measured", [(Method.SAMPLED, None), (Method.BRACKET, 700 * MIB)])
def test_a_lower_bound_that_does_not_fit_says_at_least(measured):
    method, high = measured
    headline = judge(run(measurement(PEAK, 570 * MIB, method, high=high)), None, DECLARED).headline
    assert headline.startswith("needs at least 570 MiB (peak footprint, ")


@pytest.mark.parametrize(
    ("measured", "kind", "headline"),
    [
        (
            measurement(PEAK, 256_000_000),
            VerdictKind.FITS,
            "244 MiB (peak footprint, exact, in code cell 2, line 12) fits the declared 244 MiB (256 MB)",
        ),
        (
            measurement(PEAK, 256_000_001),
            VerdictKind.NOT_FITTING,
            ("needs 244.14063 MiB (peak footprint, exact, in code cell 2, line 12), declared 244.14062 MiB (256 MB)"),
        ),
        (
            measurement(PEAK, 100 * MIB, Method.SAMPLED),
            VerdictKind.FITS,
            (
                "at least 100 MiB (peak footprint, sampled, a lower bound, in code cell 2, line 12) "
                "fits the declared 244 MiB (256 MB)"
            ),
        ),
        (
            measurement(PEAK, 240 * MIB, Method.BRACKET, high=250 * MIB),
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


def test_strict_needs_no_budget_if_a_declared_value_was_checked():
    verdict = judge(run(measurement(PEAK, MIB)), None, replace(DECLARED, strict=True))
    assert (verdict.kind, verdict.failed) == (VerdictKind.FITS, False)


def test_a_declared_time_is_checked_on_every_machine():
    found = run(measurement(Metric.WALL, 150.0), cells=(cell(1, measurement(Metric.WALL, 100.0)),), machine=None)
    check(
        judge(found, None, Policy(declared_time_seconds=120.0)),
        VerdictKind.NOT_FITTING,
        "took 2 min 30 s (wall time, exact, most of it in code cell 1, line 6: 1 min 40 s), declared 2 min 00 s",
        failed=True,
    )


def test_declared_and_recorded_limits_that_are_exceeded_are_both_listed():
    headline = judge(run(measurement(PEAK, 634 * MIB)), budget(PEAK_LIMIT), DECLARED).headline
    assert headline == (
        "needs 634 MiB (peak footprint, exact, in code cell 2, line 12), declared 244 MiB (256 MB); "
        "peak footprint 634 MiB, limit 600 MiB: 34 MiB over (+5.7 %), in code cell 2, line 12; "
        "recorded: 530 MiB to 545 MiB (3 runs)"
    )


# Bad ends


@pytest.mark.parametrize(
    ("written", "kind", "headline"),
    [
        (MIB, VerdictKind.FITS, "wrote 1 MiB to disk, which fits the declared 9.54 MiB (10 MB)"),
        (
            20 * MIB,
            VerdictKind.NOT_MEASURED,
            "wrote 20 MiB to disk in all, declared 9.54 MiB (10 MB): some of it may have been removed since",
        ),
    ],
)
def test_all_that_is_written_is_compared_with_the_declared_disk(written, kind, headline):
    found = run(measurement(PEAK, MIB), measurement(Metric.DISK_WRITTEN, written))
    check(judge(found, None, Policy(declared_disk_bytes=10**7)), kind, headline, failed=False)
