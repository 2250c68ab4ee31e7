"""
Trace chosen cells with ``jax.profiler``, through silent requests around them.

Namespace, prompt numbers and outputs of the lecture do not change. Its times and memory do, so a traced run is marked
and compared with nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pytest_lecturecheck.errors import LectureCheckError
from pytest_lecturecheck.kernel.run.cell_folders import make_cell_folder
from pytest_lecturecheck.kernel.run.kernel_session import KernelSession
from pytest_lecturecheck.kernel.run.ports import Tracing
from pytest_lecturecheck.kernel.run.silent_calls import call_silently
from pytest_lecturecheck.model.cell_run import CellRun, CellStatus
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.lecture import Cell
from pytest_lecturecheck.model.metric import Metric

_START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 300.0
"""Pending work of the cell must end first, and a trace of a million events takes ten seconds to write."""
_STUCK_SECONDS: Final = 30.0
_OWN_PROFILER: Final = re.compile(r"\bprofiler\b|\b(?:start|stop)_trace\b")
_SETS_UP: Final = re.compile(r"jax_platform|num_cpu_devices|XLA_|JAX_PLATFORM|VISIBLE_DEVICES|distributed\.initialize")

_SETS_UP_TEXT: Final = "it chooses JAX's devices, and a trace would have chosen them before it"
_NO_JAX: Final = "JAX is not imported before it"
_IMPORTS_JAX: Final = "it imports JAX itself, and a trace can only start after that; import JAX in an earlier cell"


class Profiler:
    """
    Traces the requested cells.

    Args:
        tracing: the cells and the folder of their traces; ``None`` traces nothing.
        cells: the lecture's cells.
        findings: receives what could not be traced, and why.
    """

    def __init__(self, tracing: Tracing | None, cells: Sequence[Cell], findings: list[Finding]) -> None:
        """Report requested cells that will not run."""
        self.tracing = tracing
        self.findings = findings
        self._state = ""
        if tracing is None:
            return
        by_number = {cell.number: cell for cell in cells}
        for number in sorted(tracing.cells):
            cell = by_number.get(number)
            if cell is None:
                count = f"{len(cells)} code cell{'' if len(cells) == 1 else 's'}"
                message = f"code cell {number} was not traced: the lecture has {count}"
                self.findings.append(Finding(kind=FindingKind.PROFILE, message=message))
            elif cell.skip_reason or not cell.source.strip():
                self._not_traced(cell, cell.skip_reason or "it is blank")

    async def begin(self, session: KernelSession, cell: Cell) -> None:
        """Start a trace if one of this cell was requested; report what prevents it."""
        self._state = ""
        if self.tracing is None or cell.number not in self.tracing.cells:
            return
        if not session.has_agent:
            self._not_traced(cell, "only Python kernels can be traced")
            return
        if _OWN_PROFILER.search(cell.source):
            self._not_traced(cell, "it uses a profiler itself, and only one can be at work")
            return
        try:
            folder = make_cell_folder(self.tracing.cell_folder(cell.number), self.tracing.root)
        except OSError as exc:
            self._not_traced(cell, f"no folder could be made for its trace: {exc.strerror or exc}")
            return
        sets_up = _SETS_UP.search(cell.source) is not None
        self._state, text = await self._ask(session, "begin", str(folder), sets_up, seconds=_START_SECONDS)
        if self._state != "started":
            with contextlib.suppress(OSError):
                folder.rmdir()
        if self._state == "sets up":
            self._not_traced(cell, _SETS_UP_TEXT)
        elif self._state not in {"started", "no jax"}:
            self._not_traced(cell, f"the trace could not be started: {text}")

    async def end(self, session: KernelSession, cell: Cell, result: CellRun) -> CellRun:
        """Stop the trace of a cell and give the cell with what it says."""
        began, self._state = self._state, ""
        if self.tracing is None or began not in {"started", "no jax"}:
            return result
        if began == "no jax":
            await self._tell_jax(session, cell)
        elif _has_ended(session):
            self._lost(cell, "the kernel died in that cell")
        else:
            seconds = _STUCK_SECONDS if result.status is CellStatus.TIMED_OUT else _STOP_SECONDS
            state, text = await self._ask(session, "end", seconds=seconds)
            if state == "stopped":
                return await self._read(self.tracing, cell, result)
            self._lost(cell, "the kernel ended while it was written" if _has_ended(session) else text)
        return result

    async def _tell_jax(self, session: KernelSession, cell: Cell) -> None:
        """Distinguish a cell that imports JAX itself from one that runs before the import."""
        state = "" if _has_ended(session) else (await self._ask(session, "look", seconds=_STUCK_SECONDS))[0]
        self._not_traced(cell, _IMPORTS_JAX if state == "jax" else _NO_JAX)

    async def _read(self, tracing: Tracing, cell: Cell, result: CellRun) -> CellRun:
        folder = tracing.cell_folder(cell.number)
        wall = result.measured(Metric.WALL)
        try:
            found = await asyncio.to_thread(tracing.read, folder, wall.value if wall is not None else None)
        except LectureCheckError as exc:
            self._lost(cell, str(exc))
            return result
        shown = (folder / found.trace).relative_to(tracing.root).as_posix()
        return replace(result, profile=replace(found, trace=shown))

    async def _ask(self, session: KernelSession, name: str, *arguments: object, seconds: float) -> tuple[str, str]:
        """Call a function of the profiling agent; return its state and, if it failed, the reason."""
        answer = await call_silently(session, "profiling_agent", name, *map(repr, arguments), seconds=seconds)
        return answer["state"], answer["text"]

    def _not_traced(self, cell: Cell, why: str) -> None:
        self._note(cell, f"code cell {cell.number} was not traced: {why}")

    def _lost(self, cell: Cell, why: str) -> None:
        self._note(cell, f"the trace of code cell {cell.number} is lost: {why}")

    def _note(self, cell: Cell, message: str) -> None:
        finding = Finding(kind=FindingKind.PROFILE, message=message, cell_number=cell.number, line=cell.line)
        self.findings.append(finding)


def _has_ended(session: KernelSession) -> bool:
    return session.has_ended
