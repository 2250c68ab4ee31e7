"""Judge the runs of a lecture or a cohort, and make their entries."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_lecturecheck.model.lecture import Lecture
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.model.settings import RunSettings
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.session.runtime_context import RuntimeContext
from pytest_lecturecheck.session.source_extracts import with_source_of
from pytest_lecturecheck.verdict import Policy, Verdict, VerdictKind
from pytest_lecturecheck.verdict.cohorts import judge_members


def judged_entry(
    context: RuntimeContext, run: Run, settings: RunSettings, *, lectures: Mapping[str, Lecture], seconds: float
) -> Entry:
    """
    Judge a run with the policy of the session, and return its entry.

    Args:
        context: what the runners of this process work with.
        run: the run; of a cohort with its members.
        settings: the settings of the lecture, or of a cohort's first one.
        lectures: the lectures that ran, by name.
        seconds: time the item took, including kernel start and teardown.
    """
    results = context.results
    verdict = results.judge(run, _policy(context, run, settings))
    entry = Entry(
        run=run,
        verdict=judge_members(verdict, run) if run.members else verdict,
        budget=results.checked_budget(run.lecture, run.variant),
        seconds=seconds,
    )
    return with_source_of(entry, lectures)


def _policy(context: RuntimeContext, run: Run, settings: RunSettings) -> Policy:
    # What a README declares is about the lecture by itself: a reader runs one kernel at a time.
    is_alone = not run.members
    return Policy(
        strict=context.settings.strict,
        strict_except=frozenset(settings.strict_except or ()),
        declared_memory_bytes=settings.declared_memory_bytes if is_alone else None,
        declared_time_seconds=settings.declared_time_seconds if is_alone else None,
        declared_disk_bytes=settings.declared_disk_bytes if is_alone else None,
        tolerance=context.results.tolerance,
        known_platforms=context.results.known_platforms(run.lecture, run.variant),
        former_name=context.results.former_name(run.lecture, run.variant),
    )


def ends_repeats(verdict: Verdict) -> bool:
    """Return True if a lecture is not run again after this verdict: it failed, and not for its limits only."""
    return verdict.failed and verdict.kind not in {VerdictKind.OVER, VerdictKind.UNDER}
