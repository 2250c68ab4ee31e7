"""Plain programs that a session runs beside lectures: the table ``[programs]`` of the settings file."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.errors import SettingsError

_NAME: Final = re.compile(r"[^\x00-\x1f\[\]:]{1,100}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramSpec:
    """
    One program.

    Attributes:
        name: its name in records and reports.
        argv: its command; no shell is involved.
    """

    name: str
    argv: tuple[str, ...]


def parse_programs(table: object) -> tuple[ProgramSpec, ...]:
    """
    Read the table ``[programs]``: a name and a command each, in the order in which they run.

    Raises:
        SettingsError: a name or a command cannot be used; the message names it.
    """
    if not isinstance(table, Mapping):
        msg = f"programs = {table!r} is not a table; expected [programs] with lines such as tables = 'Rscript main.R'"
        raise SettingsError(msg)
    return tuple(ProgramSpec(name=_name(name), argv=_argv(name, command)) for name, command in table.items())


def _name(name: object) -> str:
    if not isinstance(name, str) or _NAME.fullmatch(name) is None or not name.strip():
        msg = f"[programs] {name!r}: expected a name of at most 100 characters without brackets and colons"
        raise SettingsError(msg)
    return name


def _argv(name: object, command: object) -> tuple[str, ...]:
    words: object = command
    if isinstance(command, str):
        try:
            words = shlex.split(command)
        except ValueError as exc:
            msg = f"[programs] {name}: {command!r} cannot be split into words: {exc}"
            raise SettingsError(msg) from exc
    if not isinstance(words, list) or not words or not all(isinstance(word, str) and word for word in words):
        msg = f"[programs] {name}: found {command!r}; expected 'Rscript main.R' or ['Rscript', 'main.R'], for example"
        raise SettingsError(msg)
    return tuple(words)
