"""Check, at the start of a session, that a file can be written at its end. Nothing is created or changed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from pytest_lecturecheck.store.atomic import READ_ONLY, is_read_only

_READ_ONLY_FLAG: Final = 1
"""``ST_RDONLY``; see statvfs(3)."""


def explain_unwritable(path: Path) -> str:
    """
    Return why a file could not be written, or an empty string.

    Missing folders are created with the file, so the innermost existing one is checked.

    Args:
        path: the file; it need not exist.
    """
    if path.exists() and not path.is_file():
        return f"{path} is {'a folder' if path.is_dir() else 'no regular file'}; expected a file"
    if is_read_only(path):
        return f"{path} cannot be written: {READ_ONLY}"
    # A new file replaces the old one by renaming, which needs a writable folder.
    folder = Path(os.path.realpath(path)).parent
    while not os.path.lexists(folder) and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir():
        return f"{path} cannot be written: {folder} is a file; expected a folder"
    if _is_on_read_only_system(folder):
        return f"{path} cannot be written: {folder} is on a read-only file system"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"{path} cannot be written: no permission to write in {folder}"
    return ""


def _is_on_read_only_system(folder: Path) -> bool:
    # A folder that this user may not write to is refused for that reason first (access(2)); not on Windows.
    read = getattr(os, "statvfs", None)
    try:
        return read is not None and bool(read(folder).f_flag & _READ_ONLY_FLAG)
    except OSError:
        return False
