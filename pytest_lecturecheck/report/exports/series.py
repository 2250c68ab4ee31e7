"""What the formats of other tools share: the facts of a session, and the values of each lecture over its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.metric import Measurement, Metric
from pytest_lecturecheck.model.platform import Machine
from pytest_lecturecheck.model.reported_value import ReportedValue
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.verdict import VerdictKind


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFacts:
    """
    What is known of a session.

    Attributes:
        platform: platform label.
        session: the session's name.
        ended: when it ended, ISO 8601, or an empty string.
        version: version of this package.
        commit: the commit that was checked out, or an empty string.
        machine: where it ran, or ``None``.
    """

    platform: str = ""
    session: str = ""
    ended: str = ""
    version: str = ""
    commit: str = ""
    machine: Machine | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LectureSeries:
    """
    The runs of one lecture x variant.

    Attributes:
        lecture: the lecture's name, as safe text.
        variant: the variant's name, as safe text.
        entries: its entries.
        values: the measurements of its complete runs, in order, by metric.
        reported: the values that it reported in its complete runs, in order, by name.
    """

    lecture: str
    variant: str
    entries: tuple[Entry, ...]
    values: Mapping[Metric, tuple[Measurement, ...]] = field(default_factory=dict)
    reported: Mapping[str, tuple[ReportedValue, ...]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return the lecture with its variant."""
        return f"{self.lecture} [{self.variant}]" if self.variant else self.lecture

    @property
    def decisive(self) -> Entry:
        """Return the first entry that failed, otherwise the last one."""
        return next((entry for entry in self.entries if entry.verdict.failed), self.entries[-1])

    def limit(self, metric: Metric) -> float | None:
        """Return the limit that a metric was compared with, or ``None``."""
        limits = (item.limit for entry in self.entries for item in entry.verdict.comparisons if item.metric is metric)
        return next((limit for limit in limits if limit is not None), None)


def series_of(entries: Sequence[Entry]) -> tuple[LectureSeries, ...]:
    """Return a series for each lecture x variant, in the order of the session."""
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.run.lecture, entry.run.variant), []).append(entry)
    return tuple(_series(lecture, variant, group) for (lecture, variant), group in groups.items())


def _series(lecture: str, variant: str, entries: Sequence[Entry]) -> LectureSeries:
    runs = [entry.run for entry in entries if _speaks(entry)]
    values = {metric: tuple(found for run in runs if (found := run.measured(metric)) is not None) for metric in Metric}
    reported: dict[str, list[ReportedValue]] = {}
    for run in runs:
        for name, value in run.reported_values.items():
            reported.setdefault(name, []).append(value)
    return LectureSeries(
        lecture=one_line(lecture),
        variant=one_line(variant),
        entries=tuple(entries),
        values={metric: found for metric, found in values.items() if found},
        reported={name: tuple(found) for name, found in sorted(reported.items())},
    )


def _speaks(entry: Entry) -> bool:
    """Return True if the values are those of a complete, untraced run made in this session."""
    is_remembered = entry.verdict.kind is VerdictKind.FAILED_BEFORE
    return entry.run.outcome is Outcome.COMPLETED and entry.run.is_comparable and not is_remembered


def number(value: float) -> float:
    """Return a value without digits that are noise: whole bytes and microseconds."""
    rounded = round(value, 6)
    return int(rounded) if rounded == int(rounded) else rounded
