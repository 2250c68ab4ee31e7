"""Verdict values: the kinds of verdict, the policy of a session, comparisons, and the verdict of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Final, TypeAlias

from pytest_lecturecheck.budget.limits import Tolerance
from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.diagnosis import Cause
from pytest_lecturecheck.model.cell_run import CellRun
from pytest_lecturecheck.model.finding import FindingKind
from pytest_lecturecheck.model.metric import Measurement, Metric, Unit
from pytest_lecturecheck.model.reported_value import ReportedValue
from pytest_lecturecheck.units import format_bytes


class VerdictKind(StrEnum):
    """The verdict as the summary shows it; one for each run."""

    WITHIN = "within"
    OVER = "over"
    UNDER = "under"
    """A value that the lecture reported is below the lowest value allowed."""
    IMPROVED = "improved"
    NO_BUDGET = "no budget"
    NOT_MEASURED = "not measured"
    FAILED = "failed"
    TIMED_OUT = "timed out"
    DIED = "died"
    NOT_STARTED = "not started"
    UNREADABLE = "not readable"
    FAILED_BEFORE = "failed before"
    NOT_FITTING = "not fitting"
    FITS = "fits"
    RECORDED = "recorded"
    PROFILED = "profiled"
    """Cells were traced, or the state before one was saved, so nothing was compared with a limit."""
    PARTIAL = "partial"
    """The lecture was run to a chosen cell only, so nothing was compared with a limit."""
    NOTHING_TO_RUN = "nothing to run"
    SKIPPED = "skipped"
    STOPPED = "stopped"

    @property
    def exceeds_limit(self) -> bool:
        """Return True for a value on the wrong side of a limit: over it, under it, or over what is declared."""
        return self in {VerdictKind.OVER, VerdictKind.UNDER, VerdictKind.NOT_FITTING}


FAILING: Final = frozenset(
    {
        VerdictKind.OVER,
        VerdictKind.UNDER,
        VerdictKind.FAILED,
        VerdictKind.TIMED_OUT,
        VerdictKind.DIED,
        VerdictKind.NOT_STARTED,
        VerdictKind.UNREADABLE,
        VerdictKind.FAILED_BEFORE,
        VerdictKind.NOT_FITTING,
        VerdictKind.STOPPED,
    }
)
"""Verdicts that fail an item by themselves; ``strict`` adds to them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """
    What a session requires of every lecture.

    Attributes:
        strict: no budget, an unavailable metric and strict findings are failures.
        strict_except: kinds of findings that ``strict`` does not turn into failures.
        declared_memory_bytes: memory that a README declares, or ``None``.
        declared_time_seconds: time that a README declares, or ``None``.
        declared_disk_bytes: disk space that a README declares, or ``None``.
        tolerance: rule for limits that would be derived now; it defines "far under".
        known_platforms: peak footprint of the lecture on other platforms in bytes, by label, as context.
        former_name: a name in the budget file that no lecture has, and that this one probably had (with its variant);
            or an empty string.
    """

    strict: bool = False
    strict_except: frozenset[FindingKind] = frozenset()
    declared_memory_bytes: int | None = None
    declared_time_seconds: float | None = None
    declared_disk_bytes: int | None = None
    tolerance: Tolerance = field(default_factory=Tolerance)
    known_platforms: Mapping[str, float] = field(default_factory=dict)
    former_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """
    The comparison of one metric with one limit.

    Attributes:
        metric: the quantity.
        kind: ``within``, ``over``, ``improved``, ``not measured``, ``fits`` or ``not fitting``.
        limit: the limit (inclusive), or ``None`` if there was nothing to compare with.
        measured: the measurement, or ``None`` if there is none.
        message: one line for people.
        cell: the cell with the peak (for times, the longest cell), if the metric has one.
    """

    metric: Metric
    kind: VerdictKind
    limit: float | None
    measured: Measurement | None
    message: str
    cell: CellRun | None = None

    @property
    def exact_text(self) -> str:
        """Return measurement and limit in whole bytes, or an empty string for other units."""
        if self.metric.unit is not Unit.BYTES or self.measured is None or self.limit is None:
            return ""
        measured, limit = format_bytes(self.measured.value), format_bytes(self.limit)
        return f"{self.metric.label} exactly: {measured}, limit {limit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedValueComparison:
    """
    The comparison of one value that the lecture reported with its limits.

    Attributes:
        name: the name of the reported value.
        kind: ``within``, ``over``, ``under`` or ``not measured``.
        at_least: lowest value allowed (inclusive), or ``None``.
        limit: highest value allowed (inclusive), or ``None``.
        reported: the reported value, or ``None`` if there is none.
        message: one line for people.
        cell: the cell that reported the value.
    """

    name: str
    kind: VerdictKind
    at_least: float | None
    limit: float | None
    reported: ReportedValue | None
    message: str
    cell: CellRun | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationComparison:
    """
    The comparison of two values of the run that a budget relates.

    Attributes:
        text: the relation as it is written in the budget file.
        kind: ``within``, ``over`` or ``not measured``.
        lower: the side that has to be the lower one, with its value; empty if a side has no value.
        upper: the other side.
        message: one line for people.
        cell: the cell with the peak of the lower side, if that is a metric.
    """

    text: str
    kind: VerdictKind
    lower: str = ""
    upper: str = ""
    message: str
    cell: CellRun | None = None


AnyComparison: TypeAlias = Comparison | ReportedValueComparison | RelationComparison


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """
    The verdict of one run.

    Attributes:
        kind: the kind of verdict.
        failed: whether the pytest item fails.
        headline: the reason in one line.
        comparisons: every metric that was compared with a limit; after a failed run only exceeded ones.
        reported_values: every reported value that was compared with a limit; after a failed run only exceeded ones.
        relations: every relation of two values that was compared; after a failed run only exceeded ones.
        notes: context for people, one line each.
        cause: the diagnosis of a failed run, or ``None``.
        source_extract: if a limit is exceeded, the beginning of the source of the cell concerned; for a finding that
            belongs to no cell, the lines of the file around it; for a failed run, the evidence has the source.
        source_line_count: number of lines of that cell.
        source_first_line: 1-based line of the file where an extract that belongs to no cell begins, or ``None``.
        former_name: of a missing budget, the name in the budget file that the lecture probably had, or an empty string.
        earlier_ends: how the runs ended that this one replaces, because another plugin ran the lecture again.
    """

    kind: VerdictKind
    failed: bool
    headline: str
    comparisons: tuple[Comparison, ...] = ()
    reported_values: tuple[ReportedValueComparison, ...] = ()
    relations: tuple[RelationComparison, ...] = ()
    notes: tuple[str, ...] = ()
    cause: Cause | None = None
    source_extract: str = ""
    source_line_count: int = 0
    source_first_line: int | None = None
    former_name: str = ""
    earlier_ends: tuple[str, ...] = ()

    @property
    def compared(self) -> tuple[AnyComparison, ...]:
        """Return all comparisons: metrics, then the values that the lecture reported, then relations."""
        return (*self.comparisons, *self.reported_values, *self.relations)
