"""Values that a lecture reports by name (distance, speed-up, efficiency), and how they are formatted."""

from __future__ import annotations

import math
import re
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from enum import StrEnum
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass

MIME_TYPE: Final = "application/vnd.lecturecheck+json"
"""The key under which a display message carries reported values."""
DISPLAY_ID: Final = "lecturecheck"
"""
The display that such a message claims to update.

There is none of that name, so front ends and book builders show nothing and store nothing. A display of its own with
nothing but a private MIME type would not do: myst-nb warns of it, and books are built with warnings as errors.
"""
MOST_REPORTED_VALUES: Final = 50
"""So many names a lecture may report."""
NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,40}")
UNIT: Final = re.compile(r"[A-Za-z%°µ][A-Za-z0-9%°µ/^*. -]{0,15}|")
_SHOWN_DIGITS: Final = 3
_KEPT_DIGITS: Final = 4
_ALL_DIGITS: Final = 17
_PLAIN_LOWEST: Final = 1e3
_PLAIN_HIGHEST: Final = 1e6
MOST_WHOLE: Final = 2**53
"""Whole numbers up to here mean the same to all readers of JSON and TOML."""


class Better(StrEnum):
    """In which direction a value is better, where the lecture says so."""

    HIGHER = "higher"
    LOWER = "lower"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedValue:
    """
    One value that a lecture reported.

    Attributes:
        name: its name; lower-case letters, digits and underscores.
        value: its value, finite; an ``int`` where the lecture reported a whole number as one.
        unit: its unit as the lecture wrote it, or an empty string.
        better: in which direction it is better, or ``None`` where the lecture does not say.
    """

    name: str
    value: float
    unit: str = ""
    better: Better | None = None

    def __post_init__(self) -> None:
        """
        Keep out what could not be compared with a limit or printed.

        Raises:
            ValueError: a name, value or unit that cannot be used.
        """
        if NAME.fullmatch(self.name) is None or UNIT.fullmatch(self.unit) is None or not math.isfinite(self.value):
            msg = f"reported value {self.name!r} = {self.value!r} {self.unit!r} cannot be used"
            raise ValueError(msg)

    @property
    def text(self) -> str:
        """Format name, value and unit (``speedup 3.57 x``)."""
        return f"{self.name} {format_reported_value(self.value, self.unit)}"


def format_reported_value(value: float, unit: str = "") -> str:
    """Format a value with three significant digits, and its unit."""
    return _with_digits(value, unit, _SHOWN_DIGITS)


def format_reported_values_apart(first: float, second: float, unit: str = "") -> tuple[str, str]:
    """Format two values with as many digits as it takes for different values to look different."""
    digits = _SHOWN_DIGITS
    while first != second and digits < _ALL_DIGITS and f"{first:.{digits}g}" == f"{second:.{digits}g}":
        digits += 1
    return _with_digits(first, unit, digits), _with_digits(second, unit, digits)


def format_reported_range(values: tuple[float, ...], unit: str = "") -> str:
    """Format the range of several values (``1.66 to 1.7 x``), or the one value."""
    lowest, highest = format_reported_value(min(values)), format_reported_value(max(values), unit)
    return highest if lowest == format_reported_value(max(values)) else f"{lowest} to {highest}"


def round_reported_value(value: float, better: Better | None = None) -> float:
    """
    Return a value as a budget file keeps it: with four significant digits.

    Where the lecture says which direction is better, it is rounded the other way, so that the value as printed would
    do as a limit. Rounding once more changes nothing. A whole number stays one.
    """
    rounding = {Better.HIGHER: ROUND_FLOOR, Better.LOWER: ROUND_CEILING, None: ROUND_HALF_EVEN}[better]
    # From the shortest decimal that means this float: 0.1 is to stay 0.1.
    rounded = float(Context(prec=_KEPT_DIGITS, rounding=rounding).create_decimal(Decimal(repr(float(value)))))
    if not math.isfinite(rounded):
        return value
    return int(rounded) if isinstance(value, int) else rounded


def _with_digits(value: float, unit: str, digits: int) -> str:
    # Minus zero is zero.
    shown = str(value) if isinstance(value, int) and abs(value) <= MOST_WHOLE else f"{value + 0.0:.{digits}g}"
    if "e" in shown and _PLAIN_LOWEST <= abs(value) < _PLAIN_HIGHEST:
        # 2999 is 3e+03 to three digits, and nobody would write that.
        shown = f"{value:.{max(digits, len(str(int(abs(value)))))}g}"
    return f"{shown} {unit}" if unit else shown
