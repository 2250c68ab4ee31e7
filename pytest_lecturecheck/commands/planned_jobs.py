"""What ``lecturecheck plan`` knows of the lectures: from budgets, else from kept runs, else nothing."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from pytest_lecturecheck.budget.limits import LectureBudget, PlatformBudgets
from pytest_lecturecheck.budget.recording import record
from pytest_lecturecheck.commands.repository_lectures import find_lectures
from pytest_lecturecheck.config.options import SessionSettings
from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.lease.broker import recorded_cores, recorded_seconds
from pytest_lecturecheck.lease.demand import recorded_bytes
from pytest_lecturecheck.lease.fleet_plan import PlannedJob
from pytest_lecturecheck.model.device_plan import CONTEXT_BYTES
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.model.variant import title_of
from pytest_lecturecheck.store.own_folder import NAME as OWN_FOLDER
from pytest_lecturecheck.store.session_history import FOLDER_NAME, read_sessions
from pytest_lecturecheck.verdict.kept_session import KeptSession


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownJobs:
    """
    The lectures of a repository, by what is known of them on one platform.

    Attributes:
        jobs: what can be planned.
        by_runs: names of those whose lecture has no recorded time and was measured in kept sessions.
        unknown: lectures without a recorded time and without a complete run.
        skipped: kept sessions that could not be read.
    """

    jobs: tuple[PlannedJob, ...]
    by_runs: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


def read_jobs(root: Path, settings: SessionSettings, budgets: PlatformBudgets) -> KnownJobs:
    """
    Return what is known of the lectures of a repository.

    Args:
        root: pytest's rootdir.
        settings: the session's settings.
        budgets: the budgets of the platform, perhaps without any lecture.
    """
    sessions, faults = read_sessions(root / OWN_FOLDER / FOLDER_NAME)
    recorded = jobs_of(budgets.lectures.values())
    names = {job.lecture for job in recorded}
    measured = [job for job in jobs_of(_budgets_of(sessions, budgets.platform)) if job.lecture not in names]
    known = {job.lecture for job in (*recorded, *measured)} | _without_code(sessions)
    here = (path.relative_to(root).as_posix() for path in find_lectures(root, settings))
    return KnownJobs(
        jobs=tuple(sorted((*recorded, *measured), key=lambda job: job.name)),
        by_runs=tuple(job.name for job in measured),
        unknown=tuple(name for name in here if name not in known),
        skipped=tuple(str(fault) for fault in faults),
    )


def jobs_of(budgets: Iterable[LectureBudget]) -> list[PlannedJob]:
    """Return the lectures that have a recorded time, with what they need at most."""
    found = []
    for budget in budgets:
        seconds = recorded_seconds(budget)
        if seconds is None:
            continue
        live, used = recorded_bytes(budget, Metric.GPU_LIVE), recorded_bytes(budget, Metric.GPU_USED)
        gpu = live + CONTEXT_BYTES if live else used or 0
        found.append(
            PlannedJob(
                name=title_of(budget.lecture, budget.variant),
                lecture=budget.lecture,
                seconds=seconds,
                host_bytes=recorded_bytes(budget, Metric.PEAK_FOOTPRINT) or 0,
                core_count=recorded_cores(budget),
                gpu_bytes=gpu,
            )
        )
    return sorted(found, key=lambda job: job.name)


def _budgets_of(sessions: Iterable[KeptSession], platform: str) -> Iterable[LectureBudget]:
    """
    Return the budgets that complete runs would give, of the variants that a lecture's last session ran.

    Args:
        sessions: kept sessions, the oldest first.
        platform: label of the platform.
    """
    kept = [
        (number, kept)
        for number, session in enumerate(sessions)
        for kept in session.runs
        if kept.speaks and kept.run.platform == platform
    ]
    last = {item.run.lecture: number for number, item in kept}
    # Variants of earlier sessions were perhaps tried once (--lecture-axes).
    subjects = {item.subject for number, item in kept if last[item.run.lecture] == number}
    usable = [item.run for _, item in kept if item.subject in subjects]
    runs = [replace(run, repeat=number) for number, run in enumerate(usable, start=1)]
    found, _ = record(PlatformBudgets(platform=platform), runs, today=dt.datetime.now(dt.UTC).date())
    return found.lectures.values()


def _without_code(sessions: Iterable[KeptSession]) -> set[str]:
    return {
        kept.run.lecture for session in sessions for kept in session.runs if kept.run.outcome is Outcome.NOTHING_TO_RUN
    }
