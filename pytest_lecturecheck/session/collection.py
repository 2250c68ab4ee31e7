"""Decide what a session collects, from names wherever possible, because collection must stay cheap."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final

from pytest_lecturecheck.config.options import SessionSettings
from pytest_lecturecheck.errors import LectureCheckError
from pytest_lecturecheck.lecture.book.configuration import read_book
from pytest_lecturecheck.lecture.book.included_pages import find_included_pages
from pytest_lecturecheck.lecture.book.pages import Book, BookEngine
from pytest_lecturecheck.lecture.dangling_links import find_dangling_links
from pytest_lecturecheck.lecture.pairing import FORMATS_WORD, find_configuration, paired_files
from pytest_lecturecheck.lecture.selection import (
    LECTURE_SUFFIXES,
    SOURCE_SUFFIXES,
    Folders,
    explain_no_lecture,
    has_header,
    has_jupytext_cells,
    is_candidate,
    read_paired_suffixes,
    words_at_ends,
)
from pytest_lecturecheck.model.settings import RunSettings
from pytest_lecturecheck.session.library_path import library_path
from pytest_lecturecheck.session.pytest_arguments import Arguments

_NAMES_SHOWN: Final = 3
_ITEM_WORDS: Final = (b"concurrency", b"axes:", b'"axes"', b"variants:", b'"variants"')
"""What a lecture contains that may set its own concurrency or its variants."""
_WORDS: Final = {FORMATS_WORD.strip(b'"'): (FORMATS_WORD,), b"lecturecheck": _ITEM_WORDS}
"""The words that decide about items and pairs, by a sign of them; a search for a word with quotes is slower."""


class LectureCollection:
    """
    Decides about paths during collection, and caches what it learns about folders.

    Args:
        rootdir: pytest's rootdir.
        settings: the session's settings.
        arguments: what the command line names.
        invocation_dir: the folder in which pytest was started.
    """

    def __init__(self, rootdir: Path, settings: SessionSettings, arguments: Arguments, invocation_dir: Path) -> None:
        """Read nothing yet."""
        self._rootdir = rootdir
        self._invocation_dir = invocation_dir
        self._suffixes = settings.suffixes
        self._known_suffixes = LECTURE_SUFFIXES | settings.suffixes
        self._exclude = settings.exclude
        self._used_patterns: set[str] = set()
        self._arguments = arguments
        self._folders = Folders()
        # By folder, as text: hashing a Path for each of a few thousand files costs more than all the rest.
        self._hidden: dict[str, bool] = {}
        self._books: dict[str, Book | None] = {}
        self._names: dict[str, frozenset[str]] = {}
        self._included: dict[str, frozenset[Path]] = {}
        self._paired: dict[str, str] = {}
        self._pairings: dict[str, Path | None] = {}
        self._doctests: list[str] = []
        self._words_found: dict[str, frozenset[bytes]] = {}

    def is_left_out(self, path: Path) -> bool:
        """Return True if only the folder of an oddly named file brought a path in, or if a link leads back."""
        return not self._arguments.wants(path) or _leads_back(path)

    def is_lecture(self, path: Path) -> bool:
        """
        Return True if a file is a lecture to run.

        Raises:
            LectureReadError: the book configuration that lists the file cannot be read.
        """
        if path.suffix.lower() not in self._known_suffixes:
            return False
        if self._arguments.named and path in self._arguments.named:
            return is_candidate(path, explicit=True, extra_suffixes=self._suffixes) or self._is_custom_page(path)
        folder = os.path.dirname(path)  # noqa: PTH120 - see the constructor
        if self._is_hidden(folder, path) or self._is_excluded(path):
            return False
        if not is_candidate(path, extra_suffixes=self._suffixes) and not self._is_custom_page(path):
            return False
        if self._is_no_page(folder, path) or self._is_included(folder, path):
            return False
        return not self._has_source(folder, path)

    def _is_custom_page(self, path: Path) -> bool:
        """Return True if the file is a notebook only because its book reads files of its kind with jupytext."""
        try:
            book = self.book_of(path)
        except LectureCheckError:
            # A file that is no lecture by itself must not fail for a broken configuration of a book.
            return False
        custom = book.custom_format(path) if book is not None else None
        return custom is not None and custom.is_jupytext and has_jupytext_cells(path)

    def _is_no_page(self, folder: str, path: Path) -> bool:
        book = self._book(folder)
        return book is not None and bool(book.why_excluded(path))

    def _is_included(self, folder: str, path: Path) -> bool:
        """Return True if mystmd executes a file only as a part of the pages that include it."""
        book = self._book(folder)
        if book is None or book.engine is not BookEngine.MYSTMD or path.suffix.lower() != ".md" or has_header(path):
            return False
        key = os.fspath(book.folder)
        if key not in self._included:
            self._included[key] = find_included_pages(book.folder)
        return path.resolve() in self._included[key]

    def _has_source(self, folder: str, path: Path) -> bool:
        """Return True if a file is another form of a text beside it that is collected."""
        suffixes = SOURCE_SUFFIXES.get(path.suffix.lower(), ())
        if not suffixes:
            return False
        if folder not in self._names:
            self._names[folder] = frozenset(os.listdir(folder))  # noqa: PTH208 - only names are needed
        stem = path.stem
        for suffix in suffixes:
            if f"{stem}{suffix}" not in self._names[folder]:
                continue
            source = path.with_suffix(suffix)
            if path.suffix.lower() in read_paired_suffixes(source) and self.is_lecture(source):
                self._paired[self._shown(path)] = source.name
                return True
        return self._has_source_elsewhere(folder, path)

    def _has_source_elsewhere(self, folder: str, path: Path) -> bool:
        """Return True if jupytext's configuration pairs a file with a text, in any folder, that is collected."""
        configuration, may_state_formats = self._pairing(folder), FORMATS_WORD in self._words(path)
        if configuration is None and not may_state_formats:
            return False
        with library_path(self._rootdir, self._invocation_dir):
            found = paired_files(path, configuration, may_state_formats=may_state_formats)
        for source in found:
            is_text = source.suffix.lower() in SOURCE_SUFFIXES.get(path.suffix.lower(), ())
            if is_text and source.is_file() and self._is_asked_for(source) and self.is_lecture(source):
                self._paired[self._shown(path)] = self._shown(source)
                return True
        return False

    def _is_asked_for(self, path: Path) -> bool:
        plain = [target.path for target in self._arguments.plain] or [self._rootdir]
        return any(target == path or target in path.parents for target in plain)

    def _pairing(self, folder: str) -> Path | None:
        """Return the innermost configuration of jupytext from a folder up to rootdir, or ``None``."""
        if folder not in self._pairings:
            path = Path(folder)
            found = find_configuration(path)
            if found is None and self._rootdir in path.parents:
                found = self._pairing(os.fspath(path.parent))
            self._pairings[folder] = found
        return self._pairings[folder]

    def _shown(self, path: Path) -> str:
        return Path(os.path.relpath(path, self._rootdir)).as_posix()

    def left_out_forms(self) -> list[str]:
        """Return a line for each file that was skipped because jupytext keeps it as another form of its source."""
        pairs = sorted(self._paired.items())
        return [f"{name!r} is left out: jupytext keeps it as another form of {source!r}" for name, source in pairs]

    def unused_names(self, collected: AbstractSet[str]) -> list[str]:
        """
        Return a line for each file that the command line names, that is no lecture, and of which nothing was collected.

        Args:
            collected: files of which any plugin collected something, from rootdir.
        """
        lines = []
        for path in sorted(self._arguments.named):
            shown = self._shown(path)
            if shown not in collected and not self.is_lecture(path):
                lines.append(f"{shown!r} is not a lecture: {explain_no_lecture(path)}")
        return lines

    def explain_left_out(self, path: Path) -> str:
        """Return why a file is not collected, by the first rule that leaves it out."""
        if reason := self._folders.why_excluded(path, below=self._base(path.parent)):
            return reason
        if self._is_excluded(path):
            return "--lecture-exclude leaves it out"
        try:
            return self._explain_by_book(path) or explain_no_lecture(path)
        except LectureCheckError as exc:
            return str(exc)

    def _explain_by_book(self, path: Path) -> str:
        folder = os.path.dirname(path)  # noqa: PTH120 - see the constructor
        book = self._book(folder)
        if book is not None and (reason := book.why_excluded(path)):
            return reason
        if self._is_included(folder, path):
            return "it is executed as a part of the pages that include it"
        if self._has_source(folder, path):
            return f"jupytext keeps it as another form of {self._paired[self._shown(path)]!r}"
        return ""

    def note_doctests(self, path: Path) -> None:
        """Record a script whose doctests are not collected."""
        self._doctests.append(self._shown(path))

    def skipped_doctests(self) -> list[str]:
        """Return a line about scripts whose doctests were not collected, or no line."""
        if not self._doctests:
            return []
        names = ", ".join(repr(name) for name in self._doctests[:_NAMES_SHOWN])
        more = f" and {len(self._doctests) - _NAMES_SHOWN} more" if len(self._doctests) > _NAMES_SHOWN else ""
        return [f"doctests are not collected from {names}{more}: importing a script would run the lecture in pytest"]

    def _is_hidden(self, folder: str, path: Path) -> bool:
        if folder not in self._hidden:
            self._hidden[folder] = bool(self._folders.why_excluded(path, below=self._base(path.parent)))
        return self._hidden[folder]

    def _base(self, folder: Path) -> Path:
        """Return the folder below which names decide: the innermost argument that contains it, or rootdir."""
        plain = [target.path for target in self._arguments.plain]
        holding = [path for path in plain if path == folder or path in folder.parents]
        return max(holding, key=lambda path: len(path.parts), default=self._rootdir)

    def _is_excluded(self, path: Path) -> bool:
        if not self._exclude:
            return False
        try:
            relative = path.relative_to(self._rootdir).as_posix()
        except ValueError:
            relative = path.as_posix()
        # A pattern without a slash is also the name of a file in any folder, as in .gitignore.
        found = [
            pattern
            for pattern in self._exclude
            if fnmatch.fnmatchcase(relative, pattern)
            or ("/" not in pattern and fnmatch.fnmatchcase(path.name, pattern))
        ]
        self._used_patterns.update(found)
        return bool(found)

    def may_say_concurrency(self, path: Path) -> bool:
        """Return True if a lecture may set its own concurrency or its variants, so that it has to be read."""
        return not self._words(path).isdisjoint(_ITEM_WORDS)

    def _words(self, path: Path) -> frozenset[bytes]:
        """Return the words at the ends of a file that say whether all of it has to be read now; read once."""
        key = os.fspath(path)
        if key not in self._words_found:
            self._words_found[key] = words_at_ends(path, _WORDS)
        return self._words_found[key]

    def missing_pages(self) -> list[str]:
        """Return a line for each table of contents that lists pages for which there is no file."""
        lines = []
        for book in {book.folder: book for book in self._books.values() if book is not None}.values():
            if book.toc is not None and (missing := book.toc.missing(book.folder)):
                more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
                lines.append(f"{book.toc.origin} lists {missing[0]!r}{more}, and there is no such file")
        return lines

    def dangling_links(self) -> list[str]:
        """Return a line about the links that lead nowhere among the folders to collect, if there are any."""
        asked = [target.path for target in self._arguments.plain] or [self._rootdir]
        found = {path: None for folder in asked for path in find_dangling_links(folder, self._known_suffixes)}
        paths = [path for path in found if not self._is_excluded(path)]
        if not paths:
            return []
        shown = ", ".join(f"{self._shown(path)!r} (to {os.readlink(path)!r})" for path in paths[:_NAMES_SHOWN])  # noqa: PTH115
        more = f" and {len(paths) - _NAMES_SHOWN} more" if len(paths) > _NAMES_SHOWN else ""
        one = "a link leads" if len(paths) == 1 else f"{len(paths)} links lead"
        return [f"{one} nowhere, so no lecture is collected there: {shown}{more}"]

    def unused_patterns(self) -> list[str]:
        """Return the patterns of ``--lecture-exclude`` that matched no file."""
        return [pattern for pattern in self._exclude if pattern not in self._used_patterns]

    def book_settings(self, path: Path) -> RunSettings:
        """Return the settings of the book that a lecture belongs to."""
        book = self.book_of(path)
        return book.settings_for(path) if book is not None else RunSettings()

    def book_of(self, path: Path) -> Book | None:
        """Return the book that a lecture belongs to, or ``None``."""
        return self._book(os.path.dirname(path))  # noqa: PTH120 - see the constructor

    def _book(self, folder: str) -> Book | None:
        if folder not in self._books:
            self._books[folder] = self._find_book(Path(folder))
        return self._books[folder]

    def _find_book(self, folder: Path) -> Book | None:
        # This may load a YAML library; nothing else in collection imports a library.
        with library_path(self._rootdir, self._invocation_dir):
            book = read_book(folder)
        if book is not None:
            return book
        if folder == self._rootdir or self._rootdir not in folder.parents:
            return None
        return self._book(os.fspath(folder.parent))


def _leads_back(path: Path) -> bool:
    """Return True if a path is a link to a folder above it: following it would collect everything again."""
    if not os.path.islink(path):  # noqa: PTH114 - called for every path
        return False
    try:
        folder = path.parent.resolve()
        return path.resolve() in {folder, *folder.parents}
    except (OSError, RuntimeError):
        return False
