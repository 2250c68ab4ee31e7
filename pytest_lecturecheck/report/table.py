"""Render aligned tables that fit a width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.report.style import Paint, Tone
from pytest_lecturecheck.report.text import display_width, fit_middle, pad

_GAP: Final = "  "
_WHOLE: Final = 30
"""Texts up to this width are shortened only after all optional columns are gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """
    One column.

    Attributes:
        title: its heading.
        right: aligned to the right.
        shrink_to: width to which its names may be shortened in the middle; ``None`` keeps them whole, as numbers
            must be.
        optional: dropped if the table does not fit otherwise; the last optional column goes first.
    """

    title: str
    right: bool = False
    shrink_to: int | None = None
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Field:
    """One safe text of a table with its tone."""

    text: str
    tone: Tone = Tone.PLAIN


def render_table(
    columns: Sequence[Column], rows: Sequence[Sequence[Field]], *, width: int, paint: Paint, indent: str = ""
) -> list[str]:
    """
    Render a heading and rows, aligned.

    Args:
        columns: the columns.
        rows: one field for each column.
        width: columns of the terminal.
        paint: the colours.
        indent: prefix of every line.
    """
    shown = list(range(len(columns)))
    while True:
        widths = _widths(columns, rows, shown)
        total = len(indent) + sum(widths.values()) + len(_GAP) * (len(shown) - 1)
        slack = sum(max(0, widths[i] - max(room, _WHOLE)) for i in shown if (room := columns[i].shrink_to) is not None)
        optional = [i for i in shown if columns[i].optional]
        if total - slack <= width or not optional:
            break
        shown.remove(optional[-1])
    _shrink(columns, widths, total - width)
    heading = [Field(column.title, Tone.DIM) for column in columns]
    return [_render_row(columns, row, widths, paint, indent) for row in (heading, *rows)]


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[Field]], shown: Sequence[int]) -> dict[int, int]:
    return {i: max([display_width(columns[i].title), *(display_width(row[i].text) for row in rows)]) for i in shown}


def _shrink(columns: Sequence[Column], widths: dict[int, int], excess: int) -> None:
    for i in sorted(widths, key=lambda index: -widths[index]):
        least = columns[i].shrink_to
        if excess > 0 and least is not None and widths[i] > least:
            taken = min(excess, widths[i] - least)
            widths[i] -= taken
            excess -= taken


def _render_row(
    columns: Sequence[Column], row: Sequence[Field], widths: dict[int, int], paint: Paint, indent: str
) -> str:
    last = max(widths)
    pieces = []
    for i, width in widths.items():
        text = fit_middle(row[i].text, width)
        filled = text if i == last and not columns[i].right else pad(text, width, right=columns[i].right)
        pieces.append(paint(row[i].tone, filled) if text else filled)
    return (indent + _GAP.join(pieces)).rstrip()
