"""Put lectures that passed into the book's cache; only the controller does."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_lecturecheck.errors import LectureCheckError
from pytest_lecturecheck.store.atomic import locked, write_text_atomically

if TYPE_CHECKING:
    from pytest_lecturecheck.book_cache.port import BookCache

_SHOWN: Final = 3


class _Files:
    """Writes the files of caches."""

    def write(self, path: Path, text: str) -> None:
        """Replace a file completely or not at all."""
        write_text_atomically(path, text)

    def locked(self, folder: Path) -> AbstractContextManager[None]:
        """Lock a folder against other sessions."""
        return locked(folder)


class CacheFiller:
    """
    Fills the caches of books.

    Args:
        rootdir: pytest's rootdir, for the paths that are shown.

    Attributes:
        is_whole: whether all entries could be written.
    """

    def __init__(self, rootdir: Path) -> None:
        """Write nothing yet."""
        self._rootdir = rootdir
        self._filled: dict[tuple[str, str], int] = {}
        self._faults: dict[str, list[str]] = {}
        self.is_whole = True

    def fill(self, file: str, *, passed: bool) -> None:
        """
        Take what a lecture's run left for the cache.

        Args:
            file: the file with the entries.
            passed: whether the lecture passed; one that failed never enters.
        """
        path = Path(file)
        try:
            if passed:
                for entry in json.loads(path.read_text(encoding="utf-8")):
                    self._put(entry)
        finally:
            path.unlink(missing_ok=True)

    def _put(self, entry: dict[str, Any]) -> None:
        from pytest_lecturecheck.book_cache.stamp import Stamp, write_stamp  # noqa: PLC0415 - only where a cache is filled

        cache, files = _open(entry["engine"], Path(entry["folder"])), _Files()
        stamp = Stamp.from_plain(entry["stamp"])
        try:
            digest = cache.put(
                entry["key"], entry["body"], source=Path(entry["source"]), seconds=entry["seconds"], files=files
            )
            write_stamp(cache.folder, entry["key"], replace(stamp, digest=digest), files)
        except (OSError, LectureCheckError) as exc:
            self.is_whole = False
            self._faults.setdefault(str(exc), []).append(stamp.lecture)
            return
        place = (cache.engine, entry["folder"])
        self._filled[place] = self._filled.get(place, 0) + 1

    def lines(self) -> Iterator[str]:
        """Yield what the summary says."""
        for (engine, folder), count in self._filled.items():
            lectures = "1 lecture" if count == 1 else f"{count} lectures"
            again = "it" if count == 1 else "them"
            place = self._shown(folder)
            yield f"{lectures} put into the cache of {engine} ({place}); the build does not execute {again} again"
        for fault, names in self._faults.items():
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            yield f"ERROR: {', '.join(names[:_SHOWN])}{more} could not be put into the book's cache: {fault}"

    def _shown(self, folder: str) -> str:
        path = Path(os.path.abspath(folder))  # noqa: PTH100 - a link may be how the user knows it
        return path.relative_to(self._rootdir).as_posix() if path.is_relative_to(self._rootdir) else str(path)


def _open(engine: str, folder: Path) -> BookCache:
    if engine == "mystmd":
        from pytest_lecturecheck.book_cache.mystmd_cache import MystmdCache  # noqa: PLC0415 - see above

        return MystmdCache(folder)
    from pytest_lecturecheck.book_cache.myst_nb_cache import MystNbCache  # noqa: PLC0415 - see above

    return MystNbCache(folder)
