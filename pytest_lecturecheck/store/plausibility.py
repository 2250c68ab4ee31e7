"""
Refuse numbers that no machine gives, where kept sessions are read: such files come from other machines and from hands.

What a session measured itself goes between its processes without this.
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
"""Counters of operating systems end here; sizes and times long before."""
_OWN_FIGURES: Final[frozenset[type]] = frozenset({ReportedValue, ReportedValueComparison})
"""What a lecture reports of itself may be any finite number."""
_MAY_BE_ENDLESS: Final[frozenset[tuple[type, str]]] = frozenset({(TimeoutFacts, "limit_seconds")})


def check_numbers(value: object, place: str) -> None:
    """
    Go through a value of the domain and all that it holds.

    Args:
        value: dataclasses, tuples, mappings and builtin types.
        place: where it stands, for messages.

    Raises:
        RunFileError: a number is not finite, or larger than any count or size.
    """
    if isinstance(value, int | float):
        _check_number(value, place, _MOST)
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            check_numbers(item, f"{place}[{index}]")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            check_numbers(item, f"{place}.{key}")
    elif dataclasses.is_dataclass(value):
        _check_fields(value, place)


def _check_fields(value: Any, place: str) -> None:
    cls: Any = type(value)
    for item in record_keys(cls):
        held = item.get(value)
        if held is None or isinstance(held, str):
            continue
        if not isinstance(held, int | float):
            check_numbers(held, f"{place}.{item.key}")
        elif not -_MOST <= held <= _MOST and not (item.attribute in _MAY_BE_ENDLESS and held == math.inf):
            _check_number(held, f"{place}.{item.key}", math.inf if cls in _OWN_FIGURES else _MOST)


def _check_number(value: float, place: str, most: float) -> None:
    if not math.isfinite(value) or abs(value) > most:
        size = "" if math.isinf(most) else " of at most 2^64 in size"
        msg = f"{place}: found {value:.6g}; expected a finite number{size}"
        raise RunFileError(msg)
