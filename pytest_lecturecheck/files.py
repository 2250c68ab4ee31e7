"""
Read files that others wrote: regular files only, and of bounded size. Every room reads files through this module.

:func:`remove_tree` removes folders that others could write to.

A lecture, or whoever wrote its repository, can put anything in the place of a file. Opening a named pipe waits for a
writer, reading ``/dev/zero`` never ends, and a sparse file can be larger than the memory. Such files are refused with
:class:`PlainFileError`, which is an :class:`OSError`: a caller that handles unreadable files handles these as well.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

MOST_DOCUMENT_BYTES: Final = 1 << 28
"""Largest lecture, report or kept session that is read (256 MiB): notebooks may hold many pictures."""
MOST_SETTINGS_BYTES: Final = 1 << 24
"""Largest settings file that is read (16 MiB)."""

_MOST_LEVELS: Final = 10_000
"""Deepest folder that is removed; a process that goes on writing must not hold up its removal for ever."""

_KINDS: Final = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a symbolic link",
}
_READ_FLAGS: Final = (
    os.O_RDONLY
    # Opening a pipe would wait for a writer, and opening some devices for a carrier.
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
    # A terminal must not become the controlling terminal of this process.
    | getattr(os, "O_NOCTTY", 0)
)


class PlainFileError(OSError):
    """
    A file that is not a regular file, or is too large.

    ``strerror`` says what was found and what was expected; ``filename`` is the path.
    """

    def __init__(self, path: str | os.PathLike[str], reason: str, code: int = errno.EINVAL) -> None:
        super().__init__(code, reason, os.fspath(path))

    def __str__(self) -> str:
        """Return the path and the reason, without an error number."""
        return f"{self.filename}: {self.strerror}"


def open_plain(
    path: str | os.PathLike[str], *, most_bytes: int | None = MOST_DOCUMENT_BYTES, follow_links: bool = True
) -> BinaryIO:
    """
    Open a regular file for reading; never waits.

    Args:
        path: the file.
        most_bytes: largest size; ``None`` for a caller that reads only a part.
        follow_links: whether ``path`` may be a symbolic link. Its target must be a regular file in any case.

    Raises:
        PlainFileError: it is no regular file, or too large.
        OSError: it does not exist, or cannot be opened.
    """
    # Checked before as well, because opening a device can have effects, and a socket cannot be opened at all.
    _check(path, os.stat(path, follow_symlinks=follow_links), most_bytes)  # noqa: PTH116 - a book has thousands of files
    descriptor = os.open(path, _READ_FLAGS | (0 if follow_links else getattr(os, "O_NOFOLLOW", 0)))
    try:
        # The file may have been replaced since.
        _check(path, os.fstat(descriptor), most_bytes)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_plain_bytes(
    path: str | os.PathLike[str], *, most_bytes: int = MOST_DOCUMENT_BYTES, follow_links: bool = True
) -> bytes:
    """
    Return the content of a regular file of at most ``most_bytes``; see :func:`open_plain` for errors.

    Files of ``/proc`` and ``/sys`` have a size of 0, so the bytes that were read are counted as well.
    """
    with open_plain(path, most_bytes=most_bytes, follow_links=follow_links) as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise PlainFileError(path, _too_large(len(data), most_bytes), errno.EFBIG)
    return data


def read_plain_text(
    path: str | os.PathLike[str],
    *,
    most_bytes: int = MOST_DOCUMENT_BYTES,
    encoding: str = "utf-8",
    errors: str = "strict",
) -> str:
    r"""
    Return the text of a regular file, with ``\n`` for every line end, as ``Path.read_text`` does.

    Raises:
        PlainFileError: it is no regular file, or larger than ``most_bytes``.
        OSError: it does not exist, or cannot be opened.
        UnicodeDecodeError: it is not in this encoding.
    """
    text = read_plain_bytes(path, most_bytes=most_bytes).decode(encoding, errors)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def is_present(path: str | os.PathLike[str]) -> bool:
    """
    Return True if there is something in the place of a file that this package looks for by its name.

    A pipe or a socket is there, and reading it is refused with the reason; ``is_file`` would pass over it silently. A
    folder of that name is something else, and a dangling link is no file.
    """
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISDIR(mode)


def append_plain(path: str | os.PathLike[str], data: bytes) -> None:
    """
    Append to a regular file, which is created if it is missing; never waits.

    Raises:
        PlainFileError: there is something else in its place.
        OSError: it cannot be written.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | (_READ_FLAGS & ~os.O_RDONLY)
    with contextlib.suppress(FileNotFoundError):
        _check(path, Path(path).stat(), None)
    descriptor = os.open(path, flags, 0o666)
    with os.fdopen(descriptor, "ab") as file:
        _check(path, os.fstat(descriptor), None)
        file.write(data)


def _check(path: str | os.PathLike[str], found: os.stat_result, most_bytes: int | None) -> None:
    if not stat.S_ISREG(found.st_mode):
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "no file")
        code = errno.EISDIR if stat.S_ISDIR(found.st_mode) else errno.EINVAL
        raise PlainFileError(path, f"it is {kind}; expected a regular file", code)
    if most_bytes is not None and found.st_size > most_bytes:
        raise PlainFileError(path, _too_large(found.st_size, most_bytes), errno.EFBIG)


def _too_large(size_bytes: int, most_bytes: int) -> str:
    return f"it has at least {size_bytes:,} bytes; expected at most {most_bytes:,}"


def remove_tree(folder: str | os.PathLike[str]) -> None:
    """
    Remove a folder and everything in it, as far as that is permitted; what cannot be removed is no error.

    A lecture may leave folders that may not be entered or written to, and trees so deep that neither recursion nor
    paths reach their ends.
    """
    with contextlib.suppress(OSError, RecursionError):
        shutil.rmtree(folder)
    root = os.fspath(folder)
    if os.path.islink(root) or not os.path.isdir(root):  # noqa: PTH112, PTH114 - the path may be very long
        return
    names = itertools.count()
    # Folders are moved up until each is empty, so that no path is longer than two names below the folder.
    for _ in range(_MOST_LEVELS):
        if not _open_folder(root) or not sum(_remove_entry(root, entry, names) for entry in list(os.scandir(root))):
            break
    with contextlib.suppress(OSError):
        os.rmdir(root)  # noqa: PTH106 - as above


def _remove_entry(root: str, entry: os.DirEntry[str], names: Iterator[int]) -> bool:
    """Remove an entry of the folder ``root``, whose folders become entries of it; return True if anything was done."""
    is_changed = False
    with contextlib.suppress(OSError):
        if not entry.is_dir(follow_symlinks=False):
            os.unlink(entry.path)  # noqa: PTH108 - as above
            return True
        _open_folder(entry.path)
        for inner in os.scandir(entry.path):
            if inner.is_dir(follow_symlinks=False):
                # A folder that is moved is written to, because its parent is one of its entries.
                _open_folder(inner.path)
                os.rename(inner.path, f"{root}/.{next(names)}-{secrets.token_hex(4)}")  # noqa: PTH104 - as above
            else:
                os.unlink(inner.path)  # noqa: PTH108 - as above
            is_changed = True
        os.rmdir(entry.path)  # noqa: PTH106 - as above
        is_changed = True
    return is_changed


def _open_folder(path: str) -> bool:
    """Let this user enter and change a folder; return False if that is not permitted."""
    try:
        os.chmod(path, stat.S_IRWXU)  # noqa: PTH101 - as above
    except OSError:
        return False
    return True
