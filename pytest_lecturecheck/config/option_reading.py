"""
Reading of options from the command line, the settings file, ``--lecture-override`` and a lecture's own table.

All sources share the rows of :mod:`pytest_lecturecheck.config.option_table`. The functions here look up a row, load its
reader, and put the source and the option in front of what the reader has to say.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from pytest_lecturecheck.config.declared_table import with_declared_options
from pytest_lecturecheck.config.option_row import Option
from pytest_lecturecheck.config.option_table import OPTIONS
from pytest_lecturecheck.errors import SettingsError, UnitError, expected_instead
from pytest_lecturecheck.files import MOST_SETTINGS_BYTES, is_present, read_plain_text
from pytest_lecturecheck.model.settings import RunSettings
from pytest_lecturecheck.safe_text import cut_line

SETTINGS_FILE: Final = "lecturecheck.toml"
OPTIONS_BY_NAME: Final = {option.name: option for option in OPTIONS}
LECTURE_OPTIONS: Final = {option.name: option for option in OPTIONS if option.in_lecture}
"""What a lecture's own ``lecturecheck`` table may state, by key."""
_PACKAGE: Final = __name__.partition(".")[0]
_COUNT_READERS: Final = frozenset({"config.option_values.read_count", "config.option_values.read_positive_count"})
"""Readers that take text from the command line, which has nothing else."""
_MOST_CHARS: Final = 2000
_BOOLEANS: Final = {"true": True, "false": False}


def load_reader(option: Option) -> Callable[[object], Any]:
    """Return the function that reads one value of an option."""
    module, _, function = option.reader.rpartition(".")
    reader: Callable[[object], Any] = getattr(import_module(f"{_PACKAGE}.{module}"), function)
    return reader


def read_raw(option: Option, value: object) -> Any:
    """
    Read an option's value; an option that may be given several times needs a list, and returns a tuple.

    Raises:
        SettingsError, UnitError: the value cannot be used; the message does not name the option.
    """
    reader = load_reader(option)
    if not option.is_list:
        return reader(value)
    if not isinstance(value, list):
        msg = f"{value!r} is not a list"
        raise SettingsError(msg)
    return tuple(map(reader, value))


def read_value(option: Option, value: object, where: str) -> Any:
    """
    Read an option's value, and name the option where it cannot be used.

    Args:
        option: the option.
        value: the raw value.
        where: the source and the option, which begin the message of an error.

    Raises:
        SettingsError: the value cannot be used.
    """
    try:
        return read_raw(option, value)
    except (SettingsError, UnitError) as exc:
        # It quotes the value, which may be a list of any length.
        msg = f"{where}: {cut_line(str(exc), _MOST_CHARS)}"
        raise SettingsError(msg) from exc


def default_values() -> dict[str, Any]:
    """Return the defaults of all options that have one, by name."""
    found = {}
    for option in OPTIONS:
        if option.default is not None:
            raw = list(option.default) if isinstance(option.default, tuple) else option.default
            found[option.name] = read_value(option, raw, option.name)
    return found


def fields_of(target: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that belong to ``target`` (``session``, ``run`` or ``tolerance``), by field."""
    found = {}
    for name, value in values.items():
        owner, _, attribute = OPTIONS_BY_NAME[name].field.partition(".")
        if owner == target:
            found[attribute] = value
    return found


def read_command_line(get_option: Callable[[str], Any]) -> dict[str, Any]:
    """
    Check the values that pytest parsed.

    Args:
        get_option: returns the raw value of a destination, ``None`` where the flag was not given.

    Raises:
        SettingsError: a value cannot be used.
    """
    given = {}
    for option in OPTIONS:
        value = get_option(option.destination) if option.on_command_line else None
        if value is not None:
            given[option.name] = read_value(option, value, option.flag)
    return given


def command_line_texts(get_option: Callable[[str], Any]) -> dict[str, str]:
    """Return the values of the command line as they were written, by the attribute of a lecture's settings."""
    options = [option for option in LECTURE_OPTIONS.values() if option.on_command_line]
    found = {option.field.removeprefix("run."): get_option(option.destination) for option in options}
    return {attribute: written_text(value) for attribute, value in found.items() if value is not None}


def written_text(value: object) -> str:
    """Return a raw value as a person wrote it."""
    if isinstance(value, list):
        return ",".join(map(written_text, value))
    return str(value).lower() if isinstance(value, bool) else "null" if value is None else str(value)


def read_override(value: object) -> tuple[str, Any]:
    """
    Read one ``KEY=VALUE`` of ``--lecture-override``.

    Returns:
        The key, which is one that a lecture may state, and its value.

    Raises:
        SettingsError: there is no ``=``, the key is unknown, or the value cannot be used.
    """
    key, equals, text = (part.strip() for part in str(value).partition("="))
    if not equals:
        msg = f"{value!r} is not KEY=VALUE; expected for example timeout=60"
        raise SettingsError(msg)
    option = LECTURE_OPTIONS.get(key)
    if option is None:
        other = OPTIONS_BY_NAME.get(key)
        if other is not None and other.on_command_line:
            msg = f"{key!r} is not set by lectures, so there is nothing to override; use {other.flag}"
            raise SettingsError(msg)
        msg = f"unknown key {key!r}; {expected_instead(key, LECTURE_OPTIONS)}"
        raise SettingsError(msg)
    raw = text.split(",") if option.is_list else _BOOLEANS.get(text.lower(), text)
    return key, read_value(option, raw, key)


def read_settings_file(rootdir: Path) -> tuple[str, Mapping[str, Any]]:
    """
    Read ``lecturecheck.toml`` or ``[tool.lecturecheck]`` of ``pyproject.toml`` under ``rootdir``.

    Returns:
        The file's name (empty where there is none) and its checked values by option name.

    Raises:
        SettingsError: the file is not valid TOML, a key is unknown, or a value cannot be used.
    """
    name, table = load_table(rootdir)
    checked = _check_table(table, name)
    return name, with_declared_options(checked, name) if "declared" in checked else checked


def load_table(rootdir: Path) -> tuple[str, Mapping[str, Any]]:
    """
    Return the name of the settings file (empty where there is none), and its values as they are written.

    Raises:
        SettingsError: the file is not valid TOML.
    """
    own, project = rootdir / SETTINGS_FILE, rootdir / "pyproject.toml"
    if is_present(own):
        return own.name, _load_toml(own)
    if is_present(project):
        table = _load_toml(project).get("tool", {}).get("lecturecheck")
        if table is not None:
            name = f"{project.name} [tool.lecturecheck]"
            if not isinstance(table, dict):
                msg = f"{name}: {table!r} is not a table"
                raise SettingsError(msg)
            return name, table
    return "", {}


def unknown_key(key: str) -> str:
    """Return what is wrong with a key of a settings file that no option has."""
    known = (item.name for item in OPTIONS if item.in_file)
    return f"unknown key {key!r}; {expected_instead(key, known)}"


def _load_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_plain_text(path, most_bytes=MOST_SETTINGS_BYTES, encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as exc:
        msg = f"{path.name}: cannot be read as TOML: {exc}"
        raise SettingsError(msg) from exc


def _check_table(table: Mapping[str, Any], name: str) -> dict[str, Any]:
    checked = {}
    for key, value in table.items():
        option = OPTIONS_BY_NAME.get(key)
        if option is None or not option.in_file:
            msg = f"{name}: {unknown_key(key)}"
            raise SettingsError(msg)
        if isinstance(value, str) and option.reader in _COUNT_READERS:
            msg = f"{name}: {key}: {value!r} is text; expected a whole number, without quotes"
            raise SettingsError(msg)
        checked[key] = read_value(option, value, f"{name}: {key}")
    return checked


def run_layer(values: Mapping[str, Any], describe: Callable[[Option], str]) -> RunSettings:
    """
    Return the layer of a lecture's settings that one source states.

    Args:
        values: checked values by option name; those of other settings are ignored.
        describe: returns what to call an option of this source.
    """
    origins = {
        OPTIONS_BY_NAME[name].field.removeprefix("run."): describe(OPTIONS_BY_NAME[name])
        for name in values
        if OPTIONS_BY_NAME[name].field.startswith("run.")
    }
    return RunSettings(**fields_of("run", values), origins=origins)
