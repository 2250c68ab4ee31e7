"""Write a file wholly or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path


def write_text_atomically(path: Path, text: str) -> None:
    """
    Write UTF-8 text with LF line ends, so that readers see the old file or the new one and never a part.

    The text goes to a file of a unique name in the same folder, is forced to the disk and takes the place of ``path``.
    A symbolic link stays one, permissions stay, and nothing is left behind on an error.

    Raises:
        OSError: the folder or the file cannot be written; ``path`` is as it was.
    """
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    # Not tempfile: its files are private to the user, whereas these are to have the permissions of ordinary new files.
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(text.encode("utf-8"))
            stream.flush()
            os.fsync(stream.fileno())
        with contextlib.suppress(FileNotFoundError):
            shutil.copymode(target, temporary)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """
    Hold a folder against other sessions that write to it, where the system can (not on Windows).

    The folder itself is locked, so that no file is left; see flock(2).
    """
    folder.mkdir(parents=True, exist_ok=True)
    if sys.platform == "win32":
        yield
    else:
        import fcntl  # noqa: PLC0415 - not there on Windows

        descriptor = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    """Force the new name to the disk where folders can be opened (not on Windows)."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
