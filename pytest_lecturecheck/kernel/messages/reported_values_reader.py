"""Read the figures that a lecture reports in display messages. Any lecture can send anything there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.lecture import Cell
from pytest_lecturecheck.model.reported_value import (
    MIME_TYPE,
    MOST_FIGURES,
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
    """What is wrong with one figure."""


class ReportedValuesReader:
    """The figures of one lecture as its messages arrive: bounded, whatever a lecture sends."""

    def __init__(self) -> None:
        """Start with nothing reported."""
        self._names: set[str] = set()
        self._figures: dict[str, ReportedValue] = {}
        self._faults: list[str] = []
        self._more_faults = 0

    def take(self, message: Mapping[str, Any]) -> None:
        """Read a message of the output channel; all but those that carry figures are passed over."""
        if message["msg_type"] not in _CARRIERS:
            return
        data = message["content"].get("data")
        if not isinstance(data, dict) or MIME_TYPE not in data:
            return
        reported = data[MIME_TYPE]
        if not isinstance(reported, dict):
            self._add_fault(
                f"figures were reported as {_shown(reported)}; expected names with values, as in {_EXAMPLE}"
            )
            return
        for name, value in reported.items():
            try:
                self._keep(_read_figure(name, value))
            except _FaultError as fault:
                self._add_fault(str(fault))

    def end_cell(self, cell: Cell) -> tuple[tuple[ReportedValue, ...], list[Finding]]:
        """Give the figures that a cell reported, the last of each name, and what of it could not be used."""
        messages = list(self._faults)
        if self._more_faults:
            messages.append(f"{self._more_faults} more faults in figures that this cell reported")
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
        figures = tuple(self._figures.values())
        self._figures, self._faults, self._more_faults = {}, [], 0
        return figures, findings

    def _keep(self, figure: ReportedValue) -> None:
        if figure.name not in self._names and len(self._names) >= MOST_FIGURES:
            msg = f"figure {figure.name!r} is left out: expected at most {MOST_FIGURES} names in a lecture"
            raise _FaultError(msg)
        self._names.add(figure.name)
        self._figures[figure.name] = figure

    def _add_fault(self, message: str) -> None:
        if message in self._faults:
            return
        if len(self._faults) < _MOST_FAULTS:
            self._faults.append(message)
        else:
            self._more_faults += 1


def _read_figure(name: object, reported: object) -> ReportedValue:
    if not isinstance(name, str) or NAME.fullmatch(name) is None:
        expected = "expected lower-case letters, digits and underscores, a letter first, at most 41 characters"
        msg = f"figure {_shown(name)} has a name that cannot be used; {expected}"
        raise _FaultError(msg)
    stated = reported if isinstance(reported, dict) else {"value": reported}
    unknown = [key for key in stated if key not in _KEYS]
    if unknown or "value" not in stated:
        found = f"the unknown key {_shown(unknown[0])}" if unknown else "no value"
        msg = f"figure {name!r} has {found}; expected the keys {', '.join(_KEYS)}"
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
    msg = f"figure {name!r} has the value {_shown(value)}; expected a finite number"
    raise _FaultError(msg)


def _read_unit(name: str, stated: Mapping[str, object]) -> str:
    unit = stated.get("unit", "")
    if isinstance(unit, str) and UNIT.fullmatch(unit) is not None:
        return unit
    msg = f"figure {name!r} has the unit {_shown(unit)}; expected a short text such as 's' or 'x'"
    raise _FaultError(msg)


def _read_better(name: str, stated: Mapping[str, object]) -> Better | None:
    better = stated.get("better")
    if better is None:
        return None
    if isinstance(better, str) and better in set(Better):
        return Better(better)
    msg = f"figure {name!r} says that {_shown(better)} is better; expected 'higher' or 'lower'"
    raise _FaultError(msg)


def _shown(value: object) -> str:
    """Print a value of a stranger's, cut; of a nested one only its kind."""
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    # Cut before it is printed: digits of a number without end would take long, and are refused by Python.
    if isinstance(value, int) and value.bit_length() > _SHOWN_CHARS:
        return "a number beyond all bounds"
    text = repr(value[:_SHOWN_CHARS] if isinstance(value, str) else value)
    return f"{text}..." if isinstance(value, str) and len(value) > _SHOWN_CHARS else text
