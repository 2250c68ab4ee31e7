"""Tables of contents: every shape that Jupyter Book 1 (old and new) and mystmd know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final
from unicodedata import normalize

from pytest_lecturecheck.lecture.book.patterns import matches_file

_FILE_KEYS: Final = ("root", "file")
_GLOB_KEYS: Final = ("glob", "pattern")
# Keys that hold further entries; what else a table of contents holds (options, captions, urls) names no file.
_BRANCHES: Final = ("chapters", "parts", "sections", "subtrees", "entries", "items", "children", "toc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Toc:
    """
    The files of a book.

    Attributes:
        origin: where that was said ("_toc.yml").
        names: POSIX paths from the book's folder in NFC, with or without suffix.
        globs: patterns of such paths.
    """

    origin: str
    names: frozenset[str]
    globs: tuple[str, ...]

    def holds(self, relative: str) -> bool:
        """Tell whether a file (POSIX path from the book's folder) is listed."""
        path = PurePosixPath(normalize("NFC", relative))
        bare = path.with_suffix("").as_posix()
        if path.as_posix() in self.names or bare in self.names:
            return True
        return any(matches_file(glob, path.as_posix()) or matches_file(glob, bare) for glob in self.globs)

    def missing(self, folder: Path) -> list[str]:
        """Name the files that are listed and are not there, with no suffix either."""
        return sorted(name for name in self.names if "://" not in name and not _is_there(folder / name))


def _is_there(path: Path) -> bool:
    try:
        if path.exists():
            return True
        wanted = normalize("NFC", path.name)
        names = [normalize("NFC", item.name) for item in path.parent.iterdir()]
    except (OSError, ValueError):
        return False
    return any(name == wanted or name.startswith(f"{wanted}.") for name in names)


def read_toc(value: object, *, origin: str) -> Toc:
    """Collect the files of a table of contents (a mapping with a root, or a list of entries)."""
    files: set[str] = set()
    globs: list[str] = []
    for kind, text in _entries(value):
        if kind in _FILE_KEYS:
            files.add(_clean(text))
        else:
            globs.append(_clean(text))
    return Toc(origin=origin, names=frozenset(files), globs=tuple(dict.fromkeys(globs)))


def _entries(value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, list):
        for item in value:
            # mystmd and old books may list a bare name.
            if isinstance(item, str):
                yield "file", item
            else:
                yield from _entries(item)
    elif isinstance(value, Mapping):
        yield from _table_entries(value)


def _table_entries(table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key in (*_FILE_KEYS, *_GLOB_KEYS):
        text = table.get(key)
        if isinstance(text, str) and text.strip():
            yield key, text
    for key in _BRANCHES:
        yield from _entries(table.get(key))


def _clean(text: str) -> str:
    return normalize("NFC", PurePosixPath(text.strip().replace("\\", "/")).as_posix().lstrip("/"))
