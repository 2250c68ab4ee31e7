"""
Find the cell that a frame of a Python stack belongs to.

ipykernel compiles each cell as a file of its own, ``.../ipykernel_PID/HASH.py``. The hash is murmur2 of the cell's
source (``ipykernel.compiler.get_file_name``), so that the cell is known from the name alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from pytest_lecturecheck.kernel.messages.awaiting import await_lines
from pytest_lecturecheck.model.lecture import Cell

_CELL_FILE: Final = re.compile(r"(?:.*[/\\])?ipykernel_[0-9]+[/\\](?P<hash>[0-9]+)\.py")
_SEED: Final = 0xC70F6907
_FACTOR: Final = 0x5BD1E995
_WORD: Final = 0xFFFFFFFF
_WORD_BYTES: Final = 4


class CellFiles:
    """
    The cells of a lecture as the files that Python names in a stack.

    Args:
        running: the cell that is running.
        cells: the lecture's cells.
    """

    def __init__(self, running: Cell, cells: Sequence[Cell] = ()) -> None:
        """Compute no hash yet."""
        self._running = running
        self._cells = [cell for cell in cells if cell.number <= running.number and not cell.skip_reason]
        self._by_hash: dict[int, Cell] = {}

    def place(self, path: str, line: int, *, is_running: bool) -> str:
        """
        Return the place of a frame: ``code cell 3, line 41`` with the line of the lecture's file, if that is known.

        Args:
            path: the file's name in the stack.
            line: the line in it.
            is_running: whether it is known to be the running cell.
        """
        cell = self._running if is_running else self.find(path)
        if cell is None:
            return f"another code cell, line {line} of the cell"
        in_file = cell.file_line(line)
        return f"code cell {cell.number}, line {f'{line} of the cell' if in_file is None else in_file}"

    def line_at(self, path: str, line: int) -> tuple[str, str, int | None]:
        """Return place and source of a line of a cell's file, and its line in the running cell if it is there."""
        cell = self.find(path)
        shown = self.place(path, line, is_running=False)
        if cell is None:
            return shown, "", None
        rows = cell.source.split("\n")
        source = rows[line - 1] if 0 < line <= len(rows) else ""
        return shown, source, line if cell is self._running else None

    def await_lines(self) -> tuple[int, ...]:
        """Return the lines at which the running cell can be suspended."""
        return await_lines(self._running.source)

    def is_running(self, path: str) -> bool:
        """Return True if this is the file of the cell that is running."""
        return self.find(path) is self._running

    def is_below(self, path: str, line: int) -> bool:
        """Return True if this is the file of what stands below a line of the running cell, as for ``%%capture``."""
        found = _CELL_FILE.fullmatch(path)
        body = self._running.source.split("\n")[line:]
        return found is not None and int(found["hash"]) in {murmur2("\n".join(body)), murmur2("\n".join([*body, ""]))}

    def find(self, path: str) -> Cell | None:
        """Return the cell with this file, or ``None``."""
        found = _CELL_FILE.fullmatch(path)
        if found is None:
            return None
        if not self._by_hash:
            # Of cells with the same source the last one defined the function.
            self._by_hash = {murmur2(cell.source): cell for cell in (*self._cells, self._running)}
        return self._by_hash.get(int(found["hash"]))


def is_cell_file(path: str) -> bool:
    """Return True if Python's name of a file is that of a cell."""
    return _CELL_FILE.fullmatch(path) is not None


def murmur2(source: str) -> int:
    """Return the hash by which ipykernel names the file of a cell."""
    data = source.encode("utf-8", "surrogatepass")
    whole = len(data) // _WORD_BYTES * _WORD_BYTES
    result = _SEED ^ len(data)
    for start in range(0, whole, _WORD_BYTES):
        word = int.from_bytes(data[start : start + _WORD_BYTES], "little") * _FACTOR & _WORD
        word = (word ^ word >> 24) * _FACTOR & _WORD
        result = (result * _FACTOR & _WORD) ^ word
    if rest := data[whole:]:
        result = (result ^ int.from_bytes(rest, "little")) * _FACTOR & _WORD
    result = (result ^ result >> 13) * _FACTOR & _WORD
    return result ^ result >> 15
