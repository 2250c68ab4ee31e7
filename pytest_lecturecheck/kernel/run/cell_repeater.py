"""
Run cells of a completed lecture again in its kernel, and watch whether memory grows each time.

All of it happens after the last cell, when every measurement of the lecture is made: nothing here is compared with a
limit, and nothing changes what the lecture's own cells did. The cells run in silent requests in their order, as often
as asked for each, so that a name which a later cell took over has its own value again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from pytest_lecturecheck.kernel.process.teardown import interrupt
from pytest_lecturecheck.kernel.run.kernel_session import KernelSession
from pytest_lecturecheck.kernel.run.memory_watch import take_level
from pytest_lecturecheck.model.cell_run import CellRun, CellStatus
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.lecture import Cell
from pytest_lecturecheck.model.memory_profile import MemoryLevels, PartKind
from pytest_lecturecheck.model.metric import Metric, Reading
from pytest_lecturecheck.model.repetition import (
    CellRepetitions,
    GrowingPart,
    RepeatRequest,
    steady_growth,
)
from pytest_lecturecheck.safe_text import cut_line, one_line
from pytest_lecturecheck.units import format_size

_GRACE_SECONDS: Final = 5.0
_LEAST_PART_BYTES: Final = 16 << 10
_MOST_PARTS: Final = 5
_MORE_REPETITIONS: Final = 2
_SHOWN_CELLS: Final = 5
_SHOWN_TYPES: Final = 3
_ERROR_CHARS: Final = 120
_NO_LEVEL: Final = "resident memory is only known on Linux"


class CellRepeater:
    """
    Runs cells again.

    Args:
        request: which cells, and how often.
        cells: the lecture's cells.
        limit_seconds: time for each repetition; infinity for none.
        findings: receives what could not be done.
        on_cell: called with each cell before it is run again.
    """

    def __init__(
        self,
        request: RepeatRequest,
        cells: Sequence[Cell],
        limit_seconds: float,
        *,
        findings: list[Finding],
        on_cell: Callable[[Cell], None],
    ) -> None:
        """Run nothing yet; report requested cells that are not there."""
        self._request, self._cells, self._findings, self._on_cell = request, cells, findings, on_cell
        self._limit_seconds = None if limit_seconds == math.inf else limit_seconds
        self.is_lost = self._is_blind = False
        for number in sorted(request.cells - {cell.number for cell in cells}):
            has = "1 code cell" if len(cells) == 1 else f"{len(cells)} code cells"
            message = f"code cell {number} was not run again: the lecture has {has}"
            findings.append(Finding(kind=FindingKind.LEAK, message=message))
        if request.tags and not any(request.tags & cell.tags for cell in cells):
            tags = ", ".join(sorted(request.tags))
            findings.append(Finding(kind=FindingKind.LEAK, message=f"no code cell has the tag {tags!r} to run again"))

    async def run(self, session: KernelSession, results: Sequence[CellRun]) -> list[CellRun]:
        """Return the cells with what their repetitions came to; :attr:`is_lost` is then set if the kernel is."""
        found = list(results)
        left_out = []
        for position, cell in enumerate(self._cells):
            if not self._request.chooses(cell) or results[position].status is not CellStatus.OK:
                continue
            if self.is_lost or self._is_blind:
                left_out.append(cell)
                continue
            self._on_cell(cell)
            has_jax = results[position].compilation is not None
            found[position] = replace(results[position], repetitions=await self._repeat(session, cell, has_jax=has_jax))
        if self.is_lost and left_out:
            numbers = ", ".join(str(cell.number) for cell in left_out[:_SHOWN_CELLS])
            more = f" and {len(left_out) - _SHOWN_CELLS} more" if len(left_out) > _SHOWN_CELLS else ""
            cells = "code cell" if len(left_out) == 1 else "code cells"
            self._note(left_out[0], f"{cells} {numbers}{more} did not run again, because the kernel was lost before")
        return found

    async def _repeat(self, session: KernelSession, cell: Cell, *, has_jax: bool) -> CellRepetitions:
        levels: list[MemoryLevels] = []
        reason = ""
        for number in range(1, self._request.count + 1):
            reason = await self._run_once(session, cell)
            if not reason:
                levels.append(level := await take_level(session, trims=True))
                # What is not known after one cell is not known after the next one.
                self._is_blind = not level.reason and level.level_bytes is None
                reason = _NO_LEVEL if self._is_blind else level.reason
            if reason:
                self._note(cell, f"was left at repetition {number} of {self._request.count}: {reason}")
                break
        result = summarise(levels, reason)
        if result.grows:
            if has_jax and not result.is_named:
                result = replace(result, cleared_level_bytes=await self._levels_without_programs(session, cell))
            message = growth_message(cell.number, result)
            self._note(cell, message, fails_when_strict=not result.is_compiled)
        return result

    async def _levels_without_programs(self, session: KernelSession, cell: Cell) -> tuple[int, ...]:
        """Return levels after JAX has dropped its compiled programs: at once, and after each of two repetitions."""
        found = [await take_level(session, trims=True, clears=True)]
        while len(found) <= _MORE_REPETITIONS and not await self._run_once(session, cell):
            found.append(await take_level(session, trims=True, clears=True))
        known = tuple(level.level_bytes for level in found if level.level_bytes is not None)
        return known if len(known) == len(found) else ()

    def _note(self, cell: Cell, message: str, *, fails_when_strict: bool = False) -> None:
        self._findings.append(
            Finding(
                kind=FindingKind.LEAK,
                message=message,
                cell_number=cell.number,
                line=cell.line,
                fails_when_strict=fails_when_strict,
            )
        )

    async def _run_once(self, session: KernelSession, cell: Cell) -> str:
        """Run a cell in a silent request; return why it did not end well, or an empty string."""
        reply = await session.ask(cell.source, self._limit_seconds)
        # What it printed belongs to no cell of the lecture.
        session.client.take_stray_text()
        session.client.take_reply_faults()
        session.kernel.provisioner.take_new_stderr()
        if session.has_ended:
            self.is_lost = True
            return "the kernel died"
        if reply is None:
            await interrupt(session.kernel)
            self.is_lost = await session.ask("", _GRACE_SECONDS) is None
            return f"it did not end within {self._limit_seconds:g} s"
        if reply.status == "ok":
            return ""
        name, value = reply.content.get("ename", ""), reply.content.get("evalue", "")
        return f"it raised {cut_line(one_line(f'{name}: {value}'), _ERROR_CHARS)}"


def summarise(levels: Sequence[MemoryLevels], reason: str = "") -> CellRepetitions:
    """Return what levels after repetitions say; the first is the one after the first repetition."""
    resident = tuple(level.level_bytes for level in levels if level.level_bytes is not None)
    result = CellRepetitions(count=len(levels), level_bytes=resident, reason=reason)
    growth = result.growth_bytes if len(resident) == len(levels) else None
    if not growth:
        return result
    parts = _growing_parts(levels)
    allocated = [level.allocated_bytes for level in levels if level.allocated_bytes is not None]
    native = steady_growth(allocated) if len(allocated) == len(levels) else None
    result = replace(result, parts=parts, native_growth_bytes=native)
    return result if result.is_named else replace(result, types=levels[-1].types)


def growth_message(number: int, found: CellRepetitions) -> str:
    """Return what grows each time a cell is run again, and by how much."""
    head = (
        f"{format_size(found.growth_bytes or 0)} more memory stays each time code cell {number} is run again "
        f"({found.count} repetitions)"
    )
    growth = found.growth_bytes or 0
    if found.is_compiled:
        freed = format_size(found.compiled_bytes)
        return f"{head}: programs that JAX compiles each time and keeps; jax.clear_caches() freed {freed}"
    parts = [f"{_part_text(part)} {format_size(part.growth_bytes)}" for part in found.parts]
    if not found.is_named:
        native = found.native_growth_bytes or 0
        if 2 * native >= growth:
            parts.append(f"{format_size(native)} that the C library has handed out, and no name of the lecture holds")
        else:
            parts.append("objects that no name of the lecture holds")
    text = f"{head}: {', '.join(parts)}"
    types = ", ".join(f"{item.grown_count:,} {one_line(item.name)}" for item in found.types[:_SHOWN_TYPES])
    return f"{text}; new objects in the last repetition: {types}" if types else text


def _part_text(part: GrowingPart) -> str:
    return f"{part.name!r} ({part.kind})" if part.name else str(part.kind)


def most_of_cells(cells: Sequence[CellRun], readings: Mapping[Metric, Reading]) -> dict[Metric, Reading]:
    """Return readings of devices that go on after the last cell, as the cells themselves had them."""
    found: dict[Metric, Reading] = {}
    for metric in readings:
        measured = [item for cell in cells if (item := cell.measured(metric)) is not None]
        if measured:
            found[metric] = max(measured, key=lambda item: item.value)
    return found


def _growing_parts(levels: Sequence[MemoryLevels]) -> tuple[GrowingPart, ...]:
    sizes = [_sizes(level) for level in levels]
    found = []
    for kind, name in sizes[-1]:
        growth = steady_growth([size.get((kind, name), 0) for size in sizes], _LEAST_PART_BYTES)
        if growth:
            found.append(GrowingPart(kind=kind, name=name, growth_bytes=growth))
    return tuple(sorted(found, key=lambda part: -part.growth_bytes)[:_MOST_PARTS])


def _sizes(level: MemoryLevels) -> dict[tuple[PartKind, str], int]:
    found: dict[tuple[PartKind, str], int] = {}
    for part in level.parts:
        # The number in "3 figures" is another one after each repetition.
        key = part.kind, "" if part.kind.states_number else part.name
        found[key] = found.get(key, 0) + part.size_bytes
    return found
