"""
Turn frozen dataclasses of the domain into plain types and back, led by their annotations.

Attributes that hold their default are left out, so that a run of hundreds of cells stays small; on reading, an
attribute that this version does not know is passed over (a newer version may add some within one schema).
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import functools
import math
import numbers
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from pytest_lecturecheck.store.record_layout import annotations_of, record_keys
from pytest_lecturecheck.store.surrogates import escape_surrogates

Plain: TypeAlias = "dict[str, Any] | list[Any] | str | int | float | bool | None"
"""What JSON and process boundaries carry: builtin types only, no NaN, no lone surrogates."""
_T = TypeVar("_T")
_NONE: typing.Final = type(None)
_MOST: typing.Final = 1 << 256
"""Far beyond every count and size; integers of more than 1,024 bits cannot be turned into a ``float``."""


class CodecError(Exception):
    """A plain value that is not what the annotation asks for; the message begins with its place."""


def to_plain(value: object) -> Plain:
    """
    Turn a value of the domain into builtin types.

    Numbers of other libraries become ``int`` and ``float``; numbers that JSON does not have become text (``"inf"``);
    lone surrogates are escaped.

    Raises:
        TypeError: the value is of a type that no record holds.
    """
    kind: Any = type(value)
    return _converter(kind)(value)


@functools.cache
def _converter(cls: Any) -> Callable[[Any], Plain]:
    """Choose once for each type what turns its values into builtin types: a run has tens of thousands of values."""
    if dataclasses.is_dataclass(cls):
        return _fields_to_plain
    if issubclass(cls, Mapping):
        return _mapping_to_plain
    if issubclass(cls, Sequence | frozenset | set) and not issubclass(cls, str | bytes):
        return _items_to_plain
    if issubclass(cls, enum.Enum):
        return _enum_to_plain
    if cls is _NONE or issubclass(cls, bool):
        return _as_it_is
    known = ((str, escape_surrogates), (dt.date, _day), (numbers.Integral, int), (numbers.Real, _real))
    return next((convert for kind, convert in known if issubclass(cls, kind)), _refuse)


def _as_it_is(value: Any) -> Plain:
    return value  # type: ignore[no-any-return]


def _mapping_to_plain(value: Mapping[Any, Any]) -> Plain:
    return {str(to_plain(key)): to_plain(item) for key, item in value.items()}


def _items_to_plain(value: Sequence[Any]) -> Plain:
    return [to_plain(item) for item in value]


def _enum_to_plain(value: enum.Enum) -> Plain:
    return to_plain(value.value)


def _day(value: dt.date) -> Plain:
    return value.isoformat()


def _real(value: numbers.Real) -> Plain:
    return float(value) if math.isfinite(value) else str(float(value))


def _refuse(value: object) -> Plain:
    msg = f"{type(value).__name__} {value!r} cannot be kept in a record"
    raise TypeError(msg)


def from_plain(annotation: Any, plain: object, place: str) -> Any:
    """
    Turn builtin types back into what ``annotation`` says.

    Args:
        annotation: a resolved annotation: a dataclass, an enum, a builtin, or a union, tuple or mapping of such.
        plain: the value as :func:`to_plain` gave it.
        place: where it stands, for messages.

    Raises:
        CodecError: the value does not fit.
    """
    if typing.get_origin(annotation) is not None:
        return _generic_from_plain(annotation, plain, place)
    if dataclasses.is_dataclass(annotation):
        return _dataclass_from_plain(annotation, _expect(dict, plain, place), place)
    if issubclass(annotation, enum.Enum):
        return _enum_from_plain(annotation, plain, place)
    read = _READERS.get(annotation)
    return _expect(annotation, plain, place) if read is None else read(plain, place)


def _generic_from_plain(annotation: Any, plain: object, place: str) -> Any:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is tuple:
        items = enumerate(_expect(list, plain, place))
        return tuple(from_plain(arguments[0], item, f"{place}[{index}]") for index, item in items)
    if origin is Mapping:
        return {
            from_plain(arguments[0], key, place): from_plain(arguments[1], item, f"{place}.{key}")
            for key, item in _expect(dict, plain, place).items()
        }
    return _union_from_plain(arguments, plain, place)


def _fields_to_plain(value: Any) -> dict[str, Plain]:
    plain = {}
    cls: Any = type(value)
    for item in record_keys(cls):
        held = item.get(value)
        if item.default is dataclasses.MISSING or held != item.default:
            plain[item.key] = to_plain(held)
    return plain


def _dataclass_from_plain(cls: Any, plain: Mapping[str, Any], place: str) -> Any:
    missing = [item.key for item in record_keys(cls) if item.default is dataclasses.MISSING and item.key not in plain]
    if missing:
        msg = f"{place}: {', '.join(missing)} missing"
        raise CodecError(msg)
    values: dict[str, Any] = {}
    nested: dict[str, dict[str, Any]] = {}
    for item in record_keys(cls):
        if item.key in plain:
            *group, name = item.path
            found = from_plain(item.annotation, plain[item.key], f"{place}.{item.key}")
            (nested.setdefault(group[0], {}) if group else values)[name] = found
    try:
        return cls(**values, **{name: annotations_of(cls)[name](**found) for name, found in nested.items()})
    except ValueError as error:
        msg = f"{place}: {error}"
        raise CodecError(msg) from error


def _union_from_plain(choices: Sequence[Any], plain: object, place: str) -> Any:
    if plain is None and _NONE in choices:
        return None
    rest = [choice for choice in choices if choice is not _NONE]
    if len(rest) > 1 and isinstance(plain, dict):
        # Of several dataclasses, the one that has all it needs.
        rest = [choice for choice in rest if _required(choice) <= plain.keys()] or rest
    return from_plain(rest[0], plain, place)


@functools.cache
def _required(cls: Any) -> frozenset[str]:
    return frozenset(item.key for item in record_keys(cls) if item.default is dataclasses.MISSING)


def _enum_from_plain(annotation: type[enum.Enum], plain: object, place: str) -> enum.Enum:
    try:
        return annotation(plain)
    except ValueError as error:
        msg = f"{place}: found {plain!r}; expected one of {', '.join(str(item.value) for item in annotation)}"
        raise CodecError(msg) from error


def _float_from_plain(plain: object, place: str) -> float:
    if isinstance(plain, str) and plain in {"inf", "-inf", "nan"}:
        return float(plain)
    if isinstance(plain, bool) or not isinstance(plain, int | float):
        msg = f"{place}: found {type(plain).__name__} {plain!r}; expected a number"
        raise CodecError(msg)
    return _within(plain, place)


def _text_from_plain(plain: object, place: str) -> str:
    # JSON that was written by hand may hold lone surrogates, which no report can.
    return escape_surrogates(_expect(str, plain, place))


def _date_from_plain(plain: object, place: str) -> dt.date:
    try:
        return dt.date.fromisoformat(_expect(str, plain, place))
    except ValueError as error:
        msg = f"{place}: found {plain!r:.80}; expected a day as ISO 8601 writes it"
        raise CodecError(msg) from error


def _within(plain: float, place: str) -> float:
    if isinstance(plain, int) and abs(plain) > _MOST:
        msg = f"{place}: found a number of {plain.bit_length()} bits; expected at most {_MOST.bit_length() - 1}"
        raise CodecError(msg)
    return plain


def _expect(kind: type[_T], plain: object, place: str) -> _T:
    if not isinstance(plain, kind) or (kind is int and isinstance(plain, bool)):
        msg = f"{place}: found {type(plain).__name__} {plain!r:.80}; expected {kind.__name__}"
        raise CodecError(msg)
    if kind is int:
        _within(typing.cast("int", plain), place)
    return plain


_READERS: typing.Final[Mapping[Any, Callable[[object, str], Any]]] = {
    float: _float_from_plain,
    str: _text_from_plain,
    dt.date: _date_from_plain,
}
