"""Judge a run: against its budget, against what a README declares, and by how it ended. Pure."""

from pytest_lecturecheck.verdict.judging import SHARED_MACHINE, judge, judge_profiled
from pytest_lecturecheck.verdict.package import PackageComparison, compare_package
from pytest_lecturecheck.verdict.values import (
    FAILING,
    Comparison,
    Policy,
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
    "ReportedValueComparison",
    "Verdict",
    "VerdictKind",
    "compare_package",
    "judge",
    "judge_profiled",
]
