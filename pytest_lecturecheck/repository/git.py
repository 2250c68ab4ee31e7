"""Call git: without a shell, without prompts, with a time limit, and without programs that a repository configures."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pytest_lecturecheck.errors import SettingsError

_TIMEOUT_SECONDS: Final = 120
_LONGEST_MESSAGE: Final = 400
_SAFE: Final = ("-c", "core.fsmonitor=false", "-c", "core.quotePath=false", "--literal-pathspecs", "--no-pager")


class GitError(SettingsError):
    """An answer that git could not give; the message has git's own words."""


def call_git(folder: Path, arguments: Sequence[str]) -> bytes:
    """
    Return what git prints.

    Args:
        folder: where git is called.
        arguments: the command and its arguments; no shell reads them.

    Raises:
        GitError: git is not installed, takes too long, or reports an error.
    """
    environment = {
        **{name: text for name, text in os.environ.items() if not name.startswith("GIT_")},
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "LC_ALL": "C",
    }
    try:
        done = subprocess.run(  # noqa: S603 - a fixed program with a list of arguments
            ["git", *_SAFE, *arguments],  # noqa: S607 - the user's git, wherever it is installed
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except FileNotFoundError as exc:
        msg = "git is not installed, or not on PATH"
        raise GitError(msg) from exc
    except (OSError, subprocess.TimeoutExpired) as exc:
        msg = f"git {arguments[0]} did not finish: {exc}"
        raise GitError(msg) from exc
    if done.returncode != 0:
        said = " ".join(done.stderr.decode("utf-8", "replace").split())[:_LONGEST_MESSAGE]
        msg = f"git {arguments[0]} failed: {said or f'exit status {done.returncode}'}"
        raise GitError(msg)
    return done.stdout


def find_top(folder: Path) -> Path:
    """
    Return the top folder of the repository that a folder belongs to.

    Raises:
        GitError: the folder is in no repository, or git refuses to use it.
    """
    text = os.fsdecode(call_git(folder, ["rev-parse", "--show-toplevel"])).rstrip("\n")
    return Path(text)


def find_commit(folder: Path, ref: str) -> str:
    """
    Return the commit that a name means.

    Raises:
        GitError: there is no such commit here; the message says how to get it.
    """
    if not ref or ref.startswith("-") or any(char in ref for char in "\0\n"):
        msg = f"{ref!r} names no commit; expected a branch, a tag or a commit, for example origin/main"
        raise GitError(msg)
    try:
        call_git(folder, ["rev-parse", "--git-dir"])
        found = call_git(folder, ["rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}"])
    except GitError as exc:
        if "Needed a single revision" not in str(exc):
            raise
        msg = (
            f"{ref!r} names no commit of this repository; expected a branch, a tag or a commit, for example "
            "origin/main. A shallow clone has few of them: with actions/checkout set fetch-depth: 0, or call "
            "`git fetch origin BRANCH` and use FETCH_HEAD"
        )
        raise GitError(msg) from exc
    return found.decode("ascii", "replace").strip()
