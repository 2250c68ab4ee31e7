"""
The cache of mystmd and Jupyter Book 2: ``_build/execute/<key>.json``.

The key is an MD5 over the kernel's name, the executed cells and the variables that the page depends on; the value is a
list with the output messages of each cell. See ``buildCacheKey`` and ``LocalDiskCache`` in ``myst-execute`` of
mystmd 1.8.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pytest_lecturecheck.book_cache.port import BookCacheError, CachedEntry, FileAccess
from pytest_lecturecheck.files import read_plain_bytes
from pytest_lecturecheck.model.executed import ExecutedLecture
from pytest_lecturecheck.model.lecture import Cell, Lecture, LectureFormat

_SKIP: Final = "skip-execution"
_RAISES: Final = "raises-exception"


class MystmdCache:
    """
    The folder ``execute`` in the build folder of a mystmd book.

    Args:
        folder: the folder; created with the first entry.
        environ: the environment, for pages that depend on variables.
    """

    engine = "mystmd"

    def __init__(self, folder: Path, environ: Mapping[str, str] | None = None) -> None:
        """Read nothing yet."""
        self.folder = folder
        self._environ = os.environ if environ is None else environ

    def key(self, lecture: Lecture, kernel_name: str) -> str:
        """Return the key of a lecture."""
        items = [
            {"kind": "block", "content": _content(lecture, cell), "raisesException": _RAISES in cell.tags}
            for cell in executed_cells(lecture)
        ]
        text = f"{kernel_name}{_compact(items)}"
        if names := _depends_on(lecture):
            # JavaScript leaves out what is undefined.
            values = {name: self._environ[name] for name in sorted(names) if name in self._environ}
            text += _compact(values)
        return hashlib.md5(text.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()

    def body(self, lecture: Lecture, kernel_name: str, executed: ExecutedLecture) -> str:  # noqa: ARG002 - see BookCache
        """Return the output messages of the executed cells as JSON."""
        wanted = [cell.number - 1 for cell in executed_cells(lecture)]
        # Output may hold half a surrogate pair, which no encoding can write: all but ASCII is escaped.
        return json.dumps([executed.messages[position] for position in wanted], separators=(",", ":"))

    def find(self, key: str) -> CachedEntry | None:
        """Return the entry of a key, or ``None``."""
        path = self._path(key)
        if not path.is_file():
            return None
        try:
            data = read_plain_bytes(path)
            cells = json.loads(data)
            if not isinstance(cells, list):
                msg = "expected a list with the outputs of each cell"
                raise TypeError(msg)  # noqa: TRY301 - reported as what Python finds itself
            errors = [number for number, outputs in enumerate(cells, start=1) if _shows_error(outputs)]
        except (OSError, ValueError, TypeError, AttributeError, RecursionError) as exc:
            msg = f"{path} cannot be read: {exc}; remove it"
            raise BookCacheError(msg) from exc
        return CachedEntry(digest=hashlib.sha256(data).hexdigest(), cell_count=len(cells), error_cells=tuple(errors))

    def put(self, key: str, body: str, *, source: Path, seconds: float, files: FileAccess) -> str:  # noqa: ARG002 - as above
        """Put an entry into the cache, and return its digest."""
        with files.locked(self.folder):
            files.write(self._path(key), body)
        return hashlib.sha256(body.encode()).hexdigest()

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"


def executed_cells(lecture: Lecture) -> Iterator[Cell]:
    """Yield the cells that mystmd sends to the kernel; blank ones are among them."""
    return (cell for cell in lecture.cells if _SKIP not in cell.tags)


def _content(lecture: Lecture, cell: Cell) -> str:
    return cell.source if lecture.format is LectureFormat.IPYNB else cell.source.rstrip()


def _depends_on(lecture: Lecture) -> list[str]:
    execute = lecture.metadata.get("execute")
    names = execute.get("depends_on_env") if isinstance(execute, Mapping) else None
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _shows_error(outputs: Any) -> bool:
    # The value of an inline expression is no list.
    return isinstance(outputs, list) and any(output.get("output_type") == "error" for output in outputs)


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
