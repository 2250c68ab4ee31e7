"""
Locks on open files, which differ between operating systems.

POSIX: flock(2) belongs to the open file description. Every process that inherits the descriptor shares the lock, which
ends when the last of them closes it or dies. Windows: a locked byte range belongs to the process that locked it, and
ends with that process, even if others inherited the handle.
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

    # Far beyond the text, because other processes cannot read a locked range.
    _LOCKED_OFFSET: Final = 1 << 30

    def try_lock(descriptor: int) -> bool:
        """Lock an open file exclusively without waiting; return False if another descriptor holds the lock."""
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
        """Lock an open file exclusively without waiting; return False if another descriptor holds the lock."""
        # Not fcntl.lockf: POSIX record locks end as soon as the process closes any descriptor of the file.
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def is_same_file(descriptor: int, path: Path) -> bool:
    """Return True if the open file is still the file at ``path``."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return os.path.samestat(found, os.fstat(descriptor))
