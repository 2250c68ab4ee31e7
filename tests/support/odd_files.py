"""Files that are no regular files, in the place of files that are read."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

needs_odd_files = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes and links are of POSIX systems")


def put_odd_file(path: Path, kind: str) -> Path:
    """Create a pipe, link, socket, folder or huge sparse file at ``path``, and return the path."""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link to pipe":
        os.mkfifo(path.with_name(f"{path.name}.target"))
        path.symlink_to(f"{path.name}.target")
    elif kind == "link to /dev/zero":
        path.symlink_to("/dev/zero")
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as opened:
            opened.bind(os.path.relpath(path))
    elif kind == "sparse":
        path.touch()
        os.truncate(path, 1 << 40)
    else:
        path.mkdir()
    return path
