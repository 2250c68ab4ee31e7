"""Files of a folder as a commit has them."""

from __future__ import annotations

import os
from pathlib import Path

from pytest_lecturecheck.errors import SettingsError
from pytest_lecturecheck.files import MOST_SETTINGS_BYTES
from pytest_lecturecheck.repository.git import call_git, find_top

_PLAIN_MODES = (b"100644", b"100755")


def read_committed(folder: Path, commit: str, suffix: str) -> dict[str, bytes]:
    """
    Return the content of the plain files with an ending in a folder, by name; folders in it are not searched.

    Args:
        folder: the folder, which need not exist any more.
        commit: the full name of a commit.
        suffix: the ending of the files.

    Raises:
        GitError: git cannot answer.
        SettingsError: the folder is outside the repository, or a file is too large.
    """
    there = next(parent for parent in (folder, *folder.parents) if parent.is_dir()).resolve()
    top = find_top(there).resolve()
    whole = folder.resolve()
    if not whole.is_relative_to(top):
        msg = f"{folder} is outside the git repository {top}"
        raise SettingsError(msg)
    inside = whole.relative_to(top).as_posix()
    tree = f"{commit}:" if inside == "." else commit
    paths = [] if inside == "." else ["--", f"{inside}/"]
    # A row is: mode, type, object, size, tab, path. See git-ls-tree(1).
    rows = call_git(top, ["ls-tree", "-z", "--long", "--full-tree", tree, *paths]).split(b"\0")
    found = {}
    for row in filter(None, rows):
        facts, _, path = row.partition(b"\t")
        mode, _, blob, size = facts.split()
        name = os.fsdecode(path).rpartition("/")[2]
        if mode not in _PLAIN_MODES or not name.endswith(suffix) or name.startswith("."):
            continue
        if int(size) > MOST_SETTINGS_BYTES:
            where = f"{commit[:9]}:{os.fsdecode(path)}"
            msg = f"{where}: it has {int(size):,} bytes; expected at most {MOST_SETTINGS_BYTES:,}"
            raise SettingsError(msg)
        found[name] = call_git(top, ["cat-file", "blob", blob.decode("ascii")])
    return found
