"""Verdicts of cohorts: how the end of each kernel adds to the verdict of the whole. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from pytest_lecturecheck.diagnosis import Cause, diagnose
from pytest_lecturecheck.model.cohort_record import member_labels
from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.verdict.values import Verdict

_SIGABRT: Final = 6
_ENDED: Final = {
    Outcome.DIED: "died",
    Outcome.NOT_STARTED: "did not start",
    Outcome.TIMED_OUT: "timed out",
    Outcome.FAILED: "failed",
    Outcome.STOPPED: "was stopped",
}


def judge_members(verdict: Verdict, run: Run) -> Verdict:
    """Add to a cohort's verdict how many of its kernels failed, and how the others ended."""
    bad = [member for member in run.members if member.outcome is not Outcome.COMPLETED]
    if not bad:
        return verdict
    speaker = run.speaker
    alike = sum(member.outcome is speaker.outcome for member in bad)
    headline = f"{alike} of {len(run.members)} kernels {end_text(speaker)}: {verdict.headline}"
    return replace(verdict, headline=headline, notes=(*verdict.notes, *_other_ends(run, speaker)))


def _other_ends(run: Run, speaker: Run) -> Iterator[str]:
    labels = member_labels([member.lecture for member in run.members])
    named = list(zip(labels, run.members, strict=True))
    if len(named) > 1:
        yield from (f"the evidence is that of {label}" for label, member in named if member is speaker)
    for label, member in named:
        if member is speaker:
            continue
        if member.outcome is Outcome.COMPLETED:
            yield f"{label} completed"
        else:
            cause = cause_of(member)
            why = cause.headline if cause is not None else member.reason or member.outcome.value
            yield f"{label} {end_text(member)}: {why}"


def end_text(run: Run) -> str:
    """Return how a kernel ended in a word or two (``aborted``)."""
    if run.outcome is Outcome.DIED and run.evidence is not None and run.evidence.exit.signal == _SIGABRT:
        return "aborted"
    return _ENDED.get(run.outcome, run.outcome.value)


def cause_of(run: Run) -> Cause | None:
    """Diagnose the failure of a kernel."""
    return diagnose(run.evidence) if run.evidence is not None else None
