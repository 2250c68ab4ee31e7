"""
Processes and properties of macOS, through ``libproc`` and ``sysctlbyname`` of libSystem.

The interfaces follow Apple's published sources of xnu: ``proc_pid_rusage`` and ``struct rusage_info_v4``
(``bsd/sys/resource.h``), ``proc_reset_footprint_interval`` (``libproc_private.h``, macOS 10.14), ``proc_listpids``
(``libproc.h``). They work for processes of the same user without privileges, unlike ``task_for_pid``.
"""

from __future__ import annotations

import ctypes
import errno
import os
from typing import Any, Final

LIBRARY: Final = "/usr/lib/libSystem.B.dylib"

_RUSAGE_INFO_V4: Final = 4
_PROC_PPID_ONLY: Final = 6
_FIRST_PIDS: Final = 256
_MOST_PIDS: Final = 1 << 20
_TEXT_BYTES: Final = 256


class RusageInfo(ctypes.Structure):
    """
    ``struct rusage_info_v4``: sizes in bytes, times in Mach units.

    A zombie has ``ri_proc_exit_abstime`` set, and a footprint of 0.
    """

    _fields_ = (
        ("ri_uuid", ctypes.c_uint8 * 16),
        ("ri_user_time", ctypes.c_uint64),
        ("ri_system_time", ctypes.c_uint64),
        ("ri_pkg_idle_wkups", ctypes.c_uint64),
        ("ri_interrupt_wkups", ctypes.c_uint64),
        ("ri_pageins", ctypes.c_uint64),
        ("ri_wired_size", ctypes.c_uint64),
        ("ri_resident_size", ctypes.c_uint64),
        ("ri_phys_footprint", ctypes.c_uint64),
        ("ri_proc_start_abstime", ctypes.c_uint64),
        ("ri_proc_exit_abstime", ctypes.c_uint64),
        ("ri_child_user_time", ctypes.c_uint64),
        ("ri_child_system_time", ctypes.c_uint64),
        ("ri_child_pkg_idle_wkups", ctypes.c_uint64),
        ("ri_child_interrupt_wkups", ctypes.c_uint64),
        ("ri_child_pageins", ctypes.c_uint64),
        ("ri_child_elapsed_abstime", ctypes.c_uint64),
        ("ri_diskio_bytesread", ctypes.c_uint64),
        ("ri_diskio_byteswritten", ctypes.c_uint64),
        ("ri_cpu_time_qos", ctypes.c_uint64 * 7),
        ("ri_billed_system_time", ctypes.c_uint64),
        ("ri_serviced_system_time", ctypes.c_uint64),
        ("ri_logical_writes", ctypes.c_uint64),
        ("ri_lifetime_max_phys_footprint", ctypes.c_uint64),
        ("ri_instructions", ctypes.c_uint64),
        ("ri_cycles", ctypes.c_uint64),
        ("ri_billed_energy", ctypes.c_uint64),
        ("ri_serviced_energy", ctypes.c_uint64),
        ("ri_interval_max_phys_footprint", ctypes.c_uint64),
        ("ri_runnable_time", ctypes.c_uint64),
    )


class _Timebase(ctypes.Structure):
    _fields_ = (("numer", ctypes.c_uint32), ("denom", ctypes.c_uint32))


class _SwapUsage(ctypes.Structure):
    """``struct xsw_usage`` of ``vm.swapusage``."""

    _fields_ = (
        ("total", ctypes.c_uint64),
        ("available", ctypes.c_uint64),
        ("used", ctypes.c_uint64),
        ("page_size", ctypes.c_uint32),
        ("encrypted", ctypes.c_uint32),
    )


class LibSystem:
    """
    The functions in use; each returns an errno, False or ``None`` where the system refuses.

    Args:
        library: the loaded library.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        # A function that the library lacks raises AttributeError here.
        self._rusage = _declare(library.proc_pid_rusage, ctypes.c_int, ctypes.c_int, ctypes.POINTER(RusageInfo))
        self._listpids = _declare(
            library.proc_listpids, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_int
        )
        self._sysctl = _declare(
            library.sysctlbyname,
            ctypes.c_char_p,
            ctypes.c_void_p,
            ctypes.POINTER(ctypes.c_size_t),
            ctypes.c_void_p,
            ctypes.c_size_t,
        )
        self._timebase = _declare(library.mach_timebase_info, ctypes.POINTER(_Timebase))
        reset = getattr(library, "proc_reset_footprint_interval", None)
        self._reset = _declare(reset, ctypes.c_int) if reset is not None else None

    def rusage(self, pid: int) -> RusageInfo | int:
        """Return the counters of a process, or an errno: ``ESRCH``, ``EPERM``, ``EINVAL`` on an older system."""
        info = RusageInfo()
        # libproc returns -1 and sets errno, which keeps its last value after a success.
        ctypes.set_errno(0)
        if self._rusage(pid, _RUSAGE_INFO_V4, ctypes.byref(info)) == 0:
            return info
        return ctypes.get_errno() or errno.EIO

    def reset_footprint_interval(self, pid: int) -> bool:
        """Reset ``ri_interval_max_phys_footprint`` of a process to its present footprint; return False if refused."""
        return self._reset is not None and self._reset(pid) == 0

    def children(self, pid: int) -> frozenset[int] | None:
        """Return the children of a process, or ``None`` where they cannot be listed."""
        count = _FIRST_PIDS
        while count <= _MOST_PIDS:
            pids = (ctypes.c_int * count)()
            ctypes.set_errno(0)
            # The call fills the buffer and does not say whether there were more, so a full buffer is too small.
            filled = self._listpids(_PROC_PPID_ONLY, pid, pids, ctypes.sizeof(pids))
            if filled <= 0:
                return None if filled < 0 or ctypes.get_errno() else frozenset()
            if filled < ctypes.sizeof(pids):
                return frozenset(pids[: filled // ctypes.sizeof(ctypes.c_int)]) - {0}
            count *= 4
        return None

    def seconds_per_tick(self) -> float | None:
        """
        Return the length of a Mach unit, 1 ns on Intel and 41.7 ns on Apple silicon.

        Return ``None`` under Rosetta: a translated process may be given a unit that the kernel does not count in.
        """
        base = _Timebase()
        if self.number("sysctl.proc_translated") or self._timebase(ctypes.byref(base)) != 0 or not base.denom:
            return None
        return float(base.numer) / float(base.denom) * 1e-9

    def number(self, name: str) -> int | None:
        """Read a sysctl that holds a whole number of four or eight bytes; ``None`` where it does not exist."""
        buffer = ctypes.create_string_buffer(8)
        size = self._read_sysctl(name, buffer)
        return int.from_bytes(buffer.raw[:size], "little") if size in {4, 8} else None

    def text(self, name: str) -> str | None:
        """Read a sysctl that holds a text; ``None`` where it does not exist or is empty."""
        buffer = ctypes.create_string_buffer(_TEXT_BYTES)
        size = self._read_sysctl(name, buffer)
        return (buffer.raw[:size].split(b"\0")[0].decode("utf-8", "replace").strip() or None) if size else None

    def swap_used_bytes(self) -> int | None:
        """Return how much of the whole machine is in swap files now (``vm.swapusage``)."""
        usage = _SwapUsage()
        is_read = self._read_sysctl("vm.swapusage", usage) == ctypes.sizeof(usage)
        return int(usage.used) if is_read else None

    def _read_sysctl(self, name: str, buffer: ctypes.Array[ctypes.c_char] | ctypes.Structure) -> int | None:
        size = ctypes.c_size_t(ctypes.sizeof(buffer))
        if self._sysctl(name.encode("ascii"), ctypes.byref(buffer), ctypes.byref(size), None, 0) != 0:
            return None
        return size.value


def open_libsystem(path: str = LIBRARY) -> LibSystem | str:
    """Load the library, or return why that is not possible."""
    try:
        return LibSystem(ctypes.CDLL(path, use_errno=True))
    except OSError as error:
        return f"{os.path.basename(path)} cannot be loaded: {error}"  # noqa: PTH119 - a name for the loader, not a file
    except AttributeError as error:
        return f"{os.path.basename(path)} is too old: {error}"  # noqa: PTH119 - as above


def _declare(function: Any, *argument_types: Any) -> Any:
    function.restype = ctypes.c_int
    function.argtypes = argument_types
    return function
