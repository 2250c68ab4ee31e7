"""The commit of a folder, compared with what git says."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from pytest_lecturecheck.store.git_commit import read_commit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def repository(tmp_path):
    """A folder laid out as git does it, on the branch main."""
    git = tmp_path / ".git"
    (git / "refs" / "heads").mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "refs" / "heads" / "main").write_text(f"{COMMIT}\n")
    return tmp_path


def test_a_branch_from_a_folder_below(repository):
    below = repository / "lectures" / "deep"
    below.mkdir(parents=True)
    assert read_commit(below) == COMMIT


def test_a_detached_head(repository):
    (repository / ".git" / "HEAD").write_text("f" * 40)
    assert read_commit(repository) == "f" * 40


def test_a_packed_branch(repository):
    (repository / ".git" / "refs" / "heads" / "main").unlink()
    (repository / ".git" / "packed-refs").write_text(
        f"# pack-refs with: peeled fully-peeled sorted\n{'a' * 40} refs/heads/other/refs/heads/main\n"
        f"{COMMIT} refs/heads/main\n^{'b' * 40}\n"
    )
    assert read_commit(repository) == COMMIT


def test_a_further_work_tree(repository, tmp_path_factory):
    folder = repository / ".git" / "worktrees" / "w"
    folder.mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "commondir").write_text("../..\n")
    tree = tmp_path_factory.mktemp("tree")
    (tree / ".git").write_text(f"gitdir: {folder}\n")
    assert read_commit(tree) == COMMIT


@pytest.mark.parametrize(
    "head",
    ["", "ref: refs/heads/none", "ref: refs/../../secret", "ref: /etc/passwd", "no commit", "ABCDEF" * 10],
)
def test_what_is_no_commit_is_none(repository, head):
    (repository / ".git" / "HEAD").write_text(head)
    assert read_commit(repository) == ""


def test_a_branch_file_that_holds_something_else(repository):
    (repository / ".git" / "refs" / "heads" / "main").write_text("root:x:0:0")
    assert read_commit(repository) == ""


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_it_is_what_git_says(tmp_path):
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}

    def git(*arguments):
        names = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        done = subprocess.run(
            ["git", *names, *arguments], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    git("init", "-q")
    assert read_commit(tmp_path) == ""
    git("commit", "-q", "--allow-empty", "-m", "a")
    assert read_commit(tmp_path) == git("rev-parse", "HEAD")
    git("pack-refs", "--all")
    assert read_commit(tmp_path) == git("rev-parse", "HEAD")
