"""Recording: turn runs into budgets, and describe what changes. Pure."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from pytest_lecturecheck.budget.limits import (
    LIMITED_BY_DEFAULT,
    HeavyCell,
    LectureBudget,
    MetricBudget,
    PlatformBudgets,
    Tolerance,
)
from pytest_lecturecheck.budget.reported_value_recording import (
    ReportedValueChange,
    are_reported_values_noise,
    record_reported_values,
    reported_value_changes,
)
from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.cell_run import CellStatus
from pytest_lecturecheck.model.metric import Measurement, Method, Metric
from pytest_lecturecheck.model.platform import Machine
from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.units import format_fraction, format_size_up, parse_size

HEAVIEST_COUNT: Final = 3
"""Number of heaviest cells that a budget keeps."""
_FROM_STRONG_TO_WEAK: Final = (Method.EXACT, Method.BRACKET, Method.AGENT, Method.SAMPLED)
_NOISE_SHARE: Final = 0.25
"""A new highest value is noise if it moved by at most this share of the margin between value and limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetChange:
    """
    The change that recording makes to one metric of a lecture x variant which has a limit, before or after.

    Attributes:
        lecture: the lecture's name.
        variant: the variant's name.
        metric: the quantity.
        old_limit: previous limit, or ``None``.
        new_limit: new limit, or ``None``.
        old_seen: previously recorded values.
        new_seen: values of the runs being recorded.
        kept_by_hand: the limit was set by hand, and stays.
        disagreement: the highest of these runs exceeds the limit that the lowest one alone would give.
        is_untouched: the runs differ from the record by noise only, and the whole entry stays unchanged.
        is_unmeasured: these runs did not measure the metric, and the recorded values stay.
        warnings: what is doubtful about the whole lecture x variant; on its first change only.
    """

    lecture: str
    variant: str
    metric: Metric
    old_limit: float | None
    new_limit: float | None
    old_seen: tuple[float, ...] = ()
    new_seen: tuple[float, ...] = ()
    kept_by_hand: bool = False
    disagreement: bool = False
    is_untouched: bool = False
    is_unmeasured: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Return the change in one line: old -> new with percent."""
        name = f"{self.lecture} [{self.variant}]" if self.variant else self.lecture
        start = f"{name}: {self.metric.label}"
        if self.is_unmeasured:
            return f"{start}: not measured this time; recorded values kept, {self._limit_text()}"
        seen = f"seen {self._step(_highest(self.old_seen), _highest(self.new_seen))}"
        if self.is_untouched:
            return f"{start}: {seen}, {self._limit_text()}: nothing but noise, left as recorded"
        text = f"{start}: {seen}, {self._limit_text()}"
        if self.disagreement:
            lowest, highest = self.metric.format_values_apart(min(self.new_seen), max(self.new_seen))
            text += f"; runs disagree by more than the tolerance: {lowest} to {highest}"
        if self.kept_by_hand and self.new_limit is not None and max(self.new_seen, default=0) > self.new_limit:
            text += "; these runs are over it"
        return "; ".join((text, *self.warnings))

    def _limit_text(self) -> str:
        if self.old_limit is None and self.new_limit is None:
            return "no limit"
        if self.kept_by_hand and self.new_limit is not None:
            return f"limit {self.metric.format_value(self.new_limit)} (set by hand, kept)"
        return f"limit {self._step(self.old_limit, self.new_limit)}"

    def _step(self, old: float | None, new: float | None) -> str:
        if old is None or new is None:
            shown = self.metric.format_value(new if new is not None else old or 0)
            return f"{shown} (new)" if old is None else f"{shown} (dropped)"
        if old == new:
            return f"{self.metric.format_value(new)} (unchanged)"
        old_text, new_text = self.metric.format_values_apart(old, new)
        percent = f" ({format_fraction((new - old) / old)})" if old else ""
        return f"{old_text} -> {new_text}{percent}"


Change: TypeAlias = BudgetChange | ReportedValueChange


def record(
    budgets: PlatformBudgets, runs: Sequence[Run], *, today: dt.date, tolerance: Tolerance | None = None
) -> tuple[PlatformBudgets, list[Change]]:
    """
    Record the runs of this platform.

    A lecture x variant with a run that did not complete is not recorded: its previous entry stays. Entries of lectures
    without a run stay too, except that derived limits follow the rules if these change. Limits set by hand are kept;
    a limit that a person removed is not added again. An entry stays unchanged if the runs differ from it by noise only.

    Args:
        budgets: the budgets so far.
        runs: all runs of the session, in any order; those of other platforms are ignored.
        today: date of the recording.
        tolerance: rules for derived limits; ``None`` keeps those of ``budgets``.

    Returns:
        The new budgets, and the changes by lecture, variant and metric, with the values that lectures report last.
    """
    rules = budgets.tolerance if tolerance is None else tolerance
    entries = dict(budgets.lectures)
    changes: list[Change] = []
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in sorted(runs, key=lambda run: run.repeat):
        if run.platform == budgets.platform:
            groups.setdefault((run.lecture, run.variant), []).append(run)
    recorded = {key for key, group in groups.items() if all(run.outcome is Outcome.COMPLETED for run in group)}
    for key in sorted(entries.keys() | recorded):
        old = entries.get(key)
        base = None if old is None or rules == budgets.tolerance else _with_rules(old, rules)
        new = base or old
        if key in recorded:
            new = _record_entry(new or LectureBudget(lecture=key[0], variant=key[1]), groups[key], rules, today)
        if new is None:
            continue
        untouched = key in recorded and base is None and old is not None and _is_noise(old, new, rules)
        if key in recorded or base is not None:
            changes += _changes(old, new, rules, groups[key] if key in recorded else None, is_untouched=untouched)
        if key in recorded:
            old_values = old.reported_values if old is not None else {}
            changes += reported_value_changes(key, old_values, new.reported_values, groups[key], is_untouched=untouched)
        if not untouched:
            entries[key] = new
    return replace(budgets, lectures=entries, tolerance=rules), changes


def _with_rules(entry: LectureBudget, rules: Tolerance) -> LectureBudget:
    """Return an entry whose derived limits follow new rules."""
    metrics = {
        metric: replace(budget, limit=rules.recorded_limit_for(metric, budget.seen))
        if budget.limit is not None and budget.seen and not budget.hand_set
        else budget
        for metric, budget in entry.metrics.items()
    }
    return replace(entry, metrics=metrics)


def _record_entry(old: LectureBudget, runs: Sequence[Run], rules: Tolerance, today: dt.date) -> LectureBudget:
    metrics: dict[Metric, MetricBudget] = {}
    # The memory that arrays used is the need. Without an allocator that reports it, the memory held is all there is.
    has_allocator = bool(_measured(Metric.GPU_LIVE, runs))
    for metric in Metric:
        before = old.metrics.get(metric)
        measured = _measured(metric, runs)
        if measured:
            is_limited = metric in LIMITED_BY_DEFAULT or (metric is Metric.GPU_USED and not has_allocator)
            metrics[metric] = _record_metric(metric, before, measured, rules, is_limited=is_limited)
        elif before is not None:
            metrics[metric] = before
    heaviest_run = max(runs, key=lambda run: _recorded_value(run.measured(Metric.PEAK_FOOTPRINT)) or 0.0)
    return replace(
        old,
        metrics=metrics,
        reported_values=record_reported_values(old.reported_values, runs),
        run_count=len(runs),
        recorded=today,
        heaviest=_heaviest_cells(heaviest_run),
        machine=heaviest_run.machine,
        software=heaviest_run.software,
    )


def _record_metric(
    metric: Metric, old: MetricBudget | None, measured: Sequence[Measurement], rules: Tolerance, *, is_limited: bool
) -> MetricBudget:
    seen = tuple(metric.round_up(_recorded_value(item) or 0.0) for item in measured)
    limit: float | None = rules.recorded_limit_for(metric, seen)
    hand_set = old is not None and old.hand_set
    if old is None:
        limit = limit if is_limited else None
    elif hand_set or old.limit is None:
        # A recorded value without a limit: the metric has none by default, or a person removed it.
        limit = old.limit
    method = max((item.method for item in measured), key=_FROM_STRONG_TO_WEAK.index)
    return MetricBudget(metric=metric, limit=limit, seen=seen, method=method, hand_set=hand_set)


def _measured(metric: Metric, runs: Sequence[Run]) -> list[Measurement]:
    """Return the measurements to record; GPU memory that was reserved, or not observed to the end, is none."""
    return [
        item
        for run in runs
        if (item := run.measured(metric)) is not None
        and _recorded_value(item) is not None
        and not (metric is Metric.GPU_USED and (run.has_reservation or any(use.fault for use in run.devices)))
    ]


def _recorded_value(measured: Measurement | None) -> float | None:
    """Return the value to record: the upper end of a bracket, so that the same run is within its own limit."""
    if measured is None or not math.isfinite(measured.value) or measured.value < 0:
        return None
    upper = measured.upper_bound
    return measured.value if upper is None or not math.isfinite(upper) else upper


def _heaviest_cells(run: Run) -> tuple[HeavyCell, ...]:
    return tuple(
        HeavyCell(number=cell.number, line=cell.line, peak_footprint_bytes=math.ceil(value))
        for cell in run.heaviest_cells()[:HEAVIEST_COUNT]
        if (value := _recorded_value(cell.measured(Metric.PEAK_FOOTPRINT))) is not None
    )


def _is_noise(old: LectureBudget, new: LectureBudget, rules: Tolerance) -> bool:
    """Return True if two records of a lecture differ by noise only."""
    if old.recorded is None or old.run_count != new.run_count or old.software != new.software:
        return False
    if _rounded(old.machine) != _rounded(new.machine) or old.metrics.keys() != new.metrics.keys():
        return False
    if not are_reported_values_noise(old.reported_values, new.reported_values):
        return False
    heaviest = [[(cell.number, cell.line) for cell in entry.heaviest[:1]] for entry in (old, new)]
    return heaviest[0] == heaviest[1] and all(
        _is_metric_noise(old.metrics[metric], budget, rules) for metric, budget in new.metrics.items()
    )


def _is_metric_noise(old: MetricBudget, new: MetricBudget, rules: Tolerance) -> bool:
    if old.method is not new.method or bool(old.seen) != bool(new.seen):
        return False
    if not new.seen or (new.limit is None and not new.metric.is_memory):
        return True
    if _disagree(new, rules) or len(old.seen) != len(new.seen):
        return False
    highest = max(old.seen)
    room = rules.limit_for(old.metric, [highest]) - highest
    return abs(max(new.seen) - highest) <= _NOISE_SHARE * room


def _disagree(budget: MetricBudget, rules: Tolerance) -> bool:
    return bool(budget.seen) and max(budget.seen) > rules.limit_for(budget.metric, [min(budget.seen)])


def _rounded(machine: Machine | None) -> Machine | None:
    """Return a machine with its sizes rounded as in a budget file."""
    if machine is None:
        return None
    return replace(
        machine,
        ram_bytes=_rounded_size(machine.ram_bytes),
        swap_bytes=None if machine.swap_bytes is None else _rounded_size(machine.swap_bytes),
        memory_limit_bytes=None if machine.memory_limit_bytes is None else _rounded_size(machine.memory_limit_bytes),
    )


def _rounded_size(size_bytes: int) -> int:
    return parse_size(format_size_up(size_bytes))


def _changes(
    old: LectureBudget | None, new: LectureBudget, rules: Tolerance, runs: Sequence[Run] | None, *, is_untouched: bool
) -> list[BudgetChange]:
    """Return the change of each metric that has a limit; ``runs`` is ``None`` if only the rules changed."""
    before: Mapping[Metric, MetricBudget] = old.metrics if old is not None else {}
    changes: list[BudgetChange] = []
    for metric, budget in new.metrics.items():
        earlier = before.get(metric) or MetricBudget(metric=metric)
        if earlier.limit is None and budget.limit is None:
            continue
        if runs is None and earlier.limit == budget.limit:
            continue
        unmeasured = runs is not None and not _measured(metric, runs)
        changes.append(
            BudgetChange(
                lecture=new.lecture,
                variant=new.variant,
                metric=metric,
                old_limit=earlier.limit,
                new_limit=earlier.limit if is_untouched else budget.limit,
                old_seen=earlier.seen,
                new_seen=() if unmeasured else budget.seen,
                kept_by_hand=budget.hand_set,
                disagreement=not unmeasured and runs is not None and _disagree(budget, rules),
                is_untouched=is_untouched,
                is_unmeasured=unmeasured,
                warnings=() if changes or is_untouched else _warnings(old, new, runs or ()),
            )
        )
    return changes


def _warnings(old: LectureBudget | None, new: LectureBudget, runs: Sequence[Run]) -> tuple[str, ...]:
    """Return what makes the new budget of a lecture doubtful."""
    warnings = []
    if old is not None and 0 < new.run_count < old.run_count:
        count = f"{new.run_count} run{'' if new.run_count == 1 else 's'}"
        warnings.append(f"recorded from {count}, {old.run_count} before: a rare high value may be missing")
    raised = max((sum(cell.status is CellStatus.ALLOWED_ERROR for cell in run.cells) for run in runs), default=0)
    if raised:
        cells = f"{raised} cell{'' if raised == 1 else 's'}"
        warnings.append(f"recorded although {cells} raised (allow_errors): code after the errors was not measured")
    return tuple(warnings)


def _highest(seen: Sequence[float]) -> float | None:
    return max(seen, default=None)
