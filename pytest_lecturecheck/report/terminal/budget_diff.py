"""Render what ``--lecture-record`` changes in a budget file, for the person who reviews it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pytest_lecturecheck.budget.recording import BudgetChange, Change
from pytest_lecturecheck.budget.reported_value_recording import ReportedValueChange
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.model.variant import title_of
from pytest_lecturecheck.report.measurement_text import NO_VALUE, join_values, plural
from pytest_lecturecheck.report.style import Paint, Tone
from pytest_lecturecheck.report.table import Column, Field, render_table
from pytest_lecturecheck.report.text import fit_middle, wrap
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.units import format_fraction

_INDENT: Final = "  "
_NOT_BAD: Final = frozenset({Outcome.COMPLETED, Outcome.SKIPPED, Outcome.NOTHING_TO_RUN})
_NAMED: Final = 5
_COLUMNS: Final = (
    Column(title="metric", shrink_to=8),
    Column(title="limit"),
    Column(title="change", right=True),
    Column(title="highest measured", optional=True),
    Column(title="change", right=True, optional=True),
)


def render_changes(changes: Sequence[Change], *, width: int = 80, colour: bool = False) -> list[str]:
    """
    Render what recording changes: for each metric the limit and the highest value, then what needs attention.

    Changes within the noise are counted, not listed.

    Args:
        changes: the changes, lecture by lecture.
        width: columns of the terminal.
        colour: whether colour codes are written.
    """
    if not changes:
        return ["no budget changes"]
    paint = Paint(colour=colour)
    metrics = [change for change in changes if isinstance(change, BudgetChange)]
    listed = [change for change in metrics if not change.is_untouched]
    reported = [change for change in changes if isinstance(change, ReportedValueChange) and not change.is_untouched]
    lines = []
    if listed:
        heading, *rows = render_table(
            _COLUMNS, [_row(change) for change in listed], width=width, paint=paint, indent=_INDENT
        )
        lines = [heading, *_grouped(listed, rows, width, paint), ""]
    if reported:
        lines += [*_reported_lines(reported, width, paint), ""]
    return lines + wrap(_count_text(metrics) or "no limit changed", width)


def render_unrecorded(runs: Sequence[Run], *, strictly_failed: Sequence[Run] = (), width: int = 80) -> list[str]:
    """
    Name the lectures without a new budget, and why there is none; skipped ones are left out.

    Args:
        runs: the runs of the recording session.
        strictly_failed: those that completed and failed because of their findings.
        width: columns of the terminal.
    """
    bad = [run for run in runs if run.outcome not in _NOT_BAD]
    return [
        *_unrecorded_lines(bad, "a run did not finish", width),
        *_unrecorded_lines(strictly_failed, "a finding failed it under --lecture-strict", width),
    ]


def _unrecorded_lines(runs: Sequence[Run], why: str, width: int) -> list[str]:
    names = list(dict.fromkeys(title_of(run.lecture, run.variant) for run in runs))
    if not names:
        return []
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return wrap(f"not recorded, because {why}: {one_line(', '.join(names[:_NAMED]))}{more}", width)


def _reported_lines(changes: Sequence[ReportedValueChange], width: int, paint: Paint) -> Iterator[str]:
    """Yield a line for each reported value below its lecture's name; warnings have lines of their own."""
    yield paint(Tone.DIM, f"{_INDENT}reported by the lectures")
    name = None
    for change in changes:
        if name != _name(change):
            name = _name(change)
            yield paint(Tone.TITLE, fit_middle(name, width))
        yield from wrap(one_line(change.summary), width, first=_INDENT, rest=_INDENT * 2)
        if change.warning:
            yield from (
                paint(Tone.WARN, line) for line in wrap(change.warning, width, first=_INDENT * 2, rest=_INDENT * 2)
            )


def _grouped(changes: Sequence[BudgetChange], rows: Sequence[str], width: int, paint: Paint) -> Iterator[str]:
    """Yield each lecture's name before its rows, and each warning below its row."""
    name = None
    for change, row in zip(changes, rows, strict=True):
        if name != _name(change):
            name = _name(change)
            yield paint(Tone.TITLE, fit_middle(name, width))
        yield row
        for warning in _warnings(change):
            yield from (paint(Tone.WARN, line) for line in wrap(warning, width, first=_INDENT * 2, rest=_INDENT * 2))


def _name(change: Change) -> str:
    return one_line(f"{change.lecture} [{change.variant}]" if change.variant else change.lecture)


def _row(change: BudgetChange) -> tuple[Field, ...]:
    limit, limit_change, tone = _change_of(change.metric, change.old_limit, change.new_limit)
    highest, highest_change, _ = _change_of(
        change.metric, max(change.old_seen, default=None), max(change.new_seen, default=None)
    )
    if change.kept_by_hand:
        limit_change, tone = "set by hand", Tone.WARN
    if change.is_unmeasured:
        highest_change = "not measured"
    return Field(change.metric.label), Field(limit), Field(limit_change, tone), Field(highest), Field(highest_change)


def _change_of(metric: Metric, old: float | None, new: float | None) -> tuple[str, str, Tone]:
    """Return ``old -> new``, the relative change and its tone; values that differ never look equal."""
    if old is None:
        return (NO_VALUE, "", Tone.PLAIN) if new is None else (metric.format_value(new), "new", Tone.PLAIN)
    if new is None:
        return metric.format_value(old), "removed", Tone.WARN
    if old == new:
        return metric.format_value(new), "same", Tone.DIM
    shown_old, shown_new = metric.format_values_apart(old, new)
    share = format_fraction((new - old) / old) if old else NO_VALUE
    return join_values(shown_old, shown_new, " -> "), share, Tone.WARN if new > old else Tone.GOOD


def _warnings(change: BudgetChange) -> Iterator[str]:
    yield from change.warnings
    highest = max(change.new_seen, default=None)
    if highest is None:
        return
    if change.disagreement:
        shown_lowest, shown_highest = change.metric.format_values_apart(min(change.new_seen), highest)
        yield f"runs differ by more than the tolerance: {shown_lowest} to {shown_highest}; find out why first"
    limit = change.new_limit
    if change.kept_by_hand and limit is not None and highest > limit:
        shown, shown_limit = change.metric.format_values_apart(highest, limit)
        yield f"these runs are over the limit set by hand: {shown}, limit {shown_limit}"


def _count_text(changes: Sequence[BudgetChange]) -> str:
    pairs = [(change.old_limit, change.new_limit) for change in changes if not change.is_untouched]
    both = [(old, new) for old, new in pairs if old is not None and new is not None]
    counts = (
        (sum(old is None and new is not None for old, new in pairs), "new"),
        (sum(new > old for old, new in both), "raised"),
        (sum(new < old for old, new in both), "lowered"),
        (sum(change.kept_by_hand for change in changes if not change.is_untouched), "set by hand and kept"),
        (sum(old is not None and new is None for old, new in pairs), "removed"),
    )
    count = len({_name(change) for change in changes if not change.is_untouched})
    left = len({_name(change) for change in changes if change.is_untouched})
    limits = ", ".join(f"{number} {word}" for number, word in counts if number) or "no change"
    parts = [f"{count} lecture{plural(count)} recorded; limits: {limits}"] if count else []
    if left:
        parts.append(f"{left} lecture{plural(left)} unchanged: differences within the noise")
    return "; ".join(parts)
