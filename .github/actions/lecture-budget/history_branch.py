"""
Get the history of lectures from a branch of its own, or put it there; ``get`` or ``put`` is the only argument.

No line of a history depends on another one, so two histories are merged by taking the lines of both. A push that
another job has overtaken is made anew on the new tip of the branch. A job whose token may not write keeps its history
as an artifact, and a warning says so. Everything happens in an empty repository: the checkout, its settings and its
hooks take no part.
"""

from __future__ import annotations

import base64
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from files_of_actions import given, plain

GIT = shutil.which("git") or "git"
MOST_TRIES = 8
LEAST_TRIES = 3
"""Tries where nobody else has pushed: a server may be busy for a moment."""
LONGEST_WAIT_SECONDS = 4.0
TIMEOUT_SECONDS = 300
MOST_BYTES = 100 * 1000**2
"""GitHub takes no larger file."""
AUTHOR = ("github-actions[bot]", "41898282+github-actions[bot]@users.noreply.github.com")
FILE_MODE = "100644"


class GitError(Exception):
    """A command of git that failed, with what it printed."""


class Branch:
    """
    A branch of the repository on GitHub.

    Args:
        folder: an empty folder.
        url: address of the repository.
        name: name of the branch.
        token: token of the job, or an empty string.
    """

    def __init__(self, folder: Path, url: str, name: str, token: str) -> None:
        """Make an empty repository; nothing is fetched yet."""
        self._folder, self._url, self._ref = folder, url, f"refs/heads/{name}"
        # Not on the command line, which other processes can read.
        self._environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0", **_settings(url, token)}
        for who in ("AUTHOR", "COMMITTER"):
            self._environment |= {f"GIT_{who}_NAME": AUTHOR[0], f"GIT_{who}_EMAIL": AUTHOR[1]}
        self._git("init", "--quiet", "--bare", "--template=", ".")

    def fetch(self) -> str:
        """Return the commit at the tip of the branch; empty if there is no such branch."""
        if not self._git("ls-remote", self._url, self._ref).strip():
            return ""
        self._git("fetch", "--quiet", "--depth=1", "--no-tags", self._url, self._ref)
        return self._git("rev-parse", "FETCH_HEAD").decode().strip()

    def read(self, commit: str, name: str) -> str:
        """Return the content of a file; empty if there is none."""
        found = self._git("ls-tree", "-z", commit, "--", name).decode("utf-8", "replace").split()
        if not found:
            return ""
        if found[0] != FILE_MODE:
            msg = f"{name} on the branch is no regular file"
            raise GitError(msg)
        if int(self._git("cat-file", "-s", found[2])) > MOST_BYTES:
            msg = f"{name} on the branch is larger than {MOST_BYTES} bytes"
            raise GitError(msg)
        return self._git("cat-file", "blob", found[2]).decode("utf-8", "replace")

    def push(self, parent: str, name: str, text: str) -> None:
        """Push a commit with one changed file on top of a commit, or of nothing."""
        blob = self._git("hash-object", "-w", "--stdin", text=text).decode().strip()
        self._git("read-tree", parent or "--empty")
        self._git("update-index", "--add", "--cacheinfo", f"{FILE_MODE},{blob},{name}")
        tree = self._git("write-tree").decode().strip()
        parents = ["-p", parent] if parent else []
        commit = self._git("commit-tree", tree, *parents, "-m", "Lecture history").decode().strip()
        self._git("push", "--quiet", self._url, f"{commit}:{self._ref}")

    def _git(self, *arguments: str, text: str | None = None) -> bytes:
        try:
            done = subprocess.run(
                [GIT, *arguments],
                cwd=self._folder,
                env=self._environment,
                input=None if text is None else text.encode(),
                capture_output=True,
                timeout=TIMEOUT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as exc:
            msg = f"git {arguments[0]}: no answer within {TIMEOUT_SECONDS} s"
            raise GitError(msg) from exc
        if done.returncode != 0:
            lines = [" ".join(line.split()) for line in done.stderr.decode("utf-8", "replace").splitlines()]
            msg = f"git {arguments[0]}: {'; '.join(filter(None, lines)) or done.returncode}"
            raise GitError(msg)
        return done.stdout


def _settings(url: str, token: str) -> dict[str, str]:
    if not token:
        return {}
    secret = base64.b64encode(f"x-access-token:{token}".encode()).decode()
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"http.{url}.extraheader",
        "GIT_CONFIG_VALUE_0": f"AUTHORIZATION: basic {secret}",
    }


def merge(*histories: str) -> str:
    """Return the lines of all histories, in order and each once; two lines with one id are one line."""
    lines = {_identity(line): line for text in histories for line in text.splitlines() if line.strip()}
    return "".join(f"{line}\n" for line in lines.values())


def _identity(line: str) -> str:
    try:
        found = json.loads(line)["id"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return line
    return f"id {found}"


def get(branch: Branch, name: str, path: Path) -> None:
    """Add the lines of the branch to the file; the file need not be there."""
    tip = branch.fetch()
    if not tip:
        sys.stdout.write("the branch is not there yet; the first job that may write makes it\n")
        return
    here = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(merge(branch.read(tip, name), here), encoding="utf-8", newline="\n")


def put(branch: Branch, name: str, path: Path) -> None:
    """
    Add the lines of the file to the branch.

    Raises:
        GitError: it cannot be pushed.
    """
    here = path.read_text(encoding="utf-8", errors="replace")
    last: str | None = None
    for number in range(1, MOST_TRIES + 1):
        tip = branch.fetch()
        there = branch.read(tip, name) if tip else ""
        whole = merge(there, here)
        if whole == there:
            sys.stdout.write("the branch has these lines already\n")
            return
        try:
            branch.push(tip, name, whole)
        except GitError:
            is_overtaken = last is not None and last != tip
            if number == MOST_TRIES or (number >= LEAST_TRIES and not is_overtaken):
                raise
            last = tip
            time.sleep(random.uniform(0, min(LONGEST_WAIT_SECONDS, 0.25 * 2**number)))  # noqa: S311 - no secret
        else:
            count = len(whole.splitlines()) - len(there.splitlines())
            sys.stdout.write(f"{count} {'line' if count == 1 else 'lines'} pushed to the branch\n")
            return


def is_name(branch: str) -> bool:
    """Return True if git takes a text for the name of a branch; without git every text is one."""
    if shutil.which(GIT) is None:
        return True
    checked = [GIT, "check-ref-format", "--branch", branch]
    return not branch.startswith("-") and subprocess.run(checked, capture_output=True, check=False).returncode == 0


def why_kept_back(branch: str) -> str:
    """Return why nothing is pushed; empty if it is to be."""
    event = os.environ.get("GITHUB_EVENT_NAME", "")
    if event.startswith("pull_request") or event == "merge_group":
        return f"a run on {event} adds nothing to the history: its code may never be merged"
    if branch in {os.environ.get("GITHUB_REF_NAME"), os.environ.get("GITHUB_BASE_REF")}:
        return f"history-branch is {plain(branch)!r}, the branch of the code; name a branch of its own"
    return ""


def main(arguments: list[str]) -> int:
    """Get or put the history; a branch that cannot be used is a warning, and never the failure of the job."""
    branch, path = given("HISTORY_BRANCH"), Path(given("HISTORY"))
    if not is_name(branch):
        sys.stdout.write(f"::error::history-branch is {plain(branch)!r}, which is no name of a branch\n")
        return 1
    is_put = arguments == ["put"]
    if is_put and (reason := why_kept_back(branch)):
        sys.stdout.write(f"{reason}\n")
        return 0
    if is_put and not path.is_file():
        sys.stdout.write("no history was written, so nothing is pushed\n")
        return 0
    url = f"{os.environ['GITHUB_SERVER_URL']}/{os.environ['GITHUB_REPOSITORY']}"
    with tempfile.TemporaryDirectory(prefix="lecture-history-") as folder:
        try:
            found = Branch(Path(folder), url, branch, given("TOKEN"))
            (put if is_put else get)(found, path.name, path)
        except (GitError, OSError) as exc:
            done = "the history is not pushed to" if is_put else "the history cannot be read from"
            hint = "; the artifact has it. A job that pushes needs the permission contents: write" if is_put else ""
            sys.stdout.write(f"::warning::{done} the branch {plain(branch)!r}: {plain(str(exc))}{hint}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
