"""Lines of a history: what one session found out about one lecture, small enough to be kept for years. Pure."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Final

from pytest_lecturecheck.budget.limits import HeavyCell
from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.metric import Measurement, Method, Metric
from pytest_lecturecheck.model.platform import Machine, Software
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.verdict.kept_session import KeptRun, KeptSession, Subject
from pytest_lecturecheck.verdict.session_diff import COMPARED, SideLecture, SideValue, facts_of
from pytest_lecturecheck.verdict.values import VerdictKind

_ID_LENGTH: Final = 16
_NOT_RUN: Final = frozenset({Outcome.SKIPPED, Outcome.NOTHING_TO_RUN, Outcome.STOPPED})


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryValue:
    """
    The highest value of a metric among the runs of a session.

    Attributes:
        value: the value in the unit that the metric's name states.
        method: how it was measured.
        limit: the limit that it was compared with, or ``None``.
        is_shared: other lectures ran at the same time, so that times are not comparable.
    """

    value: float
    method: Method
    limit: float | None = None
    is_shared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLine:
    """
    One lecture x variant in one session.

    Attributes:
        id: the same for the same lecture, variant, platform and session, wherever the line is copied.
        session: name of the session.
        ended: when the session ended, ISO 8601 in UTC.
        platform: platform label.
        lecture: the lecture's name.
        variant: the variant's name.
        verdict: the verdict; of several runs that of the first one that failed, otherwise that of the last.
        failed: whether that verdict failed the lecture.
        runs: number of its runs.
        cause: the kind of cause of a failed run, or an empty string.
        cell: the number of the cell that ended badly, or ``None``.
        values: the highest values of its complete runs by metric.
        heaviest: the cell with the highest peak footprint among these runs.
        machine: the machine it was measured on.
        software: the software it was measured with.
        facts: of its manifest, what lies beneath equal package versions, by name.
        mode: "check" or "record".
        version: version of this package.
        commit: the commit that was checked out, or an empty string.
    """

    id: str
    session: str
    ended: str
    platform: str
    lecture: str
    variant: str = ""
    verdict: str
    failed: bool
    runs: int
    cause: str = ""
    cell: int | None = None
    values: Mapping[Metric, HistoryValue] = field(default_factory=dict)
    heaviest: HeavyCell | None = None
    machine: Machine | None = None
    software: Software | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    mode: str = ""
    version: str = ""
    commit: str = ""

    @property
    def subject(self) -> Subject:
        """Return lecture and variant."""
        return self.lecture, self.variant

    @property
    def moment(self) -> dt.datetime:
        """Return when the session ended."""
        ended = dt.datetime.fromisoformat(self.ended)
        return ended if ended.tzinfo is not None else ended.replace(tzinfo=dt.UTC)

    @property
    def as_side(self) -> SideLecture:
        """Return the line as one side of a comparison."""
        values = {
            metric: SideValue(value=found.value, method=found.method, is_shared=found.is_shared)
            for metric in COMPARED
            if (found := self.values.get(metric)) is not None
        }
        return SideLecture(
            values=values,
            verdict=self.verdict,
            machine=self.machine,
            software=self.software,
            facts=self.facts,
        )


def line_id(session: str, platform: str, subject: Subject) -> str:
    """Return the id of a line: a hash of what it is about."""
    # Names of lectures may hold lone surrogates, which UTF-8 does not encode.
    text = "\0".join((session, platform, *subject)).encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()[:_ID_LENGTH]


def history_lines(session: KeptSession) -> tuple[HistoryLine, ...]:
    """
    Return a line for each lecture that a session ran, in the order of its runs.

    Skipped lectures, remembered failures, runs that somebody stopped, and traced runs have none.

    Args:
        session: the session; a time when it ended is required.
    """
    by_subject: dict[Subject, list[KeptRun]] = {}
    for kept in session.runs:
        is_remembered = kept.verdict.kind is VerdictKind.FAILED_BEFORE
        if kept.run.outcome not in _NOT_RUN and not is_remembered and kept.run.is_comparable:
            by_subject.setdefault(kept.subject, []).append(kept)
    return tuple(_line_of(session, subject, runs) for subject, runs in by_subject.items())


def _line_of(session: KeptSession, subject: Subject, runs: Sequence[KeptRun]) -> HistoryLine:
    decisive = next((kept for kept in runs if kept.verdict.failed), runs[-1])
    complete = [kept for kept in runs if kept.speaks]
    evidence, cause = decisive.run.evidence, decisive.verdict.cause
    ended = "" if session.ended is None else session.ended.astimezone(dt.UTC).isoformat(timespec="seconds")
    return HistoryLine(
        id=line_id(session.identity, session.platform, subject),
        session=session.identity,
        ended=ended,
        platform=session.platform,
        lecture=subject[0],
        variant=subject[1],
        verdict=decisive.verdict.kind.value,
        failed=decisive.verdict.failed,
        runs=len(runs),
        cause="" if cause is None else cause.kind.value,
        cell=None if evidence is None else evidence.cell_number,
        values={metric: value for metric in Metric if (value := _highest(metric, complete)) is not None},
        heaviest=_heaviest(complete),
        machine=decisive.run.machine,
        software=decisive.run.software,
        facts=facts_of(decisive.run),
        mode=session.mode,
        version=session.version,
        commit=session.commit,
    )


def _highest(metric: Metric, runs: Iterable[KeptRun]) -> HistoryValue | None:
    measured = [(found, kept) for kept in runs if (found := kept.run.measured(metric)) is not None]
    if not measured:
        return None
    highest, kept = max(measured, key=lambda pair: pair[0].value)
    return HistoryValue(
        value=_rounded(highest),
        method=highest.method,
        limit=next((item.limit for item in kept.verdict.comparisons if item.metric is metric), None),
        is_shared=bool(kept.run.concurrent_lectures),
    )


def _rounded(found: Measurement) -> float:
    """Return the value with microseconds and whole bytes: more digits are noise."""
    rounded = round(found.value, 6)
    return int(rounded) if rounded == int(rounded) else rounded


def _heaviest(runs: Iterable[KeptRun]) -> HeavyCell | None:
    cells = [cell for kept in runs if (cell := kept.run.heaviest_cell()) is not None]
    pairs = [(found.value, cell) for cell in cells if (found := cell.measured(Metric.PEAK_FOOTPRINT)) is not None]
    if not pairs:
        return None
    value, cell = max(pairs, key=lambda pair: pair[0])
    return HeavyCell(number=cell.number, line=cell.line, peak_footprint_bytes=round(value))
