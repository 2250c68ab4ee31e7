"""Record which lines hold the memory of JAX's devices, around the cells whose memory is recorded."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from pytest_lecturecheck.files import open_plain
from pytest_lecturecheck.kernel.messages.cell_files import CellFiles
from pytest_lecturecheck.kernel.messages.device_profile_reading import read_device_profile
from pytest_lecturecheck.kernel.run.kernel_session import KernelSession
from pytest_lecturecheck.kernel.run.ports import MemoryPlan
from pytest_lecturecheck.kernel.run.silent_calls import STATE, call_silently
from pytest_lecturecheck.model.cell_run import CellRun
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.lecture import Cell
from pytest_lecturecheck.model.memory_profile import DeviceProfile

RECORD: Final = "device-memory.pb.gz"
_SECONDS: Final = 60.0
_MOST_BYTES: Final = 1 << 26


class DeviceMemoryWatch:
    """
    Records the devices' memory of a run's cells.

    A lecture that does not use JAX leaves no record, and that is no finding.

    Args:
        plan: the cells; ``None`` records nothing.
        cells: the lecture's cells.
        findings: receives what could not be recorded, and why.
    """

    def __init__(self, plan: MemoryPlan | None, cells: Sequence[Cell], findings: list[Finding]) -> None:
        """Record nothing yet."""
        self._plan, self._cells, self._findings = plan, cells, findings
        self._is_recording = False

    async def begin(self, session: KernelSession, cell: Cell) -> None:
        """Start a record if one of this cell was requested."""
        self._is_recording = False
        plan = self._plan
        is_here = session.has_agent and not session.has_ended and session.kernel.location.is_here
        if plan is None or cell.number not in plan.cells or not is_here:
            return
        path = Path(session.kernel.folder) / RECORD
        answer = await call_silently(
            session, "device_memory_recorder", "begin", repr(str(path)), STATE, seconds=_SECONDS
        )
        self._is_recording = answer["state"] == "started"
        if not self._is_recording:
            self._note(cell, str(answer["text"]))

    async def end(self, session: KernelSession, cell: Cell, result: CellRun) -> CellRun:
        """Return the cell with what its record says."""
        plan = self._plan
        if plan is None or not self._is_recording:
            return result
        error = ""
        if not session.has_ended:
            answer = await call_silently(session, "device_memory_recorder", "end", STATE, seconds=_SECONDS)
            error = str(answer["text"])
        path = Path(session.kernel.folder) / RECORD
        try:
            with open_plain(path, most_bytes=_MOST_BYTES, follow_links=False) as file:
                data = file.read()
            profile = read_device_profile(data, CellFiles(cell, self._cells).line_at)
        except FileNotFoundError:
            # JAX was not used; an error says why there is none although it was.
            if error:
                self._note(cell, error)
            return result
        except (OSError, ValueError) as exc:
            self._note(cell, str(exc))
            return result
        finally:
            with contextlib.suppress(OSError):
                path.unlink()
        if profile is None:
            return result
        return replace(result, device_profile=self._kept(plan, cell, profile, data))

    def _kept(self, plan: MemoryPlan, cell: Cell, profile: DeviceProfile, data: bytes) -> DeviceProfile:
        """Write the record beside the flame graph; return the profile with its place."""
        folder = plan.folder / f"cell-{cell.number}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if not folder.resolve().is_relative_to(plan.root.resolve()):
                self._note(cell, "it would lie outside of pytest's rootdir")
                return profile
            target = folder / RECORD
            target.unlink(missing_ok=True)
            target.write_bytes(data)
        except OSError as exc:
            self._note(cell, f"it cannot be kept: {exc.strerror or exc}")
            return profile
        return replace(profile, record=target.relative_to(plan.root).as_posix())

    def _note(self, cell: Cell, why: str) -> None:
        message = f"the record of the devices' memory of code cell {cell.number} is missing: {why}"
        self._findings.append(
            Finding(kind=FindingKind.PROFILE, message=message, cell_number=cell.number, line=cell.line)
        )
