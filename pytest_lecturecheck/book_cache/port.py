"""The port of a book's cache, and the values that pass through it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.errors import LectureCheckError
from pytest_lecturecheck.model.executed import ExecutedLecture
from pytest_lecturecheck.model.lecture import Lecture


class BookCacheError(LectureCheckError):
    """A book's cache that cannot be read or written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedEntry:
    """
    An entry that a cache has.

    Attributes:
        digest: digest of its content, which tells whether it is the one that a stamp describes.
        cell_count: number of code cells of which the entry has the outputs.
        error_cells: numbers of the code cells, among those of the entry, that show an error.
    """

    digest: str
    cell_count: int
    error_cells: tuple[int, ...] = ()


class FileAccess(Protocol):
    """How adapters write: the session hands this in."""

    def write(self, path: Path, text: str) -> None:
        """Replace a file completely or not at all."""

    def locked(self, folder: Path) -> AbstractContextManager[None]:
        """Lock a folder against other sessions."""


class BookCache(Protocol):
    """
    The cache of one book.

    Attributes:
        engine: the program that reads it ("myst-nb", "mystmd").
        folder: its folder.
    """

    engine: str
    folder: Path

    def key(self, lecture: Lecture, kernel_name: str) -> str:
        """
        Return the key of a lecture that was read as the book reads it.

        Args:
            lecture: the lecture.
            kernel_name: the kernel that the book runs it in.
        """

    def body(self, lecture: Lecture, kernel_name: str, executed: ExecutedLecture) -> str:
        """Return the content of an entry as text; arguments as for :meth:`key`."""

    def find(self, key: str) -> CachedEntry | None:
        """
        Return the entry of a key, or ``None``. Nothing is created or changed.

        Raises:
            BookCacheError: the cache cannot be read.
        """

    def put(self, key: str, body: str, *, source: Path, seconds: float, files: FileAccess) -> str:
        """
        Put an entry into the cache, in place of one that is there; return its digest.

        Args:
            key: its key.
            body: what :meth:`body` returned.
            source: the lecture's file.
            seconds: how long its cells took.
            files: writes files.

        Raises:
            BookCacheError, OSError: it cannot be written; the cache holds the old entry or none.
        """
