"""
Locks on open files: the one place where the operating systems differ.

POSIX: flock(2) belongs to the open file description, so it is shared by every process that inherits the descriptor
and ends when the last of them has closed it, however it ends. Windows: a byte range belongs to the process, so it ends
with the process that took it, whoever inherits the handle.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

CREATE_FLAGS: Final = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
READ_FLAGS: Final = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
PRIVATE_MODE: Final = 0o600

if sys.platform == "win32":
    import msvcrt

    # Far behind the text, because what is locked there cannot be read by others.
    _LOCKED_OFFSET: Final = 1 << 30

    def try_lock(descriptor: int) -> bool:
        """Lock an open file for this descriptor alone, or tell that another holds it."""
        os.lseek(descriptor, _LOCKED_OFFSET, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)
        return True

else:
    import fcntl

    def try_lock(descriptor: int) -> bool:
        """Lock an open file for this descriptor alone, or tell that another holds it."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def is_same_file(descriptor: int, path: Path) -> bool:
    """Tell whether the open file is still the one of that name."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return os.path.samestat(found, os.fstat(descriptor))
