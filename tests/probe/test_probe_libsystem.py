"""The interface of macOS over a stand-in of its library, whose structures are laid out by a C compiler."""

import ctypes
import errno
import sys

import pytest

from pytest_lecturecheck.probe.libsystem import LIBRARY, LibSystem, RusageInfo, open_libsystem

PROCESS = "process 100 1 resident=4096 footprint=8192 interval=12288 lifetime=16384 start=77 last=99"


def test_the_layout_is_the_compilers(mac):
    names = {
        "user": RusageInfo.ri_user_time,
        "system": RusageInfo.ri_system_time,
        "pageins": RusageInfo.ri_pageins,
        "resident": RusageInfo.ri_resident_size,
        "footprint": RusageInfo.ri_phys_footprint,
        "start": RusageInfo.ri_proc_start_abstime,
        "exit": RusageInfo.ri_proc_exit_abstime,
        "child_user": RusageInfo.ri_child_user_time,
        "child_system": RusageInfo.ri_child_system_time,
        "child_pageins": RusageInfo.ri_child_pageins,
        "child_elapsed": RusageInfo.ri_child_elapsed_abstime,
        "written": RusageInfo.ri_diskio_byteswritten,
        "lifetime": RusageInfo.ri_lifetime_max_phys_footprint,
        "interval": RusageInfo.ri_interval_max_phys_footprint,
        "last": RusageInfo.ri_runnable_time,
    }
    assert {name: mac.raw.stub_offset(name.encode()) for name in names} == {
        name: field.offset for name, field in names.items()
    }
    assert (names["footprint"].offset, names["lifetime"].offset, names["interval"].offset) == (72, 240, 280)
    assert mac.raw.stub_size() == ctypes.sizeof(RusageInfo) == 296


def test_counters_of_a_process(mac):
    mac.say(PROCESS)
    info = mac.system.rusage(100)
    assert isinstance(info, RusageInfo)
    assert (info.ri_resident_size, info.ri_phys_footprint) == (4096, 8192)
    assert (info.ri_interval_max_phys_footprint, info.ri_lifetime_max_phys_footprint) == (12288, 16384)
    assert (info.ri_proc_start_abstime, info.ri_proc_exit_abstime, info.ri_runnable_time) == (77, 0, 99)


@pytest.mark.parametrize("error", [errno.EPERM, errno.EINVAL])
def test_refusals(mac, error):
    mac.say(PROCESS, f"error proc_pid_rusage:100 {error}")
    assert mac.system.rusage(100) == error
    assert mac.system.rusage(101) == errno.ESRCH


def test_the_interval_is_reset(mac):
    mac.say(f"error proc_reset_footprint_interval:7 {errno.EACCES}")
    assert [mac.system.reset_footprint_interval(pid) for pid in (100, 7)] == [True, False]
    assert mac.resets.read_text("ascii") == "100\n"


def test_children(mac):
    mac.say("process 7 100", "process 8 100", "process 9 7")
    assert [mac.system.children(pid) for pid in (100, 7, 9)] == [{7, 8}, {9}, frozenset()]
    mac.say("process 7 100", f"error proc_listpids:100 {errno.EPERM}")
    assert mac.system.children(100) is None


@pytest.mark.parametrize("count", [255, 256, 257, 1100])
def test_more_children_than_the_first_list_holds(mac, count):
    mac.say(*(f"process {pid} 1" for pid in range(1000, 1000 + count)))
    assert mac.system.children(1) == set(range(1000, 1000 + count))


@pytest.mark.parametrize(
    ("lines", "seconds"),
    [
        (["timebase 125 3"], 125 / 3 * 1e-9),
        (["timebase 1 1", "number sysctl.proc_translated 4 0"], 1e-9),
        (["timebase 1 1", "number sysctl.proc_translated 4 1"], None),
        (["timebase 1 0"], None),
        (["timebase 1 1", "error mach_timebase_info 5"], None),
    ],
)
def test_unit_of_times(mac, lines, seconds):
    mac.say(*lines)
    assert mac.system.seconds_per_tick() == (None if seconds is None else pytest.approx(seconds))


def test_sysctl(mac):
    mac.say(
        f"number hw.memsize 8 {64 << 30}",
        "number hw.logicalcpu 4 10",
        "number odd.size 2 5",
        "text machdep.cpu.brand_string Apple_M1_Max",
        f"swap {3 << 30} {2 << 30}",
    )
    assert [mac.system.number(name) for name in ("hw.memsize", "hw.logicalcpu", "odd.size", "none")] == [
        64 << 30,
        10,
        None,
        None,
    ]
    assert [mac.system.text(name) for name in ("machdep.cpu.brand_string", "none")] == ["Apple M1 Max", None]
    assert mac.system.swap_used_bytes() == 2 << 30
    mac.say()
    assert mac.system.swap_used_bytes() is None


def test_a_system_without_the_reset(old_mac):
    assert isinstance(old_mac.system, LibSystem)
    assert old_mac.system.reset_footprint_interval(100) is False
    assert old_mac.system.rusage(100) == errno.EINVAL


def test_a_library_without_the_counters(mac_library):
    library = mac_library("-DNO_RUSAGE")
    found = open_libsystem(str(library))
    assert isinstance(found, str)
    assert found.startswith("libsystem_stub.so is too old: ")
    assert "proc_pid_rusage" in found


def test_no_library(tmp_path):
    found = open_libsystem(str(tmp_path / "libSystem.B.dylib"))
    assert isinstance(found, str)
    assert found.startswith("libSystem.B.dylib cannot be loaded: ")


@pytest.mark.skipif(sys.platform != "darwin", reason="the library of macOS")
def test_the_library_of_this_system():
    system = open_libsystem(LIBRARY)
    assert isinstance(system, LibSystem)
    assert system.text("machdep.cpu.brand_string")
    assert (system.number("hw.memsize") or 0) > 1 << 30
    assert system.swap_used_bytes() is not None
