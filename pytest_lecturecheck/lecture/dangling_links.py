"""Find links that lead nowhere: pytest passes over them in silence, and with them over the lectures they stood for."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path

from pytest_lecturecheck.lecture.selection import explain_folder


def find_dangling_links(folder: Path, suffixes: AbstractSet[str]) -> Iterator[Path]:
    """
    Yield the dangling links in a folder and below it that would be lectures or folders.

    Folders that hold no lectures are not entered, and links to folders are not followed.

    Args:
        folder: where to look.
        suffixes: the suffixes of lectures, in lower case; a name without suffix may be that of a folder.
    """
    try:
        entries = sorted(os.scandir(folder), key=operator.attrgetter("name"))
    except OSError:
        return
    for entry in entries:
        # Names that begin with a dot are hidden, and editors keep their locks as dangling links of such names.
        if entry.name.startswith("."):
            continue
        # Most entries are files: no Path is made for them.
        if entry.is_symlink():
            path = Path(entry.path)
            if path.suffix.lower() in suffixes | {""} and not path.exists():
                yield path
        elif entry.is_dir(follow_symlinks=False) and not explain_folder(folder / entry.name):
            yield from find_dangling_links(folder / entry.name, suffixes)
