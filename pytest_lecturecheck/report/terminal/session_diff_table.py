"""Render the comparison of two sessions, platforms or commits: largest changes first, then the environment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.report.measurement_text import NO_VALUE, plural
from pytest_lecturecheck.report.style import Paint, Tone
from pytest_lecturecheck.report.table import Column, Field, render_table
from pytest_lecturecheck.report.terminal.cell_diff_table import render_cells, render_first_divergences, run_pair
from pytest_lecturecheck.report.text import wrap
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.verdict.session_diff import Difference, Pair, Ratio, Side, compare_sides, differences

_INDENT: Final = "  "
_MARKED: Final = 1.2
"""Changes beyond this factor are coloured."""
_TITLES: Final = {
    Metric.PEAK_FOOTPRINT: "peak",
    Metric.WALL: "time",
    Metric.GPU_LIVE: "GPU live",
    Metric.COMPILE: "compile",
}
_ALWAYS: Final = frozenset({Metric.PEAK_FOOTPRINT, Metric.WALL})
_MOST_ROWS: Final = 40


def render_comparison(
    before: Side, after: Side, *, width: int, colour: bool = False, most: float | None = None
) -> list[str]:
    """
    Render the comparison of two sides.

    Args:
        before: the first side.
        after: the second side.
        width: columns of the terminal.
        colour: whether colour codes are written.
        most: the factor by which no value may grow, or ``None``.
    """
    paint = Paint(colour=colour)
    pairs = compare_sides(before, after)
    both = [pair for pair in pairs if pair.ratios]
    lines = [f"before: {one_line(before.title)}, {one_line(before.platform)}"]
    lines.append(f"after:  {one_line(after.title)}, {one_line(after.platform)}")
    lines += ["", *(_table(both, width, paint) if both else ["no lecture is in both"])]
    details = [runs for pair in both if (runs := run_pair(pair)) is not None]
    if len(both) == 1 and details:
        lines += ["", *render_cells(details[0], width=width, paint=paint)]
    for title, rows in (
        ("First cells that diverge (cell by cell: --lecture NAME)", _divergence_rows(both)),
        ("Environment changes", _difference_rows(differences(before, after))),
        ("Not compared", list(_reasons(both))),
        ("Only before", [_name(pair) for pair in pairs if pair.after is None]),
        ("Only after", [_name(pair) for pair in pairs if pair.before is None]),
    ):
        lines += _section(title, rows, width, paint)
    return [*lines, "", *_last_line(both, most, width, paint)]


def exceeding(before: Side, after: Side, most: float) -> list[str]:
    """Return the lectures with a value that grew by more than the factor ``most``, with those values."""
    return list(_exceeding(compare_sides(before, after), most))


def _exceeding(pairs: Sequence[Pair], most: float) -> Iterator[str]:
    for pair in pairs:
        found = [ratio for ratio in pair.ratios if ratio.exceeds(most)]
        if found:
            yield f"{_name(pair)} ({', '.join(f'{ratio.metric.label} {_ratio_text(ratio)}' for ratio in found)})"


def _last_line(pairs: Sequence[Pair], most: float | None, width: int, paint: Paint) -> list[str]:
    text = f"{len(pairs)} lecture{plural(len(pairs))} compared"
    if most is None:
        return wrap(text, width)
    found = list(_exceeding(pairs, most))
    if not found:
        return [paint(Tone.GOOD, row) for row in wrap(f"{text}; none grew to more than {most:g} times", width)]
    text += f"; {len(found)} grew to more than {most:g} times: {', '.join(found)}"
    return [paint(Tone.BAD, row) for row in wrap(text, width, rest=_INDENT)]


def _name(pair: Pair) -> str:
    lecture, variant = pair.subject
    return one_line(f"{lecture} [{variant}]" if variant else lecture)


def _table(pairs: Sequence[Pair], width: int, paint: Paint) -> list[str]:
    metrics = [
        metric
        for position, metric in enumerate(_TITLES)
        if metric in _ALWAYS or any(_has_value(pair.ratios[position]) for pair in pairs)
    ]
    columns = [Column(title="lecture", shrink_to=20)]
    for metric in metrics:
        is_optional = metric is not Metric.PEAK_FOOTPRINT
        columns.append(Column(title=_TITLES[metric], right=True, optional=is_optional))
        columns.append(Column(title="ratio", right=True, optional=is_optional))
    columns.append(Column(title="verdict", optional=True))
    rows = [_row(pair, metrics) for pair in pairs[:_MOST_ROWS]]
    lines = render_table(columns, rows, width=width, paint=paint)
    left_out = len(pairs) - _MOST_ROWS
    return [*lines, f"and {left_out} more that changed less"] if left_out > 0 else lines


def _has_value(ratio: Ratio) -> bool:
    return ratio.before is not None or ratio.after is not None


def _row(pair: Pair, metrics: Sequence[Metric]) -> list[Field]:
    fields = [Field(_name(pair))]
    for ratio in (ratio for ratio in pair.ratios if ratio.metric in metrics):
        fields += [Field(_values_text(ratio)), Field(_ratio_text(ratio), _tone(ratio))]
    verdicts = [side.verdict for side in (pair.before, pair.after) if side is not None]
    return [*fields, Field(verdicts[0] if len(set(verdicts)) == 1 else " -> ".join(verdicts))]


def _values_text(ratio: Ratio) -> str:
    first, second = ratio.before, ratio.after
    if first is None and second is None:
        return NO_VALUE
    texts = [NO_VALUE if side is None else ratio.metric.format_value(side.value) for side in (first, second)]
    if first is not None and second is not None:
        texts = list(ratio.metric.format_values_apart(first.value, second.value))
    return " -> ".join(texts)


def _ratio_text(ratio: Ratio) -> str:
    value = ratio.value
    return NO_VALUE if value is None else f"{value:.2f} x" if value < 10 else f"{value:.0f} x"  # noqa: PLR2004 - digits


def _tone(ratio: Ratio) -> Tone:
    value = ratio.value
    if value is None or not ratio.counts:
        return Tone.DIM
    if ratio.exceeds(_MARKED):
        return Tone.BAD
    return Tone.GOOD if value < 1 / _MARKED else Tone.PLAIN


def _divergence_rows(both: Sequence[Pair]) -> list[str]:
    return list(render_first_divergences(both)) if len(both) > 1 else []


def _difference_rows(found: Sequence[Difference]) -> list[str]:
    return [one_line(f"{item.name}: {item.before} -> {item.after}") for item in found]


def _reasons(pairs: Sequence[Pair]) -> Iterator[str]:
    by_reason: dict[str, list[str]] = {}
    for pair in pairs:
        for ratio in pair.ratios:
            if ratio.reason:
                text = f"{ratio.metric.label}: {ratio.reason} values are not compared"
                by_reason.setdefault(text, []).append(_name(pair))
        for when, side, other in (("before", pair.before, pair.after), ("after", pair.after, pair.before)):
            if side is not None and other is not None and other.values and not side.values:
                by_reason.setdefault(f"no run finished ({when})", []).append(f"{_name(pair)}: {side.verdict}")
    for text, names in by_reason.items():
        yield f"{text} ({', '.join(names)})"
    if any(ratio.value is not None and not ratio.counts for pair in pairs for ratio in pair.ratios):
        yield (
            "times of different classes of machine, or of lectures that ran at the same time as others, are shown for "
            "information only"
        )


def _section(title: str, rows: Sequence[str], width: int, paint: Paint) -> list[str]:
    if not rows:
        return []
    wrapped = [line for row in rows for line in wrap(row, width, first=_INDENT, rest=_INDENT * 2)]
    return ["", paint(Tone.TITLE, title), *wrapped]
