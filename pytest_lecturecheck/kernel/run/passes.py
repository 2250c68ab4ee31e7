"""Run all cells again in the kernel that has run them, for times without start, imports and compilation."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.kernel.process.teardown import interrupt
from pytest_lecturecheck.kernel.run.kernel_session import KernelSession
from pytest_lecturecheck.kernel.run.observations import cell_error
from pytest_lecturecheck.kernel.run.ports import RunPlan
from pytest_lecturecheck.kernel.run.run_clock import RunClock
from pytest_lecturecheck.model.device import CompileTimes
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.kernel_pass import KernelPass
from pytest_lecturecheck.model.lecture import Cell
from pytest_lecturecheck.model.reported_value import ReportedValue

_GRACE_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PassesEnd:
    """
    What became of the passes after the first one.

    Attributes:
        passes: those that came to their end.
        finding: why there are no more of them, or ``None``.
        is_usable: whether the kernel can still be asked something.
    """

    passes: tuple[KernelPass, ...] = ()
    finding: Finding | None = None
    is_usable: bool = True


class _EndedError(Exception):
    """A pass that did not come to its end."""

    def __init__(self, finding: Finding, *, is_usable: bool) -> None:
        """Keep what is reported, and whether the kernel can be used."""
        super().__init__(finding.message)
        self.finding = finding
        self.is_usable = is_usable


class PassRunner:
    """
    Runs a lecture's cells again; memory and findings of these passes are not taken.

    Args:
        session: the kernel, which has run all cells.
        plan: the run.
        clock: time limits, of a cell and of the whole lecture.
        on_cell: called before each cell.
    """

    def __init__(self, session: KernelSession, plan: RunPlan, clock: RunClock, on_cell: Callable[[Cell], None]) -> None:
        """Run nothing yet."""
        self._session = session
        self._plan = plan
        self._clock = clock
        self._on_cell = on_cell

    async def run(self) -> PassesEnd:
        """Run the cells as often as the lecture's settings say, the run itself counted."""
        found: list[KernelPass] = []
        for number in range(2, (self._plan.settings.passes or 1) + 1):
            try:
                found.append(await self._run_pass(number))
            except _EndedError as ended:
                return PassesEnd(passes=tuple(found), finding=ended.finding, is_usable=ended.is_usable)
        return PassesEnd(passes=tuple(found))

    async def _run_pass(self, number: int) -> KernelPass:
        lecture = self._plan.lecture
        document = copy.deepcopy(lecture.document)
        values: dict[str, ReportedValue] = {}
        compiled: list[float] = []
        began = time.perf_counter()
        for cell in lecture.cells:
            if cell.skip_reason or not cell.source.strip():
                continue
            self._on_cell(cell)
            payload = await self._run_cell(cell, document.cells[cell.index], number)
            reported, _ = self._session.client.reported_values.end_cell(cell)
            values.update((value.name, value) for value in reported)
            if isinstance(times := payload.get("compilation"), CompileTimes):
                compiled.append(times.seconds)
        return KernelPass(
            number=number,
            wall_seconds=round(time.perf_counter() - began, 6),
            compile_seconds=round(sum(compiled), 6) if compiled else None,
            reported_values=tuple(values.values()),
        )

    async def _run_cell(self, cell: Cell, notebook_cell: object, number: int) -> Mapping[str, Any]:
        session, clock = self._session, self._clock
        limit = min(clock.cell_limit_seconds, clock.total_left_seconds)
        session.request_count += 1
        request = session.client.begin_cell(notebook_cell, cell.index)
        has_ended = await session.client.wait_cell(request, None if limit == math.inf else limit)
        if has_ended:
            error = cell_error(request.reply, session.client.errors, cell)
            if error is None or cell.expects_error or self._plan.settings.allow_errors:
                return request.reply.payload
            raise _EndedError(_finding(cell, number, f"raised {error.name}"), is_usable=True)
        if session.has_ended or request.no_answer is not None:
            raise _EndedError(_finding(cell, number, "ended the kernel"), is_usable=False)
        await interrupt(session.kernel)
        has_stopped = await session.client.wait_cell(request, _GRACE_SECONDS)
        raise _EndedError(_finding(cell, number, f"took more than {limit:.3g} s"), is_usable=has_stopped)


def _finding(cell: Cell, number: int, what: str) -> Finding:
    message = (
        f"code cell {cell.number} {what} when the lecture was run again in the same kernel (pass {number}); "
        "passes from there on are missing"
    )
    return Finding(kind=FindingKind.KERNEL, message=message, cell_number=cell.number, line=cell.line)
