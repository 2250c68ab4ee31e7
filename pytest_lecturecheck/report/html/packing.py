"""
Pack series over time for the page's script.

Times are in milliseconds and values in a unit that suits the chart. Both are stored as differences from the previous
one, which takes two or three digits for each point.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

_STEPS: Final = 1 << 14


def line_at(name: str, key: str, value: float | None) -> dict[str, Any] | None:
    """Return a horizontal line of a chart, or ``None`` if there is no value."""
    return None if value is None or not math.isfinite(value) else {"name": name, "key": key, "bytes": round(value)}


def series_of(name: str, key: str, values: Sequence[int | None]) -> dict[str, Any] | None:
    """Return one series of a chart, or ``None`` if all its values are unknown."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    unit = 1 << max(0, (max(known) // _STEPS).bit_length())
    return {
        "name": name,
        "key": key,
        "unit": unit,
        "values": deltas([None if value is None else round(value / unit) for value in values]),
    }


def deltas(values: Sequence[int | None]) -> list[int | None]:
    """Return each value as the difference from the previous known one; the first is unchanged."""
    before, found = 0, []
    for value in values:
        found.append(None if value is None else value - before)
        before = before if value is None else value
    return found


def milliseconds(seconds: float) -> int:
    """Return a time in whole milliseconds, the unit of the page."""
    return round(seconds * 1000)
