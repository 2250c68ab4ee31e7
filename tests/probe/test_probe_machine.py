import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_lecturecheck.model.probe import CommitRule
from pytest_lecturecheck.probe.machine import (
    available_memory,
    detect_machine,
    detect_platform,
    read_commit_rule,
    read_linux_available_memory,
    read_linux_commit_rule,
    read_linux_machine,
    read_ulimit,
)
from pytest_lecturecheck.probe.memory_limits import cpu_quota_cores, smallest_ulimit
from pytest_lecturecheck.units import GIB, MIB

TREES = Path(__file__).parent / "trees"
RAM = 65536000 * 1024
SLURM_JOB = {"SLURM_MEM_PER_CPU": "1000", "SLURM_CPUS_ON_NODE": "3"}
LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max cpu time              unlimited            unlimited            seconds
Max data size             {data}            unlimited            bytes
Max address space         {address}            unlimited            bytes
Max nice priority         0                    0
"""


def write(root, **texts):
    for name, text in texts.items():
        path = root / name.replace("__", "/").replace("-", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def read(root, environ=None, affinity_count=8):
    return read_linux_machine(root, environ=environ or {}, affinity_count=affinity_count)


@pytest.fixture
def tree(tmp_path):
    write(tmp_path, proc__meminfo="MemTotal: 65536000 kB\nMemAvailable: 60000000 kB\nSwapTotal: 1024 kB\n")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("v1", "container (cgroup v1 memory.limit_in_bytes)"),
        ("v2", "container (cgroup v2 memory.max)"),
        ("hybrid", "container (cgroup v1 memory.limit_in_bytes)"),
    ],
)
def test_container_limit(name, source):
    machine = read(TREES / name)
    assert machine.memory_limit_bytes == 4 * GIB
    assert machine.memory_limit_source == source
    assert machine.usable_memory_bytes == 4 * GIB


def test_unlimited_container():
    machine = read(TREES / "v1_unlimited")
    assert machine.memory_limit_bytes is None
    assert machine.memory_limit_source == ""
    assert machine.usable_memory_bytes == RAM


def test_limit_of_the_mount_if_the_path_is_the_hosts(tree):
    write(
        tree,
        proc__self__cgroup="5:memory:/docker/abc\n0::/\n",
        **{"sys__fs__cgroup__memory__memory-limit_in_bytes": str(2 * GIB)},
    )
    assert read(tree).memory_limit_bytes == 2 * GIB


def test_path_that_climbs_stays_inside(tree):
    write(
        tree, proc__self__cgroup="0::/../../box\n", **{"sys__fs__memory-max": "1", "sys__fs__cgroup__memory-max": "9"}
    )
    assert read(tree).memory_limit_bytes == 9


@pytest.mark.parametrize(
    ("data", "address", "limit", "source"),
    [
        ("1073741824", "unlimited", GIB, "ulimit -d (RLIMIT_DATA)"),
        ("4294967296", "2147483648", 2 * GIB, "ulimit -v (RLIMIT_AS)"),
        ("unlimited", "unlimited", None, ""),
        (str(RAM), "unlimited", None, ""),
    ],
)
def test_ulimit(tree, data, address, limit, source):
    write(tree, proc__self__limits=LIMITS.format(data=data, address=address))
    machine = read(tree)
    assert (machine.memory_limit_bytes, machine.memory_limit_source) == (limit, source)


@pytest.mark.parametrize(
    ("environ", "limit", "source"),
    [
        ({"SLURM_MEM_PER_NODE": "4096"}, 4096 * MIB, "Slurm (SLURM_MEM_PER_NODE)"),
        ({"SLURM_MEM_PER_NODE": "4G"}, 4 * GIB, "Slurm (SLURM_MEM_PER_NODE)"),
        (SLURM_JOB, 3000 * MIB, "Slurm (SLURM_MEM_PER_CPU x 3 CPUs)"),
        ({"SLURM_MEM_PER_NODE": "0"}, None, ""),
        ({"SLURM_MEM_PER_NODE": "plenty"}, None, ""),
        ({"SLURM_MEM_PER_CPU": "1000"}, None, ""),
    ],
)
def test_slurm(tree, environ, limit, source):
    machine = read(tree, environ)
    assert (machine.memory_limit_bytes, machine.memory_limit_source) == (limit, source)


def test_smallest_limit_wins(tree):
    shutil.copytree(TREES / "v2" / "sys", tree / "sys")
    write(
        tree,
        proc__self__cgroup="0::/box/job7\n",
        proc__self__limits=LIMITS.format(data="unlimited", address=str(5 * GIB)),
    )
    assert read(tree, SLURM_JOB).memory_limit_source == "Slurm (SLURM_MEM_PER_CPU x 3 CPUs)"
    assert read(tree).memory_limit_source == "container (cgroup v2 memory.max)"


@pytest.mark.parametrize(
    ("texts", "cores"),
    [
        ({"sys__fs__cgroup__a__cpu-max": "150000 100000\n"}, 2),
        ({"sys__fs__cgroup__cpu-max": "max 100000\n"}, 8),
        ({"sys__fs__cgroup__a__cpu-max": "10000 100000\n"}, 1),
        ({"sys__fs__cgroup__a__cpu-max": "5000000 100000\n"}, 8),
        (
            {
                "sys__fs__cgroup__cpu,cpuacct__b__cpu-cfs_quota_us": "300000",
                "sys__fs__cgroup__cpu,cpuacct__b__cpu-cfs_period_us": "100000",
            },
            3,
        ),
        (
            {
                "sys__fs__cgroup__cpu,cpuacct__b__cpu-cfs_quota_us": "-1",
                "sys__fs__cgroup__cpu,cpuacct__b__cpu-cfs_period_us": "100000",
            },
            8,
        ),
    ],
)
def test_cores_under_a_quota(tree, texts, cores):
    write(tree, proc__self__cgroup="3:cpu,cpuacct:/b\n0::/a\n", **texts)
    assert read(tree).core_count == cores


def test_no_quota(tree):
    assert cpu_quota_cores(tree) is None


def test_processor_swap_and_huge_pages(tree):
    write(
        tree,
        proc__cpuinfo="model name\t: AMD EPYC 7763\n",
        sys__kernel__mm__transparent_hugepage__enabled="always [madvise] never\n",
    )
    machine = read_linux_machine(
        tree, environ={}, affinity_count=2, accelerators=["Tesla T4"], driver="550.1", cuda="12.4"
    )
    assert machine.cpu == "AMD EPYC 7763"
    assert machine.ram_bytes == RAM
    assert machine.swap_bytes == MIB
    assert machine.transparent_hugepages == "madvise"
    assert machine.accelerators == ("Tesla T4",)
    assert machine.driver == "550.1"
    assert machine.cuda == "12.4"


def test_available_memory_of_an_unlimited_machine(tree):
    assert read_linux_available_memory(tree) == 60000000 * 1024


def test_available_memory_counts_cache_as_free(tree):
    write(
        tree,
        proc__self__cgroup="0::/box\n",
        **{
            "sys__fs__cgroup__box__memory-max": "4000000000",
            "sys__fs__cgroup__box__memory-current": "3000000000",
            "sys__fs__cgroup__box__memory-stat": "anon 1\ninactive_file 500000000\n",
        },
    )
    assert read_linux_available_memory(tree) == 1500000000


def test_available_memory_of_nothing(tmp_path):
    assert read_linux_available_memory(tmp_path) is None


def test_this_machine():
    machine = detect_machine(accelerators=["Tesla T4"], driver="550.1", cuda="12.4")
    assert (machine.accelerators, machine.driver, machine.cuda) == (("Tesla T4",), "550.1", "12.4")
    assert re.fullmatch(r"[A-Za-z]+ [0-9]+(\.[0-9]+)?", machine.system)
    assert machine.architecture == detect_platform().split("-")[1]
    assert machine.cpu
    assert 1 <= machine.core_count <= (os.cpu_count() or 1)
    assert machine.ram_bytes > 128 * MIB
    assert machine.swap_bytes is not None
    assert machine.swap_bytes >= 0
    assert (machine.memory_limit_bytes is None) == (machine.memory_limit_source == "")
    assert machine.usable_memory_bytes > 0
    available = available_memory()
    assert available is not None
    assert 0 < available <= machine.ram_bytes


def test_platform_of_this_machine():
    system = {"linux": "linux", "darwin": "darwin", "win32": "windows"}[sys.platform]
    assert detect_platform() == f"{system}-{detect_machine().architecture}-cpu"
    assert detect_platform("Tesla T4").endswith("-tesla_t4")


@pytest.mark.skipif(sys.platform != "linux", reason="prlimit exists on Linux only")
def test_a_real_ulimit_is_seen():
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, resource.RLIM_INFINITY));"
        "from pytest_lecturecheck.probe.machine import detect_machine; m = detect_machine();"
        "print(m.memory_limit_bytes, m.memory_limit_source)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1073741824 ulimit -d (RLIMIT_DATA)\n"


@pytest.mark.skipif(sys.platform != "linux", reason="prlimit exists on Linux only")
def test_a_ulimit_above_the_machines_memory_counts():
    code = "import resource as r; r.setrlimit(r.RLIMIT_AS, (1 << 46, 1 << 46)); print(1, flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        assert read_ulimit(process.pid) == (1 << 46, "ulimit -v (RLIMIT_AS)")
        process.communicate(b"\n")


def test_the_ulimit_of_a_process_that_is_gone(tree):
    write(tree, proc__self__limits=LIMITS.format(data="unlimited", address=str(2 * RAM)))
    assert smallest_ulimit(tree, 77).limit_bytes == 2 * RAM
    write(tree, proc__77__limits=LIMITS.format(data="unlimited", address="unlimited"))
    assert smallest_ulimit(tree, 77) is None


@pytest.mark.parametrize(
    ("mode", "rule"),
    [
        ("0\n", CommitRule(refuses_when_full=False)),
        ("1\n", CommitRule(refuses_when_full=False)),
        ("2\n", CommitRule(refuses_when_full=True, limit_bytes=3 * GIB)),
        ("", CommitRule()),
    ],
)
def test_the_mode_of_overcommit_says_whether_memory_is_refused(tmp_path, mode, rule):
    write(tmp_path, proc__meminfo=f"MemTotal: 65536000 kB\nCommitLimit: {3 * 1024**2} kB\n")
    write(tmp_path, proc__sys__vm__overcommit_memory=mode)
    assert read_linux_commit_rule(tmp_path) == rule


def test_this_system_states_its_commit_rule():
    rule = read_commit_rule()
    assert rule.refuses_when_full in {True, False, None}
    assert rule.limit_bytes is None or rule.limit_bytes > 0
