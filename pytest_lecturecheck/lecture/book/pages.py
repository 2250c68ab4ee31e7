"""A book as a value: which files are its pages, and the settings of each page."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from dataclasses import field, replace
from enum import StrEnum
from pathlib import Path, PurePosixPath
from unicodedata import normalize

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.lecture.book.custom_formats import CustomFormat
from pytest_lecturecheck.lecture.book.patterns import matches_path
from pytest_lecturecheck.lecture.book.toc import Toc
from pytest_lecturecheck.model.settings import RunSettings


class BookEngine(StrEnum):
    """The program that executes the code-cells of a book."""

    MYST_NB = "myst-nb"
    MYSTMD = "mystmd"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A path pattern and the setting that it comes from ("_config.yml exclude_patterns")."""

    text: str
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BookCacheSettings:
    """
    What a book says about the cache of its outputs.

    Attributes:
        mode: how myst-nb executes the book ("cache"); empty where the book does not say.
        mode_origin: where that is said, or would be ("_config.yml execute.execute_notebooks").
        folder: the folder of the cache as the book names it, or an empty string.
        kernel_aliases: regular expressions of kernel names, and the kernel that myst-nb takes instead.
    """

    mode: str = ""
    mode_origin: str = ""
    folder: str = ""
    kernel_aliases: Mapping[str, str] = field(default_factory=dict)

    def kernel_name(self, name: str | None) -> str | None:
        """Return the kernel that the book takes for one that a lecture names."""
        if name is None:
            return None
        for pattern, alias in self.kernel_aliases.items():
            with contextlib.suppress(re.error):
                if re.fullmatch(pattern, name):
                    return alias
        return name


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """
    The configuration of a book.

    Attributes:
        folder: the folder that holds the configuration; tables of contents and page patterns are relative to it.
        source: name of the configuration file.
        settings: the settings of all lectures in the book.
        not_executed: patterns of lectures that the book shows but does not execute.
        not_built: patterns of files that are not pages of the book.
        toc: the table of contents if only listed files are pages; ``None`` if all files are.
        engine: the program that executes the book.
        custom_formats: the suffixes that the book reads with functions of its own choice.
        cache: what the book says about its own cache of outputs.
    """

    folder: Path
    source: str
    settings: RunSettings
    not_executed: tuple[Pattern, ...] = ()
    not_built: tuple[Pattern, ...] = ()
    toc: Toc | None = None
    engine: BookEngine = BookEngine.MYST_NB
    custom_formats: tuple[CustomFormat, ...] = ()
    cache: BookCacheSettings = field(default_factory=BookCacheSettings)

    def settings_for(self, path: Path) -> RunSettings:
        """Return the layer of settings for one lecture; exclusion from execution is a reason to skip it."""
        # As in myst-nb, a pattern is matched with the end of the whole path, so "drafts/*" and "big.md" both work.
        whole = PurePosixPath(normalize("NFC", path.as_posix()))
        for pattern in self.not_executed:
            if _matches_end(whole, pattern.text):
                reason = f"excluded from execution by {pattern.origin} {pattern.text!r}"
                origins = {**self.settings.origins, "skip_reason": pattern.origin}
                return replace(self.settings, skip_reason=reason, origins=origins)
        return self.settings

    def custom_format(self, path: Path) -> CustomFormat | None:
        """Return how the book reads a file, if it configures that; the longest suffix wins, as in myst-nb."""
        found = [item for item in self.custom_formats if path.name.endswith(item.suffix)]
        return max(found, key=lambda item: len(item.suffix), default=None)

    def why_excluded(self, path: Path) -> str:
        """Explain why a file is not a page of the book; empty if it is one or is outside the book's folder."""
        relative = _relative(path, self.folder)
        if relative is None:
            return ""
        for pattern in self.not_built:
            if matches_path(pattern.text, relative):
                return f"excluded by {pattern.origin} {pattern.text!r}"
        if self.toc is not None and not self.toc.holds(relative):
            return f"not in {self.toc.origin}"
        return ""


def _matches_end(path: PurePosixPath, pattern: str) -> bool:
    try:
        return path.match(normalize("NFC", pattern))
    except ValueError:
        # pathlib refuses an empty pattern.
        return False


def _relative(path: Path, folder: Path) -> str | None:
    # A link may lead into the book's folder or out of it, so the paths are compared both as given and resolved.
    for one, other in ((path, folder), (path.resolve(), folder.resolve())):
        if one.is_relative_to(other):
            return one.relative_to(other).as_posix()
    return None
