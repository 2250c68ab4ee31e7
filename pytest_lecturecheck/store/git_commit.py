"""The commit that is checked out in a folder, read from git's files without running git."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from pytest_lecturecheck.files import open_plain

_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_REFERENCE: Final = re.compile(r"ref: (refs/[^\x00-\x20\\:?*\[~^]+)")
_MOST_BYTES: Final = 4_000_000


def read_commit(folder: Path) -> str:
    """
    Return the commit that is checked out, or an empty string if it is unknown.

    Uncommitted changes are ignored. See gitrepository-layout(5).
    """
    try:
        git = next((parent / ".git" for parent in (folder, *folder.parents) if (parent / ".git").exists()), None)
        return "" if git is None else _commit_of(_git_folder(git))
    except (OSError, UnicodeDecodeError):
        return ""


def _git_folder(git: Path) -> Path:
    """Return the git folder; in further work trees and submodules ``.git`` is a file that names it."""
    if git.is_dir():
        return git
    return git.parent / _text(git).removeprefix("gitdir:").strip()


def _commit_of(git: Path) -> str:
    head = _text(git / "HEAD").strip()
    found = _REFERENCE.fullmatch(head)
    if found is None:
        return head if _COMMIT.fullmatch(head) else ""
    name = found.group(1)
    if ".." in name:
        return ""
    common = git / _text(git / "commondir").strip() if (git / "commondir").is_file() else git
    for folder in (git, common):
        if (folder / name).is_file():
            commit = _text(folder / name).strip()
            return commit if _COMMIT.fullmatch(commit) else ""
    packed = common / "packed-refs"
    rows = _text(packed).split("\n") if packed.is_file() else []
    commits = (row.split(" ", 1)[0] for row in rows if row.endswith(f" {name}"))
    return next((commit for commit in commits if _COMMIT.fullmatch(commit)), "")


def _text(path: Path) -> str:
    with open_plain(path, most_bytes=None) as stream:
        return stream.read(_MOST_BYTES).decode("utf-8")
