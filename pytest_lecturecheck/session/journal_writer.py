"""Write the journal while lectures run, and report what sessions were doing that never came to their end."""

from __future__ import annotations

import contextlib
import datetime as dt
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.cell_run import CellRun, CellStatus
from pytest_lecturecheck.model.evidence import Evidence, MemoryFacts
from pytest_lecturecheck.model.platform import Machine
from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.model.run_conditions import RunConditions
from pytest_lecturecheck.model.variant import title_of
from pytest_lecturecheck.report.mark_text import climb_text, ending_text
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.store.journal import (
    FOLDER_NAME,
    Event,
    Interrupted,
    Journal,
    take_interrupted,
    take_worker,
)
from pytest_lecturecheck.store.journal_samples import write_sample
from pytest_lecturecheck.store.own_folder import NAME, make_own_folder
from pytest_lecturecheck.units import format_size

if TYPE_CHECKING:
    from pytest_lecturecheck.kernel.run.ports import RunProgress
    from pytest_lecturecheck.model.cell_marks import LineSample
    from pytest_lecturecheck.model.lecture import Lecture

_READING_SECONDS: Final = 1.0
_AT_ONCE_SECONDS: Final = 0.05


@dataclass(slots=True)
class _Running:
    lecture: str
    variant: str
    lines: Mapping[int, int | None]
    waits_for: str = ""
    cell: int = 0
    read_at: float = field(default=-_READING_SECONDS)
    sample: LineSample | None = None


class JournalWriter:
    """
    Writes the journal of this process; its file is created when the first lecture runs.

    Args:
        rootdir: pytest's rootdir.
        session: identifies the processes of one session.
        worker: name of this process among them, or an empty string.
    """

    def __init__(self, rootdir: Path, *, session: str = "", worker: str = "") -> None:
        """Write nothing yet."""
        self._rootdir = rootdir
        self._session = session
        self._worker = worker
        self._journal: Journal | None = None
        self._is_off = False
        self._running: dict[str, _Running] = {}
        self._waits = ("", "", "")

    def switch_off(self) -> None:
        """Write nothing in this session."""
        self._is_off = True

    def _open(self) -> Journal | None:
        if self._journal is None and not self._is_off:
            try:
                folder = make_own_folder(self._rootdir) / FOLDER_NAME
                self._journal = Journal(folder, session=self._session, worker=self._worker)
            except OSError:
                # The controller has reported it at the start: see try_folder.
                self._is_off = True
        return self._journal

    @property
    def is_off(self) -> bool:
        """Return True if nothing is written, because it was switched off or because the file cannot be created."""
        return self._is_off

    def wait(self, lecture: str, reason: str, *, variant: str = "") -> None:
        """Record what a lecture, or a cohort of that name, waits for before it can start."""
        journal = self._open()
        if journal is not None and self._waits != (lecture, variant, reason):
            self._waits = (lecture, variant, reason)
            journal.write(Event.WAIT, **_about(lecture, variant), waits=reason)

    def begin(self, lecture: Lecture, cap_bytes: float | None, *, variant: str = "") -> None:
        """Record that a lecture starts, or a cohort of that name."""
        journal = self._open()
        if journal is None:
            return
        lines = {cell.number: cell.line for cell in lecture.cells}
        self._running[title_of(lecture.name, variant)] = _Running(lecture.name, variant, lines)
        cap = None if cap_bytes is None or not 0 < cap_bytes < float("inf") else round(cap_bytes)
        journal.write(Event.LECTURE, **_about(lecture.name, variant), cells=len(lecture.cells), cap=cap)

    def note_kernel(self, pid: int) -> None:
        """Record the process of the kernel that was started."""
        if self._journal is not None:
            self._journal.write(Event.KERNEL, pid=pid)

    def note_signal(self, text: str) -> None:
        """Record a signal that ends this process; safe in a signal handler."""
        if self._journal is not None:
            self._journal.write(Event.SIGNAL, signal=text)

    def note(self, progress: RunProgress) -> None:
        """Record a cell that starts, the one before that ended, and at most once a second the last reading."""
        journal, state = self._journal, self._running.get(progress.lecture)
        if journal is None or state is None:
            return
        if progress.waits_for != state.waits_for:
            state.waits_for = progress.waits_for
            journal.write(Event.WAIT, **_about(state.lecture, state.variant), waits=state.waits_for)
        if progress.number != state.cell:
            if state.cell:
                journal.write(Event.CELL_END, cell=state.cell)
            if progress.number:
                journal.write(Event.CELL, cell=progress.number, line=state.lines.get(progress.number))
            state.cell, state.sample = progress.number, None
        self._note_sample(journal, state, progress)
        snapshot, now = progress.snapshot, time.monotonic()
        if snapshot is not None and now - state.read_at >= _READING_SECONDS:
            state.read_at = now
            journal.write(
                Event.READING,
                footprint=snapshot.footprint_bytes,
                peak=snapshot.peak_footprint_bytes,
                age=round(snapshot.age_seconds, 3),
            )

    def _note_sample(self, journal: Journal, state: _Running, progress: RunProgress) -> None:
        """Record a new sample of a long cell; its line only if that has changed."""
        sample, before = progress.sample, state.sample
        if sample is None or (before is not None and before.seconds == sample.seconds):
            return
        state.sample = sample
        is_elsewhere = before is None or before.place != sample.place
        write_sample(journal, sample, progress.sample_seconds, has_place=is_elsewhere)

    def end(self, lecture: str, outcome: str, *, variant: str = "") -> None:
        """Record that a lecture has ended, or a cohort of that name, and its outcome."""
        if self._journal is not None:
            self._running.pop(title_of(lecture, variant), None)
            self._waits = ("", "", "")
            self._journal.write(Event.LECTURE_END, **_about(lecture, variant), outcome=outcome)

    def sync(self) -> None:
        """Force what was written to the disk, at most once a second."""
        if self._journal is not None:
            self._journal.sync()

    def close(self) -> None:
        """End the journal; safe to call twice."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None


def _about(lecture: str, variant: str) -> dict[str, str]:
    return {"lecture": lecture, "variant": variant} if variant else {"lecture": lecture}


def try_folder(rootdir: Path) -> str:
    """Create the folder of journals; return what is lost if that fails, or an empty string."""
    try:
        (make_own_folder(rootdir) / FOLDER_NAME).mkdir(exist_ok=True)
    except OSError as exc:
        return f"{NAME} cannot be written ({exc.strerror or exc}): after a crash no journal will show what was running"
    return ""


def report_interrupted(rootdir: Path) -> list[str]:
    """Return a line for each session that was cut off, with what it was doing; each is reported once."""
    with contextlib.suppress(OSError):
        return render_interrupted(take_interrupted(rootdir / NAME / FOLDER_NAME))
    return []


def find_worker(rootdir: Path, *, session: str, worker: str) -> Interrupted | None:
    """Return what a worker that went down was doing, or ``None`` if it wrote no journal."""
    return take_worker(rootdir / NAME / FOLDER_NAME, session=session, worker=worker)


def describe_worker(found: Interrupted) -> str:
    """Describe what a worker that went down was doing."""
    return f"worker {one_line(found.worker)} went down: {render_state(found)}"


def lost_run(found: Interrupted, *, platform: str, machine: Machine) -> Run:
    """Return the record of the lecture that went down with its worker, as far as the journal has it."""
    about = Run(
        lecture=found.lecture,
        variant=found.variant,
        platform=platform,
        machine=machine,
        outcome=Outcome.NOT_STARTED,
        reason=f"its worker went down while it was waiting to start ({one_line(found.waits_for)})",
    )
    if found.waits_for:
        return about
    evidence = Evidence(
        cell_number=found.cell_number,
        line=found.line,
        lecture=found.lecture,
        memory=MemoryFacts(
            peak_footprint_bytes=found.peak_footprint_bytes,
            last_footprint_bytes=found.footprint_bytes,
            last_footprint_age_seconds=found.reading_age_seconds if found.footprint_bytes is not None else None,
        ),
        conditions=RunConditions(cap_bytes=found.cap_bytes),
    )
    reason = f"the worker that ran it went down: {render_state(found)}"
    return replace(about, outcome=Outcome.DIED, reason=reason, evidence=evidence, cells=_lost_cells(found))


def _lost_cells(found: Interrupted) -> tuple[CellRun, ...]:
    """Return the cell that was running, if it was long enough for marks."""
    number = found.cell_number
    if found.marks is None or number is None:
        return ()
    # The journal does not say which cells before it are Markdown.
    lost = CellRun(
        number=number,
        index=number - 1,
        line=found.line,
        status=CellStatus.DIED,
        marks=found.marks,
        started_seconds=found.cell_started_seconds,
    )
    return (lost,)


def render_interrupted(found: Sequence[Interrupted]) -> list[str]:
    """Render one line for each session, the latest last."""
    sessions: dict[str, list[Interrupted]] = {}
    for item in sorted(found, key=lambda item: item.ended):
        sessions.setdefault(item.session or str(item.started), []).append(item)
    return [_session_line(items, is_last=items is list(sessions.values())[-1]) for items in sessions.values()]


def _session_line(items: Iterable[Interrupted], *, is_last: bool) -> str:
    items = list(items)
    moment = dt.datetime.fromtimestamp(max(item.ended for item in items), dt.UTC)
    running = [item for item in items if item.lecture] or items[-1:]
    which = "the last session" if is_last else "an earlier session"
    states = "; ".join(render_state(item) for item in running)
    signals = dict.fromkeys(one_line(item.signal) for item in items if item.signal)
    states = "; ".join([states, *(f"it had received {text}" for text in signals)])
    return f"{which} ended without finishing ({moment:%Y-%m-%d %H:%M:%S UTC}): {states}"


def render_state(item: Interrupted) -> str:
    """Describe what one process was doing, with its last readings."""
    if not item.lecture:
        after = f", after {one_line(item.last_lecture)}" if item.last_lecture else ""
        return f"no lecture was running{after}"
    parts = [f"{one_line(title_of(item.lecture, item.variant))} was {_doing(item)}"]
    if item.marks is not None:
        parts += [text for text in (ending_text(item.marks), climb_text(item.marks)) if text]
    if item.footprint_bytes is not None:
        age = item.reading_age_seconds
        when = "at the last entry" if age < _AT_ONCE_SECONDS else f"{age:.1f} s before the last entry"
        parts.append(f"footprint {format_size(item.footprint_bytes)} {when}")
    if item.peak_footprint_bytes is not None:
        parts.append(f"peak {format_size(item.peak_footprint_bytes)}")
    if item.cap_bytes is not None:
        parts.append(f"cap {format_size(item.cap_bytes)}")
    return ", ".join(parts)


def _doing(item: Interrupted) -> str:
    if item.waits_for:
        return f"waiting to start ({one_line(item.waits_for)})"
    if item.cell_number is not None:
        line = f" (line {item.line})" if item.line is not None else ""
        return f"running code cell {item.cell_number}{line}"
    if item.kernel_pid is None:
        return "starting its kernel"
    return "between cells or ending" if item.has_begun else "waiting for its kernel to be ready"
