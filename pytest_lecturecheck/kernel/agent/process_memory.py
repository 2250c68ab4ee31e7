"""
Read the memory of this process by kind: resident, mapped files, shared memory, stacks, and what the allocator keeps.

Standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from typing import Any

TEXT_CHARS = 120
_SHARED = ("/dev/shm/", "/memfd:", "/SYSV", "/dev/zero")  # noqa: S108 - names of mappings, not files that are written


def memory_part(kind: str, size: int, name: str = "", **more: Any) -> dict[str, Any]:
    """Return one part of the memory."""
    return {"kind": kind, "size_bytes": int(size), "name": str(name)[:TEXT_CHARS], **more}


def resident_bytes() -> int | None:
    """Return resident memory of this process (Linux)."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - no import more than needed
            pages = int(file.read().split()[1])
        # Windows has no sysconf; there is no statm either, so that this line is not reached.
        page_bytes: int = getattr(os, "sysconf")("SC_PAGE_SIZE")  # noqa: B009 - its type exists on POSIX only
        return pages * page_bytes
    except (OSError, ValueError, IndexError):
        return None


def mapped_parts() -> list[dict[str, Any]]:
    """Return resident memory of mapped files, shared memory and stacks (Linux ``smaps``, see proc(5))."""
    try:
        with open("/proc/self/smaps", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - as above
            return parse_smaps(file, stack_pointers())
    except OSError:
        return []


def parse_smaps(lines: Any, stacks: Any) -> list[dict[str, Any]]:
    """
    Sum resident memory of mappings by kind.

    Args:
        lines: lines of ``smaps``.
        stacks: addresses, each on the stack of one thread.
    """
    files: dict[str, int] = {}
    shared: dict[str, int] = {}
    libraries: set[str] = set()
    stack_bytes = stack_count = 0
    path, is_stack = "", False
    for line in lines:
        head, _, rest = line.partition(" ")
        if "-" in head and not head.endswith(":"):
            fields = rest.split(None, 4)
            path = fields[4].strip() if len(fields) > 4 else ""  # noqa: PLR2004 - perms offset device inode path
            begin, _, end = head.partition("-")
            low, high = int(begin, 16), int(end, 16)
            found = sum(low <= stack < high for stack in stacks)
            is_stack, stack_count = bool(found), stack_count + found
            if "x" in fields[0]:
                libraries.add(path)
        elif head == "Rss:":
            size = int(rest.split()[0]) * 1024
            if path.startswith(_SHARED):
                shared[path] = shared.get(path, 0) + size
            elif path.startswith("/"):
                files[path] = files.get(path, 0) + size
            elif is_stack:
                stack_bytes += size
    parts = [
        memory_part("mapped file", size, _file_name(path)) for path, size in files.items() if path not in libraries
    ]
    parts += [memory_part("shared memory", size, _file_name(path)) for path, size in shared.items()]
    if stack_bytes:
        parts.append(memory_part("stacks of threads", stack_bytes, f"{stack_count} threads"))
    return [part for part in parts if part["size_bytes"]]


def _file_name(path: str) -> str:
    return path.removesuffix(" (deleted)").rpartition("/")[2]


def stack_pointers() -> list[int]:
    """Return an address on the stack of each thread that waits (``/proc/self/task/*/syscall``); the others unknown."""
    found = []
    with contextlib.suppress(OSError):
        for task in os.listdir("/proc/self/task"):  # noqa: PTH208 - no import more than needed
            path = f"/proc/self/task/{task}/syscall"
            with contextlib.suppress(OSError, ValueError, IndexError), open(path, encoding="ascii") as file:  # noqa: PTH123 - as above
                found.append(int(file.read().split()[-2], 16))
    return found


class _Mallinfo2(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "top",
        )
    )


def allocator_bytes() -> tuple[int | None, int | None]:
    """Return what the C library's allocator has handed out, and what it keeps free (glibc 2.33 ``mallinfo2``)."""
    try:
        mallinfo2 = ctypes.CDLL(None).mallinfo2
    except (OSError, AttributeError, TypeError):
        return None, None
    mallinfo2.restype = _Mallinfo2
    found = mallinfo2()
    return int(found.uordblks + found.hblkhd), int(found.fordblks)
