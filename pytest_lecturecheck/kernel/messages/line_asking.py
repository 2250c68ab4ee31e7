"""Ask a kernel in which line its running cell is, and read the answer, which a lecture can forge."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.kernel.agent.line_sampling import ANSWER_PIPE, ASK_PIPE
from pytest_lecturecheck.kernel.messages.agent_device_reply import clean_text
from pytest_lecturecheck.kernel.messages.cell_files import CellFiles, is_cell_file
from pytest_lecturecheck.model.cell_marks import CodePlace, LoopState
from pytest_lecturecheck.model.lecture import Cell

_MOST_BYTES: Final = 1 << 16
_TEXT_CHARS: Final = 160
_SOURCE_CHARS: Final = 100
_MOST_LINE: Final = 10**9
_MOST_COUNTER: Final = 1 << 62
_MOST_LOOPS: Final = 20
_MAGIC: Final = re.compile(r"[ \t]*[%!?].*")
_PAIR: Final = 2


class LineAsker:
    """
    The session's ends of the two pipes of a kernel.

    Args:
        folder: the kernel's private folder.

    Raises:
        OSError: the kernel has made no pipes, or something else is in their place.
    """

    def __init__(self, folder: Path) -> None:
        """Open the pipes."""
        # Open for writing as well: the kernel opens its end for each answer, and a pipe without one is at its end.
        self._answers = _open_pipe(folder / ANSWER_PIPE, os.O_RDWR)
        try:
            self._requests = _open_pipe(folder / ASK_PIPE, os.O_WRONLY)
        except OSError:
            os.close(self._answers)
            raise
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._answers, self._read)
        self._data = b""
        self._number = 0
        self._answer: asyncio.Future[dict[str, Any]] | None = None

    async def ask(self, names: list[str]) -> dict[str, Any]:
        """
        Return the kernel's answer; it arrives when the interpreter is free, which may take long.

        Args:
            names: variables whose values are wanted, if they are whole numbers.

        Raises:
            OSError: the kernel is gone.
        """
        self._number += 1
        self._answer = self._loop.create_future()
        request = json.dumps({"number": self._number, "names": names}).encode("ascii") + b"\n"
        os.write(self._requests, request)
        return await self._answer

    def _read(self) -> None:
        try:
            data = os.read(self._answers, _MOST_BYTES)
        except OSError:
            return
        *rows, rest = (self._data + data).split(b"\n")
        self._data = rest[-_MOST_BYTES:]
        for row in rows:
            with suppress(ValueError, RecursionError):
                found = json.loads(row)
                if isinstance(found, dict) and found.get("number") == self._number:
                    self._settle(found)

    def _settle(self, found: dict[str, Any]) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(found)

    def close(self) -> None:
        """Close the pipes."""
        self._loop.remove_reader(self._answers)
        os.close(self._answers)
        os.close(self._requests)


def _open_pipe(path: Path, flags: int) -> int:
    more = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags | more)
    if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    msg = f"{path.name} is no named pipe"
    raise OSError(msg)


def read_place(answer: Mapping[str, Any], cells: CellFiles, running: Cell) -> tuple[CodePlace, int | None]:
    """
    Read where a cell is from an answer.

    Args:
        answer: what the kernel sent.
        cells: the lecture's cells.
        running: the cell that runs.

    Returns:
        The line, and the 1-based line of the running cell that leads there, if it is known.
    """
    own, called = answer.get("own"), clean_text(answer.get("called"), _TEXT_CHARS)
    caller, cell_line = _cell_place(answer.get("cell"), cells, running)
    if not isinstance(own, dict) or (line := _line(own.get("line"))) is None:
        return CodePlace(called=called), cell_line
    file, name = str(own.get("file")), clean_text(own.get("name"), _TEXT_CHARS)
    function = "" if name == "<module>" else name
    if not is_cell_file(file):
        place = CodePlace(
            place=f"{clean_text(file, _TEXT_CHARS)}:{line} in {name}",
            function=function,
            source=clean_text(own.get("source"), _SOURCE_CHARS),
            called=called,
            caller=caller,
        )
        return place, cell_line
    cell = cells.find(file)
    if cell is None:
        return CodePlace(place=cells.place(file, line, is_running=False), function=function, called=called), cell_line
    rows = cell.source.split("\n")
    place = CodePlace(
        place=cells.place(file, line, is_running=cell is running),
        function=function,
        source=clean_text(rows[line - 1] if line <= len(rows) else "", _SOURCE_CHARS),
        called=called,
        caller="" if cell is running and not function else caller,
        cell_number=cell.number,
        file_line=cell.file_line(line),
    )
    return place, cell_line


def _cell_place(pair: object, cells: CellFiles, running: Cell) -> tuple[str, int | None]:
    if not isinstance(pair, list) or len(pair) != _PAIR or not isinstance(pair[0], str):
        return "", None
    line = _line(pair[1])
    if line is None or not is_cell_file(pair[0]):
        return "", None
    cell = cells.find(pair[0])
    return cells.place(pair[0], line, is_running=cell is running), line if cell is running else None


def _line(value: object) -> int | None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 < value < _MOST_LINE else None  # type: ignore[operator, return-value]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellLoop:
    """
    A ``for`` loop at the top level of a cell.

    Attributes:
        first: 1-based line of its head in the cell.
        last: its last line.
        name: its counter.
        stop: value or variable at which it ends, or ``None`` if it is not a plain ``range``.
    """

    first: int
    last: int
    name: str
    stop: int | str | None = None

    def state(self, counters: object) -> LoopState | None:
        """Return how far it is, from the values that the kernel sent."""
        values = counters if isinstance(counters, dict) else {}
        value = _counter(values.get(self.name))
        if value is None:
            return None
        stop = values.get(self.stop) if isinstance(self.stop, str) else self.stop
        return LoopState(name=self.name, value=value, stop=_counter(stop))


def find_loops(source: str) -> list[CellLoop]:
    """Return the loops of a cell whose counters are module variables; magics count as blank lines."""
    plain = "\n".join("" if _MAGIC.fullmatch(row) else row for row in source.split("\n"))
    try:
        tree = ast.parse(plain)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return list(_loops(tree))[:_MOST_LOOPS]


def _loops(node: ast.AST) -> Iterator[CellLoop]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda | ast.expr):
            continue
        if isinstance(child, ast.For) and (name := _counter_name(child.target)):
            yield CellLoop(
                first=child.lineno, last=child.end_lineno or child.lineno, name=name, stop=_stop_of(child.iter)
            )
        yield from _loops(child)


def _counter_name(target: ast.expr) -> str:
    """Return the name of a loop's counter: its only variable, or the first one, as in ``enumerate``."""
    if isinstance(target, ast.Tuple) and target.elts:
        target = target.elts[0]
    return target.id if isinstance(target, ast.Name) else ""


def _stop_of(iterable: ast.expr) -> int | str | None:
    """Return where ``range(stop)``, ``range(start, stop)`` or ``tqdm(range(stop))`` ends."""
    if not isinstance(iterable, ast.Call) or not iterable.args:
        return None
    name = iterable.func.id if isinstance(iterable.func, ast.Name) else getattr(iterable.func, "attr", "")
    if name not in {"range", "trange"}:
        return _stop_of(iterable.args[0])
    if len(iterable.args) > _PAIR:
        return None
    last = iterable.args[-1]
    if isinstance(last, ast.Constant) and isinstance(last.value, int):
        return last.value
    return last.id if isinstance(last, ast.Name) else None


def loop_at(loops: list[CellLoop], line: int | None) -> CellLoop | None:
    """Return the innermost loop around a line of the cell."""
    around = [loop for loop in loops if line is not None and loop.first <= line <= loop.last]
    return max(around, key=lambda loop: loop.first, default=None)


def _counter(value: object) -> int | None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and abs(value) < _MOST_COUNTER else None  # type: ignore[arg-type, return-value]
