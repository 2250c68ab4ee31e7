"""Whether a file will be writable at the end of a session, told at its start. Nothing is made or changed."""

from __future__ import annotations

import os
from pathlib import Path


def explain_unwritable(path: Path) -> str:
    """
    Say why a file could not be written, or give an empty string.

    Folders that are missing are made when the file is written, so the innermost one that is there counts.

    Args:
        path: the file; it need not exist.
    """
    if path.is_dir():
        return f"{path} is a folder; expected a file"
    # The file takes the place of an older one: its folder has to be writable, and of the old one only its name.
    folder = Path(os.path.realpath(path)).parent
    while not os.path.lexists(folder) and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir():
        return f"{path} cannot be written: {folder} is a file; expected a folder"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"{path} cannot be written: no permission to write in {folder}"
    return ""
