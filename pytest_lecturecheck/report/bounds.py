"""
Bound what was measured, so that a statement about it holds: upper bounds are rounded up, lower bounds down.

A value is an upper bound if the operating system counted it and the notebook ran to its end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.metric import Measurement, Metric
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.units import GIB, MIB, format_duration, format_size, format_size_down

_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 86400
_TENTHS_BELOW: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredBound:
    """
    A bound of a measured quantity.

    Attributes:
        value: the bound.
        is_upper: True for an upper bound, False for a lower one.
        entry: the run that it was measured in.
    """

    value: float
    is_upper: bool
    entry: Entry

    @property
    def phrase(self) -> str:
        """Return the phrase in front of the value."""
        return "up to" if self.is_upper else "at least"


def bound_of(entries: Sequence[Entry], metric: Metric) -> MeasuredBound | None:
    """Return a bound of the highest value of several runs; a single lower bound among them makes it a lower bound."""
    found = [(entry, value) for entry in entries if (value := entry.run.measured(metric)) is not None]
    if not found:
        return None
    is_upper = all(
        item.run.outcome is Outcome.COMPLETED and value.upper_bound is not None and not value.method.is_lower_bound
        for item, value in found
    )
    bounds = [(_end(value, is_upper=is_upper), number) for number, (_, value) in enumerate(found)]
    most, number = max(bounds, key=lambda pair: (pair[0], -pair[1]))
    return MeasuredBound(value=most, is_upper=is_upper, entry=found[number][0])


def _end(found: Measurement, *, is_upper: bool) -> float:
    """Return the end of a measurement's range, including its tolerance."""
    if not is_upper:
        return max(0.0, found.value - found.tolerance)
    return (found.upper_bound if found.upper_bound is not None else found.value) + found.tolerance


def size_text(found: MeasuredBound) -> str:
    """Return a bound as text, or an empty string for a lower bound of zero, which says nothing."""
    if found.is_upper:
        return _size_up(found.value)
    return format_size_down(found.value) if found.value >= 1 else ""


def _size_up(size_bytes: float) -> str:
    """Round a size up to tenths of a GiB, to 10 MiB, or to whole MiB."""
    step = GIB / 10 if size_bytes >= GIB else 10 * MIB if size_bytes >= 100 * MIB else MIB
    # A size within half a byte of a multiple counts as that multiple.
    return format_size(math.ceil((size_bytes - 0.5) / step) * step, 4)


def time_text(seconds: float, *, is_upper: bool) -> str:
    """Round a time in the direction of its bound to what its text shows; empty if nothing is left."""
    step = _HOUR if seconds >= _DAY else _MINUTE if seconds >= 10 * _MINUTE else 1
    if is_upper:
        return format_duration(math.ceil(seconds / step) * step)
    if seconds < _TENTHS_BELOW:
        tenths = math.floor(seconds * 10)
        return format_duration(tenths / 10) if tenths else ""
    return format_duration(math.floor(seconds / step) * step)
