"""Axes: a name with the values that a lecture is run with, one after the other. Values and their parsing only."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.errors import SettingsError

MOST_VALUES: Final = 64
"""More values of one axis are a slip of the pen."""
KERNELS_PART: Final = "c"
"""How names of variants state the number of kernels at once (``c=2``)."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_VALUE: Final = re.compile(r"[A-Za-z0-9+-][A-Za-z0-9._+-]{0,63}")
_EXAMPLE: Final = 'expected for example precision = ["f32", "f64"]'


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """
    One axis.

    Attributes:
        name: its name.
        values: the values as they are stated: text, numbers or booleans, each once.
    """

    name: str
    values: tuple[str | float | bool, ...]


def value_text(value: str | float | bool) -> str:  # noqa: FBT001 - a value of an axis may be a boolean
    """Return a value as names of variants show it (``true``, ``1e-06``, ``vectorized``)."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def parse_axes(value: object) -> tuple[Axis, ...]:
    """
    Read axes: a table of names and lists, or text such as ``"size=10,100 precision=f32,f64"``.

    Returns:
        The axes in the order in which they are stated.

    Raises:
        SettingsError: a name or a value that cannot be used, or an axis without values.
    """
    if isinstance(value, str):
        value = _split(value)
    if not isinstance(value, Mapping):
        msg = f"{value!r} is not a table of axes; {_EXAMPLE}"
        raise SettingsError(msg)
    return tuple(_parse_axis(str(name), values) for name, values in value.items())


def _split(text: str) -> dict[str, list[str | float | bool]]:
    found: dict[str, list[str | float | bool]] = {}
    for part in text.split():
        name, equals, values = part.partition("=")
        if not equals or name in found:
            msg = f"axes {text!r}: {part!r} is not NAME=VALUE,VALUE with each name once; as in 'size=10,100 device=cpu'"
            raise SettingsError(msg)
        found[name] = [_stated(value) for value in values.split(",")]
    return found


def _stated(text: str) -> str | float | bool:
    """Return the number or the truth that a text states, where the value would be written in just this way."""
    if text in {"true", "false"}:
        return text == "true"
    for reader in (int, float):
        try:
            value = reader(text)
        except ValueError:
            continue
        if value_text(value) == text and not _is_infinite(value):
            return value
    return text


def _parse_axis(name: str, values: object) -> Axis:
    if _NAME.fullmatch(name) is None or name == KERNELS_PART:
        msg = (
            f"axis {name!r} cannot be used; expected letters, digits and _ (at most 64), not beginning with a digit, "
            f"and not {KERNELS_PART!r}, which stands for kernels at once"
        )
        raise SettingsError(msg)
    items: Sequence[object] = values if isinstance(values, list) else [values]
    if not 1 <= len(items) <= MOST_VALUES:
        msg = f"axis {name}: {len(items)} values; expected a list of 1 to {MOST_VALUES}"
        raise SettingsError(msg)
    found: dict[str, str | float | bool] = {}
    for item in items:
        if not isinstance(item, str | int | float) or _is_infinite(item) or _VALUE.fullmatch(value_text(item)) is None:
            msg = (
                f"axis {name}: value {item!r} cannot be used; expected a number, true, false, or text of letters, "
                "digits and . _ + - (at most 64)"
            )
            raise SettingsError(msg)
        if value_text(item) in found:
            msg = f"axis {name}: value {item!r} comes twice"
            raise SettingsError(msg)
        found[value_text(item)] = item
    return Axis(name=name, values=tuple(found.values()))


def _is_infinite(value: str | float) -> bool:
    """Return True for nan and inf, which TOML has and variants refuse as parameters."""
    return isinstance(value, float) and not math.isfinite(value)


def parse_variant_names(value: object) -> tuple[str, ...]:
    """
    Read names of variants or values of axes: ``"small,precision=f64"``, or a list of them.

    Raises:
        SettingsError: not text, or an empty name.
    """
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, str) and item.strip() for item in items):
        msg = f"{value!r} is not a list of variants; expected for example 'small,precision=f64'"
        raise SettingsError(msg)
    return tuple(dict.fromkeys(item.strip() for item in items))
