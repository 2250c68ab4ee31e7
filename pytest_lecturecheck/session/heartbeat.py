"""
Progress as lines of a log: one when a lecture starts, one when it ends, and one at each interval in between.

The log may be all that is left of a machine. Its last line then shows which cell was running, for how long, and how
much memory it had. Pure but for the clock and the function that writes, which are passed in.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.probe.memory_state import MemoryState
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.terminal.progress import ShownProgress
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.session.machine_watch import LowMemoryWatch, MachineReading, render_machine
from pytest_lecturecheck.units import MIB, format_duration, format_size

_MACHINE_SECONDS: Final = 0.5
_JUMP_SECONDS: Final = 2.0
"""A lecture that allocates steadily must not fill the log."""
_JUMP_FRACTION: Final = 0.05
_LEAST_JUMP_BYTES: Final = 256 * MIB
_NOTHING_RAN: Final = frozenset({Outcome.SKIPPED, Outcome.NOTHING_TO_RUN, Outcome.UNREADABLE})


@dataclass(slots=True)
class _Running:
    last: ShownProgress
    written_at: float
    written_bytes: float = 0.0


class Heartbeat:
    """
    Writes one line when a lecture starts, one when it ends, and one at each interval while it runs.

    Further lines are written when the memory of a lecture has risen much since its last line, and when the machine
    runs low: the log of a machine that is lost then ends with the last readings before that.

    Progress may be noted on any thread; lines are written by the thread that calls :meth:`beat` or :meth:`end`.

    Args:
        write: writes one line at once.
        interval_seconds: time between two lines about one lecture.
        clock: returns seconds that never decrease.
        read_machine: reads the machine.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        *,
        interval_seconds: float,
        clock: Callable[[], float],
        read_machine: Callable[[], MachineReading],
    ) -> None:
        """Write nothing yet."""
        self._write = write
        self._interval_seconds = interval_seconds
        self._clock = clock
        self._read_machine = read_machine
        self._running: dict[str, _Running] = {}
        self._pending: list[str] = []
        self._lock = threading.Lock()
        self._machine = MachineReading(memory=MemoryState())
        self._machine_read_at = -math.inf
        self._low_memory = LowMemoryWatch()

    def note(self, progress: ShownProgress) -> None:
        """Record the progress of a lecture; its first progress is its start. Nothing is written here."""
        with self._lock:
            found = self._running.get(progress.name)
            is_known = found is not None and progress.elapsed_seconds >= found.last.elapsed_seconds
            if found is not None and is_known and found.last.waits_for == progress.waits_for:
                self._note_jump(found, progress)
                found.last = progress
                return
            # A lecture whose time has begun anew is in its next run.
            self._running[progress.name] = _Running(progress, self._clock(), progress.now_bytes or 0.0)
            self._pending.append(render_start(progress))

    def _note_jump(self, found: _Running, progress: ShownProgress) -> None:
        now, now_bytes, before_bytes = self._clock(), progress.now_bytes, found.last.now_bytes
        if now_bytes is None:
            return
        if before_bytes is None:
            # The first reading of a kernel is no rise.
            found.written_bytes = now_bytes
        if now_bytes - found.written_bytes < self._jump_bytes or now - found.written_at < _JUMP_SECONDS:
            return
        found.written_at, found.written_bytes = now, now_bytes
        seconds = format_duration(progress.elapsed_seconds - found.last.elapsed_seconds)
        rise = f", up from {format_size(before_bytes or 0)} {seconds} before"
        self._pending.append(f"{render_beat(progress, self._machine)}{rise}")

    @property
    def _jump_bytes(self) -> float:
        rooms = [room.total_bytes for _, room in self._machine.rooms]
        return max(_LEAST_JUMP_BYTES, _JUMP_FRACTION * min(rooms, default=0))

    def announce(self, text: str) -> None:
        """Record a line that is not about a lecture."""
        with self._lock:
            self._pending.append(one_line(text))

    def beat(self) -> None:
        """Write what is new, and one line for every lecture whose last line is an interval ago."""
        now = self._clock()
        with self._lock:
            self._watch_machine(now)
            self._write_pending()
            for found in self._running.values():
                if now - found.written_at >= self._interval_seconds:
                    found.written_at, found.written_bytes = now, found.last.now_bytes or 0.0
                    self._write(render_beat(found.last, self._machine))

    def _watch_machine(self, now: float) -> None:
        # With workers this is called at each of their messages, many times a second.
        if now - self._machine_read_at < _MACHINE_SECONDS:
            return
        self._machine_read_at = now
        self._machine = self._read_machine()
        largest = max(self._running.values(), key=lambda found: found.last.now_bytes or 0.0, default=None)
        for line in self._low_memory.check(self._machine):
            self._pending.append(line if largest is None else f"{line}; {render_beat(largest.last)}")

    def end(self, entry: Entry) -> None:
        """Write that a lecture has ended; nothing is written about one that was not run."""
        with self._lock:
            self._write_pending()
            was_running = self._running.pop(entry.run.title, None) is not None
            if was_running or (entry.was_run and entry.run.outcome not in _NOTHING_RAN):
                self._write(render_end(entry))

    def _write_pending(self) -> None:
        lines, self._pending = self._pending, []
        for line in lines:
            self._write(line)


def render_start(progress: ShownProgress) -> str:
    """Render that a lecture starts, or what it waits for."""
    if progress.waits_for:
        return one_line(f"{progress.name}: {progress.waits_for}")
    cells = f"{progress.total} code cell{'' if progress.total == 1 else 's'}"
    return f"{one_line(progress.name)}: starts, {cells}"


def render_beat(progress: ShownProgress, machine: MachineReading | None = None) -> str:
    """
    Render the progress of a lecture (``lectures/nuts.md: cell 7 of 12, 3 min 05 s, 1.2 GiB``).

    Args:
        progress: the progress.
        machine: the machine at that moment, or ``None`` to leave it out.
    """
    if progress.waits_for:
        what = one_line(f"{progress.name}: {progress.waits_for}")
        return f"{what}{',' if ',' in progress.waits_for else ''} for {format_duration(progress.elapsed_seconds)}"
    where = f"cell {progress.cell} of {progress.total}" if progress.cell else progress.kernel_text
    if progress.cell and progress.place:
        where += f" in {one_line(progress.place)}"
    parts = [where, format_duration(progress.elapsed_seconds)]
    if progress.now_bytes is not None:
        parts.append(format_size(progress.now_bytes))
    if progress.peak_bytes is not None and progress.peak_bytes != progress.now_bytes:
        parts.append(f"peak {format_size(progress.peak_bytes)}")
    if progress.gpu_used_bytes is not None:
        free = f", {format_size(progress.gpu_free_bytes)} free" if progress.gpu_free_bytes is not None else ""
        parts.append(f"GPU {format_size(progress.gpu_used_bytes)} used{free}")
    text = f"{one_line(progress.name)}: {', '.join(parts)}"
    around = render_machine(machine) if machine is not None else ""
    return f"{text}; {around}" if around else text


def render_end(entry: Entry) -> str:
    """Render how a lecture ended (``lectures/nuts.md: within after 3 min 05 s, peak 1.2 GiB``)."""
    text = f"{entry.name}: {entry.verdict.kind.value} after {format_duration(entry.seconds)}"
    if entry.verdict.failed:
        return f"{text}: {entry.headline}"
    peak = entry.run.measured(Metric.PEAK_FOOTPRINT)
    return text if peak is None else f"{text}, peak {peak.text}"
