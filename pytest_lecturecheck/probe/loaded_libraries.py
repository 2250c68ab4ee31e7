"""
List the native libraries that a process has loaded, as names and versions.

Linux is read from ``/proc/PID/maps`` (see proc(5)), Windows and FreeBSD through psutil's ``memory_maps``. macOS shows
them to the process itself only, so that there they are not recorded.

Extension modules of Python are left out: they belong to distributions.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import psutil

from pytest_lecturecheck.probe.memory_limits import read_text

_IS_LINUX: Final = sys.platform == "linux"
_PROC: Final = Path("/proc")
_ENDING: Final = re.compile(r"\.(?:so|dylib|[dD][lL][lL])(?:\.(?P<version>[0-9.]+))?")
_HASH: Final = re.compile(r"-[0-9a-f]{8}(?=[-.]|$)")
_STEM_VERSION: Final = re.compile(r"(?:-(?P<marked>r?[0-9][0-9a-z.]*)|(?P<bare>[0-9]+(?:\.[0-9a-z]+)+))$")
_EXTENSION: Final = re.compile(r"\.(?:cpython|abi3|pypy)[^/]*\.so$|\.abi3\.so$")
_SYSTEM: Final = re.compile(
    r"/(?:usr/(?:local/)?)?lib(?:32|64|exec)?/|/nix/store/|/System/Library/|[A-Za-z]:/[Ww][Ii][Nn][Dd][Oo][Ww][Ss]/"
)
_MOST: Final = 500
_NAME_CHARS: Final = 80


def read_libraries(pid: int) -> dict[str, str]:
    """Return version and origin of each library that a process has loaded, by name; empty if it cannot be read."""
    # FreeBSD and Cygwin have a file of that name in another format.
    if _IS_LINUX:
        return parse_maps(read_text(_PROC / str(pid) / "maps") or "")
    return parse_paths(_mapped_files(psutil.Process, pid))


def _mapped_files(open_process: Callable[[int], Any], pid: int) -> list[str]:
    """Return the files that a process has mapped; empty where the system does not show them."""
    try:
        return [str(item.path) for item in open_process(pid).memory_maps()]
    except (psutil.Error, OSError, AttributeError, NotImplementedError):
        return []


def parse_maps(text: str) -> dict[str, str]:
    """
    Return the libraries in the text of a process's ``maps``.

    Of a library's path only the kind of folder is kept: "system", "with numpy", "environment".
    """
    # The sixth column of a mapping is its file.
    return parse_paths(line[position:] for line in text.splitlines() if (position := line.find("/")) >= 0)


def parse_paths(paths: Iterable[str]) -> dict[str, str]:
    """Return the libraries among the files that a process has mapped; see :func:`parse_maps`."""
    found: dict[str, str] = {}
    for path in sorted({path.replace("\\", "/") for path in paths}):
        folder, _, file = path.removesuffix(" (deleted)").rpartition("/")
        is_library = file.startswith("lib") or file.lower().endswith(".dll")
        if not is_library or _EXTENSION.search(file) is not None:
            continue
        if (parts := parse_library_name(file)) is not None and len(found) < _MOST:
            name, version = parts
            found.setdefault(name, f"{version} ({_origin(folder)})".strip())
    return found


def parse_library_name(file: str) -> tuple[str, str] | None:
    """
    Split the file name of a library into name and version; return ``None`` if it names no library.

    Wheels add a hash to the name (``libgfortran-040039e1.so.5.0.0``), which is dropped.
    """
    ending = _ENDING.search(file)
    if ending is None or ending.end() != len(file):
        return None
    stem = _HASH.sub("", file[: ending.start()]).removeprefix("lib")
    inner = _STEM_VERSION.search(stem)
    name = stem[: inner.start()] if inner is not None else stem
    version = (inner["marked"] or inner["bare"]) if inner is not None else ending["version"]
    return (name[:_NAME_CHARS], (version or "")[:_NAME_CHARS]) if name else None


def _origin(folder: str) -> str:
    last = folder.rpartition("/")[2]
    if last.endswith((".libs", ".dylibs")):
        return f"with {last.partition('.')[0]}"[:_NAME_CHARS]
    parts = folder.split("/")
    if "site-packages" in parts[:-1]:
        return f"with {parts[parts.index('site-packages') + 1]}"[:_NAME_CHARS]
    return "system" if _SYSTEM.match(f"{folder}/") is not None else "environment"
