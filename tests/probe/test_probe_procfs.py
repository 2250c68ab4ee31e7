import pytest

from pytest_lecturecheck.probe.procfs import (
    Counters,
    ProportionalSizes,
    Status,
    Traffic,
    parse_bracketed_choice,
    parse_children,
    parse_cpu_model,
    parse_namespace_pids,
    parse_sizes,
    parse_smaps_rollup,
    parse_stat,
    parse_status,
    parse_traffic,
)

STATUS = b"""Name:\tpython VmRSS:\t7 kB
Umask:\t0022
State:\tS (sleeping)
VmPeak:\t  813000 kB
VmSize:\t  813000 kB
VmHWM:\t   61000 kB
VmRSS:\t   52000 kB
RssAnon:\t   30000 kB
RssFile:\t   22000 kB
RssShmem:\t       0 kB
VmSwap:\t    1024 kB
Threads:\t13
Cpus_allowed:\t3
"""
ZOMBIE = b"Name:\tpython\nState:\tZ (zombie)\nThreads:\t1\n"
STAT = (
    b"7166 (a) b (py) S 7165 7166 7166 0 -1 4194304 9829 75 3 4 33 17 2 1 20 0 13 0 126601 832544768 13097 184 "
    b"94 94 14 0 0 0 0 1678 2 0 0 0 17 1 0 0 0 0 0\n"
)
ROLLUP = b"""560a4d36b000-7ffffa8b8000 ---p 00000000 00:00 0                          [rollup]
Rss:                1628 kB
Pss:                 263 kB
Pss_Dirty:           108 kB
Swap:                 32 kB
SwapPss:              16 kB
"""


def test_status():
    assert parse_status(STATUS) == Status(
        rss_bytes=52000 * 1024,
        high_watermark_bytes=61000 * 1024,
        swap_bytes=1024 * 1024,
        thread_count=13,
        file_bytes=22000 * 1024,
    )


@pytest.mark.parametrize("text", [ZOMBIE, b"", b"\nVmRSS:", b"\nVmHWM:\tx kB\nVmRSS:\t1 kB\n"])
def test_status_without_memory(text):
    assert parse_status(text) is None


def test_status_of_a_system_without_swap_lines():
    found = parse_status(STATUS.replace(b"VmSwap:\t    1024 kB\n", b""))
    assert found is not None
    assert found.swap_bytes == 0


def test_stat_with_parentheses_in_the_name():
    assert parse_stat(STAT) == Counters(
        parent=7165,
        is_zombie=False,
        child_faults_count=75,
        major_faults_count=7,
        cpu_ticks=53,
        start_ticks=126601,
        reaped_major_faults_count=4,
        reaped_cpu_ticks=3,
    )


def test_stat_of_a_zombie():
    found = parse_stat(STAT.replace(b") S ", b") Z "))
    assert found is not None
    assert found.is_zombie


@pytest.mark.parametrize("text", [b"", b"1 (a) S 2", STAT.replace(b"7165", b"x")])
def test_stat_that_is_cut(text):
    assert parse_stat(text) is None


def test_traffic():
    text = b"rchar: 6976\nwchar: 1\nsyscr: 10\nsyscw: 0\nread_bytes: 5\nwrite_bytes: 4096\ncancelled_write_bytes: 7\n"
    assert parse_traffic(text) == Traffic(written_bytes=4096, fetched_bytes=5, called_bytes=6976)
    assert parse_traffic(b"rchar: 1\n") is None


def test_smaps_rollup():
    assert parse_smaps_rollup(ROLLUP) == ProportionalSizes(pss_bytes=263 * 1024, swap_bytes=16 * 1024)
    assert parse_smaps_rollup(b"") is None


def test_children():
    assert parse_children(b"12 345 ") == (12, 345)
    assert parse_children(b"") == ()


def test_sizes_of_meminfo():
    text = "MemTotal:       24684092 kB\nHugePages_Total:       0\nActive(anon):   12 kB\n"
    assert parse_sizes(text) == {"MemTotal": 24684092 * 1024, "Active(anon)": 12 * 1024}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("processor\t: 0\nmodel name\t: AMD  EPYC 7763\n\nmodel name\t: other\n", "AMD EPYC 7763"),
        ("processor : 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n", "Arm implementer 0x41 part 0xd0c"),
        ("processor\t: 0\ncpu\t\t: POWER9, altivec supported\n", "POWER9, altivec supported"),
        ("", ""),
    ],
)
def test_cpu_model(text, expected):
    assert parse_cpu_model(text) == expected


def test_bracketed_choice():
    assert parse_bracketed_choice("always defer defer+madvise [madvise] never\n") == "madvise"
    assert parse_bracketed_choice("") is None


@pytest.mark.parametrize(
    ("text", "pids"),
    [
        (b"Name:\tpython\nNSpid:\t4242\t37\t1\nThreads:\t1\n", (4242, 37, 1)),
        (b"Name:\tNSpid:\\n 5\nNSpid:\t7\n", (7,)),
        (b"Name:\tpython\n", ()),
        (b"", ()),
    ],
)
def test_numbers_in_each_pid_namespace(text, pids):
    assert parse_namespace_pids(text) == pids
