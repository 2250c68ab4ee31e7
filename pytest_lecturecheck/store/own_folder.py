"""The folder ``.lecturecheck`` under pytest's rootdir, which holds data between sessions."""

from __future__ import annotations

from pathlib import Path
from typing import Final

NAME: Final = ".lecturecheck"
_IGNORE_FILE: Final = ".gitignore"


def make_own_folder(rootdir: Path) -> Path:
    """
    Return the folder, created if missing, with a .gitignore that keeps it out of version control.

    Raises:
        OSError: it cannot be created.
    """
    folder = rootdir / NAME
    folder.mkdir(exist_ok=True)
    ignore = folder / _IGNORE_FILE
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")
    return folder
