"""Look at what the compiler has planned while a cell runs, to say what cannot fit before it is tried to the end."""

from __future__ import annotations

import time
from typing import Final

from pytest_lecturecheck.kernel.run.kernel_session import KernelSession
from pytest_lecturecheck.kernel.run.plan_findings import excess_text
from pytest_lecturecheck.model.lecture import Cell
from pytest_lecturecheck.model.platform import Machine

_NOTHING: Final = ""


class PlanWatch:
    """
    Reads the plan that the agent writes down when a program was compiled, before it runs.

    Args:
        machine: the machine.
    """

    def __init__(self, machine: Machine) -> None:
        """Know nothing yet."""
        self._machine = machine
        self._request = 0
        self._warning = _NOTHING

    def look(self, session: KernelSession | None, cell: Cell | None) -> str:
        """Return the warning about the cell that is running, or an empty string."""
        if session is None or cell is None:
            return _NOTHING
        if session.request_count != self._request:
            self._request, self._warning = session.request_count, _NOTHING
        if self._warning:
            return self._warning
        record = session.crash_record()
        compiled = record.compilation_in(session.request_count, time.monotonic()) if record is not None else None
        if record is not None and compiled is not None and compiled.plan is not None:
            excess = excess_text(compiled.plan, self._machine, (), record.allocators)
            where = f"code cell {cell.number}" + ("" if cell.line is None else f", line {cell.line}")
            self._warning = f"{where}: {excess}" if excess else _NOTHING
        return self._warning
