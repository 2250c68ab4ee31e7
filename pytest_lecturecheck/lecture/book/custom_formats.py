"""Readers of text files that a book configures in myst-nb's ``nb_custom_formats``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

from pytest_lecturecheck.deferred_dataclass import dataclass

if TYPE_CHECKING:
    from pytest_lecturecheck.lecture.book.execution import ConfigTable

NAME: Final = "nb_custom_formats"
_JUPYTEXT: Final = frozenset({"jupytext.reads", "jupytext.jupytext.reads"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomFormat:
    """
    How a book reads files with one suffix.

    Attributes:
        suffix: the end of the file names (".md").
        reader: the dotted name of the function that reads them; it is never imported.
        options: its keyword arguments.
        origin: the setting that configures it.
    """

    suffix: str
    reader: str
    options: Mapping[str, Any] = field(default_factory=dict)
    origin: str

    @property
    def is_jupytext(self) -> bool:
        """Return True if jupytext reads the files, the only reader that is supported."""
        return self.reader in _JUPYTEXT


def read_custom_formats(table: ConfigTable, key: str, value: object) -> tuple[CustomFormat, ...]:
    """
    Read the value of ``nb_custom_formats``.

    Args:
        table: the configuration file.
        key: the key under which the value is written.
        value: suffix to reader, or to a list of reader, keyword arguments and a switch for CommonMark.

    Raises:
        SettingsError: a value of the wrong kind.
    """
    if value is None:
        return ()
    if not isinstance(value, Mapping):
        raise table.error(key, f"is {value!r}; expected a table of suffixes and readers")
    return tuple(_custom_format(table, key, suffix, reader) for suffix, reader in value.items())


def _custom_format(table: ConfigTable, key: str, suffix: object, value: object) -> CustomFormat:
    parts = [value] if isinstance(value, str) else list(value) if isinstance(value, (list, tuple)) else []
    reader = parts[0] if parts else None
    options = parts[1] if len(parts) > 1 else {}
    if not isinstance(suffix, str) or not isinstance(reader, str) or not isinstance(options, Mapping):
        reason = f"has {suffix!r}: {value!r}; expected a suffix, the name of a reader and a table of its arguments"
        raise table.error(key, reason)
    return CustomFormat(suffix=suffix, reader=reader, options=dict(options), origin=table.origin(key))
