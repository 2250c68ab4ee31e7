"""Compare two states of the budgets of a platform: which lecture grew where, by how much. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from pytest_lecturecheck.budget.limits import HeavyCell, LectureBudget, MetricBudget, PlatformBudgets
from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.metric import Metric


class BudgetState(StrEnum):
    """What became of the budget of a lecture."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricChange:
    """
    The change of one metric.

    Attributes:
        metric: the quantity.
        old_limit: previous limit, or ``None``.
        new_limit: new limit, or ``None``.
        old_highest: highest value recorded before, or ``None``.
        new_highest: highest value recorded now, or ``None``.
        by_hand: a person has set the new limit, or the old one where there is no new one.
    """

    metric: Metric
    old_limit: float | None
    new_limit: float | None
    old_highest: float | None
    new_highest: float | None
    by_hand: bool = False

    @property
    def growth_fraction(self) -> float | None:
        """Return the relative change of the limit, of the highest value where there is no limit, or ``None``."""
        for old, new in ((self.old_limit, self.new_limit), (self.old_highest, self.new_highest)):
            if old and new is not None:
                return (new - old) / old
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetDifference:
    """
    The change of the budget of one lecture x variant on one platform.

    Attributes:
        platform: the platform's label.
        lecture: the lecture's name.
        variant: the variant's name.
        state: what became of it.
        metrics: the changes of its metrics; those that stayed are left out.
        old_cell: the heaviest cell before, or ``None``.
        new_cell: the heaviest cell now, or ``None``.
        added_relations: relations of two values that are new, as they are written.
        removed_relations: relations that are gone.
    """

    platform: str
    lecture: str
    variant: str
    state: BudgetState
    metrics: tuple[MetricChange, ...] = ()
    old_cell: HeavyCell | None = None
    new_cell: HeavyCell | None = None
    added_relations: tuple[str, ...] = ()
    removed_relations: tuple[str, ...] = ()

    @property
    def growth_fraction(self) -> float:
        """Return the largest growth of its metrics."""
        return max((change.growth_fraction or 0.0 for change in self.metrics), default=0.0)


def compare_budgets(before: PlatformBudgets, after: PlatformBudgets) -> tuple[BudgetDifference, ...]:
    """Return the differences of two states: the largest growth first, then what was added and removed, by name."""
    found = []
    for subject in {**before.lectures, **after.lectures}:
        difference = _difference(after.platform, before.find(*subject), after.find(*subject))
        if difference is not None:
            found.append(difference)
    return tuple(sorted(found, key=_order))


def _order(item: BudgetDifference) -> tuple[object, ...]:
    return item.state is not BudgetState.CHANGED, -item.growth_fraction, item.lecture, item.variant


def _difference(platform: str, old: LectureBudget | None, new: LectureBudget | None) -> BudgetDifference | None:
    entry = new or old
    if entry is None:
        return None
    state = BudgetState.CHANGED if old and new else BudgetState.ADDED if new else BudgetState.REMOVED
    metrics = _metric_changes(old.metrics if old else {}, new.metrics if new else {})
    old_cell, new_cell = (next(iter(item.heaviest), None) if item else None for item in (old, new))
    before, after = ([relation.text for relation in item.relations] if item else [] for item in (old, new))
    added = tuple(text for text in after if text not in before)
    removed = tuple(text for text in before if text not in after)
    if state is BudgetState.CHANGED and not (metrics or added or removed):
        return None
    return BudgetDifference(
        platform=platform,
        lecture=entry.lecture,
        variant=entry.variant,
        state=state,
        metrics=metrics,
        old_cell=old_cell,
        new_cell=new_cell,
        added_relations=added,
        removed_relations=removed,
    )


def _metric_changes(
    before: Mapping[Metric, MetricBudget], after: Mapping[Metric, MetricBudget]
) -> tuple[MetricChange, ...]:
    changes = []
    for metric in Metric:
        old, new = before.get(metric), after.get(metric)
        decisive = new or old
        # Values without a limit are context, and are left out.
        if decisive is None or not any(item is not None and item.limit is not None for item in (old, new)):
            continue
        change = MetricChange(
            metric=metric,
            old_limit=old.limit if old else None,
            new_limit=new.limit if new else None,
            old_highest=max(old.seen, default=None) if old else None,
            new_highest=max(new.seen, default=None) if new else None,
            by_hand=decisive.hand_set,
        )
        if (change.old_limit, change.old_highest) != (change.new_limit, change.new_highest):
            changes.append(change)
    return tuple(changes)
