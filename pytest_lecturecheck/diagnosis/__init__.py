"""Explain bad ends of runs, as firmly as the evidence allows. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_lecturecheck.diagnosis.cause import Cause, CauseKind

if TYPE_CHECKING:
    from pytest_lecturecheck.model.evidence import Evidence

__all__ = ["Cause", "CauseKind", "diagnose"]


def diagnose(evidence: Evidence) -> Cause:
    """Return the cause of a bad end; the first rule that matches decides."""
    # The rules are some twenty modules full of patterns, and most sessions have no bad end to explain.
    from pytest_lecturecheck.diagnosis.rules import find_cause  # noqa: PLC0415 - see above

    return find_cause(evidence)
