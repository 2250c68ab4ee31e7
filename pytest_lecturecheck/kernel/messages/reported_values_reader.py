"""Read the values that a lecture reports in display messages. A lecture can send anything there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.lecture import Cell
from pytest_lecturecheck.model.reported_value import (
    MIME_TYPE,
    MOST_REPORTED_VALUES,
    MOST_WHOLE,
    NAME,
    UNIT,
    Better,
    ReportedValue,
)

_CARRIERS: Final = frozenset({"display_data", "update_display_data"})
_KEYS: Final = ("value", "unit", "better")
_MOST_FAULTS: Final = 5
_SHOWN_CHARS: Final = 60
_EXAMPLE: Final = "{'speedup': 3.57}"


class _FaultError(Exception):
    """A reported value that cannot be used; its text explains why."""


class ReportedValuesReader:
    """Collects the reported values of one lecture as messages arrive, in bounded memory."""

    def __init__(self) -> None:
        """Start with nothing reported."""
        self._names: set[str] = set()
        self._values: dict[str, ReportedValue] = {}
        self._faults: list[str] = []
        self._more_faults = 0

    def take(self, message: Mapping[str, Any]) -> None:
        """Read a message of the output channel; those without reported values are ignored."""
        if message["msg_type"] not in _CARRIERS:
            return
        data = message["content"].get("data")
        if not isinstance(data, dict) or MIME_TYPE not in data:
            return
        reported = data[MIME_TYPE]
        if not isinstance(reported, dict):
            self._add_fault(
                f"values were reported as {_shown(reported)}; expected a mapping of names to values, as in {_EXAMPLE}"
            )
            return
        for name, value in reported.items():
            try:
                self._keep(_read_reported(name, value))
            except _FaultError as fault:
                self._add_fault(str(fault))

    def end_cell(self, cell: Cell) -> tuple[tuple[ReportedValue, ...], list[Finding]]:
        """Return the values that a cell reported (the last one of each name) and findings for those it cannot use."""
        messages = list(self._faults)
        if self._more_faults:
            messages.append(f"{self._more_faults} more faults in the values that this cell reported")
        findings = [
            Finding(
                kind=FindingKind.FIGURE,
                message=message,
                cell_number=cell.number,
                line=cell.line,
                fails_when_strict=True,
            )
            for message in messages
        ]
        values = tuple(self._values.values())
        self._values, self._faults, self._more_faults = {}, [], 0
        return values, findings

    def _keep(self, reported: ReportedValue) -> None:
        if reported.name not in self._names and len(self._names) >= MOST_REPORTED_VALUES:
            most = f"a lecture may report at most {MOST_REPORTED_VALUES} names"
            msg = f"reported value {reported.name!r} is ignored: {most}"
            raise _FaultError(msg)
        self._names.add(reported.name)
        self._values[reported.name] = reported

    def _add_fault(self, message: str) -> None:
        if message in self._faults:
            return
        if len(self._faults) < _MOST_FAULTS:
            self._faults.append(message)
        else:
            self._more_faults += 1


def _read_reported(name: object, reported: object) -> ReportedValue:
    if not isinstance(name, str) or NAME.fullmatch(name) is None:
        expected = "expected lower-case letters, digits and underscores, a letter first, at most 41 characters"
        msg = f"reported value {_shown(name)} has an invalid name; {expected}"
        raise _FaultError(msg)
    stated = reported if isinstance(reported, dict) else {"value": reported}
    unknown = [key for key in stated if key not in _KEYS]
    if unknown or "value" not in stated:
        found = f"the unknown key {_shown(unknown[0])}" if unknown else "no value"
        msg = f"reported value {name!r} has {found}; expected the keys {', '.join(_KEYS)}"
        raise _FaultError(msg)
    return ReportedValue(
        name=name,
        value=_read_value(name, stated["value"]),
        unit=_read_unit(name, stated),
        better=_read_better(name, stated),
    )


def _read_value(name: str, value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        if isinstance(value, int) and abs(value) <= MOST_WHOLE:
            return value
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    msg = f"reported value {name!r} is {_shown(value)}; expected a finite number"
    raise _FaultError(msg)


def _read_unit(name: str, stated: Mapping[str, object]) -> str:
    unit = stated.get("unit", "")
    if isinstance(unit, str) and UNIT.fullmatch(unit) is not None:
        return unit
    msg = f"reported value {name!r} has the unit {_shown(unit)}; expected a short text such as 's' or 'x'"
    raise _FaultError(msg)


def _read_better(name: str, stated: Mapping[str, object]) -> Better | None:
    better = stated.get("better")
    if better is None:
        return None
    if isinstance(better, str) and better in set(Better):
        return Better(better)
    msg = f"reported value {name!r} has better={_shown(better)}; expected 'higher' or 'lower'"
    raise _FaultError(msg)


def _shown(value: object) -> str:
    """Render an untrusted value in bounded length; nested ones only by their kind."""
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    # Check the size first: Python refuses to print the digits of a huge number.
    if isinstance(value, int) and value.bit_length() > _SHOWN_CHARS:
        return "a huge number"
    text = repr(value[:_SHOWN_CHARS] if isinstance(value, str) else value)
    return f"{text}..." if isinstance(value, str) and len(value) > _SHOWN_CHARS else text
