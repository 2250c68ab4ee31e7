"""Check a settings file as a whole: every fault with its key, instead of the first one only."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pytest_lecturecheck.config.option_reading import OPTIONS_BY_NAME, load_table, read_value, unknown_key
from pytest_lecturecheck.config.options import SessionSettings, resolve
from pytest_lecturecheck.config.variants import span_variants
from pytest_lecturecheck.errors import SettingsError


class SettingsFault(NamedTuple):
    """
    A fault of a settings file.

    Attributes:
        key: the key that it is about, or an empty string.
        text: what was found and expected, without the file.
    """

    key: str
    text: str


def find_settings_faults(rootdir: Path) -> tuple[str, tuple[SettingsFault, ...]]:
    """
    Check the settings of a repository as a session reads them.

    Returns:
        The name of the settings file (empty where there is none), and its faults.
    """
    try:
        name, table = load_table(rootdir)
    except SettingsError as exc:
        file, _, text = str(exc).partition(": ")
        return file.split(" ", 1)[0], (SettingsFault("", text),)
    faults = []
    for key, value in table.items():
        option = OPTIONS_BY_NAME.get(key)
        try:
            if option is None or not option.in_file:
                faults.append(SettingsFault(key, unknown_key(key)))
            else:
                read_value(option, value, key)
        except SettingsError as exc:
            faults.append(SettingsFault(key, str(exc)))
    if not faults:
        try:
            _span(resolve({}, rootdir, rootdir))
        except SettingsError as exc:
            text = str(exc).removeprefix(name).lstrip(": ")
            faults.append(SettingsFault(next((key for key in table if key in text), ""), text))
    return name.split(" ", 1)[0], tuple(faults)


def _span(settings: SessionSettings) -> None:
    """Raise SettingsError if the axes and variants of the file cannot be run together."""
    axes = settings.for_all_lectures.axes
    if axes or settings.variants:
        try:
            span_variants(axes or (), settings.variants)
        except SettingsError as exc:
            msg = f"axes: {exc}"
            raise SettingsError(msg) from exc
