"""
Verdicts: compare a run with its budget and with what a README declares, and judge how it ended. Pure.

In come a run, its budget and the policy of the session. Out goes one ``Verdict``. ``session_diff`` compares whole
sessions. Start with :func:`~pytest_lecturecheck.verdict.judging.judge`.
"""

from pytest_lecturecheck.verdict.judging import (
    SHARED_MACHINE,
    has_strict_findings,
    judge,
    judge_profiled,
    judge_recorded,
)
from pytest_lecturecheck.verdict.package import PackageComparison, compare_package
from pytest_lecturecheck.verdict.values import (
    FAILING,
    Comparison,
    Policy,
    RelationComparison,
    ReportedValueComparison,
    Verdict,
    VerdictKind,
)

__all__ = [
    "FAILING",
    "SHARED_MACHINE",
    "Comparison",
    "PackageComparison",
    "Policy",
    "RelationComparison",
    "ReportedValueComparison",
    "Verdict",
    "VerdictKind",
    "compare_package",
    "has_strict_findings",
    "judge",
    "judge_profiled",
    "judge_recorded",
]
