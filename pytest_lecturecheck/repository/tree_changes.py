"""What differs between a commit and the files of the working tree, uncommitted and untracked files included."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path, PurePosixPath
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.repository.git import GitError, call_git, find_commit, find_top

_HIDDEN_TAGS: Final = frozenset("Sabcdefghijklmnopqrstuvwxyz")
"""Marks of ``git ls-files -v`` for files whose changes git was told not to see: skip-worktree, assume-unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeChanges:
    """
    The differences between a commit and the working tree.

    Attributes:
        top: top folder of the repository, without links.
        ref: the name of the commit, as the user wrote it.
        commit: its hash.
        changed: paths from ``top`` that differ: changed, added, deleted, untracked.
        tracked: paths that git knows now.
    """

    top: Path
    ref: str
    commit: str
    changed: frozenset[str]
    tracked: frozenset[str]
    folders: frozenset[str] = field(default=frozenset())

    def relative(self, path: Path) -> str | None:
        """Return a path from ``top``, or ``None`` outside of it; links in its folder are followed."""
        # The last name is kept: git knows a link by its own name.
        real = os.path.join(os.path.realpath(path.parent), path.name)  # noqa: PTH118 - realpath returns text
        relative = os.path.relpath(real, self.top)
        posix = PurePosixPath(*Path(relative).parts).as_posix()
        return None if posix.startswith("..") or os.path.isabs(relative) else posix  # noqa: PTH117 - as above

    def is_unknown(self, relative: str) -> bool:
        """Return True if there is such a file, and git does not know it: an ignored one, or one of a submodule."""
        return relative not in self.tracked and relative not in self.changed and (self.top / relative).is_file()

    def is_known_folder(self, relative: str) -> bool:
        """Return True if git knows any file in a folder."""
        return relative in self.folders

    def read_old(self, relative: str) -> bytes | None:
        """Return the content that a file had, or ``None`` if the commit has no such file."""
        try:
            return call_git(self.top, ["cat-file", "blob", f"{self.commit}:{relative}"])
        except GitError:
            return None


def read_changes(folder: Path, ref: str) -> TreeChanges:
    """
    Compare a commit with the working tree.

    Args:
        folder: a folder of the repository.
        ref: the name of the commit.

    Raises:
        GitError: no repository, no such commit, or git failed.
    """
    top = Path(os.path.realpath(find_top(folder)))
    commit = find_commit(top, ref)
    compare = [
        "diff",
        "--name-only",
        "-z",
        "--no-renames",
        "--no-ext-diff",
        "--no-textconv",
        "--ignore-submodules=none",
    ]
    changed = set(_names(call_git(top, [*compare, commit, "--"])))
    changed |= set(_names(call_git(top, ["ls-files", "-z", "--others", "--exclude-standard"])))
    tracked = set()
    for row in _names(call_git(top, ["ls-files", "-z", "-v"])):
        mark, _, name = row.partition(" ")
        tracked.add(name)
        if mark in _HIDDEN_TAGS and (top / name).exists():
            changed.add(name)
    folders = {parent.as_posix() for name in tracked for parent in PurePosixPath(name).parents}
    return TreeChanges(
        top=top,
        ref=ref,
        commit=commit,
        changed=frozenset(changed),
        tracked=frozenset(tracked),
        folders=frozenset(folders),
    )


def _names(output: bytes) -> Iterator[str]:
    return (os.fsdecode(part) for part in output.split(b"\0") if part)
