"""
List the native libraries that a process has loaded, as names and versions (Linux ``/proc/PID/maps``; see proc(5)).

Extension modules of Python are left out: they belong to distributions.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

from pytest_lecturecheck.probe.memory_limits import read_text

_IS_LINUX: Final = sys.platform == "linux"
_PROC: Final = Path("/proc")
_ENDING: Final = re.compile(r"\.(?:so|dylib)(?:\.(?P<version>[0-9.]+))?")
_HASH: Final = re.compile(r"-[0-9a-f]{8}(?=[-.]|$)")
_STEM_VERSION: Final = re.compile(r"(?:-(?P<marked>r?[0-9][0-9a-z.]*)|(?P<bare>[0-9]+(?:\.[0-9a-z]+)+))$")
_EXTENSION: Final = re.compile(r"\.(?:cpython|abi3|pypy)[^/]*\.so$|\.abi3\.so$")
_SYSTEM: Final = re.compile(r"/(?:usr/(?:local/)?)?lib(?:32|64|exec)?/|/nix/store/|/System/Library/")
_MOST: Final = 500
_NAME_CHARS: Final = 80


def read_libraries(pid: int) -> dict[str, str]:
    """Return version and origin of each library that a process has loaded, by name; empty if it cannot be read."""
    # There is no such file elsewhere; FreeBSD and Cygwin have one in another format.
    return parse_maps(read_text(_PROC / str(pid) / "maps") or "") if _IS_LINUX else {}


def parse_maps(text: str) -> dict[str, str]:
    """
    Return the libraries in the text of a process's ``maps``.

    Of a library's path only the kind of folder is kept: "system", "with numpy", "environment".
    """
    # The sixth column of a mapping is its file.
    paths = {line[position:] for line in text.splitlines() if (position := line.find("/")) >= 0}
    found: dict[str, str] = {}
    for path in sorted(paths):
        folder, _, file = path.removesuffix(" (deleted)").rpartition("/")
        if not file.startswith("lib") or _EXTENSION.search(file) is not None:
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
