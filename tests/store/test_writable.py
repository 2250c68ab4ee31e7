"""Whether a file can be written is checked without writing it."""

import os

import pytest
from support.odd_files import needs_odd_files, put_odd_file

from pytest_lecturecheck.store.atomic import READ_ONLY, write_text_atomically
from pytest_lecturecheck.store.writable import explain_unwritable


def test_what_can_be_written_is_not_made(tmp_path):
    assert explain_unwritable(tmp_path / "a" / "b" / "c.html") == ""
    assert list(tmp_path.iterdir()) == []
    old = tmp_path / "old.html"
    old.write_text("x", encoding="utf-8")
    assert explain_unwritable(old) == ""


def test_a_folder_in_the_place_of_the_file(tmp_path):
    assert explain_unwritable(tmp_path) == f"{tmp_path} is a folder; expected a file"


@needs_odd_files
def test_a_pipe_in_the_place_of_the_file(tmp_path):
    path = put_odd_file(tmp_path / "h.jsonl", "pipe")
    assert explain_unwritable(path) == f"{path} is no regular file; expected a file"


@needs_odd_files
def test_a_link_in_the_place_of_a_report_is_replaced(tmp_path):
    """A lecture may have put it there, and what it leads to is no report."""
    other, link = tmp_path / "other", tmp_path / "report.html"
    other.write_text("kept", encoding="utf-8")
    for target in (other, tmp_path / "nothing"):
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        write_text_atomically(link, "new", follows_links=False)
        assert not link.is_symlink()
        assert link.read_text(encoding="utf-8") == "new"
    assert other.read_text(encoding="utf-8") == "kept"
    assert sorted(tmp_path.iterdir()) == [other, link]


def test_a_file_in_the_place_of_a_folder(tmp_path):
    blocked = tmp_path / "a"
    blocked.write_text("x", encoding="utf-8")
    path = blocked / "b" / "c.html"
    assert explain_unwritable(path) == f"{path} cannot be written: {blocked} is a file; expected a folder"


def test_a_folder_without_permission(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(os, "access", lambda *args: asked.append(args))
    path = tmp_path / "b" / "c.html"
    assert explain_unwritable(path) == f"{path} cannot be written: no permission to write in {tmp_path}"
    assert asked == [(tmp_path, os.W_OK | os.X_OK)]


@pytest.mark.skipif(not hasattr(os, "statvfs"), reason="Windows has no such flag")
def test_a_read_only_file_system_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "statvfs", lambda _folder: os.statvfs_result((0, 0, 0, 0, 0, 0, 0, 0, 1, 0)))
    path = tmp_path / "c.html"
    assert explain_unwritable(path) == f"{path} cannot be written: {tmp_path} is on a read-only file system"


def test_a_read_only_file_is_refused_even_for_root(tmp_path):
    path = tmp_path / "report.md"
    path.write_text("kept", encoding="utf-8")
    path.chmod(0o444)
    assert explain_unwritable(path) == f"{path} cannot be written: {READ_ONLY}"
    with pytest.raises(PermissionError, match="read-only"):
        write_text_atomically(path, "new")
    assert path.read_text(encoding="utf-8") == "kept"
    assert list(tmp_path.iterdir()) == [path]
    path.chmod(0o644)
    write_text_atomically(path, "new")
    assert path.read_text(encoding="utf-8") == "new"
