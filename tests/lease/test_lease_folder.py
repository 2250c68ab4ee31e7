from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest

from pytest_lecturecheck.errors import LeaseError
from pytest_lecturecheck.lease import private_folder as folder_module
from pytest_lecturecheck.lease.admission import Capacity
from pytest_lecturecheck.lease.ledger import Ledger
from pytest_lecturecheck.lease.private_folder import default_folder, make_private_folder

ADVICE = (
    "expected a folder for leases that is private to you (mode 0700): remove it, or set XDG_RUNTIME_DIR or TMPDIR to a "
    "folder of your own, or run with --lecture-no-leases"
)


def test_the_runtime_folder_comes_first(tmp_path):
    assert default_folder({"XDG_RUNTIME_DIR": str(tmp_path)}) == tmp_path / "lecturecheck-leases"


@pytest.mark.parametrize("given", ["", "relative/path", "/nowhere/at/all", __file__])
def test_else_the_temporary_folder_is_used(given):
    expected = Path(tempfile.gettempdir()) / f"lecturecheck-leases-{os.geteuid()}"
    assert default_folder({"XDG_RUNTIME_DIR": given}) == expected
    assert default_folder({}) == expected


def test_the_runtime_folder_of_another_user_is_ignored(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert default_folder({"XDG_RUNTIME_DIR": str(tmp_path)}).name == "lecturecheck-leases-12345"


def test_the_folder_is_made_private_and_found_again(folder):
    make_private_folder(folder)
    make_private_folder(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def make_link(folder):
    (folder.parent / "real").mkdir(mode=0o700)
    folder.symlink_to(folder.parent / "real")


def make_dangling_link(folder):
    folder.symlink_to(folder.parent / "nothing")


def make_file(folder):
    folder.write_text("", encoding="utf-8")


def make_readable(folder):
    folder.mkdir()
    folder.chmod(0o750)


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (make_link, "is a symbolic link"),
        (make_dangling_link, "is a symbolic link"),
        (make_file, "is not a folder"),
        (make_readable, "is accessible to other users (mode 0750)"),
    ],
)
def test_an_unsafe_folder_is_refused(folder, make, fault):
    make(folder)
    with pytest.raises(LeaseError) as caught:
        Ledger(folder, Capacity(host_bytes=1)).running()
    assert str(caught.value) == f"{folder}: {fault}; {ADVICE}"
    assert not list(folder.parent.rglob("lock*"))


def test_a_folder_of_another_user_is_refused(folder, monkeypatch):
    folder.mkdir(mode=0o700)
    own = folder.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    with pytest.raises(LeaseError) as caught:
        folder_module._check_folder(folder)
    assert str(caught.value) == f"{folder}: belongs to user {own}, not to user {own + 1}; {ADVICE}"


def refused_place(parent):
    found = parent.stat()
    return (
        f"{parent}: other users can replace folders there (owner {found.st_uid}, mode "
        f"{stat.S_IMODE(found.st_mode):04o}); expected a folder owned by you or root that others cannot write to, or "
        "one with the sticky bit: set "
        "XDG_RUNTIME_DIR or TMPDIR to one, or run with --lecture-no-leases"
    )


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_parent_where_others_can_replace_folders_is_refused(tmp_path, mode):
    parent = tmp_path / "shared"
    parent.mkdir()
    parent.chmod(mode)
    with pytest.raises(LeaseError) as caught:
        make_private_folder(parent / "leases")
    assert str(caught.value) == refused_place(parent)
    assert list(parent.iterdir()) == []


def test_a_parent_of_another_user_is_refused(tmp_path, monkeypatch):
    parent = tmp_path / "theirs"
    parent.mkdir()
    if os.geteuid() == 0:
        os.chown(parent, 12345, -1)
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    with pytest.raises(LeaseError) as caught:
        make_private_folder(parent / "leases")
    assert str(caught.value) == refused_place(parent)


def test_a_sticky_shared_parent_is_accepted(tmp_path):
    parent = tmp_path / "tmp"
    parent.mkdir()
    parent.chmod(0o1777)
    make_private_folder(parent / "leases")
    assert (parent / "leases").is_dir()


def test_a_missing_parent_is_reported(tmp_path):
    folder = tmp_path / "gone" / "leases"
    with pytest.raises(LeaseError) as caught:
        make_private_folder(folder)
    assert str(caught.value) == (
        f"{folder}: the folder for leases cannot be created (No such file or directory); remove it, or set "
        "XDG_RUNTIME_DIR or TMPDIR to a folder of your own, or run with --lecture-no-leases"
    )
