"""
Import libraries, not files beside lectures.

pytest puts folders of tests (and ``python -m pytest`` the current one) on ``sys.path``. A lecture folder may hold
files with names like ``notebook.py`` or ``yaml.py``, and a library that is imported late would find those first.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def library_path(*folders: Path) -> Iterator[None]:
    """
    Hide ``folders``, and everything under them, from ``sys.path``.

    Environments stay visible wherever they are: nothing under ``sys.prefix`` or in a ``site-packages`` folder is
    hidden.
    """
    saved = sys.path[:]
    try:
        here = os.getcwd()  # noqa: PTH109 - a key of the cache, not a path
    except OSError:
        # The folder was removed, so relative entries lead nowhere.
        here = ""
    sys.path[:] = _visible(tuple(saved), folders, here)
    try:
        yield
    finally:
        sys.path[:] = saved


@functools.lru_cache(maxsize=8)
def _visible(entries: tuple[str, ...], folders: tuple[Path, ...], _cwd: str) -> tuple[str, ...]:
    # Called for every folder and every lecture, while the path hardly ever changes. Entries may be relative, so the
    # current folder is part of the key.
    return tuple(entry for entry in entries if not _is_hidden(entry, folders))


def _is_hidden(entry: str, folders: tuple[Path, ...]) -> bool:
    try:
        path = Path(entry).absolute()
    except OSError:
        return True
    if entry and (
        "site-packages" in path.parts or path.is_relative_to(sys.prefix) or path.is_relative_to(sys.base_prefix)
    ):
        return False
    return not entry or any(path.is_relative_to(folder) for folder in folders)
