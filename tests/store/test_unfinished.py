"""Entries of a session that is cut off: what is on the disk, and who may take it."""

import json
import os

import pytest

from pytest_lecturecheck.store.unfinished import UnfinishedFile, find_unfinished, forget_old

ABOUT = {"platform": "linux-x86_64-cpu", "mode": "record", "version": "1.0"}


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "unfinished"


@pytest.fixture
def left(folder):
    """The file of a session that was killed after two entries."""
    file = UnfinishedFile(lambda: folder, ABOUT)
    file.add([{"run": 1}])
    file.add([{"run": 2}])
    file.close(remove=False)
    (path,) = folder.iterdir()
    return path


def test_entries_of_a_killed_session_are_found(folder, left):
    (found,) = find_unfinished(folder)
    assert (found.path, found.records, found.damaged_count) == (left, ({"run": 1}, {"run": 2}), 0)
    assert {key: found.about[key] for key in ABOUT} == ABOUT


def test_a_running_session_is_left_alone(folder):
    file = UnfinishedFile(lambda: folder, ABOUT)
    file.add([{"run": 1}])
    assert find_unfinished(folder) == ()
    file.close(remove=True)
    assert list(folder.iterdir()) == []


def test_a_session_without_entries_writes_no_file(folder):
    UnfinishedFile(lambda: folder, ABOUT).close(remove=True)
    assert not folder.exists()


@pytest.mark.parametrize(
    ("rest", "records", "damaged"),
    [
        (b'{"run":1}\n{"ru', ({"run": 1},), 1),
        (b'\xff\xfe\n[1]\n{"run":1}\n', ({"run": 1},), 2),
        (b"[" * 100_000 + b"\n", (), 1),
    ],
    ids=["cut off", "no objects", "too deep"],
)
def test_damaged_lines_are_counted_and_skipped(folder, left, rest, records, damaged):
    head = left.read_bytes().split(b"\n")[0]
    left.write_bytes(head + b"\n" + rest)
    (found,) = find_unfinished(folder)
    assert (found.records, found.damaged_count) == (records, damaged)


@pytest.mark.parametrize("head", [b"{}", json.dumps({"time": 1, "event": "x", "schema": 99, "locked": True}).encode()])
def test_files_of_other_versions_are_left_alone(folder, left, head):
    left.write_bytes(head + b'\n{"run":1}\n')
    os.utime(left, (0, 0))
    assert find_unfinished(folder) == ()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes of POSIX")
def test_a_pipe_in_the_folder_is_not_waited_for(folder, left):
    os.mkfifo(folder / "20260101T000000Z-00000000.jsonl")
    (found,) = find_unfinished(folder)
    assert found.path == left


def test_only_the_last_few_are_kept(folder):
    for _ in range(8):
        file = UnfinishedFile(lambda: folder, ABOUT)
        file.add([{"run": 1}])
        file.close(remove=False)
    forget_old(folder)
    assert len(list(folder.iterdir())) == 5
