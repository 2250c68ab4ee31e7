"""What ``--lecture-record`` changes in a budget file, for the person who reviews it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from pytest_lecturecheck.metric import Metric
from pytest_lecturecheck.report.figures import NO_FIGURE, plural
from pytest_lecturecheck.report.style import Paint, Tone
from pytest_lecturecheck.report.table import Column, Field, render_table
from pytest_lecturecheck.report.text import fit_middle, one_line, wrap
from pytest_lecturecheck.units import format_fraction

_INDENT: Final = "  "


class Change(Protocol):
    """One metric of one lecture before and after recording; ``recording.BudgetChange`` is one."""

    @property
    def lecture(self) -> str:
        """Give the lecture's name."""

    @property
    def variant(self) -> str:
        """Give the variant's name; empty for the default one."""

    @property
    def metric(self) -> Metric:
        """Give the quantity."""

    @property
    def old_limit(self) -> float | None:
        """Give the limit before, or ``None`` where there was none."""

    @property
    def new_limit(self) -> float | None:
        """Give the limit now, or ``None`` where only figures are kept."""

    @property
    def old_seen(self) -> Sequence[float]:
        """Give the figures recorded before."""

    @property
    def new_seen(self) -> Sequence[float]:
        """Give the figures recorded now."""

    @property
    def kept_by_hand(self) -> bool:
        """Tell whether a person's limit was kept."""

    @property
    def disagreement(self) -> float | None:
        """Give how far the runs disagree, as a fraction, where that is more than the tolerance; else ``None``."""


def render_changes(changes: Sequence[Change], *, width: int = 80, colour: bool = False) -> list[str]:
    """
    Render what recording changes: old and new limit and highest figure for each metric, then what needs a look.

    Args:
        changes: the changes, lecture by lecture.
        width: columns of the terminal.
        colour: whether colour codes are written.
    """
    if not changes:
        return ["no budget changes"]
    paint = Paint(colour=colour)
    lines = []
    for name, group in _by_name(changes).items():
        lines += [paint(Tone.TITLE, fit_middle(name, width)), *_table(group, width, paint)]
        for warning in _warnings(group):
            lines += [paint(Tone.WARN, row) for row in wrap(warning, width, first=_INDENT, rest=_INDENT * 2)]
    return [*lines, "", *wrap(_counts(changes), width)]


def _by_name(changes: Sequence[Change]) -> dict[str, list[Change]]:
    groups: dict[str, list[Change]] = {}
    for change in changes:
        variant = f" [{change.variant}]" if change.variant else ""
        groups.setdefault(one_line(f"{change.lecture}{variant}"), []).append(change)
    return groups


def _table(changes: Sequence[Change], width: int, paint: Paint) -> list[str]:
    columns = (
        Column(title="metric"),
        Column(title="limit", shrink_to=16),
        Column(title="change", right=True),
        Column(title="highest seen", optional=True),
        Column(title="change", right=True, optional=True),
    )
    return render_table(columns, [_row(change) for change in changes], width=width, paint=paint, indent=_INDENT)


def _row(change: Change) -> tuple[Field, ...]:
    old_seen = max(change.old_seen, default=None)
    new_seen = max(change.new_seen, default=None)
    limit, limit_change, tone = _step(change.metric, change.old_limit, change.new_limit)
    seen, seen_change, _ = _step(change.metric, old_seen, new_seen)
    if change.kept_by_hand:
        limit_change, tone = "kept by hand", Tone.WARN
    return Field(change.metric.label), Field(limit), Field(limit_change, tone), Field(seen), Field(seen_change)


def _step(metric: Metric, old: float | None, new: float | None) -> tuple[str, str, Tone]:
    """Print ``old -> new`` and the relative change; figures that differ never look equal."""
    if old is None:
        return (NO_FIGURE, "", Tone.PLAIN) if new is None else (metric.format_value(new), "new", Tone.PLAIN)
    if new is None:
        return metric.format_value(old), "removed", Tone.WARN
    if old == new:
        return metric.format_value(new), "same", Tone.DIM
    shown_old, shown_new = metric.format_values_apart(old, new)
    share = format_fraction((new - old) / old) if old else NO_FIGURE
    return f"{shown_old} -> {shown_new}", share, Tone.WARN if new > old else Tone.GOOD


def _warnings(changes: Sequence[Change]) -> Iterator[str]:
    for change in changes:
        highest = max(change.new_seen, default=None)
        if change.disagreement:
            lowest = min(change.new_seen, default=None)
            figures = ""
            if highest is not None and lowest is not None:
                shown_lowest, shown_highest = change.metric.format_values_apart(lowest, highest)
                figures = f" ({shown_lowest} to {shown_highest})"
            share = format_fraction(change.disagreement).lstrip("+")
            yield f"{change.metric.label}: the runs disagree by {share}{figures}; record more runs, or find out why"
        limit = change.new_limit
        if change.kept_by_hand and limit is not None and highest is not None and highest > limit:
            shown, shown_limit = change.metric.format_values_apart(highest, limit)
            yield f"{change.metric.label}: {shown} was seen, above the limit {shown_limit} that was set by hand"


def _counts(changes: Sequence[Change]) -> str:
    raised = sum(_is_raised(change) for change in changes)
    lowered = sum(_is_raised(change, sign=-1) for change in changes)
    new = sum(change.old_limit is None and change.new_limit is not None for change in changes)
    kept = sum(change.kept_by_hand for change in changes)
    lectures = len(_by_name(changes))
    words = [(new, "new"), (raised, "raised"), (lowered, "lowered"), (kept, "kept by hand")]
    found = ", ".join(f"{count} {word}" for count, word in words if count) or "no limit changes"
    return f"{lectures} lecture{plural(lectures)} recorded; limits: {found}"


def _is_raised(change: Change, sign: int = 1) -> bool:
    if change.old_limit is None or change.new_limit is None:
        return False
    return sign * (change.new_limit - change.old_limit) > 0
