"""Kept sessions: runs with their verdicts, the time when they ended, and the platform."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Final, TypeAlias

from pytest_lecturecheck.budget.limits import LectureBudget
from pytest_lecturecheck.deferred_dataclass import dataclass
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
        seconds: duration of the item.
        budget: the budget it was compared with, or ``None`` if there was none, or an older version kept the session.
    """

    run: Run
    verdict: Verdict
    seconds: float = 0.0
    budget: LectureBudget | None = None

    @property
    def subject(self) -> Subject:
        """Return lecture and variant."""
        return self.run.lecture, self.run.variant

    @property
    def is_complete(self) -> bool:
        """Return True if the lecture was run to its end."""
        return self.run.outcome is Outcome.COMPLETED

    @property
    def speaks(self) -> bool:
        """Return True if its values are those of a complete, untraced run made in that session."""
        is_remembered = self.verdict.kind is VerdictKind.FAILED_BEFORE
        return self.is_complete and self.run.is_comparable and not is_remembered


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSession:
    """
    One session.

    Attributes:
        name: its name among the kept sessions, or the name of its file.
        platform: platform label.
        runs: its runs, in the order of their items.
        ended: when it ended, or ``None`` if the file does not state it.
        mode: "check" or "record", or an empty string.
        version: version of this package that wrote it, or an empty string.
        commit: the commit that was checked out, or an empty string.
        session: the name that the session gave itself, or an empty string where its document does not state one.
    """

    name: str
    platform: str
    runs: tuple[KeptRun, ...]
    ended: dt.datetime | None = None
    mode: str = ""
    version: str = ""
    commit: str = ""
    session: str = ""

    @property
    def identity(self) -> str:
        """Return the name by which the session is recognised in every copy of its document."""
        return self.session or self.name

    @property
    def title(self) -> str:
        """Return the name of the session with time and commit."""
        when = "" if self.ended is None else f" of {self.ended.astimezone(dt.UTC):%Y-%m-%d %H:%M} UTC"
        commit = f" at {self.commit[:_SHORT]}" if self.commit else ""
        return f"{self.name}{when}{commit}"

    def of(self, lecture: str) -> Iterator[KeptRun]:
        """Return the runs of a lecture, in all variants."""
        return (kept for kept in self.runs if kept.run.lecture == lecture)
