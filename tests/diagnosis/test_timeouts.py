"""What a kernel was doing when a time limit was exceeded."""

from __future__ import annotations

import pytest
from support.made_records import changed, made_evidence
from support.roomy_evidence import ROOMY, ROOMY_LINES, check

from pytest_lecturecheck.diagnosis import CauseKind
from pytest_lecturecheck.model.cell_run import CellError

BUSY = changed(
    ROOMY,
    timeout_seconds=2.0,
    timeout_kind="cell",
    wall_seconds=2.01,
    cpu_seconds=1.99,
    major_faults_count=0,
    stopped_by_interrupt=True,
)


@pytest.mark.parametrize(
    ("changes", "kind", "headline"),
    [
        (
            {},
            CauseKind.TIMED_OUT_COMPUTING,
            (
                "code cell 2 timed out after 2 s (line 9): it was computing (CPU 99 % of the time); "
                "the kernel stopped when interrupted"
            ),
        ),
        (
            {"cpu_seconds": 7.9, "error": CellError(name="KeyboardInterrupt", value="")},
            CauseKind.TIMED_OUT_COMPUTING,
            (
                "code cell 2 timed out after 2 s (line 9): it was computing (CPU 393 % of the time); "
                "the kernel stopped when interrupted"
            ),
        ),
        (
            {"cpu_seconds": 0.01, "stopped_by_interrupt": False, "signal": 9, "line": None},
            CauseKind.TIMED_OUT_WAITING,
            (
                "code cell 2 timed out after 2 s: it was waiting (CPU 0 % of the time); "
                "the kernel did not stop when interrupted and was killed"
            ),
        ),
        (
            {"cpu_seconds": 0.5, "stopped_by_interrupt": None},
            CauseKind.TIMED_OUT,
            "code cell 2 timed out after 2 s (line 9): it was computing for part of the time (CPU 25 % of the time)",
        ),
        (
            {"cpu_seconds": 0.5, "major_faults_count": 25_000, "stopped_by_interrupt": None},
            CauseKind.TIMED_OUT_PAGING,
            (
                "code cell 2 timed out after 2 s (line 9): it was waiting for memory pages to be read back, "
                "25,000 major faults (CPU 25 % of the time)"
            ),
        ),
        (
            {"major_faults_count": 25_000, "stopped_by_interrupt": None},
            CauseKind.TIMED_OUT_COMPUTING,
            "code cell 2 timed out after 2 s (line 9): it was computing (CPU 99 % of the time)",
        ),
        (
            {"cpu_seconds": None, "stopped_by_interrupt": None},
            CauseKind.TIMED_OUT,
            "code cell 2 timed out after 2 s (line 9)",
        ),
        (
            {"timeout_kind": "lecture", "timeout_seconds": 600.0, "wall_seconds": None, "cell_number": 7, "line": 80},
            CauseKind.TIMED_OUT,
            "lecture timed out after 10 min 00 s, in code cell 7, line 80; the kernel stopped when interrupted",
        ),
        (
            {"timeout_kind": "lecture", "wall_seconds": None, "cell_number": None, "line": None},
            CauseKind.TIMED_OUT,
            "lecture timed out after 2 s; the kernel stopped when interrupted",
        ),
    ],
)
def test_time_limits_say_whose_and_what_the_kernel_was_doing(changes, kind, headline):
    cause = check(changed(BUSY, **changes), kind, headline)
    assert cause.evidence == ROOMY_LINES


def test_a_kernel_that_was_not_ready_in_time():
    evidence = made_evidence(
        ready=False, timeout_seconds=60.0, timeout_kind="startup", signal=9, stderr_tail=("still here",)
    )
    cause = check(evidence, CauseKind.NEVER_READY, "kernel was not ready after 1 min 00 s")
    assert cause.evidence == ("stderr: still here",)
    assert cause.advice == ("--lecture-startup-timeout raises this limit",)
    whole = changed(evidence, timeout_kind="lecture")
    cause = check(whole, CauseKind.NEVER_READY, "lecture timed out after 1 min 00 s, before its kernel was ready")
    assert cause.advice == ()
