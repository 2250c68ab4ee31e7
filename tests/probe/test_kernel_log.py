import os
import sys

import pytest
from support.recorded_trees import write_tree

from pytest_lecturecheck.probe.oom import read_kernel_log, read_load_average

LOG = """\
6,100,5000000,-;Linux version 6.1
3,101,7000000000,-;Memory cgroup out of memory: Killed process 4321 (python) total-vm:9000kB, anon-rss:8000kB
 SUBSYSTEM=memory
6,102,7000000001,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/a,task_memcg=/a,task=python,pid=4321,uid=0
3,103,7000000002,-;Out of memory: Killed process 43210 (python) total-vm:1kB
3,104,7000000003,-;Out of memory (oom_kill_allocating_task): Killed process 77 (a b), UID 0, total-vm:1kB
12,105,7000000004,-;Out of memory: Killed process 77 (written by a user) total-vm:1kB
6,106,7000000005,-;oom_reaper: reaped process 4321 (python), now anon-rss:0kB
4,107,7000000006,-;x: Killed process 77 (quoted) total-vm:1kB
not a record
"""
OF_4321 = (
    "Memory cgroup out of memory: Killed process 4321 (python) total-vm:9000kB, anon-rss:8000kB",
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/a,task_memcg=/a,task=python,pid=4321,uid=0",
)
OF_77 = ("Out of memory (oom_kill_allocating_task): Killed process 77 (a b), UID 0, total-vm:1kB",)


@pytest.fixture
def log(tmp_path):
    write_tree(tmp_path, {"dev/kmsg": LOG})
    return tmp_path


@pytest.mark.parametrize(
    ("pids", "lines"),
    [([4321], OF_4321), ([77, 5], OF_77), ([77, 4321], (*OF_4321, *OF_77)), ([7, 432], ()), ([], ())],
)
def test_the_log_is_searched_for_given_processes(log, pids, lines):
    assert read_kernel_log(pids, log) == lines


def test_lines_from_before_the_run_are_ignored(log):
    assert read_kernel_log([4321], log, since_seconds=7100.0) == OF_4321
    assert read_kernel_log([4321], log, since_seconds=7301.0) == ()


def test_the_log_is_bounded(tmp_path):
    line = "3,1,1,-;Out of memory: Killed process 5 (x) number:{}\n"
    write_tree(
        tmp_path, {"dev/kmsg": "".join(line.format(number) for number in range(40)) + "3,1,1,-;" + "x" * 100_000}
    )
    lines = read_kernel_log([5], tmp_path)
    assert lines == tuple(f"Out of memory: Killed process 5 (x) number:{number}" for number in range(30, 40))


def test_no_log_gives_no_lines(tmp_path):
    assert read_kernel_log([1], tmp_path) == ()
    (tmp_path / "dev" / "kmsg").mkdir(parents=True)
    assert read_kernel_log([1], tmp_path) == ()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are of POSIX systems")
def test_a_silent_log_is_not_waited_for(tmp_path):
    (tmp_path / "dev").mkdir()
    os.mkfifo(tmp_path / "dev" / "kmsg")
    writer = os.open(tmp_path / "dev" / "kmsg", os.O_RDWR)
    try:
        assert read_kernel_log([1], tmp_path) == ()
    finally:
        os.close(writer)


@pytest.mark.skipif(os.name == "nt", reason="links take privileges on Windows")
@pytest.mark.parametrize(("namespace", "lines"), [("pid:[4026531836]", OF_4321), ("pid:[4026532222]", ())])
def test_the_log_is_ignored_in_an_inner_namespace(log, namespace, lines):
    (log / "proc/self/ns").mkdir(parents=True)
    (log / "proc/self/ns/pid").symlink_to(namespace)
    assert read_kernel_log([4321], log) == lines


STAT = "cpu  1 2 3\n" + "".join(f"cpu{number} 1 2 3\n" for number in range(4)) + "intr 5\ncpux 1\n"


@pytest.mark.parametrize(
    ("loadavg", "core_count", "load"),
    [
        ("8.25 4.48 4.03 6/171 3993\n", None, 8.25),
        ("8.25 4.48 4.03 6/171 3993\n", 4, 8.25),
        ("8.25 4.48 4.03 6/171 3993\n", 2, None),
        ("0.00 0.01 0.05 1/80 12\n", 4, 0.0),
        ("", 4, None),
        ("many\n", 4, None),
    ],
)
def test_load_average(tmp_path, loadavg, core_count, load):
    write_tree(tmp_path, {"proc/loadavg": loadavg, "proc/stat": STAT})
    assert read_load_average(tmp_path, core_count=core_count) == load


def test_load_average_that_cannot_be_read(tmp_path):
    assert read_load_average(tmp_path) is None


def test_log_and_load_of_this_machine():
    assert read_kernel_log([2**30]) == ()
    load = read_load_average()
    if sys.platform == "win32":
        assert load is None
    else:
        assert load is not None
        assert load >= 0
