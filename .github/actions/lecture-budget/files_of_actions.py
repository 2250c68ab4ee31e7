"""The files with which a step of GitHub Actions speaks to its runner. Standard library only."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path


def append(variable: str, text: str) -> None:
    """Append text to the file that a variable names; without such a file nothing is written."""
    target = os.environ.get(variable, "")
    if target:
        with Path(target).open("a", encoding="utf-8") as file:
            file.write(text)


def set_outputs(values: Mapping[str, str]) -> None:
    """Set outputs of the step; a value of several lines sets nothing else."""
    for name, value in values.items():
        mark = f"END_{secrets.token_hex(16)}"
        append("GITHUB_OUTPUT", f"{name}<<{mark}\n{value}\n{mark}\n")
        sys.stdout.write(f"{name}: {plain(value)}\n")


def plain(text: str, most: int = 500) -> str:
    """Return text as one line that the runner cannot take for a command."""
    shown = "".join(char if char.isprintable() else " " for char in text)[:most]
    return shown.replace("##[", "## [").replace("::", ": :")


def given(name: str, default: str = "") -> str:
    """Return an input of the action."""
    return os.environ.get(f"INPUT_{name}", "").strip() or default


def is_on(name: str) -> bool:
    """Return True if an input of the action is ``true``."""
    return given(name).lower() in {"true", "1", "yes", "on"}
