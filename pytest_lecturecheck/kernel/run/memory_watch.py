"""
Observe what is in the memory of cells: levels after each cell, and records of memray around the cells asked for.

All of it happens in silent requests before and after the measured part of a cell. A run with a record is marked and
compared with nothing; a run with levels only is measured like any other.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pytest_lecturecheck.kernel.messages.cell_files import CellFiles
from pytest_lecturecheck.kernel.messages.memory_reply import clean_levels, merge_processes, read_error
from pytest_lecturecheck.kernel.process.installed import resolve_program
from pytest_lecturecheck.kernel.run.agent_source import agent_source
from pytest_lecturecheck.kernel.run.cell_folders import make_cell_folder
from pytest_lecturecheck.kernel.run.device_memory_watch import DeviceMemoryWatch
from pytest_lecturecheck.kernel.run.kernel_session import KernelSession
from pytest_lecturecheck.kernel.run.ports import MemoryPlan
from pytest_lecturecheck.kernel.run.silent_calls import SHELL, STATE, call_silently
from pytest_lecturecheck.model.cell_run import CellRun
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.lecture import Cell
from pytest_lecturecheck.model.memory_profile import MemoryLevels, PeakProfile
from pytest_lecturecheck.model.metric import Metric

FLAME_GRAPH: Final = "flamegraph.html"
_CAPTURE: Final = "memory.bin"
_NEW_PEAK: Final = 1.001
_LEAST_PEAK_BYTES: Final = 256 << 20
_LEVEL_SECONDS: Final = 30.0
_RECORD_SECONDS: Final = 60.0
_READ_SECONDS: Final = 300.0
_FLAME_SECONDS: Final = 120.0
_END_SECONDS: Final = 2.0
_MOST_ANSWER_BYTES: Final = 1 << 24
_OWN_PROFILER: Final = re.compile(r"\bmemray\b")
_NO_MEMRAY: Final = (
    "memray is not installed in the kernel's environment; pip install 'pytest-lecturecheck[memory-profile]'"
)
_READER: Final = (
    "import sys; sys.path[:] = [folder for folder in sys.path if folder]; "
    "exec(compile(sys.argv.pop(1), '<lecturecheck>', 'exec'))"
)


class MemoryWatch:
    """
    Observes the memory of a run's cells.

    Args:
        plan: what to observe; ``None`` observes nothing.
        cells: the lecture's cells.
        environment: variables of the kernel.
        findings: receives what could not be observed, and why.
    """

    def __init__(
        self,
        plan: MemoryPlan | None,
        cells: Sequence[Cell],
        environment: Mapping[str, str],
        findings: list[Finding],
    ) -> None:
        """Report requested cells that will not run."""
        self._plan, self._cells, self._environment, self._findings = plan, cells, environment, findings
        self._device_memory = DeviceMemoryWatch(plan, cells, findings)
        self._has_first = False
        self._highest_bytes = plan.limit_bytes if plan is not None else None
        self._capture: Path | None = None
        by_number = {cell.number: cell for cell in cells}
        for number in sorted(plan.cells if plan is not None else ()):
            cell = by_number.get(number)
            if cell is None:
                count = f"{len(cells)} code cell{'' if len(cells) == 1 else 's'}"
                message = f"the memory of code cell {number} was not recorded: the lecture has {count}"
                findings.append(Finding(kind=FindingKind.PROFILE, message=message))
            elif cell.skip_reason or not cell.source.strip():
                self._not_recorded(cell, cell.skip_reason or "it is blank")

    async def begin(self, session: KernelSession, cell: Cell) -> None:
        """Take the first level, and start a record if one of this cell was requested."""
        self._capture = None
        plan = self._plan
        if plan is None:
            return
        if plan.levels and not self._has_first and _can_ask(session):
            self._has_first = True
            await take_level(session)
        # Before the record of memray, which begins with the next request.
        await self._device_memory.begin(session, cell)
        if cell.number in plan.cells:
            await self._begin_record(plan, session, cell)

    async def _begin_record(self, plan: MemoryPlan, session: KernelSession, cell: Cell) -> None:
        if not _can_ask(session):
            self._not_recorded(cell, "only Python kernels on this machine can be recorded")
            return
        if _OWN_PROFILER.search(cell.source):
            self._not_recorded(cell, "it uses memray itself, and only one recorder can be at work")
            return
        try:
            folder = make_cell_folder(plan.folder / f"cell-{cell.number}", plan.root)
        except OSError as exc:
            self._not_recorded(cell, f"no folder could be made for its record: {exc.strerror or exc}")
            return
        capture = folder / _CAPTURE
        given = (repr(str(capture)), str(plan.record_bytes), SHELL, STATE)
        answer = await call_silently(session, "memory_recorder", "begin", *given, seconds=_RECORD_SECONDS)
        if answer["state"] == "started":
            self._capture = capture
            return
        with contextlib.suppress(OSError):
            folder.rmdir()
        why = _NO_MEMRAY if answer["state"] == "no memray" else f"memray could not be started: {answer['text']}"
        self._not_recorded(cell, why)

    async def end(self, session: KernelSession, cell: Cell, result: CellRun) -> CellRun:
        """Return the cell with what its record and the level after it say."""
        plan, capture = self._plan, self._capture
        if plan is None:
            return result
        result = await self._device_memory.end(session, cell, result)
        if capture is not None:
            result = replace(result, memory_profile=await self._read(plan, session, cell, result, capture))
        if plan.levels:
            levels = await take_level(session) if _can_ask(session) else MemoryLevels(reason=_why_not(session))
            result = replace(result, memory_levels=levels)
        elif self._is_new_highest(result) and _can_ask(session) and is_level_small(session, result):
            result = replace(result, memory_levels=await take_level(session, alone=True))
        return result

    def _is_new_highest(self, result: CellRun) -> bool:
        """Return True if a cell's peak is over the limit, and higher than that of every cell before."""
        peak = result.measured(Metric.PEAK_FOOTPRINT)
        if self._highest_bytes is None or peak is None or peak.value <= self._highest_bytes:
            return False
        # What a level itself costs is no new peak.
        self._highest_bytes = peak.value * _NEW_PEAK
        return True

    # -- records ------------------------------------------------------------------------------------------------------

    async def _read(
        self, plan: MemoryPlan, session: KernelSession, cell: Cell, result: CellRun, capture: Path
    ) -> PeakProfile | None:
        state = ""
        if not session.has_ended:
            answer = await call_silently(session, "memory_recorder", "end", STATE, seconds=_RECORD_SECONDS)
            state = answer["state"]
        flame_graph = capture.with_name(FLAME_GRAPH)
        payload, why = await self._run_reader(session, capture, flame_graph)
        profile = merge_processes(payload, CellFiles(cell, self._cells).line_at)
        for path in capture.parent.glob(f"{_CAPTURE}*"):
            with contextlib.suppress(OSError):
                path.unlink()
        if profile is None:
            reason = why or read_error(payload) or "it is empty"
            self._note(cell, f"the record of the memory of code cell {cell.number} cannot be read: {reason}")
            return None
        if not flame_graph.is_file():
            self._note(cell, f"memray could not draw the flame graph of code cell {cell.number}")
        wall, footprint = result.measured(Metric.WALL), result.measured(Metric.PEAK_FOOTPRINT)
        return replace(
            profile,
            flame_graph=flame_graph.relative_to(plan.root).as_posix() if flame_graph.is_file() else "",
            cell_seconds=None if wall is None else wall.value,
            footprint_bytes=None if footprint is None else round(footprint.value),
            is_cut=state not in {"stopped", "full"},
            full_bytes=plan.record_bytes if state == "full" else None,
        )

    async def _run_reader(self, session: KernelSession, capture: Path, flame_graph: Path) -> tuple[Any, str]:
        """Run the reader with the kernel's interpreter; return what it found, and why it found nothing."""
        program = resolve_program(str(session.kernel.manager.kernel_spec.argv[0]))
        source = agent_source("capture_reader")
        try:
            process = await asyncio.create_subprocess_exec(
                *(program, "-c", _READER, source, str(capture), str(flame_graph)),
                # The reader ends when this end of the pipe closes, however the session ends.
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                limit=_MOST_ANSWER_BYTES,
                env={**os.environ, **self._environment},
                start_new_session=sys.platform != "win32",
            )
        except OSError as exc:
            return None, f"{program} could not be started: {exc.strerror or exc}"
        assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 - for the type checker
        try:
            async with asyncio.timeout(_READ_SECONDS):
                payload = json.loads(await process.stdout.readline())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_FLAME_SECONDS):
                    await process.wait()
        except TimeoutError:
            return None, f"its reader did not end within {_READ_SECONDS:g} s"
        except (ValueError, RecursionError):
            return None, "its reader left no answer"
        else:
            return payload, ""
        finally:
            # It ends what it has started, too.
            process.stdin.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_END_SECONDS):
                    await process.wait()
            if process.returncode is None:
                process.kill()
                await process.wait()

    def _not_recorded(self, cell: Cell, why: str) -> None:
        self._note(cell, f"the memory of code cell {cell.number} was not recorded: {why}")

    def _note(self, cell: Cell, message: str) -> None:
        self._findings.append(
            Finding(kind=FindingKind.PROFILE, message=message, cell_number=cell.number, line=cell.line)
        )


def is_level_small(session: KernelSession, result: CellRun) -> bool:
    """
    Return True if a level costs the kernel less than 1 % of a cell's peak.

    Within 1 %, the first of several cells is charged. Compiling the code of the level in a kernel that cannot take ours
    costs 2 MiB, after which a later cell of a small lecture would be the highest.
    """
    peak = result.measured(Metric.PEAK_FOOTPRINT)
    return session.has_own_interpreter or (peak is not None and peak.value >= _LEAST_PEAK_BYTES)


async def take_level(
    session: KernelSession, *, trims: bool = False, clears: bool = False, alone: bool = False
) -> MemoryLevels:
    """
    Return the level of the kernel's memory now.

    Args:
        session: the kernel.
        trims: collect garbage first, and return free memory to the system.
        clears: let JAX drop its compiled programs before that.
        alone: compare with no other level, which costs the kernel half a megabyte less.
    """
    given = (SHELL, STATE, f"trims={trims}", f"clears={clears}", f"alone={alone}")
    answer = await call_silently(session, "memory_levels", "answer", *given, seconds=_LEVEL_SECONDS)
    if answer["state"] != "taken":
        return MemoryLevels(reason=answer["text"] or "the kernel left no answer")
    return replace(clean_levels(answer.get("level")), is_alone=alone)


def _can_ask(session: KernelSession) -> bool:
    return session.has_agent and not session.has_ended and session.kernel.location.is_here


def _why_not(session: KernelSession) -> str:
    return "the kernel has ended" if session.has_ended else "only Python kernels on this machine can be asked"
