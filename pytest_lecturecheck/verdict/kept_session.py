"""Sessions as they are kept for later: runs with their verdicts, when they ended, and on which platform."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from pytest_lecturecheck.budget.limits import LectureBudget
from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.verdict import Verdict, VerdictKind

_SHORT: Final = 9
Subject: TypeAlias = tuple[str, str]
"""Lecture and variant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRun:
    """
    One run of a session.

    Attributes:
        run: the run.
        verdict: its verdict.
        seconds: time that the item took.
        budget: the budget that was in force, or ``None``: there was none, or an older version kept the session.
    """

    run: Run
    verdict: Verdict
    seconds: float = 0.0
    budget: LectureBudget | None = None

    @property
    def subject(self) -> Subject:
        """Give lecture and variant."""
        return self.run.lecture, self.run.variant

    @property
    def speaks(self) -> bool:
        """Tell whether its figures are those of a whole, untraced run made in that session."""
        said_again = self.verdict.kind is VerdictKind.FAILED_BEFORE
        return self.run.outcome is Outcome.COMPLETED and not self.run.is_profiled and not said_again


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSession:
    """
    One session.

    Attributes:
        name: its name among those that are kept, or that of its file.
        platform: platform label.
        runs: its runs, in the order of their items.
        ended: when it ended, or ``None`` where the file does not say.
        mode: "check" or "record", or an empty string.
        version: version of this package that wrote it, or an empty string.
        commit: the commit that was checked out, or an empty string.
    """

    name: str
    platform: str
    runs: tuple[KeptRun, ...]
    ended: dt.datetime | None = None
    mode: str = ""
    version: str = ""
    commit: str = ""

    @property
    def title(self) -> str:
        """Name the session for people."""
        when = "" if self.ended is None else f" of {self.ended.astimezone(dt.UTC):%Y-%m-%d %H:%M} UTC"
        commit = f" at {self.commit[:_SHORT]}" if self.commit else ""
        return f"{self.name}{when}{commit}"

    def of(self, lecture: str) -> Iterator[KeptRun]:
        """Give the runs of a lecture, of all its variants."""
        return (kept for kept in self.runs if kept.run.lecture == lecture)
