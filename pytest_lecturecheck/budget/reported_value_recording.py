"""Recording of the values that lectures report: limits are set by people and stay as they are. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from pytest_lecturecheck.budget.limits import ReportedValueBudget
from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.reported_value import (
    Better,
    ReportedValue,
    format_reported_range,
    format_reported_value,
    round_reported_value,
)
from pytest_lecturecheck.model.run import Run

_NOISE_FRACTION: Final = 0.10
"""Values are unchanged if the lowest and the highest moved by at most this fraction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedValueChange:
    """
    The change that recording makes to one value that a lecture reports.

    Attributes:
        lecture: the lecture's name.
        variant: the variant's name.
        old: the previous record, or ``None``.
        new: the new record, or ``None`` if the lecture no longer reports the value and no limit was set.
        better: the direction in which the lecture says that the value improves, or ``None``.
        is_untouched: the runs differ from the record by noise only, and the whole entry stays unchanged.
        unmeasured: why these runs gave no value to record, or an empty string.
    """

    lecture: str
    variant: str
    old: ReportedValueBudget | None
    new: ReportedValueBudget | None
    better: Better | None = None
    is_untouched: bool = False
    unmeasured: str = ""

    @property
    def name(self) -> str:
        """Return the name of the reported value."""
        known = self.new or self.old
        return known.name if known is not None else ""

    @property
    def summary(self) -> str:
        """Return what was reported and what the limits are, in one line without the lecture."""
        if self.new is None:
            return f"{self.name}: no longer reported, dropped"
        if self.unmeasured:
            return f"{self.name}: {self.unmeasured}, recorded values and limits kept"
        seen = format_reported_range(self.new.seen, self.new.unit)
        if self.old is not None and self.old.seen:
            before = format_reported_range(self.old.seen, self.old.unit)
            seen += " (as recorded)" if before == seen else f" (before: {before})"
        if not self.new.has_limit:
            key = {Better.HIGHER: "at_least", Better.LOWER: "limit", None: "at_least or limit"}[self.better]
            return f"{self.name}: seen {seen}; no limit: set {key} by hand"
        return f"{self.name}: seen {seen}; {_limits_text(self.new)} (set by hand, kept)"

    @property
    def warning(self) -> str:
        """Return a warning if these runs violate limits set by hand, or an empty string."""
        if self.new is None or self.unmeasured or not self.new.seen:
            return ""
        lowest, highest = min(self.new.seen), max(self.new.seen)
        if self.new.limit is not None and highest > self.new.limit:
            return f"these runs are over the limit set by hand: {self.name} {highest!r}, limit {self.new.limit!r}"
        if self.new.at_least is not None and lowest < self.new.at_least:
            return f"these runs are under the limit set by hand: {self.name} {lowest!r}, at_least {self.new.at_least!r}"
        return ""

    @property
    def text(self) -> str:
        """Return the change in one line."""
        name = f"{self.lecture} [{self.variant}]" if self.variant else self.lecture
        return "; ".join(part for part in (f"{name}: {self.summary}", self.warning) if part)


def record_reported_values(
    old: Mapping[str, ReportedValueBudget], runs: Sequence[Run]
) -> dict[str, ReportedValueBudget]:
    """
    Return the budgets of the values that a lecture reports after ``runs``, by name.

    A value that is no longer reported is dropped, unless a person set a limit for it. If a value is reported in another
    unit than that of its limits, the previous record stays.
    """
    values = {}
    for name in sorted(old.keys() | {name for run in runs for name in run.reported_values}):
        before = old.get(name) or ReportedValueBudget(name=name)
        reported = _reported(name, runs)
        if _why_unmeasured(before, reported):
            if before.has_limit:
                values[name] = before
        else:
            seen = tuple(round_reported_value(item.value, item.better) for item in reported)
            values[name] = replace(before, seen=seen, unit=reported[-1].unit)
    return values


def are_reported_values_noise(old: Mapping[str, ReportedValueBudget], new: Mapping[str, ReportedValueBudget]) -> bool:
    """Return True if two records of the values that a lecture reports differ by noise only."""
    return old.keys() == new.keys() and all(_is_noise(old[name], budget) for name, budget in new.items())


def reported_value_changes(
    key: tuple[str, str],
    old: Mapping[str, ReportedValueBudget],
    new: Mapping[str, ReportedValueBudget],
    runs: Sequence[Run],
    *,
    is_untouched: bool,
) -> Iterator[ReportedValueChange]:
    """Yield the change of each reported value of the lecture x variant ``key`` that is new, dropped, or has a limit."""
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name), new.get(name)
        if before is not None and after is not None and not after.has_limit:
            continue
        reported = _reported(name, runs)
        yield ReportedValueChange(
            lecture=key[0],
            variant=key[1],
            old=before,
            new=after,
            better=reported[-1].better if reported else None,
            is_untouched=is_untouched,
            unmeasured=_why_unmeasured(before or ReportedValueBudget(name=name), reported),
        )


def _reported(name: str, runs: Sequence[Run]) -> list[ReportedValue]:
    return [run.reported_values[name] for run in runs if name in run.reported_values]


def _why_unmeasured(before: ReportedValueBudget, reported: Sequence[ReportedValue]) -> str:
    if not reported:
        return "not reported this time"
    units = {item.unit for item in reported}
    if len(units) > 1:
        return f"reported in different units ({', '.join(sorted(repr(unit) for unit in units))})"
    if before.has_limit and before.unit and before.unit not in units:
        return f"reported in {units.pop()!r}, while its limits are in {before.unit!r}"
    return ""


def _is_noise(old: ReportedValueBudget, new: ReportedValueBudget) -> bool:
    if old.unit != new.unit or len(old.seen) != len(new.seen):
        return False
    return not new.seen or all(
        abs(pick(new.seen) - pick(old.seen)) <= _NOISE_FRACTION * abs(pick(old.seen)) for pick in (min, max)
    )


def _limits_text(budget: ReportedValueBudget) -> str:
    least = [] if budget.at_least is None else [f"at least {format_reported_value(budget.at_least, budget.unit)}"]
    most = [] if budget.limit is None else [f"limit {format_reported_value(budget.limit, budget.unit)}"]
    return ", ".join((*least, *most))
