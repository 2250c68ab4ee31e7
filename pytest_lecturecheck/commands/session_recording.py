"""Recording of runs that sessions have made already: which of them count, and what they change in a budget file."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

from pytest_lecturecheck.budget.limits import PlatformBudgets, Tolerance
from pytest_lecturecheck.budget.recording import Change, record
from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.report.terminal.budget_diff import render_changes, render_unrecorded
from pytest_lecturecheck.report.text import wrap
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.store.atomic import locked
from pytest_lecturecheck.store.budget_file.files import load_budgets, save_budgets
from pytest_lecturecheck.verdict import has_strict_findings
from pytest_lecturecheck.verdict.kept_session import KeptRun, KeptSession, Subject

_NO_STATEMENT: Final = frozenset({Outcome.SKIPPED, Outcome.NOTHING_TO_RUN, Outcome.STOPPED})
_NAMED: Final = 5
_Found: TypeAlias = tuple[KeptSession, KeptRun]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedRuns:
    """
    The runs of one platform that a recording uses.

    Attributes:
        platform: the platform's label.
        day: date of the latest session: that of the measurements, not of the recording.
        runs: the runs, numbered by their time; incomplete ones keep their lecture from being recorded.
        strict: lectures that a finding failed under ``--lecture-strict``; none of their runs is used.
        too_few: number of complete runs of lectures with fewer than required; none of their runs is used.
        repeated_count: runs that were there twice, for example in a report and in a kept session.
        machine_count: number of classes of machine, which have times of their own.
    """

    platform: str
    day: dt.date
    runs: tuple[Run, ...] = ()
    strict: tuple[str, ...] = ()
    too_few: Mapping[str, int]
    repeated_count: int = 0
    machine_count: int = 0

    @property
    def recordable_count(self) -> int:
        """Return the number of lectures whose runs were all complete."""
        complete = {(run.lecture, run.variant) for run in self.runs}
        complete -= {(run.lecture, run.variant) for run in self.runs if run.outcome is not Outcome.COMPLETED}
        return len(complete)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRecording:
    """
    What a recording changes in one budget file.

    Attributes:
        path: the file.
        before: its content.
        after: its content after the recording.
        changes: the changes, lecture by lecture.
        selected: the runs behind them.
    """

    path: Path
    before: PlatformBudgets
    after: PlatformBudgets
    changes: Sequence[Change]
    selected: SelectedRuns

    def lines(self, width: int) -> list[str]:
        """Return what the recording changes, and what it leaves out."""
        left_out = (line for text in _remarks(self.selected) for line in wrap(text, width))
        return [
            *render_changes(self.changes, width=width),
            *render_unrecorded(self.selected.runs, width=width),
            *left_out,
        ]


def select_runs(sessions: Sequence[KeptSession], least: int = 1) -> tuple[SelectedRuns, ...]:
    """
    Return the runs to record, for each platform.

    The rules are those of ``--lecture-record``: a lecture x variant with a run that did not complete is not recorded.
    Runs that were skipped or stopped by hand state nothing. Traced runs have no budget.

    Args:
        sessions: the sessions.
        least: fewest complete runs of a lecture x variant.
    """
    by_platform: dict[str, list[_Found]] = {}
    for session in sorted(sessions, key=_ended):
        for kept in session.runs:
            by_platform.setdefault(kept.run.platform or session.platform, []).append((session, kept))
    return tuple(_select(platform, found, least) for platform, found in sorted(by_platform.items()))


def _ended(session: KeptSession) -> dt.datetime:
    return session.ended or dt.datetime.min.replace(tzinfo=dt.UTC)


def _select(platform: str, found: Sequence[_Found], least: int) -> SelectedRuns:
    single: dict[object, _Found] = {}
    for session, kept in found:
        if kept.run.outcome not in _NO_STATEMENT and kept.run.is_comparable:
            single.setdefault(_key(session, kept), (session, kept))
    stating = sum(kept.run.outcome not in _NO_STATEMENT and kept.run.is_comparable for _, kept in found)
    groups: dict[Subject, list[KeptRun]] = {}
    for _, kept in single.values():
        groups.setdefault(kept.subject, []).append(kept)
    strict, too_few, runs = [], {}, []
    for subject, group in groups.items():
        name = one_line(f"{subject[0]} [{subject[1]}]" if subject[1] else subject[0])
        complete = sum(kept.speaks for kept in group)
        if any(has_strict_findings(kept.run, kept.verdict) for kept in group):
            strict.append(name)
        elif complete == len(group) and complete < least:
            too_few[name] = complete
        else:
            runs += [replace(kept.run, repeat=number) for number, kept in enumerate(group, start=1)]
    latest = max((session for session, _ in found), key=_ended)
    return SelectedRuns(
        platform=platform,
        day=(latest.ended or dt.datetime.now(dt.UTC)).astimezone(dt.UTC).date(),
        runs=tuple(runs),
        strict=tuple(strict),
        too_few=too_few,
        repeated_count=stating - len(single),
        machine_count=len({run.machine.time_class for run in runs if run.machine is not None}),
    )


def _key(session: KeptSession, kept: KeptRun) -> object:
    """Return what two copies of a run share; documents of older versions do not state the name of their session."""
    run = kept.run
    readings = None if session.session else tuple(sorted((str(key), str(value)) for key, value in run.readings.items()))
    return session.session, kept.subject, run.repeat, run.launch.started, readings


def plan_recording(path: Path, selected: SelectedRuns, tolerance: Tolerance | None) -> PlannedRecording:
    """
    Return what runs change in a budget file.

    Raises:
        BudgetFileError: the file cannot be used.
    """
    before = load_budgets(path)
    after, changes = record(before, selected.runs, today=selected.day, tolerance=tolerance)
    return PlannedRecording(path=path, before=before, after=after, changes=changes, selected=selected)


def save_recording(plan: PlannedRecording, tolerance: Tolerance | None) -> None:
    """
    Write the budgets; whatever somebody changed in the file in the meantime stays.

    Raises:
        BudgetFileError: the file cannot be used or written.
    """
    with locked(plan.path.parent):
        save_budgets(plan.path, plan_recording(plan.path, plan.selected, tolerance).after)


def _remarks(selected: SelectedRuns) -> Iterator[str]:
    if selected.strict:
        yield f"not recorded, because a finding failed it under --lecture-strict: {_named(selected.strict)}"
    if selected.too_few:
        names = [f"{name} ({count})" for name, count in selected.too_few.items()]
        yield f"not recorded, because there are too few runs: {_named(names)}"
    if selected.repeated_count:
        count = selected.repeated_count
        runs = (
            "1 run was in several of these files and counts"
            if count == 1
            else f"{count} runs were in several of these files and count"
        )
        yield f"{runs} once"
    if selected.machine_count > 1:
        yield (
            f"these runs were made on {selected.machine_count} classes of machine; recorded times are those of all of "
            "them, and are compared only on the machine with the highest memory"
        )


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
