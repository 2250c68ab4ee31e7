"""
Sizes and durations: what people write, read without guessing, and printed in one family of units.

Sizes print in IEC units (KiB, MiB, GiB, TiB). Both SI ("24 GB" = 24,000,000,000 bytes) and IEC units are read. What
would have to be guessed is refused: a bare number, a bare "G", bits ("Gb"), thousands separators.
"""

from __future__ import annotations

import math
import re
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Decimal
from typing import Final

from pytest_lecturecheck.errors import UnitError

KIB: Final = 1024
MIB: Final = 1024**2
GIB: Final = 1024**3
TIB: Final = 1024**4

_SIZE_UNITS: Final = {
    "B": 1,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "PB": 10**15,
    "KiB": KIB,
    "MiB": MIB,
    "GiB": GIB,
    "TiB": TIB,
    "PiB": 1024**5,
}
# Wholly lower-case units are what people type in a hurry; "Gb" and "Gib" are bits and stay refused.
_SIZE_UNITS_BY_TEXT: Final = _SIZE_UNITS | {unit.lower(): size for unit, size in _SIZE_UNITS.items()}
_PRINTED_SIZES: Final = (("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB), ("B", 1))
# ASCII digits only: a full-width digit or a decimal comma is a sign of a text that was not meant for this parser.
_NUMBER: Final = r"(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?"
_SIZE: Final = re.compile(rf"({_NUMBER})\s*([A-Za-z]*)")

_DURATION_UNITS: Final = {
    "ms": Decimal("0.001"),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), Decimal(1)),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), Decimal(60)),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), Decimal(3600)),
    **dict.fromkeys(("d", "day", "days"), Decimal(86400)),
}
_DURATION_PART: Final = re.compile(rf"({_NUMBER})\s*([A-Za-z]+)[\s,]*")
_CLOCK: Final = re.compile(r"([0-9]{1,3}):([0-5][0-9])(?::([0-5][0-9]))?")
_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 86400


def parse_size(text: object) -> int:
    """
    Read a size in bytes from text such as ``"24 GB"``, ``"1.5 GiB"`` or ``"2.4e10 B"``.

    Args:
        text: number and unit; SI and IEC units, as written or wholly in lower case.

    Returns:
        The size in bytes, rounded up to a whole byte.

    Raises:
        UnitError: a bare number, bits, an unknown unit, a separator inside the number, or not text at all.
    """
    if not isinstance(text, str):
        msg = f"size {text!r} is not text with a unit; expected for example '24 GB' or '512 MiB'"
        raise UnitError(msg)
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        msg = f"size {text!r} is not understood; expected one number and one unit, for example '24 GB' or '512 MiB'"
        raise UnitError(msg)
    number, unit = match.groups()
    factor = _SIZE_UNITS_BY_TEXT.get(unit)
    if factor is None:
        raise UnitError(_explain_size_unit(text, unit))
    return int((Decimal(number) * factor).to_integral_value(ROUND_CEILING))


def _explain_size_unit(text: str, unit: str) -> str:
    valid = ", ".join(_SIZE_UNITS)
    if not unit:
        return f"size {text!r} has no unit; expected one of {valid}"
    if unit in {"k", "K", "M", "G", "T", "P", "m", "g", "t"}:
        letter = unit.upper()
        return f"size {text!r} has an ambiguous unit {unit!r}: write {letter}B (powers of 1000) or {letter}iB (of 1024)"
    if unit.endswith("b"):
        return f"size {text!r} has the unit {unit!r}, which means bits; for bytes write {unit[:-1]}B"
    return f"size {text!r} has an unknown unit {unit!r}; expected one of {valid}"


def format_size(size_bytes: float, digits: int = 3) -> str:
    """Print a size in IEC units with ``digits`` significant digits, rounded to nearest (``1.42 GiB``)."""
    return _format_size(size_bytes, digits, ROUND_HALF_EVEN)


def format_size_up(size_bytes: float, digits: int = 4) -> str:
    """Print a size so that it parses back to no less than ``size_bytes`` (for budget files)."""
    return _format_size(size_bytes, digits, ROUND_CEILING)


def format_sizes_apart(first_bytes: float, second_bytes: float) -> tuple[str, str]:
    """Print two sizes with as many digits as it takes for different sizes to look different."""
    for digits in range(3, 12):
        first, second = format_size(first_bytes, digits), format_size(second_bytes, digits)
        if first != second:
            return first, second
    if first_bytes == second_bytes:
        return format_size(first_bytes), format_size(second_bytes)
    return f"{first_bytes:.0f} B", f"{second_bytes:.0f} B"


def _format_size(size_bytes: float, digits: int, rounding: str) -> str:
    sign = "-" if size_bytes < 0 else ""
    size = abs(Decimal(size_bytes))
    for unit, factor in _PRINTED_SIZES:
        if size >= factor or factor == 1:
            break
    # Where rounding reaches 1024 of a unit, the next unit is the readable one.
    for larger_unit, larger_factor in reversed(_PRINTED_SIZES):
        if larger_factor <= factor:
            continue
        if _round_significant(size / factor, digits, rounding) < KIB:
            break
        unit, factor = larger_unit, larger_factor
    if factor == 1:
        return f"{sign}{size.to_integral_value(rounding)} B"
    return f"{sign}{_plain(_round_significant(size / factor, digits, rounding))} {unit}"


def _round_significant(value: Decimal, digits: int, rounding: str) -> Decimal:
    if value == 0:
        return Decimal(0)
    # Whole numbers are kept whole: 1023 KiB stays exact even with three digits.
    exponent = min(value.adjusted() - digits + 1, 0)
    return value.quantize(Decimal(1).scaleb(exponent), rounding)


def _plain(value: Decimal) -> str:
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def parse_duration(text: object) -> float:
    """
    Read a duration in seconds from text such as ``"90 s"``, ``"1:30"``, ``"2 min"``, ``"1 h 30 min"``, ``"12 hours"``.

    ``"1:30"`` is minutes and seconds, ``"1:30:00"`` hours, minutes and seconds.

    Raises:
        UnitError: a bare number, an unknown unit, or not text at all.
    """
    if not isinstance(text, str):
        msg = f"duration {text!r} is not text with a unit; expected for example '90 s', '2 min' or '1:30'"
        raise UnitError(msg)
    stripped = text.strip()
    if clock := _CLOCK.fullmatch(stripped):
        first, second, third = clock.groups()
        if third is None:
            return float(int(first) * _MINUTE + int(second))
        return float(int(first) * _HOUR + int(second) * _MINUTE + int(third))
    total, position = Decimal(0), 0
    while position < len(stripped):
        part = _DURATION_PART.match(stripped, position)
        unit = _DURATION_UNITS.get(part.group(2).lower()) if part else None
        if part is None or unit is None:
            valid = "ms, s, min, h, days"
            msg = f"duration {text!r} is not understood; expected numbers with units ({valid}) or m:ss or h:mm:ss"
            raise UnitError(msg)
        total += Decimal(part.group(1)) * unit
        position = part.end()
    if not stripped:
        msg = "duration is empty; expected for example '90 s', '2 min' or '1:30'"
        raise UnitError(msg)
    return float(total)


def format_duration(seconds: float) -> str:
    """Print a duration for people: ``0.84 s``, ``12.3 s``, ``2 min 05 s``, ``1 h 02 min``, ``2 days 3 h``."""
    if seconds < 0:
        return f"-{format_duration(-seconds)}"
    # The boundaries lie where rounding reaches them, so that "60.0 s" or "1 h 60 min" is never printed.
    if seconds < _MINUTE - 0.05:
        return f"{_plain(_round_significant(Decimal(seconds), 3 if seconds >= 1 else 2, ROUND_HALF_EVEN))} s"
    whole = round(seconds)
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE:02d} s"
    minutes = round(seconds / _MINUTE)
    if minutes < _DAY // _MINUTE:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    hours = round(seconds / _HOUR)
    days = hours // 24
    return f"{days} day{'' if days == 1 else 's'} {hours % 24} h"


def format_duration_up(seconds: float) -> str:
    """Print a duration in seconds that parses back to no less than ``seconds`` (for budget files)."""
    value = Decimal(seconds)
    return f"{_plain(_round_significant(value, 4, ROUND_CEILING))} s"


def format_durations_apart(first_seconds: float, second_seconds: float) -> tuple[str, str]:
    """Print two durations so that different durations look different."""
    first, second = format_duration(first_seconds), format_duration(second_seconds)
    if first != second or first_seconds == second_seconds:
        return first, second
    for digits in range(4, 15):
        first, second = f"{first_seconds:.{digits}g} s", f"{second_seconds:.{digits}g} s"
        if first != second:
            break
    return first, second


def format_fraction(fraction: float) -> str:
    """Print a relative difference as a signed percentage with two significant digits (``+12 %``, ``-0.3 %``)."""
    percent = fraction * 100
    if percent == 0 or not math.isfinite(percent):
        return f"{percent:+.0f} %"
    digits = max(0, 1 - math.floor(math.log10(abs(percent))))
    return f"{percent:+.{digits}f} %"
