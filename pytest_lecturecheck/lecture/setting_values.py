"""Read single values in the conventions of notebook runners and book builders."""

from __future__ import annotations

import math
from typing import Final

from pytest_lecturecheck.model.settings import timeout_from_number

_MODES: Final = ("off", "auto", "force", "cache", "inline")


class BadValueError(ValueError):
    """A value of the wrong kind; the text states what was found and what was expected."""


def read_bool(value: object) -> bool:
    """Read a switch: true or false, nothing else."""
    if not isinstance(value, bool):
        msg = f"is {value!r}; expected true or false"
        raise BadValueError(msg)
    return value


def read_number_timeout(value: object) -> float:
    """Read a timeout in seconds as notebook runners do: a number; zero, negative and null mean no limit."""
    if value is None:
        return timeout_from_number(None)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value):
        msg = f"is {value!r}; expected a number of seconds (0, a negative number or null for no limit)"
        raise BadValueError(msg)
    return timeout_from_number(_as_float(value))


def read_mode(value: object) -> bool:
    """Return True if an execution mode of myst-nb executes notebooks. YAML 1.1 reads a bare ``off`` as false."""
    if value is False or value == "off":
        return False
    if value in _MODES:
        return True
    msg = f"is {value!r}; expected one of {', '.join(_MODES)}"
    raise BadValueError(msg)


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError as exc:
        msg = "is a number too large for seconds; use 0 for no limit"
        raise BadValueError(msg) from exc
