"""How a cohort becomes entries: which ones there are, their lectures read, their kernels run at once, and judged."""

from __future__ import annotations

import functools
import hashlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_lecturecheck.config.environment import kernel_environment
from pytest_lecturecheck.config.options import Mode
from pytest_lecturecheck.config.slurm_settings import step_memory_bytes
from pytest_lecturecheck.errors import LectureCheckError
from pytest_lecturecheck.lease.broker import HeldLease
from pytest_lecturecheck.model.cohort import CohortSpec, repeat_lecture
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.model.settings import ItemLimit, RunSettings
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.session.lecture_runner import LectureRunner, under
from pytest_lecturecheck.verdict import Policy, VerdictKind
from pytest_lecturecheck.verdict.cohorts import judge_members

if TYPE_CHECKING:
    from pytest_lecturecheck.config.environment import EnvironmentContext
    from pytest_lecturecheck.model.lecture import Lecture
    from pytest_lecturecheck.session.fingerprint import Fingerprint
    from pytest_lecturecheck.session.workbench import KernelJob

_UNSEEN = (
    "concurrency is set in the lecture too far from the file's beginning and end to be seen when lectures are "
    "collected; give it with --lecture-concurrency, or in the settings file"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """One lecture of a cohort with what each of its kernels gets."""

    lecture: Lecture
    settings: RunSettings
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cohort:
    """What stays the same over the runs of one cohort."""

    spec: CohortSpec
    parts: Mapping[str, _Part]
    kernel_count: int
    limit: ItemLimit | None


class CohortRunner(LectureRunner):
    """Runs cohorts as well; see :class:`~pytest_lecturecheck.session.lecture_runner.LectureRunner`."""

    # -- which there are ----------------------------------------------------------------------------------------------

    def plan_items(self, path: Path, name: str) -> Sequence[CohortSpec | None]:
        """
        Say what is to be run of a file: cohorts, and ``None`` for the lecture by itself.

        Args:
            path: the file.
            name: the lecture's name.
        """
        counts = self._concurrency(path, name)
        repeats: list[CohortSpec | None] = [repeat_lecture(name, count) for count in counts]
        named = [spec for spec in self._settings.cohorts if spec.lectures[0] == name]
        return (*(repeats or [None]), *named)

    def _concurrency(self, path: Path, name: str) -> tuple[int, ...]:
        layers = self._settings.for_all_lectures
        if self._collection.may_say_concurrency(path):
            try:
                layers = self._settings.stated_for(self.read(path, name).settings)
            except LectureCheckError:
                # The item's setup says so.
                return ()
        return layers.concurrency or ()

    def read_cohort(self, spec: CohortSpec, path: Path) -> Mapping[str, Lecture]:
        """
        Read the lectures of a cohort, whose first one is in ``path``.

        Raises:
            LectureReadError: one of them cannot be read.
        """
        first = spec.lectures[0]
        names = dict.fromkeys(spec.lectures)
        return {name: self.read(path if name == first else self._rootdir / name, name) for name in names}

    def run(self, lecture: Lecture, limit: ItemLimit | None = None, *, is_alone: bool = False) -> Iterator[Entry]:
        """Run a lecture by itself; says so where that is not what the lecture asks for."""
        if lecture.settings.concurrency and not is_alone and not self._collection.may_say_concurrency(lecture.path):
            finding = Finding(kind=FindingKind.NOT_RUN, message=_UNSEEN)
            lecture = replace(lecture, findings=(*lecture.findings, finding))
        yield from super().run(lecture, limit, is_alone=is_alone)

    # -- running ------------------------------------------------------------------------------------------------------

    def run_cohort(
        self, spec: CohortSpec, lectures: Mapping[str, Lecture], limit: ItemLimit | None = None
    ) -> Iterator[Entry]:
        """
        Run a cohort as often as asked for; ends early where a run failed, and at once where it failed before.

        Args:
            spec: what runs at once.
            lectures: the lectures by name.
            limit: time for all its runs together, set from outside, or ``None``.
        """
        kernel_count = self._kernels_at_once(spec)
        place = replace(self._place, kernel_count=kernel_count, inherited=frozenset(os.environ))
        parts = {name: self._part(lecture, limit, place) for name, lecture in lectures.items()}
        first = parts[spec.lectures[0]]
        states = self._states(parts)
        subject = (first.lecture.name, spec.name, self._results.platform)
        if states and (known := self._memory.recall(subject, _join_keys(states))) is not None:
            yield known
            return
        cohort = _Cohort(spec=spec, parts=parts, kernel_count=kernel_count, limit=limit)
        budget = self._results.find_budget(first.lecture.name, spec.name)
        demand = self._leases.demand(spec.title, first.settings, budget).alone(self._leases.capacity)
        with self._leases.hold(demand, functools.partial(self._tell_waiting, first.lecture, spec.name)) as held:
            yield from self._run_repeats(cohort, held, states)

    def _kernels_at_once(self, spec: CohortSpec) -> int:
        """Give how many kernels may run at once while the cohort does: without leases, those of other workers too."""
        return spec.kernel_count + (0 if self._leases.is_on else self._place.kernel_count - 1)

    def _part(self, lecture: Lecture, limit: ItemLimit | None, place: EnvironmentContext) -> _Part:
        settings = under(limit, limit.seconds if limit is not None else 0.0, self._settings_of(lecture))
        environment = kernel_environment(self._settings.environment, settings.env_profile, settings.gpu, place)
        lecture = self._with_gpu_hint(lecture, settings)
        return _Part(lecture=lecture, settings=settings, environment=environment)

    def _states(self, parts: Mapping[str, _Part]) -> list[Fingerprint]:
        found = [self._fingerprint(part.lecture, part.settings, part.environment) for part in parts.values()]
        return [state for state in found if state is not None]

    def _run_repeats(self, cohort: _Cohort, held: HeldLease, states: Sequence[Fingerprint]) -> Iterator[Entry]:
        limit = cohort.limit
        deadline = time.monotonic() + limit.seconds if limit is not None else None
        for repeat in range(1, self._settings.run_count + 1):
            left = None if deadline is None else max(1.0, deadline - time.monotonic())
            entry = self._run_cohort_once(cohort, held, repeat, left)
            if entry.verdict.failed and states:
                self._state_keys[entry.run.lecture] = _join_keys(states)
            yield entry
            if entry.verdict.failed and entry.verdict.kind not in {VerdictKind.OVER, VerdictKind.UNDER}:
                break

    def _run_cohort_once(self, cohort: _Cohort, held: HeldLease, repeat: int, left: float | None) -> Entry:
        began = time.perf_counter()
        run = self._run_kernels(cohort, held, repeat, left)
        policy = Policy(
            strict=self._settings.strict,
            tolerance=self._results.tolerance,
            known_platforms=self._results.known_platforms(run.lecture, run.variant),
        )
        verdict = judge_members(self._results.judge(run, policy), run)
        budget = self._results.budget_of(run) if self._settings.mode is Mode.CHECK else None
        return Entry(run=run, verdict=verdict, budget=budget, seconds=time.perf_counter() - began)

    def _run_kernels(self, cohort: _Cohort, held: HeldLease, repeat: int, left: float | None) -> Run:
        spec = cohort.spec
        jobs = [self._job(cohort.parts[name], cohort.limit, left) for name in spec.lectures]
        largest = max((part.lecture for part in cohort.parts.values()), key=lambda lecture: len(lecture.cells))
        begun = replace(largest, name=spec.lectures[0])
        self._chronicle.begin(begun, jobs[0].settings.memory_cap_bytes, variant=spec.name)
        found: Run = self._bench().run_cohort(
            spec,
            jobs,
            name=spec.title,
            repeat=repeat,
            kernel_count=cohort.kernel_count,
            pass_fds=held.descriptors,
        )
        members = tuple(self._shown(replace(run, concurrent_lectures=held.company)) for run in found.members)
        run = self._shown(replace(found, concurrent_lectures=held.company, members=members))
        self._chronicle.end(spec.lectures[0], run.outcome.value, variant=spec.name)
        if held.warning:
            finding = Finding(kind=FindingKind.LEASE, message=held.warning)
            run = replace(run, findings=(*run.findings, finding))
        return run

    def _job(self, part: _Part, limit: ItemLimit | None, left: float | None) -> KernelJob:
        settings = part.settings if left is None else under(limit, left, self._settings_of(part.lecture))
        # A run that is made to be recorded is not held to what was recorded before.
        is_checked = self._settings.mode is Mode.CHECK
        budget = self._results.find_budget(part.lecture.name) if is_checked else None
        job: KernelJob = self._execution.KernelJob(
            lecture=part.lecture,
            settings=settings,
            environment=part.environment,
            memory_bytes=step_memory_bytes(budget, settings),
        )
        return job


def _join_keys(states: Sequence[Fingerprint]) -> str:
    return hashlib.sha256("\n".join(state.key() for state in states).encode()).hexdigest()
