"""Mark where a long cell is: one sample of its stack every few seconds, from outside, while it runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.kernel.messages.cell_files import CellFiles
from pytest_lecturecheck.kernel.messages.line_asking import CellLoop, LineAsker, find_loops, loop_at, read_place
from pytest_lecturecheck.kernel.run.kernel_session import KernelSession
from pytest_lecturecheck.model.cell_marks import CellMarks, LineSample
from pytest_lecturecheck.model.lecture import Cell
from pytest_lecturecheck.model.mark_log import MarkLog

_LONGEST_INTERVAL_SECONDS: Final = 5.0
_SHORTEST_INTERVAL_SECONDS: Final = 0.05
_PART: Final = 12
"""A cell that was just long enough has this many samples at the end of as much time again."""


@dataclass(slots=True)
class _Marking:
    """The marking of the cell that runs."""

    cell: Cell
    log: MarkLog
    loops: list[CellLoop]
    asked_at: float | None = None
    outside: LineSample | None = None

    def add(self, sample: LineSample) -> None:
        """Add a sample; one outside of the lecture's code waits for the next, as the cell may just have ended."""
        if self.outside is not None:
            self.log.add(self.outside)
        self.outside = None if sample.place.place else sample
        if self.outside is None:
            self.log.add(sample)


class CellMarking:
    """
    Marks the cells of one lecture.

    Args:
        session: the kernel.
        cells: the lecture's cells.
        after_seconds: time after which marks of a cell begin; 0 or infinity for never.
        origin: start of the run (``time.perf_counter``).
    """

    def __init__(self, session: KernelSession, cells: Sequence[Cell], after_seconds: float, origin: float) -> None:
        """Mark nothing yet."""
        self._session, self._cells, self._origin = session, cells, origin
        self._after_seconds = after_seconds
        self._interval_seconds = min(_LONGEST_INTERVAL_SECONDS, max(_SHORTEST_INTERVAL_SECONDS, after_seconds / _PART))
        self._asker: LineAsker | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._marking: _Marking | None = None

    @property
    def last(self) -> LineSample | None:
        """Return the last sample of the cell that runs, or ``None``."""
        return self._marking.log.last if self._marking is not None else None

    @property
    def interval_seconds(self) -> float:
        """Return the time between two samples."""
        return self._interval_seconds

    def begin(self, cell: Cell) -> None:
        """Begin with a cell that was just sent; nothing happens until it has run for a while."""
        self._marking = None
        can_ask = self._session.has_agent and self._session.kernel.location.is_here
        if can_ask and 0 < self._after_seconds < float("inf"):
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._after_seconds, self._begin_marks, cell)

    def end(self) -> CellMarks | None:
        """Return the marks of the cell, or ``None`` if it was short or could not be asked."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is not None:
            self._task.cancel()
            self._task = None
        marking, self._marking = self._marking, None
        if marking is None:
            return None
        silent_seconds = 0.0
        if marking.asked_at is not None:
            waited = time.perf_counter() - marking.asked_at
            silent_seconds = waited if waited > self._interval_seconds else 0.0
        return marking.log.finish(silent_seconds)

    def close(self) -> None:
        """Close the pipes to the kernel."""
        self.end()
        if self._asker is not None:
            self._asker.close()
            self._asker = None

    def _begin_marks(self, cell: Cell) -> None:
        self._timer = None
        self._task = asyncio.ensure_future(self._mark(cell))

    async def _mark(self, cell: Cell) -> None:
        marking = _Marking(cell=cell, log=MarkLog(self._interval_seconds), loops=find_loops(cell.source))
        self._marking = marking
        files = CellFiles(cell, self._cells)
        asked = {name for loop in marking.loops for name in (loop.name, loop.stop) if isinstance(name, str)}
        # A kernel that has ended, or that has no pipes, is asked no more.
        with suppress(OSError):
            if self._asker is None:
                self._asker = LineAsker(Path(self._session.kernel.folder))
            while True:
                marking.asked_at, asked_bytes = time.perf_counter(), self._footprint_bytes()
                answer = await self._asker.ask(sorted(asked))
                if answer.get("ended") == self._session.request_count:
                    # The reply is on its way.
                    marking.asked_at = None
                    return
                self._note(marking, files, answer, asked_bytes)
                spent = time.perf_counter() - marking.asked_at
                marking.asked_at = None
                await asyncio.sleep(max(self._interval_seconds - spent, _SHORTEST_INTERVAL_SECONDS))

    def _note(self, marking: _Marking, files: CellFiles, answer: dict[str, Any], asked_bytes: int | None) -> None:
        now, asked_at = time.perf_counter(), marking.asked_at
        place, cell_line = read_place(answer, files, marking.cell)
        loop = loop_at(marking.loops, cell_line)
        state = loop.state(answer.get("counters")) if loop is not None else None
        moments = [(now, self._footprint_bytes())]
        if asked_at is not None and now - asked_at > self._interval_seconds:
            # The line of a call into C that held the interpreter, from the question on.
            moments.insert(0, (asked_at, asked_bytes))
        for moment, footprint_bytes in moments:
            marking.add(
                LineSample(
                    seconds=round(moment - self._origin, 3), place=place, footprint_bytes=footprint_bytes, loop=state
                )
            )

    def _footprint_bytes(self) -> int | None:
        snapshot = self._session.probe.snapshot()
        return snapshot.footprint_bytes if snapshot is not None else None
