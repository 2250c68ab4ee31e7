"""What a session collects: decided from names wherever possible, because collection must stay cheap."""

from __future__ import annotations

import fnmatch
import os
from pathlib import Path

from pytest_lecturecheck.config.options import SessionSettings
from pytest_lecturecheck.lecture.book.configuration import Book, read_book
from pytest_lecturecheck.lecture.pairing import find_configuration, paired_files
from pytest_lecturecheck.lecture.selection import (
    LECTURE_SUFFIXES,
    SOURCES,
    Folders,
    forms_kept_beside,
    is_candidate,
    says_at_ends,
)
from pytest_lecturecheck.model.settings import RunSettings
from pytest_lecturecheck.session.library_path import library_path
from pytest_lecturecheck.session.pytest_arguments import Arguments


class LectureCollection:
    """
    Decides about paths during collection and remembers what it found out about folders.

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
        self._paired: dict[str, str] = {}
        self._pairings: dict[str, Path | None] = {}

    def is_left_out(self, path: Path) -> bool:
        """Tell whether a path was only met because a folder stands in for an oddly named file, or a link leads back."""
        return not self._arguments.wants(path) or _leads_back(path)

    def is_lecture(self, path: Path) -> bool:
        """
        Tell whether a file is a lecture to run.

        Raises:
            LectureReadError: the book configuration that decides about it cannot be read.
        """
        if path.suffix.lower() not in self._known_suffixes:
            return False
        if self._arguments.named and path in self._arguments.named:
            return is_candidate(path, explicit=True, extra_suffixes=self._suffixes)
        folder = os.path.dirname(path)  # noqa: PTH120 - see the constructor
        if self._is_hidden(folder, path) or self._is_excluded(path):
            return False
        if not is_candidate(path, extra_suffixes=self._suffixes):
            return False
        return not self._is_no_page(folder, path) and not self._has_source(folder, path)

    def _is_no_page(self, folder: str, path: Path) -> bool:
        book = self._book(folder)
        return book is not None and bool(book.why_excluded(path))

    def _has_source(self, folder: str, path: Path) -> bool:
        """Tell whether a file is only another form of a text beside it, which is collected."""
        suffixes = SOURCES.get(path.suffix.lower(), ())
        if not suffixes:
            return False
        if folder not in self._names:
            self._names[folder] = frozenset(os.listdir(folder))  # noqa: PTH208 - only names are wanted
        for suffix in suffixes:
            source = path.with_suffix(suffix)
            if (
                source.name in self._names[folder]
                and path.suffix.lower() in forms_kept_beside(source)
                and self.is_lecture(source)
            ):
                self._paired[self._shown(path)] = source.name
                return True
        return self._has_source_elsewhere(folder, path)

    def _has_source_elsewhere(self, folder: str, path: Path) -> bool:
        """Tell the same of a text that jupytext's configuration pairs, or in another folder that is collected too."""
        with library_path(self._rootdir, self._invocation_dir):
            found = paired_files(path, self._pairing(folder))
        for source in found:
            is_text = source.suffix.lower() in SOURCES.get(path.suffix.lower(), ())
            if is_text and source.is_file() and self._is_asked_for(source) and self.is_lecture(source):
                self._paired[self._shown(path)] = self._shown(source)
                return True
        return False

    def _is_asked_for(self, path: Path) -> bool:
        plain = [target.path for target in self._arguments.plain] or [self._rootdir]
        return any(target == path or target in path.parents for target in plain)

    def _pairing(self, folder: str) -> Path | None:
        """Give the configuration of jupytext that is in force in a folder: the innermost up to rootdir."""
        if folder not in self._pairings:
            place, found = Path(folder), find_configuration(Path(folder))
            if found is None and self._rootdir in place.parents:
                found = self._pairing(os.fspath(place.parent))
            self._pairings[folder] = found
        return self._pairings[folder]

    def _shown(self, path: Path) -> str:
        return Path(os.path.relpath(path, self._rootdir)).as_posix()

    def left_out_forms(self) -> list[str]:
        """Say which files were left out because jupytext keeps them beside their source."""
        pairs = sorted(self._paired.items())
        return [f"{name!r} is left out: jupytext keeps it as another form of {source!r}" for name, source in pairs]

    def _is_hidden(self, folder: str, path: Path) -> bool:
        if folder not in self._hidden:
            self._hidden[folder] = bool(self._folders.why_excluded(path, below=self._base(path.parent)))
        return self._hidden[folder]

    def _base(self, folder: Path) -> Path:
        """Give the folder below which names are questioned: the innermost argument that holds it, or rootdir."""
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

    @staticmethod
    def may_say_concurrency(path: Path) -> bool:
        """Tell whether a lecture may say itself how many of it are to run at once, so that it has to be read."""
        return says_at_ends(path, b"concurrency")

    def missing_pages(self) -> list[str]:
        """Say which pages a table of contents lists although no file has their name."""
        lines = []
        for book in {book.folder: book for book in self._books.values() if book is not None}.values():
            if book.toc is not None and (missing := book.toc.missing(book.folder)):
                more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
                lines.append(f"{book.toc.origin} lists {missing[0]!r}{more}, and there is no such file")
        return lines

    def unused_patterns(self) -> list[str]:
        """Give the patterns of ``--lecture-exclude`` that have left out nothing."""
        return [pattern for pattern in self._exclude if pattern not in self._used_patterns]

    def book_settings(self, path: Path) -> RunSettings:
        """Give the layer of the book configuration that a lecture belongs to."""
        book = self._book(os.path.dirname(path))  # noqa: PTH120 - see the constructor
        return book.settings_for(path) if book is not None else RunSettings()

    def _book(self, folder: str) -> Book | None:
        if folder not in self._books:
            self._books[folder] = self._find_book(Path(folder))
        return self._books[folder]

    def _find_book(self, folder: Path) -> Book | None:
        # This may load a YAML library; nothing else in collection loads anything.
        with library_path(self._rootdir, self._invocation_dir):
            book = read_book(folder)
        if book is not None:
            return book
        if folder == self._rootdir or self._rootdir not in folder.parents:
            return None
        return self._book(os.fspath(folder.parent))


def _leads_back(path: Path) -> bool:
    """Tell whether a path is a link to a folder that it lies in: to follow it would collect everything again."""
    if not os.path.islink(path):  # noqa: PTH114 - asked of every path that is met
        return False
    try:
        folder = path.parent.resolve()
        return path.resolve() in {folder, *folder.parents}
    except (OSError, RuntimeError):
        return False
