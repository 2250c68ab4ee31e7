"""
Detect the machine as a run can use it: platform label, processor, memory, and the limits that apply.

Linux is read from ``/proc`` and ``/sys`` below a root folder that can be set, macOS by ``sysctl``, Windows through
psutil and the registry. No host name or user name is read, and no environment variable but Slurm's memory limits.
"""

from __future__ import annotations

import math
import os
import platform
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pytest_lecturecheck.model.platform import Machine, platform_label
from pytest_lecturecheck.model.probe import CommitRule
from pytest_lecturecheck.probe.memory_limits import (
    MemoryLimit,
    cgroup_memory_limits,
    cpu_quota_cores,
    smallest_memory_limit,
    smallest_ulimit,
)
from pytest_lecturecheck.probe.procfs import parse_bracketed_choice, parse_cpu_model, parse_sizes

_ROOT: Final = Path("/")
_ENDLESS: Final = 2**63 - 1


def detect_platform(accelerator: str = "cpu") -> str:
    """Return the default platform label of this machine (``linux-x86_64-cpu``)."""
    return platform_label(platform.system(), platform.machine(), accelerator)


def detect_machine(*, accelerators: Sequence[str] = (), driver: str | None = None, cuda: str | None = None) -> Machine:
    """
    Describe this machine as this process can use it.

    Args:
        accelerators: model names of the GPUs.
        driver: driver version of the accelerators.
        cuda: version of CUDA that the driver offers.
    """
    if sys.platform == "linux":
        return read_linux_machine(
            _ROOT,
            environ=os.environ,
            affinity_count=len(os.sched_getaffinity(0)),
            accelerators=accelerators,
            driver=driver,
            cuda=cuda,
        )
    else:  # noqa: RET505 - type checkers treat code after it as unreachable
        return _detect_other_machine(accelerators, driver, cuda)


def available_memory() -> int | None:
    """Return the memory that can be used now within container limits; ``None`` where it cannot be read."""
    if sys.platform == "linux":
        return read_linux_available_memory(_ROOT)
    else:  # noqa: RET505 - as above
        import psutil  # noqa: PLC0415 - slow to import, and Linux does without

        return int(psutil.virtual_memory().available)


def read_ulimit(pid: int) -> tuple[int, str] | None:
    """
    Return the smallest limit of ``ulimit`` on a process's memory, in bytes, and its name; ``None`` without one.

    Args:
        pid: a child process; if it has ended, and on systems other than Linux, this process's own limits are used.
    """
    limit = smallest_ulimit(_ROOT, pid) if sys.platform == "linux" else _smallest_ulimit(_ENDLESS)
    return (limit.limit_bytes, limit.source) if limit is not None else None


def read_commit_rule() -> CommitRule:
    """Return whether this system refuses allocations when memory runs out, and from which amount on."""
    if sys.platform == "linux":
        return read_linux_commit_rule(_ROOT)
    elif sys.platform == "win32":  # noqa: RET505 - type checkers treat code after it as unreachable
        import psutil  # noqa: PLC0415 - slow to import, and Linux does without

        # The commit limit of Windows is RAM and all page files together; a page file may still grow.
        limit = int(psutil.virtual_memory().total + psutil.swap_memory().total)
        return CommitRule(refuses_when_full=True, limit_bytes=limit)
    else:
        # macOS refuses memory once there is no room for swap left, and has no limit on reservations.
        return CommitRule(refuses_when_full=sys.platform == "darwin" or None)


def read_linux_commit_rule(root: Path) -> CommitRule:
    """
    Read what ``vm.overcommit_memory`` says; see proc(5).

    With 2, allocations fail beyond ``CommitLimit``. With 0 and 1 they succeed, and a process is killed later; with 0 a
    single request beyond RAM and swap fails.

    Args:
        root: ``/``, or a recorded tree.
    """
    mode = _read_text(root / "proc" / "sys" / "vm" / "overcommit_memory").strip()
    if mode == "2":
        limit = parse_sizes(_read_text(root / "proc" / "meminfo")).get("CommitLimit")
        return CommitRule(refuses_when_full=True, limit_bytes=limit)
    return CommitRule(refuses_when_full=False if mode in {"0", "1"} else None)


def read_linux_machine(
    root: Path,
    *,
    environ: Mapping[str, str],
    affinity_count: int,
    accelerators: Sequence[str] = (),
    driver: str | None = None,
    cuda: str | None = None,
) -> Machine:
    """
    Describe the Linux machine whose ``proc`` and ``sys`` lie below ``root``.

    Args:
        root: ``/``, or a recorded tree.
        environ: environment variables; only those of Slurm are read.
        affinity_count: cores this process may be scheduled on.
        accelerators: model names of the GPUs.
        driver: driver version of the accelerators.
        cuda: version of CUDA that the driver offers.
    """
    sizes = parse_sizes(_read_text(root / "proc" / "meminfo"))
    ram_bytes = sizes.get("MemTotal", 0)
    limit = smallest_memory_limit(root, environ, ram_bytes)
    architecture = platform.machine()
    huge_pages = _read_text(root / "sys" / "kernel" / "mm" / "transparent_hugepage" / "enabled")
    return Machine(
        system=_system_name(),
        architecture=_architecture(architecture),
        cpu=parse_cpu_model(_read_text(root / "proc" / "cpuinfo")) or f"unnamed {architecture} processor",
        core_count=_usable_cores(affinity_count, cpu_quota_cores(root)),
        ram_bytes=ram_bytes,
        swap_bytes=sizes.get("SwapTotal"),
        memory_limit_bytes=limit.limit_bytes if limit is not None else None,
        memory_limit_source=limit.source if limit is not None else "",
        transparent_hugepages=parse_bracketed_choice(huge_pages),
        accelerators=tuple(accelerators),
        driver=driver,
        cuda=cuda,
    )


def read_linux_available_memory(root: Path) -> int | None:
    """Return ``MemAvailable``, or what the smallest control group has left if that is less, in bytes."""
    available = parse_sizes(_read_text(root / "proc" / "meminfo")).get("MemAvailable")
    left = [_left(limit) for limit in cgroup_memory_limits(root)]
    return min([item for item in (available, *left) if item is not None], default=None)


def _left(limit: MemoryLimit) -> int:
    # The use of a limit may be unknown; then the limit itself is the upper bound.
    return max(0, limit.limit_bytes - (limit.used_bytes or 0))


def _usable_cores(affinity_count: int, quota_cores: float | None) -> int:
    if quota_cores is None:
        return affinity_count
    return max(1, min(affinity_count, math.ceil(quota_cores)))


def _detect_other_machine(accelerators: Sequence[str], driver: str | None, cuda: str | None) -> Machine:
    from pytest_lecturecheck.probe.system_facts import read_facts  # noqa: PLC0415 - loads ctypes; Linux does without

    facts = read_facts()
    limit = _smallest_ulimit(facts.ram_bytes)
    return Machine(
        system=_system_name(),
        architecture=_architecture(platform.machine()),
        cpu=facts.cpu,
        core_count=facts.core_count,
        ram_bytes=facts.ram_bytes,
        swap_bytes=facts.swap_bytes,
        memory_limit_bytes=limit.limit_bytes if limit is not None else None,
        memory_limit_source=limit.source if limit is not None else "",
        accelerators=tuple(accelerators),
        driver=driver,
        cuda=cuda,
    )


def _smallest_ulimit(ram_bytes: int) -> MemoryLimit | None:
    if sys.platform == "win32":
        return None
    else:  # noqa: RET505 - as above
        import resource  # noqa: PLC0415 - does not exist on Windows

        kinds = {resource.RLIMIT_AS: "ulimit -v (RLIMIT_AS)", resource.RLIMIT_DATA: "ulimit -d (RLIMIT_DATA)"}
        limits = [
            MemoryLimit(limit_bytes=resource.getrlimit(kind)[0], source=source)
            for kind, source in kinds.items()
            if 0 <= resource.getrlimit(kind)[0] < ram_bytes
        ]
        return min(limits, key=lambda item: item.limit_bytes, default=None)


def _system_name() -> str:
    system, release = platform.system(), platform.release()
    if system == "Darwin":
        system, release = "macOS", platform.mac_ver()[0]
    # The full release names who built the kernel; the first two numbers are enough.
    match = re.match(r"[0-9]+(?:\.[0-9]+)?", release)
    return f"{system} {match[0]}" if match is not None else system or "unknown"


def _architecture(machine: str) -> str:
    return platform_label("", machine).split("-")[1]


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
