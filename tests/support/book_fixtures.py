"""Books that the real jupyter-book and mystmd have executed, with the keys and outputs that they cached."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from pytest_lecturecheck.lecture.book.configuration import read_book
from pytest_lecturecheck.lecture.reading import read_lecture
from pytest_lecturecheck.model.executed import ExecutedLecture
from pytest_lecturecheck.store.atomic import locked, write_text_atomically

FOLDER = Path(__file__).parent.parent / "book_cache"
JUPYTER_BOOK = FOLDER / "jupyter_book"
"""Executed by jupyter-book 1.0.4 with myst-nb 1.4.0 and jupyter-cache 1.0.1."""
MYSTMD_BOOK = FOLDER / "mystmd_book"
"""Executed by mystmd 1.8.3 with the variables of :data:`MYSTMD_VARIABLES`."""
MYSTMD_VARIABLES = {"BOOK_A": "ä", "BOOK_B": 'two "b"'}


def executed_pages(folder: Path) -> dict[str, dict[str, Any]]:
    """Return key and outputs of each page, as the real program cached them."""
    return json.loads((folder / "executed.json").read_text(encoding="utf-8"))


def read_page(folder: Path, name: str) -> Any:
    """Return a page as its book reads it."""
    return read_lecture(folder / name, name=name, root=folder, book=read_book(folder))


def made_executed(document: Any, messages: Any = (), **changes: Any) -> ExecutedLecture:
    """Return the outputs of a run."""
    return ExecutedLecture(document=document, messages=messages, **{"seconds": 1.5, "token": "0123abcd", **changes})


class RealFiles:
    """Writes files as a session does."""

    def __init__(self) -> None:
        self.written: list[Path] = []

    def write(self, path: Path, text: str) -> None:
        self.written.append(path)
        write_text_atomically(path, text)

    def locked(self, folder: Path) -> contextlib.AbstractContextManager[None]:
        return locked(folder)
