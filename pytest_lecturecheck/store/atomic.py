"""Atomic writes: a file is replaced completely or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from pytest_lecturecheck.errors import LectureCheckError

LOCK_SECONDS: Final = 30.0
"""Writing takes well below a second; a lock that is held for longer is that of a process that hangs."""
_RETRY_SECONDS: Final = 0.05
READ_ONLY: Final = "the file is read-only; make it writable, or write to another file"
_ANY_WRITE_BIT: Final = 0o222


class LockTimeoutError(LectureCheckError):
    """A folder that another process has locked for too long."""

    def __init__(self, folder: Path, pid: int | None) -> None:
        """Name the folder and, if it is known, the process."""
        holder = f"process {pid}" if pid else "another process"
        super().__init__(
            f"{folder} was locked by {holder} for more than {LOCK_SECONDS:g} s; expected the lock to be free after a "
            "moment. End that process if it hangs"
        )


def write_text_atomically(path: Path, text: str, *, follows_links: bool = True) -> None:
    """
    Write UTF-8 text with LF line ends; readers see the old file or the new one, never a part.

    The text is written to a temporary file in the same folder, synced, and renamed to ``path``. Permissions are kept,
    and no temporary file is left behind after an error. Renaming would also replace a read-only file, which somebody
    protected on purpose, so such a file is refused.

    Args:
        path: the file.
        text: its new content.
        follows_links: whether a symbolic link is kept, and its target is written. Otherwise the link is replaced, which
            a lecture may have put there.

    Raises:
        OSError: the folder or the file cannot be written; ``path`` is unchanged.
    """
    target = Path(os.path.realpath(path))
    if not follows_links:
        target = Path(os.path.realpath(path.parent)) / path.name
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
            if not target.is_symlink():
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

    Raises:
        LockTimeoutError: another process has held the lock for half a minute.
        OSError: the folder cannot be created or opened.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if sys.platform == "win32":
        yield
    else:
        import fcntl  # noqa: PLC0415 - not available on Windows

        descriptor = os.open(folder, os.O_RDONLY)
        try:
            deadline = time.monotonic() + LOCK_SECONDS
            while not _is_locked(fcntl.flock, descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB):
                if time.monotonic() > deadline:
                    raise LockTimeoutError(folder, _find_holder(descriptor))
                time.sleep(_RETRY_SECONDS)
            yield
        finally:
            os.close(descriptor)


def _is_locked(flock: Callable[[int, int], None], descriptor: int, operation: int) -> bool:
    try:
        flock(descriptor, operation)
    except BlockingIOError:
        return False
    return True


def _find_holder(descriptor: int) -> int | None:
    """Return the process that holds a lock on an open file (``/proc/locks``, proc(5)), or ``None``."""
    found = os.fstat(descriptor)
    inode = f"{found.st_ino}"
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/locks").read_text("ascii").splitlines():
            # "3: FLOCK  ADVISORY  WRITE 812 08:01:5242 0 EOF"; a waiting process has "->" after the number.
            fields = line.split()
            if fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == inode:
                return int(fields[4])
    return None


def _sync_folder(folder: Path) -> None:
    """Sync the new directory entry; Windows cannot open folders."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
