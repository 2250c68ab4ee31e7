"""The lectures of a repository, as a session in its top folder would collect them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pytest_lecturecheck.config.options import SessionSettings
from pytest_lecturecheck.errors import LectureCheckError
from pytest_lecturecheck.lecture.selection import LECTURE_SUFFIXES
from pytest_lecturecheck.session.collection import LectureCollection
from pytest_lecturecheck.session.pytest_arguments import Arguments

_LEFT_OUT_FOLDERS: Final = frozenset({"__pycache__", "_build", "node_modules", "site-packages", "venv"})
_MOST_FILES: Final = 200_000
"""More files are no repository of lectures, but for example a home folder."""


def find_lectures(root: Path, settings: SessionSettings) -> Iterator[Path]:
    """
    Yield the lectures below a folder, folder by folder. Excluded ones, and further forms of a text, are left out.

    Args:
        root: pytest's rootdir.
        settings: the session's settings.
    """
    collection = LectureCollection(root, settings, Arguments(args=(), named=frozenset()), root)
    suffixes = LECTURE_SUFFIXES | settings.suffixes
    seen = 0
    for parent, inner, names in os.walk(root):
        inner[:] = sorted(name for name in inner if name not in _LEFT_OUT_FOLDERS and not name.startswith("."))
        for name in sorted(names):
            path = Path(parent, name)
            if path.suffix.lower() in suffixes and _is_lecture(collection, path):
                yield path
        seen += len(names)
        if seen > _MOST_FILES:
            return


def _is_lecture(collection: LectureCollection, path: Path) -> bool:
    try:
        return collection.is_lecture(path)
    except LectureCheckError:
        # The configuration of its book cannot be read; reading the lecture will say so.
        return True
