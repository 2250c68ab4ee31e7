import os
import subprocess
import sys
import uuid
from multiprocessing import shared_memory
from pathlib import Path

import pytest

from pytest_lecturecheck.model.probe import RUN_TOKEN_VARIABLE
from pytest_lecturecheck.probe.marked_processes import MarkedProcesses, find_mapped, find_marked, list_shared_memory

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc and /dev/shm")


def write_environ(root, pid, text):
    (root / str(pid)).mkdir(exist_ok=True)
    (root / str(pid) / "environ").write_bytes(text)


def test_marked_processes_of_a_recorded_tree(tmp_path):
    write_environ(tmp_path, 30, b"A=1\0LECTURECHECK_RUN=tok\0B=2\0")
    write_environ(tmp_path, 4, b"LECTURECHECK_RUN=tok")
    write_environ(tmp_path, 5, b"LECTURECHECK_RUN=token\0")
    write_environ(tmp_path, 6, b"XLECTURECHECK_RUN=tok\0")
    write_environ(tmp_path, 7, b"")
    (tmp_path / "8").mkdir()
    (tmp_path / "sys").mkdir()
    assert find_marked("tok", tmp_path) == [4, 30]


def test_a_scan_finds_new_processes_and_forgets_ended_ones(tmp_path):
    write_environ(tmp_path, 4, b"LECTURECHECK_RUN=tok\0")
    marked = MarkedProcesses("tok", tmp_path)
    assert marked.scan() == [4]
    write_environ(tmp_path, 9, b"LECTURECHECK_RUN=tok\0")
    write_environ(tmp_path, 4, b"another process of the same number")
    assert marked.scan() == [9]


def test_no_proc_at_all(tmp_path):
    assert find_marked("tok", tmp_path / "none") == []


@on_linux
def test_a_real_marked_process():
    token = uuid.uuid4().hex
    code = "print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env={RUN_TOKEN_VARIABLE: token},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        process.stdout.readline()
        assert find_marked(token) == [process.pid]
        process.communicate(b"\n")
    assert find_marked(token) == []


def test_shared_memory_of_a_recorded_folder(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "segment").write_bytes(b"x" * 8192)
    (tmp_path / "link").symlink_to(tmp_path / "folder" / "segment")
    assert list(list_shared_memory(tmp_path)) == ["folder/segment"]
    assert list_shared_memory(tmp_path / "none") == {}


def test_mapped_segments_of_a_recorded_tree(tmp_path):
    (tmp_path / "12").mkdir()
    (tmp_path / "12" / "maps").write_bytes(
        b"7f00-7f10 rw-s 00000000 00:1f 9   /dev/shm/psm_one\n"
        b"7f20-7f30 rw-s 00000000 00:1f 9   /dev/shm/psm_two (deleted)\n"
    )
    assert find_mapped({"psm_one", "psm", "psm_two", "one"}, proc_root=tmp_path) == {"psm_one"}


@on_linux
def test_a_real_segment():
    before = list_shared_memory()
    segment = shared_memory.SharedMemory(create=True, size=5_000_000)
    try:
        segment.buf[:] = b"x" * segment.size
        new = {name: size for name, size in list_shared_memory().items() if name not in before}
        assert new[segment.name].size_bytes == segment.size
        assert new[segment.name].taken_bytes >= 5_000_000
        assert find_mapped({segment.name, "nobody"}) == {segment.name}
        assert find_mapped({segment.name}, [os.getpid()]) == {segment.name}
        assert find_mapped({segment.name}, [os.getppid()]) == frozenset()
    finally:
        segment.close()
        assert find_mapped({segment.name}) == frozenset()
        segment.unlink()
    assert segment.name not in list_shared_memory()


@on_linux
def test_a_segment_that_is_only_open_has_an_owner():
    """A segment that a lecture has created and not mapped is still the lecture's."""
    path = Path("/dev/shm") / f"lc-test-{os.getpid()}"
    with path.open("xb"):
        try:
            assert find_mapped({path.name}, [os.getpid()]) == {path.name}
        finally:
            path.unlink()
    assert find_mapped({path.name}, [os.getpid()]) == frozenset()
