"""
Progress as lines of a log: one when a lecture starts, one when it ends, and one at each interval in between.

The log may be all that is left of a machine. Its last line then shows which cell was running, for how long, and how
much memory it had. Pure but for the clock and the function that writes, which are passed in.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.terminal.progress import ShownProgress
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.units import format_duration, format_size

_NOTHING_RAN: Final = frozenset({Outcome.SKIPPED, Outcome.NOTHING_TO_RUN, Outcome.UNREADABLE})


@dataclass(slots=True)
class _Running:
    last: ShownProgress
    written_at: float


class Heartbeat:
    """
    Writes one line when a lecture starts, one when it ends, and one at each interval while it runs.

    Progress may be noted on any thread; lines are written by the thread that calls :meth:`beat` or :meth:`end`.

    Args:
        write: writes one line at once.
        interval_seconds: time between two lines about one lecture.
        clock: returns seconds that never decrease.
    """

    def __init__(self, write: Callable[[str], None], *, interval_seconds: float, clock: Callable[[], float]) -> None:
        """Write nothing yet."""
        self._write = write
        self._interval_seconds = interval_seconds
        self._clock = clock
        self._running: dict[str, _Running] = {}
        self._pending: list[str] = []
        self._lock = threading.Lock()

    def note(self, progress: ShownProgress) -> None:
        """Record the progress of a lecture; its first progress is its start. Nothing is written here."""
        with self._lock:
            found = self._running.get(progress.name)
            is_known = found is not None and progress.elapsed_seconds >= found.last.elapsed_seconds
            if found is not None and is_known and found.last.waits_for == progress.waits_for:
                found.last = progress
                return
            # A lecture whose time has begun anew is in its next run.
            self._running[progress.name] = _Running(progress, self._clock())
            self._pending.append(render_start(progress))

    def beat(self) -> None:
        """Write what is new, and one line for every lecture whose last line is an interval ago."""
        now = self._clock()
        with self._lock:
            self._write_pending()
            for found in self._running.values():
                if now - found.written_at >= self._interval_seconds:
                    found.written_at = now
                    self._write(render_beat(found.last))

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


def render_beat(progress: ShownProgress) -> str:
    """Render the progress of a lecture (``lectures/nuts.md: cell 7 of 12, 3 min 05 s, 1.2 GiB``)."""
    if progress.waits_for:
        what = one_line(f"{progress.name}: {progress.waits_for}")
        return f"{what}{',' if ',' in progress.waits_for else ''} for {format_duration(progress.elapsed_seconds)}"
    where = f"cell {progress.cell} of {progress.total}" if progress.cell else progress.kernel_text
    parts = [where, format_duration(progress.elapsed_seconds)]
    if progress.now_bytes is not None:
        parts.append(format_size(progress.now_bytes))
    if progress.peak_bytes is not None and progress.peak_bytes != progress.now_bytes:
        parts.append(f"peak {format_size(progress.peak_bytes)}")
    return f"{one_line(progress.name)}: {', '.join(parts)}"


def render_end(entry: Entry) -> str:
    """Render how a lecture ended (``lectures/nuts.md: within after 3 min 05 s, peak 1.2 GiB``)."""
    text = f"{entry.name}: {entry.verdict.kind.value} after {format_duration(entry.seconds)}"
    if entry.verdict.failed:
        return f"{text}: {entry.headline}"
    peak = entry.run.measured(Metric.PEAK_FOOTPRINT)
    return text if peak is None else f"{text}, peak {peak.text}"
