"""
Take a digest of everything that a lecture's failure may depend on.

Two runs with equal digests would fail alike, as far as that can be known without running: same code, kernel, settings,
installed software, platform, class of machine, and same files beside the lecture.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.files import read_plain_bytes
from pytest_lecturecheck.kernel.process.installed import describe_kernel
from pytest_lecturecheck.model.lecture import Cell, Lecture
from pytest_lecturecheck.model.platform import Machine
from pytest_lecturecheck.model.settings import RunSettings

_NOT_ABOUT_THE_RUN: Final = frozenset({"origins", "lines", "skip_reason", "concurrency", "axes", "variants"})
_CODE_SUFFIXES: Final = frozenset({".py", ".pyx", ".jl", ".r", ".c", ".cpp", ".cu", ".f90", ".so", ".pyd"})
_DATA_SUFFIXES: Final = frozenset(
    [
        ".csv",
        ".tsv",
        ".txt",
        ".dat",
        ".data",
        ".json",
        ".toml",
        ".yaml",
        ".yml",
        ".npy",
        ".npz",
        ".mat",
        ".xls",
        ".xlsx",
        ".dta",
        ".h5",
        ".hdf5",
        ".nc",
        ".parquet",
        ".feather",
        ".pkl",
        ".pickle",
        ".zip",
        ".gz",
        ".bz2",
        ".xz",
        ".db",
        ".sqlite",
        ".bib",
    ]
)
_LEFT_OUT_FOLDERS: Final = frozenset({"__pycache__", "node_modules", "lecture-budgets", "build", "dist"})
_MOST_FILES: Final = 5_000
_MOST_CODE_BYTES: Final = 4 * 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """
    The state in which a lecture is going to run.

    Attributes:
        fixed: digest of everything but the data files.
        folder: the folder whose data files count, or ``None`` if the lecture runs elsewhere.
        outputs: files that the session itself writes.
    """

    fixed: str
    folder: Path | None
    outputs: frozenset[Path]

    def key(self) -> str:
        """
        Return the digest with the data files as they are now.

        Before a run it shows whether anything has changed. After a run it includes the files that a failing lecture
        left, because its next run will find them.
        """
        return _digest([self.fixed, *_describe_data(self.folder, self.outputs)])


def take_fingerprint(
    lecture: Lecture,
    settings: RunSettings,
    *,
    platform: str,
    machine: Machine,
    outputs: frozenset[Path] = frozenset(),
    environment: Mapping[str, str] | None = None,
) -> Fingerprint:
    """
    Take the fingerprint of a lecture before its run.

    Args:
        lecture: the lecture as read.
        settings: its resolved settings.
        platform: platform label.
        machine: the machine; only its size counts.
        outputs: files that the session writes (reports), which are no lecture's input.
        environment: variables that are set for the kernel.
    """
    folder = None if settings.run_in_temp else lecture.path.parent
    parts = [
        lecture.name,
        lecture.language,
        [_describe_cell(cell) for cell in lecture.cells],
        list(describe_kernel(settings.kernel_name or lecture.kernel_name)),
        _describe_settings(settings),
        sorted((environment or {}).items()),
        [platform, machine.core_count, _size_class(machine.usable_memory_bytes)],
        list(_describe_code(folder)),
    ]
    return Fingerprint(fixed=_digest(parts), folder=folder, outputs=outputs)


def _describe_cell(cell: Cell) -> list[Any]:
    # Other tags only change how a page looks. The line counts because a failure names it.
    return [cell.source, cell.line, bool(cell.skip_reason), cell.expects_error]


def _describe_settings(settings: RunSettings) -> dict[str, str]:
    return {
        item.name: repr(getattr(settings, item.name))
        for item in fields(settings)
        if item.name not in _NOT_ABOUT_THE_RUN
    }


def _size_class(size_bytes: int) -> int:
    """Return the class of a memory size, in steps of about 20 %: equal machines differ by what their firmware keeps."""
    return round(math.log2(max(1, size_bytes)) * 4)


def _describe_code(folder: Path | None) -> Iterator[list[Any]]:
    """Describe modules beside the lecture by their content, because the lecture may import them."""
    left = _MOST_CODE_BYTES
    for name, size, path in _files(folder, _CODE_SUFFIXES):
        content = b""
        if size <= left:
            left -= size
            content = _read(path, size)
        yield [name, size, hashlib.sha256(content).hexdigest()]


def _describe_data(folder: Path | None, outputs: frozenset[Path]) -> Iterator[list[Any]]:
    """Describe data files by name and size: times change with every checkout, and contents may be large."""
    for name, size, path in _files(folder, _DATA_SUFFIXES):
        if path not in outputs:
            yield [name, size]


def _files(folder: Path | None, suffixes: frozenset[str]) -> list[tuple[str, int, Path]]:
    if folder is None:
        return []
    found: list[tuple[str, int, Path]] = []
    seen = 0
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if _is_searched(name))
        for name in sorted(names):
            seen += 1
            path = Path(parent, name)
            if path.suffix.lower() in suffixes and not name.startswith("."):
                found.append((path.relative_to(folder).as_posix(), _size(path), path))
        if seen > _MOST_FILES:
            break
    return found


def _is_searched(folder_name: str) -> bool:
    return not folder_name.startswith((".", "_build")) and folder_name not in _LEFT_OUT_FOLDERS


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1


def _read(path: Path, size: int) -> bytes:
    try:
        # A module that is no regular file cannot be imported, and a pipe would be waited for.
        return read_plain_bytes(path, most_bytes=max(0, size))
    except OSError:
        return b""


def _digest(parts: Any) -> str:
    # ASCII escapes keep lone surrogates apart, which UTF-8 could not encode.
    return hashlib.sha256(json.dumps(parts, ensure_ascii=True, sort_keys=True).encode("ascii")).hexdigest()
