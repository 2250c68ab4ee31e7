"""Render variables for other programs: a shell, a later step of GitHub Actions. Pure, but for a random mark."""

from __future__ import annotations

import re
import secrets
import shlex
from collections.abc import Callable, Mapping
from typing import Final

from pytest_lecturecheck.errors import SettingsError

_REFUSED: Final = re.compile(r"(?i)(?:GITHUB|RUNNER)_.*|NODE_OPTIONS")
"""Names that the runner of GitHub Actions sets itself or refuses."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def render_shell(variables: Mapping[str, str]) -> list[str]:
    """Return lines for a POSIX shell; values are quoted, so that nothing in them is executed."""
    return [f"export {_checked(name)}={shlex.quote(text)}" for name, text in sorted(variables.items())]


def render_github(variables: Mapping[str, str], mark: Callable[[], str] = lambda: secrets.token_hex(16)) -> str:
    r"""
    Return text for the file that ``GITHUB_ENV`` names.

    Each value stands between two lines with a random mark, so that a value of several lines can set nothing else.

    Args:
        variables: the variables.
        mark: returns a mark that nobody can foresee.

    Raises:
        SettingsError: a name that GitHub Actions keeps for itself, or a value that holds the mark.
    """
    text = ""
    for name, value in sorted(variables.items()):
        if _REFUSED.fullmatch(_checked(name)):
            msg = (
                f"variable {name} cannot be set for later steps, because GitHub Actions keeps the name for itself; set "
                "it in the step of the build, under `env:`"
            )
            raise SettingsError(msg)
        end = f"LECTURECHECK_{mark()}"
        if end in value:
            msg = f"variable {name} holds the mark that ends its value; call the command again"
            raise SettingsError(msg)
        text += f"{name}<<{end}\n{value}\n{end}\n"
    return text


def _checked(name: str) -> str:
    if _NAME.fullmatch(name) is None:
        msg = f"variable name {name!r} cannot be used; expected letters, digits and _, not beginning with a digit"
        raise SettingsError(msg)
    return name
