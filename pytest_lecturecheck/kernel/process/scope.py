"""
Get a memory group from systemd's user manager, where this process may not create one.

A plain user may not write to any cgroup, but systemd's user manager may. It offers *scopes*: groups for processes that
others have started. This module calls ``StartTransientUnit`` of ``org.freedesktop.systemd1.Manager`` (see
org.freedesktop.systemd1(5)) through ``busctl``, which is part of systemd. That is what ``systemd-run --user --scope``
does, but for a process that is already running.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pytest_lecturecheck.kernel.process.cgroup import MemoryGroup, version_2_folder

_CALL_SECONDS: Final = 5.0
_MOVE_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.01
_BUS: Final = ("--user", "--quiet", "call", "org.freedesktop.systemd1", "/org/freedesktop/systemd1")
_METHOD: Final = ("org.freedesktop.systemd1.Manager", "StartTransientUnit", "ssa(sv)a(sa(sv))")


def start_scope(
    name: str,
    pid: int,
    limit_bytes: int,
    *,
    call_bus: Callable[[Sequence[str]], bool] | None = None,
    proc_root: Path = Path("/proc"),
    sys_root: Path = Path("/sys/fs/cgroup"),
) -> MemoryGroup | None:
    """
    Ask the user's service manager to move a process into a scope with a limit; return ``None`` if it does not.

    Args:
        name: distinguishes the scope; letters and digits.
        pid: the process; its later children follow.
        limit_bytes: limit for memory; swap is set to none.
        call_bus: calls ``busctl`` with the given arguments and returns True on success; ``None`` for the real one.
        proc_root: ``/proc``, or a recorded tree.
        sys_root: where the cgroup file system is mounted, or a recorded tree.

    Returns:
        The group, once the process is in it and the limit is in force.
    """
    call_bus = call_bus or _find_bus()
    if call_bus is None or not call_bus(_start_arguments(f"lecturecheck-{name}.scope", pid, limit_bytes)):
        return None
    deadline = time.monotonic() + _MOVE_SECONDS
    while True:
        # systemd answers when the job is queued, before the process has moved.
        folder = version_2_folder(pid, proc_root=proc_root, sys_root=sys_root)
        if folder is not None and folder.name == f"lecturecheck-{name}.scope":
            return _checked(MemoryGroup(folder=folder, version=2, limit_bytes=limit_bytes))
        if time.monotonic() >= deadline:
            return None
        time.sleep(_LOOK_SECONDS)


def _start_arguments(unit: str, pid: int, limit_bytes: int) -> list[str]:
    properties = ["PIDs", "au", "1", str(pid), "MemoryMax", "t", str(limit_bytes), "MemorySwapMax", "t", "0"]
    properties += ["CollectMode", "s", "inactive-or-failed"]
    return [*_BUS, *_METHOD, unit, "fail", "4", *properties, "0"]


def _checked(group: MemoryGroup) -> MemoryGroup | None:
    """Return the group if its limit is in force; a manager without the memory controller ignores the limit."""
    try:
        text = (group.folder / "memory.max").read_text(encoding="ascii").strip()
    except OSError:
        return None
    return group if text.isdigit() and int(text) <= group.limit_bytes else None


@functools.cache
def _find_bus() -> Callable[[Sequence[str]], bool] | None:
    """Return a function that calls the user's bus until it is first refused, or ``None`` if there is no bus."""
    program = shutil.which("busctl")
    if program is None or not hasattr(os, "getuid"):
        return None
    # Services such as CI runners often lack XDG_RUNTIME_DIR although the user's manager is running.
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}")
    if not (runtime / "bus").exists():
        return None
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(runtime)}
    refused = False

    def call(arguments: Sequence[str]) -> bool:
        nonlocal refused
        if refused:
            return False
        command = [program, *arguments]
        try:
            done = subprocess.run(  # noqa: S603 - a program of the system, with arguments of our own
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_CALL_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            refused = True
            return False
        refused = done.returncode != 0
        return not refused

    return call
