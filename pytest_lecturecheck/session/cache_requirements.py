"""Check before anything runs that the book's cache can be filled at all."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from pytest_lecturecheck.config.options import SessionSettings
from pytest_lecturecheck.errors import SettingsError
from pytest_lecturecheck.lecture.book.configuration import find_book
from pytest_lecturecheck.lecture.book.pages import BookEngine


def require_library(settings: SessionSettings, folders: Iterable[Path], rootdir: Path) -> None:
    """
    Refuse to start if a book to be filled needs a library that is not installed.

    Args:
        settings: the session's settings.
        folders: the folders and files that the command line names.
        rootdir: pytest's rootdir.

    Raises:
        SettingsError: jupyter-cache is missing; or a book's configuration cannot be read.
    """
    if settings.book_cache is None or find_spec("jupyter_cache") is not None:
        return
    # A book is often one folder below the rootdir.
    below = [path.parent for path in rootdir.glob("*/_config.yml")]
    for folder in dict.fromkeys([*folders, rootdir, *below]):
        book = find_book(folder if folder.is_dir() else folder.parent, root=rootdir)
        if book is not None and book.engine is BookEngine.MYST_NB:
            from pytest_lecturecheck.book_cache.myst_nb_cache import NOT_INSTALLED  # noqa: PLC0415 - rarely needed

            msg = f"--lecture-cache: {NOT_INSTALLED} ({book.folder / book.source})"
            raise SettingsError(msg)
