"""Budgets: limits and the recorded values they are derived from, for lecture x variant x platform."""

from __future__ import annotations

import datetime as dt
import math
import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Final

from pytest_lecturecheck.budget.relations import Relation
from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.errors import SettingsError
from pytest_lecturecheck.model.metric import Method, Metric, Unit
from pytest_lecturecheck.model.platform import Machine, Software
from pytest_lecturecheck.model.variant import DEFAULT_VARIANT
from pytest_lecturecheck.units import MIB

LIMITED_BY_DEFAULT: Final = (Metric.PEAK_FOOTPRINT, Metric.WALL, Metric.GPU_LIVE)
"""Metrics that get a limit when they are recorded; of the others only the recorded values are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """
    The rule that derives a limit from recorded values.

    Memory: the larger of ``highest x (1 + memory_fraction)`` and ``highest + memory_slack_bytes``.
    Time: ``highest x time_factor + time_slack_seconds``.
    """

    memory_fraction: float = 0.10
    memory_slack_bytes: int = 64 * MIB
    time_factor: float = 2.0
    time_slack_seconds: float = 10.0

    def __post_init__(self) -> None:
        """
        Refuse rules that would put a limit below the recorded values, or give none.

        Raises:
            SettingsError: a number that is not finite, negative, or (the factor) below 1.
        """
        lowest = {"memory_fraction": 0, "memory_slack_bytes": 0, "time_factor": 1, "time_slack_seconds": 0}
        for name, least in lowest.items():
            value = getattr(self, name)
            if not math.isfinite(value) or value < least:
                msg = f"tolerance {name} = {value!r} cannot be used: expected a finite number, at least {least}"
                raise SettingsError(msg)

    def limit_for(self, metric: Metric, seen: Sequence[float]) -> float:
        """
        Derive the limit of ``metric`` from the recorded values ``seen``.

        Returns:
            The limit; a whole number for bytes and counts.

        Raises:
            ValueError: there are no values, or one is negative or not finite.
        """
        _check_values(metric, seen)
        if not seen:
            msg = f"no limit can be derived for {metric}: there are no recorded values"
            raise ValueError(msg)
        highest = max(seen)
        if metric.unit is Unit.SECONDS:
            return highest * self.time_factor + self.time_slack_seconds
        # Rounded first, so that 1,000 x 1.1 is 1,100 and not the 1,101 that binary fractions would make of it.
        by_fraction = math.ceil(round(highest * (1 + self.memory_fraction), 3))
        if metric.unit is Unit.BYTES:
            return max(by_fraction, math.ceil(highest) + self.memory_slack_bytes)
        return by_fraction

    def recorded_limit_for(self, metric: Metric, seen: Sequence[float]) -> float:
        """Derive the limit from values rounded as in a budget file, and round it in the same way."""
        return metric.round_up(self.limit_for(metric, [metric.round_up(value) for value in seen]))


def _check_values(metric: Metric, values: Iterable[float]) -> None:
    """Refuse NaN, which compares as false with every limit, and values that no metric can have."""
    for value in values:
        if not math.isfinite(value) or value < 0:
            msg = f"{metric} = {value!r} cannot be a value or a limit: expected a finite number, at least 0"
            raise ValueError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricBudget:
    """
    Recorded values and limit of one metric of one lecture.

    Attributes:
        metric: the quantity.
        limit: highest value allowed (inclusive), or ``None`` where only values are recorded.
        seen: values of the recorded runs, in order.
        method: how they were measured (the weakest method among them), or ``None`` for a limit set by hand only.
        hand_set: a person set the limit; recording keeps it.
    """

    metric: Metric
    limit: float | None = None
    seen: tuple[float, ...] = ()
    method: Method | None = None
    hand_set: bool = False

    def __post_init__(self) -> None:
        """
        Refuse NaN and infinity: no measurement would ever exceed such a limit.

        Raises:
            ValueError: the limit or a recorded value is negative or not finite.
        """
        _check_values(self.metric, self.seen if self.limit is None else (self.limit, *self.seen))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedValueBudget:
    """
    Recorded values and limits of one value that a lecture reports. People set the limits by hand.

    Attributes:
        name: the name of the reported value.
        at_least: lowest value allowed (inclusive), or ``None``.
        limit: highest value allowed (inclusive), or ``None``.
        seen: values of the recorded runs, in order.
        unit: their unit as the lecture reported it, or an empty string.
    """

    name: str
    at_least: float | None = None
    limit: float | None = None
    seen: tuple[float, ...] = ()
    unit: str = ""

    def __post_init__(self) -> None:
        """
        Refuse limits that no value can exceed, or none can meet.

        Raises:
            ValueError: a number that is not finite, or a lower limit above the upper one.
        """
        limits = [value for value in (self.at_least, self.limit) if value is not None]
        for value in (*limits, *self.seen):
            if not math.isfinite(value):
                msg = f"{self.name} = {value!r} cannot be a value or a limit: expected a finite number"
                raise ValueError(msg)
        if limits != sorted(limits):
            msg = f"{self.name}: at_least = {self.at_least!r} is above limit = {self.limit!r}"
            raise ValueError(msg)

    @property
    def has_limit(self) -> bool:
        """Return True if there is a limit to compare a value with."""
        return self.at_least is not None or self.limit is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeavyCell:
    """One of the heaviest cells when the lecture was recorded: its number, source line and peak footprint."""

    number: int
    line: int | None
    peak_footprint_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LectureBudget:
    """
    The budget of one lecture x variant on one platform.

    Attributes:
        lecture: the lecture's name (POSIX path from rootdir, NFC).
        variant: the variant's name.
        metrics: budgets by metric.
        reported_values: budgets of the values that the lecture reports, by name.
        relations: limits that are other values of the same run, set by hand only.
        run_count: number of runs recorded.
        recorded: day of the recording, or ``None`` for budgets written by hand.
        heaviest: heaviest cells of the recorded runs, heaviest first.
        machine: the machine it was recorded on.
        software: the software it was recorded with.
    """

    lecture: str
    variant: str = DEFAULT_VARIANT
    metrics: Mapping[Metric, MetricBudget] = field(default_factory=dict)
    reported_values: Mapping[str, ReportedValueBudget] = field(default_factory=dict)
    relations: tuple[Relation, ...] = ()
    run_count: int = 0
    recorded: dt.date | None = None
    heaviest: tuple[HeavyCell, ...] = ()
    machine: Machine | None = None
    software: Software | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformBudgets:
    """
    All budgets of one platform: the content of one file.

    Attributes:
        platform: the platform's label.
        lectures: budgets by (lecture, variant).
        tolerance: the rule by which the file's limits were derived.
    """

    platform: str
    lectures: Mapping[tuple[str, str], LectureBudget] = field(default_factory=dict)
    tolerance: Tolerance = field(default_factory=Tolerance)

    def find(self, lecture: str, variant: str = DEFAULT_VARIANT) -> LectureBudget | None:
        """Return the budget of lecture x variant, or ``None``."""
        return self.lectures.get((lecture, variant))

    def unmatched(self, has_file: Callable[[str], bool]) -> list[str]:
        """
        Return the names that match no lecture: there is no such file, or the name is not written as lectures are named.

        Args:
            has_file: returns True if a file of this name exists.
        """
        names = sorted({lecture for lecture, _variant in self.lectures})
        return [name for name in names if posixpath.normpath(name) != name or not has_file(name)]


def closest_name(name: str, others: Iterable[str]) -> str:
    """Return the name among ``others`` that differs in spelling or folder only, or an empty string."""
    wanted = _folded(name)
    names = sorted(others)
    same = [lecture for lecture in names if _folded(lecture) == wanted]
    moved = [lecture for lecture in names if posixpath.basename(_folded(lecture)) == posixpath.basename(wanted)]
    return next(iter((*same, *moved)), "")


def _folded(name: str) -> str:
    return posixpath.normpath(name.replace("\\", "/")).casefold()
