"""
Plausibility check of kept sessions: refuse numbers that no machine can report.

Such files may come from other machines or from an editor. Data that passes between the processes of one session is not
checked.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Final

from pytest_lecturecheck.errors import RunFileError
from pytest_lecturecheck.model.evidence import TimeoutFacts
from pytest_lecturecheck.model.reported_value import ReportedValue
from pytest_lecturecheck.store.record_layout import record_keys
from pytest_lecturecheck.verdict import ReportedValueComparison

_MOST: Final = 1 << 64
"""Range of the counters of operating systems."""
_UNBOUNDED: Final[frozenset[type]] = frozenset({ReportedValue, ReportedValueComparison})
"""A value that a lecture reports may be any finite number."""
_MAY_BE_ENDLESS: Final[frozenset[tuple[type, str]]] = frozenset({(TimeoutFacts, "limit_seconds")})


def check_numbers(value: object, location: str) -> None:
    """
    Check a domain value and everything in it.

    Args:
        value: dataclasses, tuples, mappings and builtin types.
        location: its position in the document, for messages.

    Raises:
        RunFileError: a number is not finite, or larger than any count or size.
    """
    if isinstance(value, int | float):
        _check_number(value, location, _MOST)
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            check_numbers(item, f"{location}[{index}]")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            check_numbers(item, f"{location}.{key}")
    elif dataclasses.is_dataclass(value):
        _check_fields(value, location)


def _check_fields(value: Any, location: str) -> None:
    cls: Any = type(value)
    for item in record_keys(cls):
        held = item.get(value)
        if held is None or isinstance(held, str):
            continue
        if not isinstance(held, int | float):
            check_numbers(held, f"{location}.{item.key}")
        elif not -_MOST <= held <= _MOST and not (item.attribute in _MAY_BE_ENDLESS and held == math.inf):
            _check_number(held, f"{location}.{item.key}", math.inf if cls in _UNBOUNDED else _MOST)


def _check_number(value: float, location: str, most: float) -> None:
    if not math.isfinite(value) or abs(value) > most:
        size = "" if math.isinf(most) else " of at most 2^64 in size"
        msg = f"{location}: found {value:.6g}; expected a finite number{size}"
        raise RunFileError(msg)
