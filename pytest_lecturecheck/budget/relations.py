"""Relations between two values of one run, as people write them (``gpu_live <= 1.1 * reported.planned``). Pure."""

from __future__ import annotations

import math
import re
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.reported_value import NAME

REPORTED: Final = "reported."
"""Before the name of a value that the lecture reports."""
EXAMPLE: Final = "gpu_live <= 1.1 * reported.planned"
_LONGEST: Final = 200
_TERM: Final = re.compile(r"(?:(?P<factor>[0-9.eE+-]{1,24})\s*\*\s*)?(?P<name>[a-z][a-z0-9_.]{0,60})")
_METRICS: Final = {metric.key: metric for metric in Metric}


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """
    One side of a relation: a value of the run, times a factor.

    Attributes:
        name: the value as it is written.
        factor: the factor, above zero.
        metric: the metric, or ``None`` for a value that the lecture reports.
    """

    name: str
    factor: float = 1.0
    metric: Metric | None = None

    @property
    def reported_name(self) -> str:
        """Return the name of the value that the lecture reports."""
        return self.name.removeprefix(REPORTED)

    @property
    def label(self) -> str:
        """Return the value's name as people read it."""
        return self.metric.label if self.metric is not None else self.reported_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """
    A limit that is another value of the same run.

    Attributes:
        text: the relation as a person wrote it.
        lower: the side that has to be the lower one; equal passes.
        upper: the other side.
    """

    text: str
    lower: Term
    upper: Term


def parse_relation(text: str) -> Relation:
    """
    Read a relation.

    Raises:
        ValueError: what was found and what was expected.
    """
    if len(text) > _LONGEST:
        msg = f"the relation has {len(text)} characters; expected at most {_LONGEST}, for example {EXAMPLE!r}"
        raise ValueError(msg)
    parts = re.split(r"(<=|>=)", text)
    if len(parts) != 3:  # noqa: PLR2004 - side, sign, side
        msg = f"found {text!r}; expected two values with <= or >= between them, for example {EXAMPLE!r}"
        raise ValueError(msg)
    left, right = _parse_term(parts[0].strip()), _parse_term(parts[2].strip())
    lower, upper = (left, right) if parts[1] == "<=" else (right, left)
    units = [side.metric.unit for side in (lower, upper) if side.metric is not None]
    if len(set(units)) > 1:
        msg = f"{left.name} and {right.name} cannot be compared: their units are {_unit(left)} and {_unit(right)}"
        raise ValueError(msg)
    return Relation(text=text, lower=lower, upper=upper)


def _unit(term: Term) -> str:
    return term.metric.unit.value if term.metric is not None else ""


def _parse_term(text: str) -> Term:
    found = _TERM.fullmatch(text)
    if found is None:
        msg = f"found {text!r}; expected a value, or a number * a value, for example '1.1 * reported.planned'"
        raise ValueError(msg)
    factor, name = _parse_factor(found["factor"]), found["name"]
    if name.startswith(REPORTED) and NAME.fullmatch(name.removeprefix(REPORTED)) is not None:
        return Term(name=name, factor=factor)
    if name not in _METRICS:
        msg = f"unknown value {name!r}; expected reported.NAME or one of {', '.join(_METRICS)}"
        raise ValueError(msg)
    return Term(name=name, factor=factor, metric=_METRICS[name])


def _parse_factor(text: str | None) -> float:
    if text is None:
        return 1.0
    try:
        factor = float(text)
    except ValueError:
        factor = math.nan
    if not math.isfinite(factor) or factor <= 0:
        msg = f"found the factor {text!r}; expected a number above zero, for example 1.1"
        raise ValueError(msg)
    return factor
