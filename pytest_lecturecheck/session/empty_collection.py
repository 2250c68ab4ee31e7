"""Explain a session that collected no lecture: where it looked, for what, and why files there are none."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from pytest_lecturecheck.lecture.selection import LECTURE_SUFFIXES
from pytest_lecturecheck.session.collection import LectureCollection

_EXAMPLES: Final = 3
_MOST_FILES: Final = 5_000
_LEFT_OUT_FOLDERS: Final = frozenset({"__pycache__", "node_modules", "_build", "site-packages"})


def explain_empty(
    collection: LectureCollection, folders: Sequence[Path], *, rootdir: Path, suffixes: frozenset[str]
) -> str:
    """
    Return what was looked for and not found.

    Args:
        collection: decides about files.
        folders: the folders that were searched.
        rootdir: pytest's rootdir.
        suffixes: further file endings of the settings.
    """
    known = LECTURE_SUFFIXES | suffixes
    where = ", ".join(repr(_shown(folder, rootdir)) for folder in folders)
    text = (
        f"no lecture was collected, so nothing was checked. Looked in {where} for notebooks (.ipynb), MyST pages with "
        f"a header and code-cells (.md) and jupytext scripts (.py){_more(suffixes)}; "
    )
    left_out = []
    for path in _files(folders, known):
        left_out.append(f"{_shown(path, rootdir)!r}: {collection.explain_left_out(path)}")
        if len(left_out) == _EXAMPLES:
            break
    if not left_out:
        endings = ", ".join(sorted(known))
        return f"{text}no file there ends in {endings}. Name the folder of the lectures: pytest --lecture-budget FOLDER"
    return f"{text}found for example {'; '.join(left_out)}"


def _more(suffixes: frozenset[str]) -> str:
    return f", and {', '.join(sorted(suffixes))}" if suffixes else ""


def _files(folders: Sequence[Path], suffixes: frozenset[str]) -> Iterator[Path]:
    seen = 0
    for top in folders:
        for parent, inner, names in os.walk(top):
            inner[:] = sorted(name for name in inner if name not in _LEFT_OUT_FOLDERS and not name.startswith("."))
            for name in sorted(names):
                seen += 1
                # Tests and modules are no lectures that somebody misses.
                if Path(name).suffix.lower() in suffixes - {".py"}:
                    yield Path(parent, name)
            if seen > _MOST_FILES:
                return


def _shown(path: Path, rootdir: Path) -> str:
    return path.relative_to(rootdir).as_posix() if path.is_relative_to(rootdir) else str(path)
