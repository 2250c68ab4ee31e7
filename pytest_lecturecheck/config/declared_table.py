"""The table ``[declared]``: what a README declares, in one place of the settings file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pytest_lecturecheck.errors import SettingsError, UnitError, expected_instead

_OPTIONS: Final = {
    "memory": "declared-memory",
    "time": "declared-time",
    "cores": "declared-cores",
    "disk": "declared-disk",
    "enforce": "enforce-declared",
}
"""The option that each key stands for."""


def parse_declared(table: object) -> Mapping[str, Any]:
    """
    Read the table; return the values by the name of their option.

    Raises:
        SettingsError: it is no table, a key is unknown, or a value cannot be used.
    """
    from pytest_lecturecheck.config.option_reading import OPTIONS_BY_NAME, read_raw  # noqa: PLC0415 - it reads this table

    if not isinstance(table, Mapping):
        msg = f"declared = {table!r} is not a table; expected [declared] with lines such as memory = '24 GB'"
        raise SettingsError(msg)
    found = {}
    for key, value in table.items():
        if key not in _OPTIONS:
            msg = f"[declared] has the unknown key {key!r}; {expected_instead(str(key), _OPTIONS)}"
            raise SettingsError(msg)
        try:
            found[_OPTIONS[key]] = read_raw(OPTIONS_BY_NAME[_OPTIONS[key]], value)
        except (SettingsError, UnitError) as exc:
            msg = f"[declared] {key}: {exc}"
            raise SettingsError(msg) from exc
    return found


def with_declared_options(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    """
    Return the values of a settings file with those of its table ``[declared]`` under the names of their options.

    Args:
        values: checked values by option name.
        name: the file, for errors.

    Raises:
        SettingsError: an option stands in the table and outside of it.
    """
    declared: Mapping[str, Any] = values.get("declared", {})
    if twice := sorted(values.keys() & declared.keys()):
        msg = f"{name}: {twice[0]} and [declared] both state it; expected one of them"
        raise SettingsError(msg)
    return {**{key: value for key, value in values.items() if key != "declared"}, **declared}
