"""The part of a lecture that runs, and the cell whose state is saved: chosen by number or by kept sessions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import field, replace
from pathlib import Path

from pytest_lecturecheck.config.options import SessionSettings
from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.errors import RunFileError
from pytest_lecturecheck.kernel.run.ports import Capture
from pytest_lecturecheck.model.captured_state import CapturedState
from pytest_lecturecheck.model.cell_choice import CellChoice, CellWord
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.lecture import Lecture
from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.session.trace_plan import own_lecture_folder
from pytest_lecturecheck.store.own_folder import NAME as OWN_FOLDER
from pytest_lecturecheck.store.session_history import FOLDER_NAME, read_session, session_files

_BAD_ENDS = frozenset({Outcome.FAILED, Outcome.TIMED_OUT, Outcome.DIED})


@dataclass(frozen=True, slots=True, kw_only=True)
class LectureSlice:
    """
    What of a lecture runs, and where state is saved.

    Attributes:
        lecture: the lecture; cells after the last one that runs have a reason why they are left out.
        capture: the cell whose state is saved, or ``None``.
        until_cell: the last code cell that runs, or ``None`` for all.
        findings: choices that could not be followed, and why.
        states: receives what was saved.
    """

    lecture: Lecture
    capture: Capture | None = None
    until_cell: int | None = None
    findings: tuple[Finding, ...] = ()
    states: list[CapturedState] = field(default_factory=list)

    def finish(self, run: Run) -> Run:
        """Write the replay folder if state was saved; return the run with what there is to say."""
        findings = self.findings
        if self.capture is not None and self.states:
            findings += (self._write(self.capture, run),)
        return replace(run, findings=(*run.findings, *findings)) if findings else run

    def _write(self, capture: Capture, run: Run) -> Finding:
        from pytest_lecturecheck.store.replay.replay_folder import write_replay  # noqa: PLC0415 - few sessions capture
        from pytest_lecturecheck.store.replay.stamp import secret_path, stamp_folder  # noqa: PLC0415 - as above

        cell = next(item for item in self.lecture.cells if item.number == capture.cell_number)
        shown = capture.folder.relative_to(capture.root).as_posix()
        try:
            write_replay(capture.folder, run, cell, self.states[-1])
            stamp_folder(capture.folder, secret_path(os.environ, Path.home()))
            message = f"run code cell {cell.number} alone with: lecturecheck replay {shown}"
        except (OSError, RuntimeError) as exc:
            message = f"the replay of code cell {cell.number} in {shown} is not complete: {exc}"
        return Finding(kind=FindingKind.REPLAY, message=message, cell_number=cell.number, line=cell.line)


def slice_of(lecture: Lecture, variant: str, settings: SessionSettings, rootdir: Path) -> LectureSlice:
    """
    Return the part of a lecture that the session asks for.

    Args:
        lecture: the whole lecture.
        variant: name of its variant.
        settings: the session's settings.
        rootdir: pytest's rootdir, which holds kept sessions and receives replay folders.
    """
    part = LectureSlice(lecture=lecture)
    if settings.until is not None:
        part = _until(part, settings.until, variant, rootdir)
    if settings.replay_capture is None:
        return part
    number, why = _find(settings.replay_capture, lecture, variant, rootdir)
    by_number = {cell.number: cell for cell in part.lecture.cells}
    if number is not None and number not in by_number:
        why = f"the lecture has {len(by_number)} code cells"
    elif number is not None and (by_number[number].skip_reason or not by_number[number].source.strip()):
        why = f"code cell {number} does not run: {by_number[number].skip_reason or 'it is blank'}"
    if number is None or why:
        return _with_finding(part, FindingKind.REPLAY, f"no state was saved for a replay: {why}")
    folder = own_lecture_folder(rootdir, "replay", lecture.name, variant)
    capture = Capture(
        cell_number=number,
        folder=folder / f"cell-{number}",
        root=rootdir,
        limit_bytes=settings.replay_limit_bytes,
        on_captured=part.states.append,
    )
    return replace(part, capture=capture)


def findings_of_cohort(settings: SessionSettings) -> tuple[Finding, ...]:
    """Return what a session asks for of one cell, and does not do in lectures with several kernels at once."""
    found = []
    if settings.replay_capture is not None:
        message = "no state was saved for a replay: lectures with several kernels at once are not captured"
        found.append(
            Finding(kind=FindingKind.REPLAY, message=f"{message}; run the lecture without --lecture-concurrency")
        )
    if settings.until is not None:
        message = "the whole lecture was run: --lecture-until does not stop lectures with several kernels at once"
        found.append(Finding(kind=FindingKind.NOT_RUN, message=message))
    return tuple(found)


def _until(part: LectureSlice, choice: CellChoice, variant: str, rootdir: Path) -> LectureSlice:
    number, why = _find(choice, part.lecture, variant, rootdir)
    if number is None:
        return _with_finding(part, FindingKind.NOT_RUN, f"the whole lecture was run: {why}")
    cells = part.lecture.cells
    if number >= len(cells):
        return part
    reason = f"after code cell {number} (--lecture-until)"
    kept = tuple(
        replace(cell, skip_reason=cell.skip_reason or reason) if cell.number > number else cell for cell in cells
    )
    return replace(part, lecture=replace(part.lecture, cells=kept), until_cell=number)


def _with_finding(part: LectureSlice, kind: FindingKind, message: str) -> LectureSlice:
    return replace(part, findings=(*part.findings, Finding(kind=kind, message=message)))


def _find(choice: CellChoice, lecture: Lecture, variant: str, rootdir: Path) -> tuple[int | None, str]:
    """Return the number of the cell, or ``None`` and the reason."""
    if choice.word is None:
        return choice.number, ""
    for run in _kept_runs(lecture.name, variant, rootdir):
        if choice.word is CellWord.FAILING:
            if run.outcome in _BAD_ENDS and run.evidence is not None and run.evidence.cell_number is not None:
                return run.evidence.cell_number, ""
        elif run.outcome is Outcome.COMPLETED and run.until_cell is None and (heaviest := run.heaviest_cell()):
            return heaviest.number, ""
    what = "in which it failed" if choice.word is CellWord.FAILING else "whose heaviest cell is known"
    return None, f"no kept session has a run of it {what}; run it once before, or name the cell by its number"


def _kept_runs(name: str, variant: str, rootdir: Path) -> Iterator[Run]:
    """Return the kept runs of a lecture, the latest first."""
    for path in reversed(session_files(rootdir / OWN_FOLDER / FOLDER_NAME)):
        try:
            session = read_session(path)
        except RunFileError:
            continue
        for kept in reversed([*session.of(name)]):
            if kept.run.variant == variant:
                yield kept.run
