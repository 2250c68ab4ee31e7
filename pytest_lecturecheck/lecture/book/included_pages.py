"""Find the files that pages of a mystmd book include, and with them execute."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pytest_lecturecheck.files import read_plain_bytes
from pytest_lecturecheck.lecture.selection import explain_folder

_INCLUDE: Final = re.compile(
    rb"^[ \t>]*(?:`{3,}|~{3,}|:{3,})[ \t]*\{include\}[ \t]+(?P<target>\S[^\r\n]*)", re.MULTILINE
)


def find_included_pages(folder: Path) -> frozenset[Path]:
    """Return the resolved paths of all files that pages in a folder and below it include."""
    return frozenset(target for page in _pages(folder) for target in _targets(page))


def _pages(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not explain_folder(Path(parent, name))]
        yield from (Path(parent, name) for name in files if name.lower().endswith(".md"))


def _targets(page: Path) -> Iterator[Path]:
    try:
        data = read_plain_bytes(page)
    except OSError:
        return
    for match in _INCLUDE.finditer(data):
        try:
            yield (page.parent / match["target"].decode("utf-8").strip()).resolve()
        except (OSError, RuntimeError, ValueError):
            continue
