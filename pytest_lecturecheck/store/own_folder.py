"""The folder ``.lecturecheck`` under pytest's rootdir: what this tool keeps for itself between sessions."""

from __future__ import annotations

from pathlib import Path
from typing import Final

NAME: Final = ".lecturecheck"
_IGNORE_FILE: Final = ".gitignore"


def make_own_folder(rootdir: Path) -> Path:
    """
    Give the folder, made where it is missing; version control leaves it alone from its first moment.

    Raises:
        OSError: it cannot be made.
    """
    folder = rootdir / NAME
    folder.mkdir(exist_ok=True)
    ignore = folder / _IGNORE_FILE
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")
    return folder
