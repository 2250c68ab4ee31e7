"""Draw a picture as SVG: dashes and marks tell curves apart, so that it can be read in black and white. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.findings.document import Picture, Point, Series
from pytest_lecturecheck.findings.spread import number_text

_WIDTH: Final = 720
_PLOT: Final = (70, 30, 640, 300)
"""Left, top, right and bottom of the area of the curves."""
_LINE_HEIGHT: Final = 18
_DASHES: Final = ("", "8 4", "2 3", "10 3 2 3", "5 5", "1 4")
_MARKS: Final = ("circle", "square", "triangle", "diamond", "cross", "ring")
_SIZE: Final = 4
_MOST_TICKS: Final = 8
_LOOK: Final = 'font-family="sans-serif" font-size="12" fill="none" stroke="black"'


@dataclass(frozen=True, slots=True)
class _Scale:
    """Maps values of one axis to pixels."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool

    def at(self, value: float) -> float:
        """Return the pixel of a value, within the area."""
        low, high, here = (self._plain(item) for item in (self.low, self.high, value))
        part = (here - low) / (high - low) if high > low else 0.5
        return self.start + min(1.0, max(0.0, part)) * (self.end - self.start)

    def _plain(self, value: float) -> float:
        return math.log10(max(value, 1e-300)) if self.is_log else value

    @property
    def ticks(self) -> list[float]:
        """Return the values to label."""
        if not self.is_log:
            return [self.low + (self.high - self.low) * part / 4 for part in range(5)]
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        found = [10.0**power for power in decades if self.low <= 10.0**power <= self.high]
        if len(found) < 2:  # noqa: PLR2004 - one tick shows no scale
            return [self.low, math.sqrt(self.low * self.high), self.high]
        return found[:: max(1, len(found) // _MOST_TICKS)]


def draw_svg(picture: Picture) -> str:
    """Return a picture as the text of an SVG file."""
    points = [point for series in picture.series for point in series.points]
    left, top, right, bottom = _PLOT
    xs = [point.x for point in points]
    ys = [value for point in points for value in (point.y, point.low, point.high) if value is not None]
    ys += [picture.line] if picture.line is not None else []
    horizontal = _scale(xs, left, right, is_log=picture.is_log)
    vertical = _scale(ys, bottom, top, is_log=picture.is_log)
    height = bottom + 60 + _LINE_HEIGHT * len(picture.series)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" {_LOOK}>',
        f"<title>{escape(picture.title)}</title>",
        f'<rect x="0" y="0" width="{_WIDTH}" height="{height}" fill="white" stroke="none"/>',
        f'<rect x="{left}" y="{top}" width="{right - left}" height="{bottom - top}"/>',
        _text(left, 18, picture.title, weight="bold"),
        _text((left + right) / 2, bottom + 36, picture.x_label, anchor="middle"),
        _text(14, (top + bottom) / 2, picture.y_label, anchor="middle", turn=True),
        *_axes(horizontal, vertical),
    ]
    if picture.line is not None:
        y = vertical.at(picture.line)
        lines.append(f'<line x1="{left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke-width="0.7"/>')
    for index, series in enumerate(picture.series):
        lines += _curve(series, index, horizontal, vertical)
        lines += _legend(series, index, bottom + 56 + _LINE_HEIGHT * index)
    return "\n".join([*lines, "</svg>", ""])


def _scale(values: Sequence[float], start: float, end: float, *, is_log: bool) -> _Scale:
    usable = [value for value in values if math.isfinite(value) and (value > 0 or not is_log)] or [1.0]
    low, high = min(usable), max(usable)
    if is_log:
        low, high = (low / 2, high * 2) if low == high else (low / 1.15, high * 1.15)
    elif low == high:
        low, high = low - 1, high + 1
    return _Scale(low, high, start, end, is_log)


def _axes(horizontal: _Scale, vertical: _Scale) -> Iterator[str]:
    left, _, _, bottom = _PLOT
    for value in horizontal.ticks:
        x = horizontal.at(value)
        yield f'<line x1="{x:.1f}" y1="{bottom}" x2="{x:.1f}" y2="{bottom + 5}"/>'
        yield _text(x, bottom + 19, number_text(value), anchor="middle")
    for value in vertical.ticks:
        y = vertical.at(value)
        yield f'<line x1="{left - 5}" y1="{y:.1f}" x2="{left}" y2="{y:.1f}"/>'
        yield _text(left - 8, y + 4, number_text(value), anchor="end")


def _curve(series: Series, index: int, horizontal: _Scale, vertical: _Scale) -> Iterator[str]:
    places = [(horizontal.at(point.x), vertical.at(point.y), point) for point in series.points]
    dash = f' stroke-dasharray="{_DASHES[index % len(_DASHES)]}"' if index % len(_DASHES) else ""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in places)
    yield f'<polyline points="{path}" stroke-width="1.4"{dash}/>'
    for x, y, point in places:
        yield from _interval(x, point, vertical)
        yield _mark(x, y, index)


def _interval(x: float, point: Point, vertical: _Scale) -> Iterator[str]:
    if point.low is not None and point.high is not None:
        yield f'<line x1="{x:.1f}" y1="{vertical.at(point.low):.1f}" x2="{x:.1f}" y2="{vertical.at(point.high):.1f}"/>'


def _mark(x: float, y: float, index: int) -> str:
    size, kind = _SIZE, _MARKS[index % len(_MARKS)]
    if kind in {"circle", "ring"}:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size}" fill="{"black" if kind == "circle" else "white"}"/>'
    shapes = {
        "square": [(-size, -size), (size, -size), (size, size), (-size, size)],
        "triangle": [(-size, size), (size, size), (0, -size)],
        "diamond": [(0, -size - 1), (size + 1, 0), (0, size + 1), (-size - 1, 0)],
        "cross": [(-size, -1), (-1, -1), (-1, -size), (1, -size), (1, -1), (size, -1), (size, 1), (1, 1), (1, size),
                  (-1, size), (-1, 1), (-size, 1)],
    }  # fmt: skip
    corners = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in shapes[kind])
    return f'<polygon points="{corners}" fill="{"black" if kind in {"triangle", "cross"} else "white"}"/>'


def _legend(series: Series, index: int, y: float) -> Iterator[str]:
    left = _PLOT[0]
    dash = f' stroke-dasharray="{_DASHES[index % len(_DASHES)]}"' if index % len(_DASHES) else ""
    yield f'<line x1="{left}" y1="{y - 4}" x2="{left + 40}" y2="{y - 4}" stroke-width="1.4"{dash}/>'
    yield _mark(left + 20, y - 4, index)
    yield _text(left + 50, y, series.label)


def _text(x: float, y: float, text: str, *, anchor: str = "start", weight: str = "normal", turn: bool = False) -> str:
    turned = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turn else ""
    look = f'text-anchor="{anchor}" font-weight="{weight}" fill="black" stroke="none"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {look}{turned}>{escape(text)}</text>'
