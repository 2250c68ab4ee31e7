"""Keys of a budget file: the value that each takes, and the message for any other value."""

from __future__ import annotations

import datetime as dt
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from pytest_lecturecheck.budget.limits import HeavyCell, MetricBudget
from pytest_lecturecheck.budget.relations import EXAMPLE, Relation, parse_relation
from pytest_lecturecheck.errors import UnitError
from pytest_lecturecheck.model.metric import Method, Metric, Unit
from pytest_lecturecheck.model.reported_value import MOST_WHOLE, UNIT
from pytest_lecturecheck.store.budget_file.toml_text import quote
from pytest_lecturecheck.units import parse_duration, parse_size

Reader: TypeAlias = Callable[[object], Any]
"""Function that turns a TOML value into a domain value, or raises :class:`FaultError`."""
Table: TypeAlias = Mapping[str, tuple[str, Reader]]
"""Key to the attribute that it sets, and its reader."""

PACKAGE: Final = re.compile(r"([A-Za-z0-9._-]+)==(.*)", re.DOTALL)
# Every run has these, so a limit of zero is a typing error; "no swap" and "no GPU" are real limits.
_NEVER_ZERO: Final = frozenset({Metric.PEAK_FOOTPRINT, Metric.PEAK_RSS, Metric.WALL, Metric.CPU})
_LONGEST_SHOWN: Final = 60
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")


class FaultError(Exception):
    """A value that cannot be used; the message does not say where it is."""


def show_value(value: object) -> str:
    """Format a TOML value for a message, shortened and free of control characters."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    if isinstance(value, str):
        return repr(value if len(value) <= _LONGEST_SHOWN else value[:_LONGEST_SHOWN] + "...")
    return str(value)[:_LONGEST_SHOWN]


def show_path(path: Sequence[str]) -> str:
    """Format a key as TOML writes it (``lectures."intro.md".wall``)."""
    return ".".join(part if _BARE_KEY.fullmatch(part) else quote(part) for part in path)


def _fault(value: object, expected: str) -> FaultError:
    return FaultError(f"found {show_value(value)}; expected {expected}")


def read_text(value: object) -> str:
    """Read text."""
    if not isinstance(value, str):
        raise _fault(value, "text in quotes")
    return value


def read_texts(value: object) -> tuple[str, ...]:
    """Read a list of strings."""
    if not isinstance(value, list):
        raise _fault(value, 'a list of strings, for example ["..."]')
    return tuple(read_text(item) for item in value)


def read_positive(value: object) -> int:
    """Read a whole number of at least 1."""
    if type(value) is not int or value < 1:
        raise _fault(value, "a whole number, at least 1")
    return value


def read_quantity(unit: Unit, value: object) -> float:
    """Read a size, a duration or a count, zero included."""
    if unit is Unit.COUNT:
        if type(value) is not int or not 0 <= value < 10**18:
            raise _fault(value, "a whole number, at least 0")
        return value
    example = '"512 MiB"' if unit is Unit.BYTES else '"90 s"'
    if not isinstance(value, str):
        raise _fault(value, f"text with a unit, for example {example}")
    try:
        return parse_size(value) if unit is Unit.BYTES else parse_duration(value)
    except UnitError as error:
        raise FaultError(str(error)) from error


def read_size(value: object) -> int:
    """Read a size, zero included."""
    return int(read_quantity(Unit.BYTES, value))


def read_seconds(value: object) -> float:
    """Read a duration, zero included."""
    return read_quantity(Unit.SECONDS, value)


def read_quantities(metric: Metric, value: object) -> tuple[float, ...]:
    """Read the recorded values of ``metric``."""
    if not isinstance(value, list):
        raise _fault(value, "a list of the recorded values")
    return tuple(read_quantity(metric.unit, item) for item in value)


def read_finite(value: object) -> float:
    """Read a number of either sign."""
    # A float would silently lose digits of a larger whole number.
    if type(value) is int and abs(value) <= MOST_WHOLE:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise _fault(value, "a finite number without quotes, for example 1.5 or 1e-12")


def read_finites(value: object) -> tuple[float, ...]:
    """Read a list of numbers of either sign."""
    if not isinstance(value, list):
        raise _fault(value, "a list of the recorded values")
    return tuple(read_finite(item) for item in value)


def read_unit(value: object) -> str:
    """Read the unit of a value that a lecture reports."""
    if not isinstance(value, str) or UNIT.fullmatch(value) is None:
        raise _fault(value, "a short text such as 's' or 'x'")
    return value


def check_hand_set(budget: MetricBudget) -> None:
    """
    Refuse a limit that a person cannot have meant.

    Raises:
        FaultError: the limit is zero, and every run has a higher value.
    """
    if budget.hand_set and budget.limit == 0 and budget.metric in _NEVER_ZERO:
        msg = f"the limit is zero; expected more: every run has a {budget.metric.label}"
        raise FaultError(msg)


def read_method(value: object) -> Method:
    """Read how values were measured."""
    if not isinstance(value, str) or value not in set(Method):
        raise _fault(value, f"one of {', '.join(Method)}")
    return Method(value)


def read_true(value: object) -> bool:
    """Read a key that is either true or absent."""
    if value is not True:
        raise _fault(value, "true, or no such key")
    return True


def _read_number(least: float, value: object) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # Python integers may exceed every float.
    if not is_number or not least <= value <= sys.float_info.max:  # type: ignore[operator]
        raise _fault(value, f"a number, at least {least}")
    return value  # type: ignore[return-value]


def _read_date(value: object) -> dt.date:
    if type(value) is not dt.date:
        raise _fault(value, "a day without quotes, for example 2025-01-31")
    return value


def _read_cells(value: object) -> tuple[HeavyCell, ...]:
    example = '{ cell = 3, line = 41, peak_footprint = "412.3 MiB" }'
    if not isinstance(value, list):
        raise _fault(value, f"a list of {example}")
    return tuple(_read_cell(item, example) for item in value)


def _read_cell(item: object, example: str) -> HeavyCell:
    if not isinstance(item, dict) or not {"cell", "peak_footprint"} <= set(item) <= {"cell", "line", "peak_footprint"}:
        raise _fault(item, example)
    return HeavyCell(
        number=read_positive(item["cell"]),
        line=read_positive(item["line"]) if "line" in item else None,
        peak_footprint_bytes=read_size(item["peak_footprint"]),
    )


def _read_relations(value: object) -> tuple[Relation, ...]:
    if not isinstance(value, list):
        raise _fault(value, f"a list of relations, for example [{EXAMPLE!r}]")
    try:
        return tuple(parse_relation(read_text(item)) for item in value)
    except ValueError as error:
        raise FaultError(str(error)) from error


def _read_packages(value: object) -> dict[str, str]:
    packages = {}
    for text in read_texts(value):
        match = PACKAGE.fullmatch(text)
        if match is None:
            raise _fault(text, 'name and version, for example "numpy==2.1.0"')
        packages[match.group(1)] = match.group(2)
    return packages


def _read_variables(value: object) -> dict[str, str]:
    variables = {}
    for text in read_texts(value):
        name, sign, content = text.partition("=")
        if not sign or not name.isidentifier():
            raise _fault(text, 'name and value, for example "OMP_NUM_THREADS=1"')
        variables[name] = content
    return variables


RULES: Final[Table] = {
    "memory_fraction": ("memory_fraction", lambda value: _read_number(0, value)),
    "memory_slack": ("memory_slack_bytes", read_size),
    "time_factor": ("time_factor", lambda value: _read_number(1, value)),
    "time_slack": ("time_slack_seconds", read_seconds),
}
MACHINE: Final[Table] = {
    "system": ("system", read_text),
    "architecture": ("architecture", read_text),
    "cpu": ("cpu", read_text),
    "cores": ("core_count", lambda value: int(read_quantity(Unit.COUNT, value))),
    "ram": ("ram_bytes", read_size),
    "swap": ("swap_bytes", read_size),
    "memory_limit": ("memory_limit_bytes", read_size),
    "memory_limit_source": ("memory_limit_source", read_text),
    "transparent_hugepages": ("transparent_hugepages", read_text),
    "accelerators": ("accelerators", read_texts),
    "driver": ("driver", read_text),
    "cuda": ("cuda", read_text),
}
MACHINE_REQUIRED: Final = ("system", "architecture", "cpu", "cores", "ram")
SOFTWARE: Final[Table] = {
    "python": ("python", read_text),
    "blas": ("blas", read_texts),
    "packages": ("packages", _read_packages),
    "variables": ("variables", _read_variables),
}
ENTRY: Final[Table] = {
    "recorded": ("recorded", _read_date),
    "runs": ("run_count", read_positive),
    "machine": ("machine", read_text),
    "software": ("software", read_text),
    "relations": ("relations", _read_relations),
    "heaviest_cells": ("heaviest", _read_cells),
}
METRICS: Final = {metric.key: metric for metric in Metric}
FIGURES: Final = "figures"
"""First part of the dotted keys of values that a lecture reports (``figures.speedup``)."""
FIGURE: Final[Table] = {
    "at_least": ("at_least", read_finite),
    "limit": ("limit", read_finite),
    "seen": ("seen", read_finites),
    "unit": ("unit", read_unit),
}


def metric_table(metric: Metric) -> Table:
    """Return the keys of the inline table of ``metric``."""
    return {
        "limit": ("limit", lambda value: read_quantity(metric.unit, value)),
        "seen": ("seen", lambda value: read_quantities(metric, value)),
        "method": ("method", read_method),
        "by_hand": ("by_hand", read_true),
    }
