"""Verdicts as values: the words, what the session asks, and what an item says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from pytest_lecturecheck.budget.limits import Tolerance
from pytest_lecturecheck.diagnosis import Cause
from pytest_lecturecheck.model.cell_run import CellRun
from pytest_lecturecheck.model.metric import Measurement, Metric, Unit
from pytest_lecturecheck.model.reported_value import ReportedValue
from pytest_lecturecheck.units import format_bytes


class VerdictKind(StrEnum):
    """The words of the summary; one for each item."""

    WITHIN = "within"
    OVER = "over"
    UNDER = "under"
    """A figure that the lecture reported is below the lowest value allowed."""
    IMPROVED = "improved"
    NO_BUDGET = "no budget"
    NOT_MEASURED = "not measured"
    FAILED = "failed"
    TIMED_OUT = "timed out"
    DIED = "died"
    UNREADABLE = "not readable"
    FAILED_BEFORE = "failed before"
    NOT_FITTING = "not fitting"
    FITS = "fits"
    RECORDED = "recorded"
    PROFILED = "profiled"
    """Cells were traced: nothing was held against a limit."""
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
        VerdictKind.UNREADABLE,
        VerdictKind.FAILED_BEFORE,
        VerdictKind.NOT_FITTING,
        VerdictKind.STOPPED,
    }
)
"""The words that fail an item by themselves; ``strict`` adds to them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """
    What the session asks of every lecture.

    Attributes:
        strict: no budget, an unavailable metric and strict findings are failures.
        declared_memory_bytes: memory that a README declares, or ``None``.
        declared_time_seconds: time that a README declares, or ``None``.
        tolerance: rule for limits that would be derived now; says what "far under" means.
        known_platforms: figures of the same lecture on other platforms, as context: label to peak footprint in bytes.
    """

    strict: bool = False
    declared_memory_bytes: int | None = None
    declared_time_seconds: float | None = None
    tolerance: Tolerance = field(default_factory=Tolerance)
    known_platforms: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """
    One metric held against one limit.

    Attributes:
        metric: the quantity.
        kind: ``within``, ``over``, ``improved``, ``not measured``, ``fits`` or ``not fitting``.
        limit: the limit (inclusive), or ``None`` where there was nothing to compare with.
        measured: the measurement, or ``None`` where there is none.
        message: one line for people.
        cell: the cell that holds the peak (of times: the longest cell), where the metric has one.
    """

    metric: Metric
    kind: VerdictKind
    limit: float | None
    measured: Measurement | None
    message: str
    cell: CellRun | None = None

    @property
    def exact_text(self) -> str:
        """Print both figures of a size in whole bytes, or nothing for other units."""
        if self.metric.unit is not Unit.BYTES or self.measured is None or self.limit is None:
            return ""
        measured, limit = format_bytes(self.measured.value), format_bytes(self.limit)
        return f"{self.metric.label} exactly: {measured}, limit {limit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedValueComparison:
    """
    One figure that the lecture reported, held against its limits.

    Attributes:
        name: the figure's name.
        kind: ``within``, ``over``, ``under`` or ``not measured``.
        at_least: lowest value allowed (inclusive), or ``None``.
        limit: highest value allowed (inclusive), or ``None``.
        figure: what was reported, or ``None`` where nothing was.
        message: one line for people.
        cell: the cell that reported it.
    """

    name: str
    kind: VerdictKind
    at_least: float | None
    limit: float | None
    figure: ReportedValue | None
    message: str
    cell: CellRun | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """
    What the item says.

    Attributes:
        kind: the word.
        failed: whether the pytest item fails.
        headline: one line: the word's substance.
        comparisons: every metric that was held against a limit; after a bad end only those that were exceeded.
        reported_values: every reported value that was compared with a limit; after a bad end only the exceeded ones.
        notes: context for people, one line each.
        cause: the diagnosis of a bad end, or ``None``.
        source_extract: where a limit is exceeded, the beginning of the source of the cell that is named for it; of a
            bad end the evidence has the source.
        source_line_count: how many lines that cell has.
    """

    kind: VerdictKind
    failed: bool
    headline: str
    comparisons: tuple[Comparison, ...] = ()
    reported_values: tuple[ReportedValueComparison, ...] = ()
    notes: tuple[str, ...] = ()
    cause: Cause | None = None
    source_extract: str = ""
    source_line_count: int = 0

    @property
    def compared(self) -> tuple[Comparison | ReportedValueComparison, ...]:
        """Give everything that was held against a limit: metrics, then the lecture's own figures."""
        return (*self.comparisons, *self.reported_values)
