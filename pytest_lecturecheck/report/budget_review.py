"""Render the differences of budget files for the review of a pull request, as Markdown and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from pytest_lecturecheck.budget.budget_comparison import BudgetDifference, BudgetState, MetricChange
from pytest_lecturecheck.budget.limits import HeavyCell
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.report.markdown_report import code, escape
from pytest_lecturecheck.report.measurement_text import NO_VALUE, plural
from pytest_lecturecheck.units import format_fraction

_SCHEMA: Final = 1
_HEAD: Final = (
    "| lecture | platform | metric | limit | change | highest measured | heaviest cell |",
    "|---|---|---|---:|---:|---:|---|",
)


def render_budget_review(differences: Sequence[BudgetDifference], *, reference: str) -> str:
    """
    Render the differences as GitHub-flavoured Markdown.

    Args:
        differences: the differences of all platforms.
        reference: what the budgets are compared with, as the user named it.
    """
    title = f"## Budgets compared with {code(reference)}"
    if not differences:
        return f"{title}\n\nNo budget differs.\n"
    blocks = [title, escape(_counts(differences))]
    for state, heading in (
        (BudgetState.CHANGED, "Changed"),
        (BudgetState.ADDED, "Added"),
        (BudgetState.REMOVED, "Removed"),
    ):
        rows = [row for item in differences if item.state is state for row in _rows(item)]
        blocks += [f"### {heading}", "\n".join((*_HEAD, *rows))] if rows else []
    if any(change.by_hand for item in differences for change in item.metrics) or any(map(_relations, differences)):
        blocks.append("✋ marks a limit that a person has set; recording keeps it.")
    return "\n\n".join(blocks) + "\n"


def _counts(differences: Sequence[BudgetDifference]) -> str:
    changes = [change for item in differences if item.state is BudgetState.CHANGED for change in item.metrics]
    limits = [(change.old_limit, change.new_limit) for change in changes]
    both = [(old, new) for old, new in limits if old is not None and new is not None]
    raised, lowered = sum(new > old for old, new in both), sum(new < old for old, new in both)
    gone = sum(old is not None and new is None for old, new in limits)
    states = [item.state for item in differences]
    new = sum(len(item.added_relations) for item in differences if item.state is BudgetState.CHANGED)
    lost = sum(len(item.removed_relations) for item in differences if item.state is BudgetState.CHANGED)
    counts = (
        (raised, f"limit{plural(raised)} raised"),
        (lowered, f"limit{plural(lowered)} lowered"),
        (gone, f"limit{plural(gone)} dropped"),
        (new, f"relation{plural(new)} added"),
        (lost, f"relation{plural(lost)} removed"),
        (states.count(BudgetState.ADDED), "added"),
        (states.count(BudgetState.REMOVED), "removed"),
    )
    lectures = len({(item.lecture, item.variant) for item in differences})
    return f"{lectures} lecture{plural(lectures)}: " + (
        ", ".join(f"{count} {text}" for count, text in counts if count) or "recorded values only"
    )


def _rows(item: BudgetDifference) -> list[str]:
    name = code(item.lecture) + (f" {escape(f'[{item.variant}]')}" if item.variant else "")
    start = f"| {name} | {code(item.platform)} |"
    rows = [_row(name, item, change) for change in item.metrics]
    rows += [f"{start} relation | {code(text)} ✋ | {word} | {NO_VALUE} | |" for word, text in _relations(item)]
    return rows or [f"{start} {NO_VALUE} | {NO_VALUE} | | {NO_VALUE} | |"]


def _relations(item: BudgetDifference) -> list[tuple[str, str]]:
    """Return the relations that differ, each with what became of it."""
    added = [("added", text) for text in item.added_relations]
    return added + [("removed", text) for text in item.removed_relations]


def _row(name: str, item: BudgetDifference, change: MetricChange) -> str:
    metric = change.metric
    limit = _step(metric, change.old_limit, change.new_limit)
    highest = _step(metric, change.old_highest, change.new_highest)
    growth = change.growth_fraction
    is_changed = item.state is BudgetState.CHANGED and growth is not None
    share = format_fraction(growth) if is_changed and growth else ("same" if is_changed else item.state.value)
    fields = (
        name,
        code(item.platform),
        escape(metric.label),
        f"{escape(limit)}{' ✋' if change.by_hand else ''}",
        f"**{escape(share)}**" if is_changed and (growth or 0) > 0 else escape(share),
        escape(highest),
        escape(_cells(item)) if metric is Metric.PEAK_FOOTPRINT else "",
    )
    return f"| {' | '.join(fields)} |"


def _step(metric: Metric, old: float | None, new: float | None) -> str:
    if old is None or new is None or old == new:
        value = old if new is None else new
        return NO_VALUE if value is None else metric.format_value(value)
    return " → ".join(metric.format_values_apart(old, new))


def _cells(item: BudgetDifference) -> str:
    if item.old_cell is None or item.new_cell is None:
        cell = item.new_cell or item.old_cell
        return "" if cell is None else _cell(cell)
    if item.old_cell.number == item.new_cell.number:
        return _cell(item.new_cell)
    return f"{_cell(item.old_cell)} → {_cell(item.new_cell)}"


def _cell(cell: HeavyCell) -> str:
    return f"cell {cell.number}" + ("" if cell.line is None else f", line {cell.line}")


def render_budget_review_json(differences: Sequence[BudgetDifference], *, reference: str, commit: str) -> str:
    """Render the differences as JSON; sizes are in bytes and times in seconds."""
    document = {
        "schema": _SCHEMA,
        "reference": reference,
        "commit": commit,
        "differences": [_plain(item) for item in differences],
    }
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def _plain(item: BudgetDifference) -> dict[str, Any]:
    cells = {"old_cell": item.old_cell, "new_cell": item.new_cell}
    return {
        "platform": item.platform,
        "lecture": item.lecture,
        "variant": item.variant,
        "state": item.state.value,
        "metrics": [
            {
                "metric": change.metric.value,
                "old_limit": change.old_limit,
                "new_limit": change.new_limit,
                "old_highest": change.old_highest,
                "new_highest": change.new_highest,
                "growth_fraction": change.growth_fraction,
                "by_hand": change.by_hand,
            }
            for change in item.metrics
        ],
        "added_relations": list(item.added_relations),
        "removed_relations": list(item.removed_relations),
        **{
            key: None
            if cell is None
            else {"number": cell.number, "line": cell.line, "peak_footprint_bytes": cell.peak_footprint_bytes}
            for key, cell in cells.items()
        },
    }
