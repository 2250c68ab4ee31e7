"""
Convert builtin types to frozen dataclasses of the model, as the annotations say.

Attributes at their defaults are left out of records. A key that no attribute has is refused.
:mod:`pytest_lecturecheck.store.record_layout` says where keys and attributes differ.

This module loads cattrs: import it where a record is read, not before.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import functools
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from cattrs import ClassValidationError, Converter, ForbiddenExtraKeysError
from cattrs.gen import make_dict_structure_fn, override

from pytest_lecturecheck.model.metric import Measurement, Reading, Unavailable
from pytest_lecturecheck.store.record_layout import nested_values, renamed_keys
from pytest_lecturecheck.store.surrogates import escape_surrogates

_T = TypeVar("_T")
_MOST: Final = 1 << 256
"""Far beyond every count and size; integers of more than 1,024 bits cannot be turned into a ``float``."""


class CodecError(Exception):
    """
    A plain value that is not what the annotation asks for.

    Args:
        problem: what was found, and what was expected.
        place: where it stands below the value that is read (``.cells[3].line``).
    """

    def __init__(self, problem: str, place: str = "") -> None:
        """Keep the two apart until the whole place is known."""
        super().__init__(f"{place}: {problem}")
        self.problem = problem
        self.place = place

    def under(self, place: str) -> CodecError:
        """Return the error as the value around it sees it."""
        return CodecError(self.problem, f"{place}{self.place}")


def from_plain(cls: type[_T], plain: object, name: str) -> _T:
    """
    Convert builtin types back to a dataclass of the model.

    Args:
        cls: the dataclass.
        plain: the value that :func:`pytest_lecturecheck.store.record_writer.to_plain` returned.
        name: what messages call the value.

    Raises:
        CodecError: the value does not fit; the message begins with its place.
    """
    try:
        return _converter().structure(plain, cls)
    except CodecError as error:
        raise error.under(name) from error


@functools.cache
def _converter() -> Converter:
    converter = Converter()
    for kind, read in (
        (str, _text_from_plain),
        (int, _int_from_plain),
        (float, _float_from_plain),
        (bool, _bool_from_plain),
        (dt.date, _day_from_plain),
        # Every closed set of words is a StrEnum: without this row it would be read as a str.
        (enum.StrEnum, _word_from_plain),
    ):
        converter.register_structure_hook(kind, read)
    converter.register_structure_hook(Reading, functools.partial(_reading_from_plain, converter))
    for matches, read_of in (
        (dataclasses.is_dataclass, _dataclass_reader),
        (_is_tuple, _items_reader),
        (_is_mapping, _mapping_reader),
    ):
        converter.register_structure_hook_factory(matches, functools.partial(read_of, converter))
    return converter


# -- dataclasses ------------------------------------------------------------------------------------------------------


def _dataclass_reader(converter: Converter, cls: Any) -> Callable[[Any, Any], Any]:
    renamed = renamed_keys(cls)
    renames = {name: override(rename=key) for name, key in renamed.items()}
    read = make_dict_structure_fn(cls, converter, _cattrs_forbid_extra_keys=True, **renames)  # type: ignore[arg-type]
    groups = nested_values(cls)
    group_of = {key: group for group, keys in groups.items() for key in keys}

    def read_flat(plain: Any, _: Any) -> Any:
        plain = _expect(dict, plain)
        if groups:
            plain = _nest(plain, group_of)
        try:
            return read(plain, cls)
        except ClassValidationError as error:
            raise _first_fault(error, renamed, groups) from error

    return read_flat


def _unknown_keys(keys: Iterable[object]) -> CodecError:
    unknown = ", ".join(f"{key!r:.80}" for key in sorted(map(str, keys)))
    return CodecError(f"unknown key {unknown}; a newer version wrote it, or the file is damaged")


def _nest(plain: Mapping[str, Any], group_of: Mapping[str, str]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for key, item in plain.items():
        group = group_of.get(key)
        if group is None and key in group_of.values():
            raise _unknown_keys([key])
        if group is None:
            nested[key] = item
        else:
            nested.setdefault(group, {})[key] = item
    return nested


def _first_fault(error: ClassValidationError, renamed: Mapping[str, str], groups: Iterable[str]) -> Exception:
    """Return the first fault: missing keys come before wrong values, and wrong values before unknown keys."""
    noted, others = error.group_exceptions()
    missing = [renamed.get(note.name, note.name) for found, note in noted if isinstance(found, KeyError)]
    if missing:
        return CodecError(f"{', '.join(missing)} missing")
    for found, note in noted:
        if isinstance(found, CodecError):
            # A nested value is no level of the record.
            return found.under("" if note.name in groups else f".{renamed.get(note.name, note.name)}")
    for other in others:
        if isinstance(other, ForbiddenExtraKeysError):
            return _unknown_keys(other.extra_fields)
        if isinstance(other, ValueError):
            return CodecError(f"{other}")
    return noted[0][0] if noted else others[0]


def _reading_from_plain(converter: Converter, plain: Any, _: Any) -> Reading:
    kind: Any = Unavailable if isinstance(plain, dict) and "reason" in plain and "value" not in plain else Measurement
    reading: Reading = converter.structure(plain, kind)
    return reading


# -- tuples and mappings ----------------------------------------------------------------------------------------------


def _is_tuple(annotation: Any) -> bool:
    return typing.get_origin(annotation) is tuple


def _is_mapping(annotation: Any) -> bool:
    return typing.get_origin(annotation) is Mapping


def _items_reader(converter: Converter, annotation: Any) -> Callable[[Any, Any], Any]:
    kind = typing.get_args(annotation)[0]
    read = _lazily(converter.get_structure_hook, kind)

    def read_items(plain: Any, _: Any) -> Any:
        return tuple(_each(read(), kind, ((f"[{index}]", item) for index, item in enumerate(_expect(list, plain)))))

    return read_items


def _mapping_reader(converter: Converter, annotation: Any) -> Callable[[Any, Any], Any]:
    key_kind, value_kind = typing.get_args(annotation)
    read_key = _lazily(converter.get_structure_hook, key_kind)
    read_value = _lazily(converter.get_structure_hook, value_kind)

    def read_mapping(plain: Any, _: Any) -> Any:
        plain = _expect(dict, plain)
        keys = [read_key()(key, key_kind) for key in plain]
        values = _each(read_value(), value_kind, ((f".{key}", item) for key, item in plain.items()))
        return dict(zip(keys, values, strict=True))

    return read_mapping


def _lazily(find: Callable[[Any], _T], annotation: Any) -> Callable[[], _T]:
    """Look a hook up when it is first used: a run holds runs."""
    return functools.cache(lambda: find(annotation))


def _each(read: Callable[[Any, Any], Any], kind: Any, items: Iterable[tuple[str, Any]]) -> Iterator[Any]:
    for place, item in items:
        try:
            yield read(item, kind)
        except CodecError as error:
            raise error.under(place) from error


# -- words and numbers ------------------------------------------------------------------------------------------------


def _text_from_plain(plain: Any, _: Any) -> str:
    # JSON that was written by hand may hold lone surrogates, which no report can.
    return escape_surrogates(_expect(str, plain))


def _int_from_plain(plain: Any, _: Any) -> int:
    if isinstance(plain, bool):
        raise CodecError(_found(plain, "int"))
    return _within(_expect(int, plain))


def _bool_from_plain(plain: Any, _: Any) -> bool:
    return _expect(bool, plain)


def _float_from_plain(plain: Any, _: Any) -> float:
    if isinstance(plain, str) and plain in {"inf", "-inf", "nan"}:
        return float(plain)
    if isinstance(plain, bool) or not isinstance(plain, int | float):
        msg = f"found {type(plain).__name__} {plain!r}; expected a number"
        raise CodecError(msg)
    return _within(plain) if isinstance(plain, int) else plain


def _day_from_plain(plain: Any, _: Any) -> dt.date:
    try:
        return dt.date.fromisoformat(_expect(str, plain))
    except ValueError as error:
        msg = f"found {plain!r:.80}; expected a day as ISO 8601 writes it"
        raise CodecError(msg) from error


def _word_from_plain(plain: Any, kind: Any) -> Any:
    try:
        return kind(plain)
    except ValueError as error:
        words = ", ".join(str(item.value) for item in kind)
        msg = f"found {plain!r}; expected one of {words}"
        raise CodecError(msg) from error


def _within(plain: int) -> int:
    if abs(plain) > _MOST:
        msg = f"found a number of {plain.bit_length()} bits; expected at most {_MOST.bit_length() - 1}"
        raise CodecError(msg)
    return plain


def _expect(kind: type[_T], plain: Any) -> _T:
    if not isinstance(plain, kind):
        raise CodecError(_found(plain, kind.__name__))
    return plain


def _found(plain: object, expected: str) -> str:
    return f"found {type(plain).__name__} {plain!r:.80}; expected {expected}"
