"""How much memory is left, from recorded trees and from this machine."""

import sys
from pathlib import Path

import pytest

from pytest_lecturecheck.probe.memory_state import MemoryRoom, MemoryState, read_linux_memory_state, read_memory_state

MEMINFO = "MemTotal: 16000 kB\nMemFree: 100 kB\nMemAvailable: 4000 kB\n"


@pytest.fixture
def tree(tmp_path):
    """A machine of 16,000 KiB with a memory group of 8,000 KiB, of which 7,000 are used and 1,000 are page cache."""

    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    write("proc/meminfo", MEMINFO)
    write("proc/self/cgroup", "0::/job\n")
    write("sys/fs/cgroup/job/memory.max", f"{8000 * 1024}\n")
    write("sys/fs/cgroup/job/memory.current", f"{7000 * 1024}\n")
    write("sys/fs/cgroup/job/memory.stat", f"inactive_file {1000 * 1024}\n")
    return tmp_path


def test_machine_and_group(tree):
    assert read_linux_memory_state(tree) == MemoryState(
        machine=MemoryRoom(free_bytes=4000 * 1024, total_bytes=16000 * 1024),
        group=MemoryRoom(free_bytes=2000 * 1024, total_bytes=8000 * 1024),
    )


def test_a_group_without_a_limit_of_its_own_is_none(tree):
    """cgroup v1 writes a huge number for "no limit"."""
    for name in ("max", str(2**62)):
        (tree / "sys/fs/cgroup/job/memory.max").write_text(f"{name}\n")
        assert read_linux_memory_state(tree).group is None


def test_a_group_whose_use_is_unknown_is_none(tree):
    (tree / "sys/fs/cgroup/job/memory.current").unlink()
    assert read_linux_memory_state(tree).group is None


def test_nothing_that_can_be_read_is_none(tmp_path):
    assert read_linux_memory_state(tmp_path) == MemoryState()


@pytest.mark.skipif(not Path("/proc/meminfo").exists() and sys.platform == "linux", reason="no /proc")
def test_this_machine():
    room = read_memory_state().machine
    assert 0 < room.free_bytes <= room.total_bytes
    assert 0 < room.free_fraction <= 1
