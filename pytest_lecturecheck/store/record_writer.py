"""
Convert frozen dataclasses of the model to builtin types.

Attributes at their defaults are left out, so that a run of hundreds of cells stays small.
:mod:`pytest_lecturecheck.store.record_layout` says where keys and attributes differ, and
:mod:`pytest_lecturecheck.store.record_reader` reads what is written here.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import math
import numbers
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from pytest_lecturecheck.store.record_layout import RECORD_LAYOUTS, RENAMED_ATTRIBUTES
from pytest_lecturecheck.store.surrogates import escape_surrogates

Plain: TypeAlias = "dict[str, Any] | list[Any] | str | int | float | bool | None"
"""What JSON and process boundaries carry: builtin types only, no NaN, no lone surrogates."""
_Writer: TypeAlias = Callable[[Any], Plain]


def to_plain(value: object) -> Plain:
    """
    Convert a value of the model to builtin types.

    Numbers of other libraries become ``int`` and ``float``. Numbers that JSON does not have become text (``"inf"``).
    Lone surrogates are escaped.

    Raises:
        TypeError: the value is of a type that no record holds.
    """
    cls = type(value)
    write = _WRITERS.get(cls)
    if write is None:
        write = _WRITERS[cls] = _writer_of(cls)
    return write(value)


def _writer_of(cls: type[Any]) -> _Writer:
    if dataclasses.is_dataclass(cls):
        return _dataclass_writer(cls)
    for kind, write in _KINDS:
        if issubclass(cls, kind):
            return write
    return _refuse


# -- dataclasses ------------------------------------------------------------------------------------------------------


def _dataclass_writer(cls: Any) -> _Writer:
    layout = RECORD_LAYOUTS.get(cls)
    if layout is None:
        renamed = RENAMED_ATTRIBUTES.get(cls, {})
        return _attribute_writer(cls, {name: renamed.get(name, name) for name in _names(cls)})
    groups: dict[str, dict[str, str]] = {}
    for key, path in layout.items():
        if len(path) > 1:
            groups.setdefault(path[0], {})[path[1]] = key
    keys = {path[0]: key for key, path in layout.items() if len(path) == 1}
    write = _attribute_writer(cls, keys | {name: name for name in groups})

    def write_flat(value: Any) -> Plain:
        plain = write(value)
        for name, key_of in groups.items():
            # A nested value is no level of the record.
            plain.update((key_of[inner], item) for inner, item in plain.pop(name, {}).items())
        return {key: plain[key] for key in layout if key in plain}

    return write_flat


def _names(cls: Any) -> list[str]:
    return [item.name for item in dataclasses.fields(cls)]


def _attribute_writer(cls: Any, key_of: Mapping[str, str]) -> Callable[[Any], dict[str, Any]]:
    """Return what writes the attributes of a dataclass that differ from their defaults."""
    names = _names(cls)
    keys, defaults = [key_of[name] for name in names], [_default(item) for item in dataclasses.fields(cls)]
    # For a single name it returns no tuple.
    get = operator.attrgetter(*names, *names[:1])

    def write(value: Any) -> dict[str, Any]:
        return {
            key: to_plain(item)
            for key, item, default in zip(keys, get(value), defaults, strict=False)
            if item is not default and item != default
        }

    return write


def _default(item: dataclasses.Field[Any]) -> object:
    """Return the default of an attribute; one that has to be given is equal to nothing."""
    return item.default if item.default_factory is dataclasses.MISSING else item.default_factory()


# -- other values -----------------------------------------------------------------------------------------------------


def _write_items(items: Any) -> Plain:
    return [to_plain(item) for item in items]


def _write_mapping(held: Any) -> Plain:
    return {str(to_plain(key)): to_plain(item) for key, item in held.items()}


def _write_as_it_is(value: Any) -> Plain:
    plain: Plain = value
    return plain


def _write_float(value: Any) -> Plain:
    return float(value) if math.isfinite(value) else str(float(value))


def _write_day(value: Any) -> Plain:
    return str(value.isoformat())


def _write_word(value: Any) -> Plain:
    return str(value.value)


def _refuse(value: object) -> Plain:
    msg = f"{type(value).__name__} {value!r} cannot be kept in a record"
    raise TypeError(msg)


_KINDS: Final[tuple[tuple[type[Any], _Writer], ...]] = (
    # Every closed set of words is a StrEnum, and a StrEnum is a str; a bool is an int.
    (enum.StrEnum, _write_word),
    (str, escape_surrogates),
    (bool, _write_as_it_is),
    (type(None), _write_as_it_is),
    (numbers.Integral, int),
    (numbers.Real, _write_float),
    (dt.date, _write_day),
    (tuple, _write_items),
    (list, _write_items),
    (Mapping, _write_mapping),
)
_WRITERS: Final[dict[type[Any], _Writer]] = {int: _write_as_it_is}
