"""Say what a bad end means, as strongly as its evidence allows and no more. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pytest_lecturecheck.run import Evidence


class CauseKind(StrEnum):
    """The closed set of causes."""

    CELL_ERROR = "cell error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """
    What a bad end means.

    Attributes:
        kind: the cause.
        headline: one line: what happened, in which code cell and line, with the figures that show it.
        evidence: the observations it rests on, one line each.
        advice: what to do about it, one line each; empty where nothing general can be said.
    """

    kind: CauseKind
    headline: str
    evidence: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()


def diagnose(evidence: Evidence) -> Cause:
    """Say what a bad end means; the first rule that matches decides."""
    raise NotImplementedError(evidence)
