"""Reduce metadata of unknown origin to plain, bounded, JSON-like values."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pytest_lecturecheck.lecture.source_text import without_surrogates

MAX_VALUES: Final = 50_000
MAX_DEPTH: Final = 60


class TooLargeError(ValueError):
    """Metadata with more values or levels than a person writes (multiplying aliases, endless nesting)."""


def plain(value: object) -> Any:
    """
    Copy a value, using only dict, list, str, int, float, bool and None.

    Dates become ISO text, keys become text, and any other value becomes its ``repr``.

    Raises:
        TooLargeError: more than ``MAX_VALUES`` values or ``MAX_DEPTH`` levels; this includes structures that contain
            themselves.
    """
    return _Copy().copy(value, 0)


class _Copy:
    """One copy in progress; counts values across all levels, because YAML aliases multiply them."""

    def __init__(self) -> None:
        self._count = 0

    def copy(self, value: object, depth: int) -> Any:
        self._count += 1
        if self._count > MAX_VALUES or depth > MAX_DEPTH:
            msg = f"holds more than {MAX_VALUES} values or {MAX_DEPTH} levels"
            raise TooLargeError(msg)
        if value is None or isinstance(value, (bool, int, float)):
            return value
        if isinstance(value, str):
            return without_surrogates(value)
        if isinstance(value, Mapping):
            return {self._key(key): self.copy(item, depth + 1) for key, item in value.items()}
        if isinstance(value, (list, tuple, set, frozenset)):
            return self._list(value, depth)
        if isinstance(value, (dt.date, dt.time)):
            return value.isoformat()
        return repr(value)

    def _list(self, values: Iterable[object], depth: int) -> list[Any]:
        return [self.copy(item, depth + 1) for item in values]

    @staticmethod
    def _key(key: object) -> str:
        return without_surrogates(key if isinstance(key, str) else str(key))
