"""Verdicts of failed runs, strict findings, and properties of every verdict."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.made_records import changed, made_evidence
from support.made_verdicts import (
    DEFAULT,
    PEAK,
    PEAK_LIMIT,
    STRICT,
    budget,
    check,
    limit,
    measurement,
    run,
)

from pytest_lecturecheck.model.cell_run import CellError
from pytest_lecturecheck.model.evidence import Evidence
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.metric import Method, Metric
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.units import GIB, MIB
from pytest_lecturecheck.verdict import Policy, VerdictKind, judge


@pytest.mark.parametrize(
    ("outcome", "kind", "failed"),
    [
        (Outcome.FAILED, VerdictKind.FAILED, True),
        (Outcome.TIMED_OUT, VerdictKind.TIMED_OUT, True),
        (Outcome.DIED, VerdictKind.DIED, True),
        (Outcome.NOT_STARTED, VerdictKind.NOT_STARTED, True),
        (Outcome.NOTHING_TO_RUN, VerdictKind.NOTHING_TO_RUN, False),
        (Outcome.SKIPPED, VerdictKind.SKIPPED, False),
        (Outcome.STOPPED, VerdictKind.STOPPED, True),
    ],
)
def test_a_failure_without_evidence_gives_its_reason(outcome, kind, failed):
    check(judge(run(outcome=outcome, reason="because"), None, STRICT), kind, "because", failed=failed)
    check(judge(run(outcome=outcome), budget(PEAK_LIMIT), DEFAULT), kind, outcome.value, failed=failed)


def test_without_observations_the_runner_gives_the_reason():
    evidence = made_evidence(ready=False)
    unclear = run(outcome=Outcome.NOT_STARTED, reason="the kernel answered in no known protocol", evidence=evidence)
    assert judge(unclear, None, DEFAULT).headline == "the kernel answered in no known protocol"
    clear = replace(unclear, evidence=changed(evidence, exit_code=3))
    assert judge(clear, None, DEFAULT).headline == "kernel exited with code 3 before it was ready"


def test_a_failed_run_is_diagnosed_and_exceeded_limits_are_notes():
    evidence = Evidence(cell_number=3, line=41, error=CellError(name="ValueError", value="short and clear"))
    ended = run(measurement(PEAK, 634 * MIB), measurement(Metric.WALL, 1.0), outcome=Outcome.FAILED, evidence=evidence)
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
            "recorded: 530 MiB to 545 MiB (3 runs)"
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
def test_strict_findings_fail_a_run_that_would_pass(outcome):
    found = run(measurement(PEAK, 590 * MIB), findings=FOUND, outcome=outcome)
    check(
        judge(found, budget(PEAK_LIMIT), STRICT),
        VerdictKind.FAILED,
        "strict: " + "; ".join(FOUND_TEXTS),
        failed=True,
    )
    assert not judge(found, budget(PEAK_LIMIT), DEFAULT).failed


def test_strict_findings_can_be_allowed_by_kind():
    policy = Policy(strict=True, strict_except=frozenset({FindingKind.SHELL}))
    verdict = judge(run(measurement(PEAK, 500 * MIB), findings=FOUND), budget(PEAK_LIMIT), policy)
    assert (verdict.kind, verdict.headline) == (VerdictKind.FAILED, f"strict: {FOUND_TEXTS[1]}")
    assert verdict.notes == (
        (
            "to allow such findings: strict-except: [nested-cell] in the lecture, or "
            "--lecture-strict-except nested-cell for all"
        ),
    )
    every = replace(policy, strict_except=frozenset({FindingKind.SHELL, FindingKind.NESTED_CELL}))
    assert not judge(run(measurement(PEAK, 500 * MIB), findings=FOUND), budget(PEAK_LIMIT), every).failed


def test_strict_findings_are_notes_of_other_failures():
    verdict = judge(run(measurement(PEAK, 590 * MIB), findings=FOUND), None, STRICT)
    assert (verdict.kind, verdict.failed) == (VerdictKind.NO_BUDGET, True)
    assert verdict.notes == tuple(f"strict: {text}" for text in FOUND_TEXTS)


def test_strict_findings_do_not_fail_a_skipped_lecture():
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
def test_more_memory_never_makes_a_failing_run_pass(values, spread, how, against, policy):
    def failed(value):
        high = value + spread if how is Method.BRACKET else None
        return judge(run(measurement(PEAK, value, how, high=high)), against, policy).failed

    less, more = values
    assert failed(more) or not failed(less)


@given(value=LIMITS, limit_bytes=LIMITS)
def test_an_exact_value_fails_only_above_its_limit(value, limit_bytes):
    verdict = judge(run(measurement(PEAK, value)), budget(limit(PEAK, limit_bytes)), STRICT)
    assert verdict.failed == (value > limit_bytes)
    shown, shown_limit = PEAK.format_values_apart(value, limit_bytes)
    if value != limit_bytes:
        assert shown != shown_limit
    assert shown in verdict.headline
    assert shown_limit in verdict.headline
