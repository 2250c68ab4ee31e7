"""Read tables of contents, in all the forms of Jupyter Book 1 (old and new) and mystmd."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final
from unicodedata import normalize

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.lecture.book.patterns import matches_file

_FILE_KEYS: Final = ("root", "file")
_GLOB_KEYS: Final = ("glob", "pattern")
# Keys that hold further entries; other keys (options, captions, urls) name no file.
_BRANCHES: Final = ("chapters", "parts", "sections", "subtrees", "entries", "items", "children", "toc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Toc:
    """
    The files listed in a table of contents.

    Attributes:
        origin: the file or key that holds the table ("_toc.yml").
        names: POSIX paths relative to the book's folder, in NFC, with or without suffix.
        globs: patterns for such paths.
    """

    origin: str
    names: frozenset[str]
    globs: tuple[str, ...]

    def holds(self, relative: str) -> bool:
        """Return True if a file (POSIX path relative to the book's folder) is listed."""
        path = PurePosixPath(normalize("NFC", relative))
        bare = path.with_suffix("").as_posix()
        if path.as_posix() in self.names or bare in self.names:
            return True
        return any(matches_file(glob, path.as_posix()) or matches_file(glob, bare) for glob in self.globs)

    def missing(self, folder: Path) -> list[str]:
        """Return the listed files that do not exist, with any suffix."""
        return sorted(name for name in self.names if "://" not in name and not _exists(folder / name))


def _exists(path: Path) -> bool:
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
            # mystmd and old books may list bare names.
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
