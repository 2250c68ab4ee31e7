"""Entries of lectures that were not run: unreadable, skipped, or too large for the machine."""

from __future__ import annotations

from dataclasses import replace

from pytest_lecturecheck.errors import LectureCheckError, LectureReadError
from pytest_lecturecheck.model.lecture import Lecture
from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.session.runtime_context import RuntimeContext
from pytest_lecturecheck.verdict import Policy


def unreadable_entry(context: RuntimeContext, name: str, fault: LectureCheckError) -> Entry:
    """Return the entry of a file that could not be read as a lecture."""
    # The fault of a cohort may be in another of its files.
    line = fault.line if isinstance(fault, LectureReadError) and fault.path == name else None
    run = Run(
        lecture=name,
        platform=context.results.platform,
        machine=context.machine,
        outcome=Outcome.UNREADABLE,
        reason=str(fault),
        fault_line=line,
    )
    return _judged(context, run)


def skipped_entry(context: RuntimeContext, lecture: Lecture, reason: str) -> Entry:
    """Return the entry of a lecture that is not run."""
    return _judged(context, _skipped_run(context, lecture, reason))


def refused_entry(context: RuntimeContext, lecture: Lecture, reason: str) -> Entry:
    """Return the entry of a lecture that was not started because the machine cannot hold it."""
    return _judged(context, replace(_skipped_run(context, lecture, reason), outcome=Outcome.REFUSED))


def _skipped_run(context: RuntimeContext, lecture: Lecture, reason: str) -> Run:
    return Run(
        lecture=lecture.name,
        platform=context.results.platform,
        machine=context.machine,
        outcome=Outcome.SKIPPED,
        reason=reason,
        findings=lecture.findings,
    )


def _judged(context: RuntimeContext, run: Run) -> Entry:
    return Entry(run=run, verdict=context.results.judge(run, Policy()))
