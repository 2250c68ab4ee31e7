"""
Sizes and durations: what people write, read without guessing, and printed in one family of units.

Sizes print in IEC units (KiB, MiB, GiB, TiB). Both SI ("24 GB" = 24,000,000,000 bytes) and IEC units are read. What
would have to be guessed is refused: a bare number, a bare "G", bits ("Gb"), thousands separators.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Final, TypeAlias

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
# Wholly lower-case units are what people type in a hurry; "b", "Gb" and "Gib" may be bits and stay refused.
_SIZE_UNITS_BY_TEXT: Final = (
    _SIZE_UNITS | {unit.lower(): size for unit, size in _SIZE_UNITS.items() if unit != "B"} | {"byte": 1, "bytes": 1}
)
_PRINTED_SIZES: Final = (("B", 1), ("KiB", KIB), ("MiB", MIB), ("GiB", GIB), ("TiB", TIB))
_LARGEST_SIZE: Final = 2**63 - 1
_LONGEST_SECONDS: Final = 100 * 365 * 86400
# ASCII digits only: a full-width digit or a decimal comma is a sign of a text that was not meant for this parser.
# The lengths are bounded because the text may come from a stranger's file.
_NUMBER: Final = r"(?:[0-9]{1,40}(?:\.[0-9]{1,40})?|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,3})?"
_SIZE: Final = re.compile(rf"({_NUMBER})\s*([A-Za-z]*)")
_SIZE_EXAMPLE: Final = "for example '24 GB' or '512 MiB'"

_DURATION_UNITS: Final = {
    "ms": Fraction(1, 1000),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), Fraction(1)),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), Fraction(60)),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), Fraction(3600)),
    **dict.fromkeys(("d", "day", "days"), Fraction(86400)),
}
_DURATION_PART: Final = re.compile(rf"({_NUMBER})\s*([A-Za-z]+)")
_BARE_NUMBER: Final = re.compile(_NUMBER)
_MOST_GUESSED: Final = 1_000_000
_DURATION_GAP: Final = re.compile(r"\s*,?\s*")
_DURATION_EXAMPLE: Final = "for example '90 s', '2 min' or '1:30'"
_CLOCK: Final = re.compile(r"([0-9]{1,3}):([0-5][0-9])(?::([0-5][0-9]))?")
_Rounding: TypeAlias = Callable[[Fraction], int]
_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 86400


def parse_size(text: object) -> int:
    """
    Read a size in bytes from text such as ``"24 GB"``, ``"1.5 GiB"`` or ``"2.4e10 B"``.

    Args:
        text: number and unit; SI and IEC units, as written or wholly in lower case.

    Returns:
        The size in bytes, rounded up to a whole byte. Zero is a size; callers that need a limit refuse it.

    Raises:
        UnitError: a bare number, bits, an unknown unit, a separator inside the number, a negative or absurd size, or
            not text at all.
    """
    if not isinstance(text, str):
        msg = f"size {text!r} is not text with a unit; expected {_SIZE_EXAMPLE}"
        raise UnitError(msg)
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        msg = f"size {text!r} is not understood{_number_hint(text)}; expected one number and one unit, {_SIZE_EXAMPLE}"
        raise UnitError(msg)
    number, unit = match.groups()
    factor = _SIZE_UNITS_BY_TEXT.get(unit)
    if factor is None:
        raise UnitError(_explain_size_unit(text, unit))
    size_bytes = math.ceil(Fraction(number) * factor)
    if size_bytes > _LARGEST_SIZE:
        msg = f"size {text!r} is larger than any memory; expected {_SIZE_EXAMPLE}"
        raise UnitError(msg)
    return size_bytes


def _number_hint(text: str) -> str:
    if re.search(r"[0-9][,'_ ][0-9]", text):
        return " (write decimals with a point, and no separators inside the number)"
    if text.strip().startswith("-"):
        return " (it is negative)"
    return "" if text.isascii() else " (only the digits 0-9 and the letters of the units are read)"


def _explain_size_unit(text: str, unit: str) -> str:
    valid = ", ".join(_SIZE_UNITS)
    if not unit:
        return f"size {text!r} has no unit; expected one of {valid}"
    if unit in {"k", "K", "M", "G", "T", "P", "m", "g", "t", "p"}:
        letter = unit.upper()
        return f"size {text!r} has an ambiguous unit {unit!r}: write {letter}B (powers of 1000) or {letter}iB (of 1024)"
    if unit.endswith("b"):
        return f"size {text!r} has the unit {unit!r}, which means bits; for bytes write {unit[:-1]}B"
    return f"size {text!r} has an unknown unit {unit!r}; expected one of {valid}"


def format_size(size_bytes: float, digits: int = 3) -> str:
    """Format a size in IEC units with ``digits`` significant digits, rounded to nearest (``1.42 GiB``)."""
    return _format_size(size_bytes, digits, round)


def format_size_up(size_bytes: float, digits: int = 4) -> str:
    """Format a size so that it parses back to at least ``size_bytes``; that value is formatted the same way."""
    if size_bytes <= KIB or not math.isfinite(size_bytes):
        return _format_size(size_bytes, digits, math.ceil)
    # Parsing rounds up to whole bytes, so it is enough to be above the byte before. Without this, each reading and
    # printing would climb by one last digit.
    return _format_size(math.ceil(size_bytes) - 1 + Fraction(1, 10**9), digits, math.ceil)


def format_size_down(size_bytes: float, digits: int = 3) -> str:
    """Format a size so that the text states at most ``size_bytes``, as a lower bound must."""
    return _format_size(size_bytes, digits, math.floor)


def format_bytes(size_bytes: float) -> str:
    """Format a size exactly, in whole bytes with separators (``664,797,184 bytes``)."""
    return f"{math.ceil(size_bytes):,} bytes"


def format_si(size_bytes: float) -> str:
    """Format a size in SI units if it is round in those (``24 GB``), as people declare it; else return ""."""
    for unit in ("TB", "GB", "MB"):
        count = Fraction(size_bytes) / _SIZE_UNITS[unit]
        if count >= 1 and (count * 10).denominator == 1:
            return f"{float(count):g} {unit}"
    return ""


def format_declared_size(size_bytes: float) -> str:
    """Format a size as people declare it, with IEC units beside it where they differ (``24 GB (22.4 GiB)``)."""
    written, measured = format_si(size_bytes), format_size(size_bytes)
    return f"{written} ({measured})" if written else measured


def format_sizes_apart(first_bytes: float, second_bytes: float) -> tuple[str, str]:
    """Format two sizes with as many digits as it takes for different sizes to look different."""
    for digits in range(3, 12):
        first, second = format_size(first_bytes, digits), format_size(second_bytes, digits)
        if first != second:
            return first, second
    if first_bytes == second_bytes:
        return format_size(first_bytes), format_size(second_bytes)
    return f"{_exact(first_bytes)} B", f"{_exact(second_bytes)} B"


def _exact(value: float) -> str:
    """Format a number so that no other number is formatted the same way."""
    return str(int(value)) if value == int(value) else repr(float(value))


def _format_size(size_bytes: float | Fraction, digits: int, rounding: _Rounding) -> str:
    if not math.isfinite(size_bytes):
        return f"{size_bytes} B"
    sign = "-" if size_bytes < 0 else ""
    size = abs(Fraction(size_bytes))
    text = _significant(size, 40, rounding, most_places=0)
    unit = "B"
    for larger, factor in _PRINTED_SIZES[1:]:
        # Where rounding reaches 1024 of a unit, the next unit is the readable one.
        if Fraction(text) < KIB:
            break
        text, unit = _significant(size / factor, digits, rounding), larger
    return f"{sign}{text} {unit}"


def _significant(value: Fraction, digits: int, rounding: _Rounding, *, most_places: int = 400) -> str:
    """Format ``value`` (>= 0) with ``digits`` significant digits; whole numbers are kept whole, trailing zeros go."""
    if value == 0:
        return "0"
    places = digits - len(str(int(value))) if value >= 1 else digits + _leading_zeros(value)
    places = min(max(places, 0), most_places)
    scaled = value * 10**places
    number = rounding(scaled)
    if places == 0:
        return str(number)
    whole, part = divmod(number, 10**places)
    return f"{whole}.{part:0{places}d}".rstrip("0").rstrip(".")


def _leading_zeros(value: Fraction) -> int:
    """Count the zeros between the point and the first other digit of a value below 1."""
    zeros = 0
    while value * 10 < 1:
        value *= 10
        zeros += 1
    return zeros


def parse_duration(text: object) -> float:
    """
    Read a duration in seconds from text such as ``"90 s"``, ``"1:30"``, ``"2 min"``, ``"1 h 30 min"``, ``"12 hours"``.

    ``"1:30"`` is minutes and seconds, ``"1:30:00"`` hours, minutes and seconds.

    Raises:
        UnitError: a bare number, an unknown unit, units not from large to small, an absurd length, or not text at all.
    """
    if not isinstance(text, str):
        is_number = isinstance(text, int | float) and not isinstance(text, bool) and 0 < text < _MOST_GUESSED
        meant = f"did you mean '{text} min'? " if is_number else ""
        msg = f"duration {text!r} is not text with a unit; {meant}expected {_DURATION_EXAMPLE}"
        raise UnitError(msg)
    stripped = text.strip()
    if not stripped:
        msg = f"duration is empty; expected {_DURATION_EXAMPLE}"
        raise UnitError(msg)
    if clock := _CLOCK.fullmatch(stripped):
        first, second, third = clock.groups()
        if third is None:
            return float(int(first) * _MINUTE + int(second))
        return float(int(first) * _HOUR + int(second) * _MINUTE + int(third))
    if _BARE_NUMBER.fullmatch(stripped):
        msg = f"duration {text!r} has no unit; did you mean '{stripped} min'? expected {_DURATION_EXAMPLE}"
        raise UnitError(msg)
    total = _sum_duration(text, stripped)
    if total > _LONGEST_SECONDS:
        msg = f"duration {text!r} is longer than a hundred years; expected {_DURATION_EXAMPLE}"
        raise UnitError(msg)
    return float(total)


def _meant_duration(part: re.Match[str] | None) -> str:
    """Return what was probably meant by a number with an unknown unit, or an empty string."""
    import difflib  # noqa: PLC0415 - only where something is wrong

    number, unit = (part.group(1), part.group(2).lower()) if part is not None else ("", "")
    # "m" is not read: it stands for metres, months and milli as well.
    near = ["min"] if unit == "m" else difflib.get_close_matches(unit, _DURATION_UNITS, n=1)
    return f"did you mean '{number} {near[0]}'? " if near else ""


def _sum_duration(text: str, stripped: str) -> Fraction:
    total, position, last_unit = Fraction(0), 0, None
    while position < len(stripped):
        part = _DURATION_PART.match(stripped, position)
        unit = _DURATION_UNITS.get(part.group(2).lower()) if part else None
        if part is None or unit is None:
            msg = (
                f"duration {text!r} is not understood{_number_hint(text)}; {_meant_duration(part)}"
                "expected numbers with units (ms, s, min, h, days) or m:ss or h:mm:ss"
            )
            raise UnitError(msg)
        if last_unit is not None and unit >= last_unit:
            msg = f"duration {text!r} does not go from large units to small ones; expected for example '1 h 30 min'"
            raise UnitError(msg)
        total += Fraction(part.group(1)) * unit
        position, last_unit = part.end(), unit
        gap = _DURATION_GAP.match(stripped, position)
        if gap is not None and gap.end() < len(stripped):
            position = gap.end()
    return total


def format_duration(seconds: float) -> str:
    """Format a duration for people: ``0.84 s``, ``12.3 s``, ``2 min 05 s``, ``1 h 02 min``, ``2 days 3 h``."""
    if not math.isfinite(seconds):
        return "no limit" if seconds > 0 else f"{seconds} s"
    if seconds < 0:
        return f"-{format_duration(-seconds)}"
    # The boundaries lie where rounding reaches them, so that "60.0 s" or "1 h 60 min" is never printed.
    if seconds < _MINUTE - 0.05:
        return f"{_significant(Fraction(seconds), 3 if seconds >= 1 else 2, round)} s"
    whole = round(seconds)
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE:02d} s"
    minutes = round(seconds / _MINUTE)
    if minutes < _DAY // _MINUTE:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    hours = round(seconds / _HOUR)
    days = hours // 24
    return f"{days} day{'' if days == 1 else 's'} {hours % 24} h"


def format_declared_duration(seconds: float) -> str:
    """Format a duration as people declare it, without parts that are zero (``2 h``, ``1 h 30 min``, ``90.5 s``)."""
    if seconds != int(seconds) or seconds < 1:
        return f"{_exact(seconds)} s"
    rest, parts = int(seconds), []
    for unit, length in (("h", _HOUR), ("min", _MINUTE), ("s", 1)):
        count, rest = divmod(rest, length)
        parts += [f"{count} {unit}"] if count else []
    return " ".join(parts)


def format_duration_up(seconds: float, digits: int = 4) -> str:
    """Format a duration in seconds that parses back to at least ``seconds``; that value is formatted the same way."""
    # The shortest decimal that means this float: 0.1 is to print as "0.1 s", not as "0.1001 s".
    # Parts of a picosecond are rounded up to one, so that no text grows beyond what is read.
    return f"{_significant(Fraction(repr(float(seconds))), digits, math.ceil, most_places=12)} s"


def format_durations_apart(first_seconds: float, second_seconds: float) -> tuple[str, str]:
    """Format two durations so that different durations look different."""
    first, second = format_duration(first_seconds), format_duration(second_seconds)
    if first != second or first_seconds == second_seconds:
        return first, second
    for digits in range(4, 12):
        first, second = _seconds(first_seconds, digits), _seconds(second_seconds, digits)
        if first != second:
            return first, second
    return f"{_exact(first_seconds)} s", f"{_exact(second_seconds)} s"


def _seconds(seconds: float, digits: int) -> str:
    sign = "-" if seconds < 0 else ""
    return f"{sign}{_significant(abs(Fraction(seconds)), digits, round)} s"


def format_counts_apart(first: float, second: float) -> tuple[str, str]:
    """Format two counts so that different counts look different, fractions of derived limits included."""
    shown = f"{first:.0f}", f"{second:.0f}"
    return shown if shown[0] != shown[1] or first == second else (_exact(first), _exact(second))


def format_fraction(fraction: float) -> str:
    """Format a relative difference as a signed percentage with two significant digits (``+12 %``, ``-0.3 %``)."""
    percent = fraction * 100
    if percent == 0 or not math.isfinite(percent):
        return f"{percent:+.0f} %"
    digits = max(0, 1 - math.floor(math.log10(abs(percent))))
    return f"{percent:+.{digits}f} %"
