"""Atomic writes: a file is replaced completely or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

READ_ONLY: Final = "the file is read-only; make it writable, or write to another file"
_ANY_WRITE_BIT: Final = 0o222


def write_text_atomically(path: Path, text: str) -> None:
    """
    Write UTF-8 text with LF line ends; readers see the old file or the new one, never a part.

    The text is written to a temporary file in the same folder, synced, and renamed to ``path``. Symbolic links and
    permissions are kept, and no temporary file is left behind after an error. Renaming would also replace a read-only
    file, which somebody protected on purpose, so such a file is refused.

    Raises:
        OSError: the folder or the file cannot be written; ``path`` is unchanged.
    """
    target = Path(os.path.realpath(path))
    if is_read_only(target):
        raise PermissionError(errno.EACCES, READ_ONLY, str(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    # Not tempfile: its files are private to the user, but these need the permissions of ordinary new files.
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


def is_read_only(path: Path) -> bool:
    """Return True if there is a file that may not be written; its mode counts for root too."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not mode & _ANY_WRITE_BIT or not os.access(path, os.W_OK)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """
    Lock a folder against other sessions that write to it (not on Windows).

    The folder itself is locked, so that no lock file remains; see flock(2).
    """
    folder.mkdir(parents=True, exist_ok=True)
    if sys.platform == "win32":
        yield
    else:
        import fcntl  # noqa: PLC0415 - not available on Windows

        descriptor = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    """Sync the new directory entry; Windows cannot open folders."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
