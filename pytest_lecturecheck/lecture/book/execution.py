"""Execution settings of a book, in the names of myst-nb, and errors that point into its configuration file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_lecturecheck.errors import SettingsError
from pytest_lecturecheck.lecture.book.pages import BookCacheSettings, Pattern
from pytest_lecturecheck.lecture.setting_values import BadValueError, read_bool, read_mode, read_number_timeout
from pytest_lecturecheck.model.settings import RunSettings


class ConfigTable:
    """
    The values of one configuration file.

    Args:
        path: the file.
        values: its values as plain types.
        lines: 1-based line of each key, by dotted name, where known.
    """

    def __init__(self, path: Path, values: Mapping[str, Any], lines: Mapping[str, int]) -> None:
        self.path = path
        self.values = values
        self._lines = lines

    def section(self, key: str) -> Mapping[str, Any]:
        """
        Return the mapping under a dotted key, or an empty one if the file has none.

        Raises:
            SettingsError: something else is there.
        """
        value: Mapping[str, Any] = self.values
        parts = key.split(".")
        for number, part in enumerate(parts, start=1):
            found = value.get(part)
            if found is None:
                return {}
            if not isinstance(found, Mapping):
                raise self.error(".".join(parts[:number]), f"is {found!r}; expected a table of settings")
            value = found
        return value

    def error(self, key: str, reason: str) -> SettingsError:
        """Return an error about a key, with file and line."""
        line = self._lines.get(key)
        where = str(self.path) if line is None else f"{self.path}:{line}"
        return SettingsError(f"{where}: {key} {reason}")

    def origin(self, key: str) -> str:
        """Return the origin of a setting as shown to users ("_config.yml execute.timeout")."""
        return f"{self.path.name} {key}"

    def patterns(self, key: str, value: object) -> Iterator[Pattern]:
        """
        Yield the patterns in a list.

        Raises:
            SettingsError: the value is not a list of text.
        """
        if value is None:
            return
        if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
            raise self.error(key, f"is {value!r}; expected a list of patterns")
        for item in value:
            if item.strip():
                yield Pattern(text=item.strip(), origin=self.origin(key))


class ExecutionValues:
    """
    The ``nb_execution_*`` values of a book, each with the key under which it was written.

    Args:
        table: the configuration file, for errors and origins.
    """

    def __init__(self, table: ConfigTable) -> None:
        self._table = table
        self._values: dict[str, tuple[str, Any]] = {}

    def set(self, name: str, key: str, value: object) -> None:
        """Set a value under myst-nb's name; a later value replaces an earlier one."""
        self._values[name] = (key, value)

    def settings(self) -> RunSettings:
        """
        Return the layer of settings for all lectures of the book.

        Raises:
            SettingsError: a value of the wrong kind.
        """
        values: dict[str, Any] = {}
        origins: dict[str, str] = {}
        readers = (
            ("nb_execution_timeout", "timeout_seconds", read_number_timeout),
            ("nb_execution_allow_errors", "allow_errors", read_bool),
            ("nb_execution_in_temp", "run_in_temp", read_bool),
            ("nb_execution_mode", "skip_reason", self._read_skip),
        )
        for name, attribute, read in readers:
            if name not in self._values:
                continue
            key, value = self._values[name]
            try:
                result = read(value)
            except BadValueError as exc:
                raise self._table.error(key, str(exc)) from exc
            if result is not None:
                values[attribute], origins[attribute] = result, self._table.origin(key)
        return RunSettings(**values, origins=origins)

    def excluded(self) -> tuple[Pattern, ...]:
        """Return the patterns of lectures that are not executed."""
        if "nb_execution_excludepatterns" not in self._values:
            return ()
        key, value = self._values["nb_execution_excludepatterns"]
        return tuple(self._table.patterns(key, value))

    def cache(self, key: str) -> BookCacheSettings:
        """
        Return what the book says about its cache.

        Args:
            key: the key under which this kind of configuration sets the mode, for a book that sets none.

        Raises:
            SettingsError: a value of the wrong kind.
        """
        written, mode = self._values.get("nb_execution_mode", (key, None))
        place, folder = self._values.get("nb_execution_cache_path", ("", None))
        if folder is not None and not isinstance(folder, str):
            raise self._table.error(place, f"is {folder!r}; expected the path of a folder")
        place, aliases = self._values.get("nb_kernel_rgx_aliases", ("", None))
        if aliases is not None and not isinstance(aliases, Mapping):
            raise self._table.error(place, f"is {aliases!r}; expected a table of kernel names")
        return BookCacheSettings(
            mode=mode if isinstance(mode, str) else "" if mode is None else "off",
            mode_origin=self._table.origin(written),
            folder=folder or "",
            kernel_aliases={str(name): str(alias) for name, alias in (aliases or {}).items()},
        )

    def _read_skip(self, value: object) -> str | None:
        if value is None or read_mode(value):
            return None
        key, _value = self._values["nb_execution_mode"]
        written = "never" if key.endswith("nbsphinx_execute") else "off"
        return f"{self._table.origin(key)} is {written}"
