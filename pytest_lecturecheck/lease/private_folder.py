"""
The ledger's folder: private to the user, below a folder that other users may write to.

Another user who could write files there could block every session, or admit all of them at once. The folder is
therefore refused unless it is a real folder of this user that nobody else can enter or replace.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pytest_lecturecheck.errors import LeaseError

_NAME: Final = "lecturecheck-leases"
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_ADVICE: Final = "remove it, or set XDG_RUNTIME_DIR or TMPDIR to a folder of your own, or run with --lecture-no-leases"

if sys.platform == "win32":

    def _own_id() -> int | None:
        """Return ``None``: on Windows folders below a user's profile are private anyway."""
        return None

else:

    def _own_id() -> int | None:
        return os.geteuid()


def default_folder(environ: Mapping[str, str]) -> Path:
    """
    Choose the ledger's folder of this user on this machine: in ``XDG_RUNTIME_DIR``, or else in the temporary folder.

    Sessions share a ledger if they choose the same folder. The variable is ignored unless it is an absolute path of an
    existing folder of this user (XDG Base Directory Specification): after ``su`` it names another user's folder.
    """
    given = environ.get("XDG_RUNTIME_DIR", "")
    if given and Path(given).is_absolute() and _is_own_folder(Path(given)):
        return Path(given) / _NAME
    own = _own_id()
    return Path(tempfile.gettempdir()) / (_NAME if own is None else f"{_NAME}-{own}")


def _is_own_folder(path: Path) -> bool:
    try:
        found = path.stat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and _own_id() in {None, found.st_uid}


def make_private_folder(folder: Path) -> None:
    """
    Create the folder if it is missing, and check that it is private.

    Raises:
        LeaseError: it is a link or no folder, belongs to another user, is accessible to others, can be replaced by
            others, or cannot be created.
    """
    try:
        _check_parent(folder.parent)
        try:
            folder.mkdir(mode=stat.S_IRWXU)
        except FileExistsError:
            _check_folder(folder)
    except OSError as exc:
        msg = f"{folder}: the folder for leases cannot be created ({exc.strerror}); {_ADVICE}"
        raise LeaseError(msg) from exc


def _check_folder(folder: Path) -> None:
    found, own = folder.lstat(), _own_id()
    fault = ""
    if stat.S_ISLNK(found.st_mode):
        fault = "is a symbolic link"
    elif not stat.S_ISDIR(found.st_mode):
        fault = "is not a folder"
    elif own is not None and found.st_uid != own:
        fault = f"belongs to user {found.st_uid}, not to user {own}"
    elif own is not None and found.st_mode & _OTHERS:
        fault = f"is accessible to other users (mode {stat.S_IMODE(found.st_mode):04o})"
    if fault:
        msg = f"{folder}: {fault}; expected a folder for leases that is private to you (mode 0700): {_ADVICE}"
        raise LeaseError(msg)


def _check_parent(parent: Path) -> None:
    found, own = parent.stat(), _own_id()
    is_open = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not found.st_mode & stat.S_ISVTX
    if own is not None and (is_open or found.st_uid not in {0, own}):
        msg = (
            f"{parent}: other users can replace folders there (owner {found.st_uid}, mode "
            f"{stat.S_IMODE(found.st_mode):04o}); expected a folder owned by you or root that others cannot write to, "
            "or one with the sticky bit: set XDG_RUNTIME_DIR or TMPDIR to one, or run with --lecture-no-leases"
        )
        raise LeaseError(msg)
