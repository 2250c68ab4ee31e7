import os
import stat
from pathlib import Path

import pytest
from support.odd_files import needs_odd_files, put_odd_file

from pytest_lecturecheck.files import (
    PlainFileError,
    append_plain,
    open_plain,
    read_plain_bytes,
    read_plain_text,
    remove_tree,
)


def test_a_regular_file_is_read(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\rthree")
    assert read_plain_bytes(path) == path.read_bytes()
    assert read_plain_text(path, encoding="utf-8-sig") == "one\ntwo\nthree"


def test_size_limits_are_inclusive(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    assert read_plain_bytes(path, most_bytes=5) == b"12345"
    with pytest.raises(PlainFileError) as caught:
        read_plain_bytes(path, most_bytes=4)
    assert str(caught.value) == f"{path}: it has at least 5 bytes; expected at most 4"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="files without a size are of procfs")
def test_a_file_without_a_size_is_bounded_too():
    """Files of /proc have a size of 0, so only reading shows how large they are."""
    assert read_plain_bytes("/proc/self/status").startswith(b"Name:")
    with pytest.raises(PlainFileError, match="expected at most 10"):
        read_plain_bytes("/proc/self/status", most_bytes=10)


@needs_odd_files
@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("pipe", "a named pipe"),
        ("link to pipe", "a named pipe"),
        ("link to /dev/zero", "a character device"),
        ("socket", "a socket"),
        ("folder", "a folder"),
    ],
)
def test_anything_else_is_refused_at_once(tmp_path, kind, found):
    path = put_odd_file(tmp_path / "odd", kind)
    for read in (read_plain_bytes, read_plain_text, open_plain):
        with pytest.raises(PlainFileError) as caught:
            read(path)
        assert str(caught.value) == f"{path}: it is {found}; expected a regular file"
    with pytest.raises(PlainFileError):
        append_plain(path, b"text")


@needs_odd_files
def test_a_sparse_file_is_refused_by_its_size(tmp_path):
    with pytest.raises(PlainFileError, match="it has at least 1,099,511,627,776 bytes"):
        read_plain_bytes(put_odd_file(tmp_path / "huge", "sparse"))


def test_a_missing_file_keeps_its_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_plain_bytes(tmp_path / "missing")


@needs_odd_files
def test_a_link_is_refused_where_links_are_not_followed(tmp_path):
    (tmp_path / "target").write_text("text")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    assert read_plain_bytes(tmp_path / "link") == b"text"
    with pytest.raises(PlainFileError, match="a symbolic link"):
        read_plain_bytes(tmp_path / "link", follow_links=False)


@needs_odd_files
def test_a_file_that_is_replaced_before_opening_is_refused(tmp_path, monkeypatch):
    """The check of the path alone could be raced; the open file is checked again."""
    path = tmp_path / "a"
    path.write_text("text")
    regular = path.stat()
    path.unlink()
    os.mkfifo(path)
    monkeypatch.setattr("pathlib.Path.stat", lambda *_args, **_kwargs: regular)
    with pytest.raises(PlainFileError, match="a named pipe"):
        read_plain_bytes(path)


def test_text_is_appended_to_a_file(tmp_path):
    path = tmp_path / "a"
    append_plain(path, b"one\n")
    append_plain(path, b"two\n")
    assert path.read_bytes() == b"one\ntwo\n"
    assert stat.S_ISREG(path.stat().st_mode)


@pytest.mark.skipif(os.name == "nt", reason="folders of POSIX")
def test_a_tree_is_removed_whatever_its_depth_and_its_modes(tmp_path, monkeypatch):
    """Neither recursion nor a path reaches its end; root may enter every folder, so the modes are for plain users."""
    folder, outside = tmp_path / "run", tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    folder.mkdir()
    (folder / "link").symlink_to(outside)
    monkeypatch.chdir(folder)
    for _ in range(2_500):
        os.mkdir("d")  # noqa: PTH102 - relative to the working folder
        os.chdir("d")
    Path("link").symlink_to(outside)
    monkeypatch.chdir(tmp_path)
    closed = folder / "closed"
    (closed / "inner").mkdir(parents=True)
    (closed / "inner" / "file").touch()
    (closed / "inner").chmod(0o500)
    closed.chmod(0)
    remove_tree(folder)
    assert not folder.exists()
    assert (outside / "kept").exists()
    remove_tree(folder)
