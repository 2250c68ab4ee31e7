"""Segments of System V shared memory, from a recorded list and from this machine."""

import ctypes
import os
import sys

import pytest

from pytest_lecturecheck.probe.system_v_memory import (
    SEGMENTS_FILE,
    find_used,
    list_system_v_memory,
    remove_system_v_memory,
)

# Linux 6.18, with an attached segment and one that nobody has attached.
RECORDED = """\
       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      dtime      ctime                   rss                  swap
         0          7  1600             200000000  4711  4711      0 65534 65534 65534 65534 1796113904 1796113904 1796113903             200003584                     0
      1234          9   600                  4096    12    12      2     0     0     0     0 1796113904          0 1796113903                  4096                     0
"""  # noqa: E501 - recorded


@pytest.fixture
def recorded(tmp_path):
    path = tmp_path / "shm"
    path.write_text(RECORDED, encoding="ascii")
    return path


def test_segments_of_a_recorded_list(recorded):
    found = list_system_v_memory(recorded)
    assert found.keys() == {"shmid 7", "shmid 9"}
    assert (found["shmid 7"].segment.size_bytes, found["shmid 7"].segment.taken_bytes) == (200_000_000, 200_003_584)
    assert list_system_v_memory(recorded.with_name("none")) == {}


def test_the_maker_of_a_segment_is_its_user(recorded):
    names = {"shmid 7", "shmid 9", "psm_one"}
    assert find_used(names, [4711], path=recorded) == {"shmid 7"}
    assert find_used(names, path=recorded) == {"shmid 9"}
    assert find_used({"psm_one"}, path=recorded.with_name("none")) == frozenset()


def test_other_segments_are_not_removed():
    assert remove_system_v_memory("psm_one") is None


@pytest.mark.skipif(sys.platform != "linux" or not SEGMENTS_FILE.exists(), reason="a list of Linux")
def test_a_real_segment_is_found_and_removed():
    identity = ctypes.CDLL(None).shmget(0, 1_000_000, 0o1600)
    assert identity >= 0
    name = f"shmid {identity}"
    assert list_system_v_memory()[name].segment.size_bytes == 1_000_000
    assert find_used({name}, [os.getpid()]) == {name}
    assert remove_system_v_memory(name)
    assert name not in list_system_v_memory()
