"""What differs between a commit and the working tree."""

import pytest
from support.git_repository import git, make_repository, write

from pytest_lecturecheck.repository.git import GitError
from pytest_lecturecheck.repository.tree_changes import read_changes


@pytest.fixture
def repository(tmp_path):
    return make_repository(tmp_path / "a b", {"x.md": "1", "sub/y.md": "1", ".gitignore": "*.out\n"})


def test_all_kinds_of_changes_are_seen(repository):
    write(repository, {"committed.md": "", "ü.md": "", "staged.md": ""})
    git(repository, "add", "committed.md")
    git(repository, "commit", "-q", "-m", "next")
    git(repository, "add", "staged.md")
    (repository / "x.md").write_text("2")
    (repository / "sub" / "y.md").unlink()
    (repository / "ignored.out").write_text("")
    found = read_changes(repository / "sub", "base")
    assert found.changed == {"committed.md", "staged.md", "ü.md", "x.md", "sub/y.md"}
    assert found.read_old("x.md") == b"1"
    assert found.read_old("staged.md") is None
    assert found.is_unknown("ignored.out")


def test_a_change_that_git_was_told_not_to_see_counts(repository):
    git(repository, "update-index", "--assume-unchanged", "x.md")
    assert read_changes(repository, "base").changed == {"x.md"}


def test_an_unknown_commit_says_what_to_do(repository):
    with pytest.raises(GitError, match=r"'nowhere' names no commit of this repository; .* fetch-depth: 0"):
        read_changes(repository, "nowhere")


@pytest.mark.parametrize("ref", ["--upload-pack=touch x", "", "a\nb"])
def test_an_option_is_no_commit(repository, ref):
    with pytest.raises(GitError, match="names no commit; expected a branch"):
        read_changes(repository, ref)


def test_no_repository_is_an_error_with_words_of_git(tmp_path):
    with pytest.raises(GitError, match="not a git repository"):
        read_changes(tmp_path, "main")
