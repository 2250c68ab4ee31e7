"""Run a cohort: kernels that start at the same moment, their record judged as one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from pytest_lecturecheck.config.environment import EnvironmentContext, kernel_environment
from pytest_lecturecheck.config.options import SessionSettings
from pytest_lecturecheck.config.slurm_settings import step_memory_bytes
from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.lease.broker import HeldLease
from pytest_lecturecheck.model.cohort import CohortSpec
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.model.settings import ItemLimit, RunSettings
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.session.cell_lookup import findings_of_cohort
from pytest_lecturecheck.session.deadline import Deadline, limit_total_time
from pytest_lecturecheck.session.failure_states import join_keys
from pytest_lecturecheck.session.fingerprint import Fingerprint
from pytest_lecturecheck.session.gpu_findings import with_gpu_hint
from pytest_lecturecheck.session.lecture_reader import PreparedLecture
from pytest_lecturecheck.session.run_completion import complete_run
from pytest_lecturecheck.session.run_judging import ends_repeats, judged_entry
from pytest_lecturecheck.session.runner_parts import RunnerParts, with_compile_cache
from pytest_lecturecheck.session.runtime_context import RuntimeContext
from pytest_lecturecheck.session.waiting import waiting_reporter
from pytest_lecturecheck.session.workbench import KernelJob


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """One lecture of a cohort with what each of its kernels gets."""

    prepared: PreparedLecture
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cohort:
    """What stays the same over the runs of one cohort."""

    spec: CohortSpec
    parts: Mapping[str, _Part]
    kernel_count: int


def left_out_findings(settings: SessionSettings) -> Iterator[Finding]:
    """Yield what was asked for and is not done to lectures that run at the same time."""
    if settings.trace is not None:
        message = (
            "no cell was profiled: lectures that run at the same time would be charged for the profiler of another; "
            "run the lecture by itself, without --lecture-concurrency"
        )
        yield Finding(kind=FindingKind.PROFILE, message=message)
    if settings.repeats is not None:
        message = (
            "no cell was run again: that is done to lectures that run by themselves, without --lecture-concurrency"
        )
        yield Finding(kind=FindingKind.LEAK, message=message)
    yield from findings_of_cohort(settings)


class CohortRunner:
    """
    Runs cohorts, one after the other.

    Args:
        context: what the runners of this process work with.
        parts: what it shares with the runner of single lectures.
    """

    def __init__(self, context: RuntimeContext, parts: RunnerParts) -> None:
        """Start nothing yet."""
        self._context = context
        self._states = parts.states
        self._parts = parts

    def run(
        self,
        spec: CohortSpec,
        prepared: Mapping[str, PreparedLecture],
        limit: ItemLimit | None = None,
        *,
        repeats: Sequence[int] | None = None,
    ) -> Iterator[Entry]:
        """
        Run a cohort as often as asked for; ends early where a run failed, and at once where it failed before.

        Args:
            spec: what runs at once.
            prepared: the lectures by name, with their settings.
            limit: time for all its runs together, set from outside, or ``None``.
            repeats: 1-based numbers of the runs to make now; by default all.
        """
        context = self._context
        repeats = repeats or range(1, context.settings.run_count + 1)
        kernel_count = self._kernels_at_once(spec)
        surroundings = replace(context.environment_context, kernel_count=kernel_count, inherited=frozenset(os.environ))
        parts = {name: self._part(lecture, surroundings) for name, lecture in prepared.items()}
        states = self._fingerprints(parts, limit)
        first = spec.lectures[0]
        subject = (first, spec.name, context.results.platform)
        if repeats[0] == 1 and states and (known := context.memory.recall(subject, join_keys(states))) is not None:
            yield known
            return
        cohort = _Cohort(spec=spec, parts=parts, kernel_count=kernel_count)
        budget = context.results.find_budget(first, spec.name)
        leading = parts[first].prepared
        demand = context.leases.demand(spec.title, leading.settings, budget).alone(context.leases.capacity)
        with context.leases.hold(demand, waiting_reporter(context, leading.lecture, spec.name)) as held:
            yield from self._run_repeats(cohort, held, Deadline(limit), states, repeats=repeats)

    def _kernels_at_once(self, spec: CohortSpec) -> int:
        """Return how many kernels may run while the cohort does: without leases, those of other workers too."""
        context = self._context
        return spec.kernel_count + (0 if context.leases.is_on else context.environment_context.kernel_count - 1)

    def _part(self, prepared: PreparedLecture, surroundings: EnvironmentContext) -> _Part:
        settings = prepared.settings
        environment = kernel_environment(
            self._context.settings.environment, settings.env_profile, settings.gpu, surroundings
        )
        environment.update(prepared.variant.environment)
        lecture = with_gpu_hint(prepared.lecture, settings, self._context.machine)
        return _Part(prepared=replace(prepared, lecture=lecture), environment=environment)

    def _fingerprints(self, parts: Mapping[str, _Part], limit: ItemLimit | None) -> list[Fingerprint]:
        found = []
        for part in parts.values():
            own = part.prepared.settings
            settings = limit_total_time(own, limit, limit.seconds) if limit is not None else own
            found.append(self._states.fingerprint(replace(part.prepared, settings=settings), part.environment))
        return [state for state in found if state is not None]

    def _run_repeats(
        self,
        cohort: _Cohort,
        held: HeldLease,
        deadline: Deadline,
        states: Sequence[Fingerprint],
        *,
        repeats: Sequence[int],
    ) -> Iterator[Entry]:
        for repeat in repeats:
            entry = self._run_once(cohort, held, repeat, deadline.first if repeat == 1 else deadline.later)
            if entry.verdict.failed and states:
                self._states.note(entry.run.lecture, entry.run.variant, join_keys(states))
            yield entry
            if ends_repeats(entry.verdict):
                break

    def _run_once(
        self, cohort: _Cohort, held: HeldLease, repeat: int, limited: Callable[[RunSettings], RunSettings]
    ) -> Entry:
        began = time.perf_counter()
        jobs = [self._job(cohort.parts[name], limited) for name in cohort.spec.lectures]
        run = self._run_kernels(cohort, jobs, held, repeat)
        lectures = {job.lecture.name: job.lecture for job in jobs}
        return judged_entry(
            self._context, run, jobs[0].settings, lectures=lectures, seconds=time.perf_counter() - began
        )

    def _run_kernels(self, cohort: _Cohort, jobs: Sequence[KernelJob], held: HeldLease, repeat: int) -> Run:
        spec, journal = cohort.spec, self._context.journal
        largest = max((job.lecture for job in jobs), key=lambda lecture: len(lecture.cells))
        begun = replace(largest, name=spec.lectures[0])
        journal.begin(begun, jobs[0].settings.memory_cap_bytes, variant=spec.name)
        cache, cache_state = self._parts.compile_cache(self._context.settings, spec.lectures[0], spec.name)
        found = self._parts.open_workbench().run_cohort(
            spec,
            [replace(job, environment={**job.environment, **cache}) for job in jobs],
            name=spec.title,
            repeat=repeat,
            kernel_count=cohort.kernel_count,
            pass_fds=held.descriptors,
        )
        run = complete_run(with_compile_cache(found, cache_state), held, self._context.rootdir)
        run = replace(run, findings=(*run.findings, *left_out_findings(self._context.settings)))
        journal.end(spec.lectures[0], run.outcome.value, variant=spec.name)
        return run

    def _job(self, part: _Part, limited: Callable[[RunSettings], RunSettings]) -> KernelJob:
        settings = limited(part.prepared.settings)
        budget = self._context.results.checked_budget(part.prepared.lecture.name)
        return KernelJob(
            lecture=part.prepared.lecture,
            settings=settings,
            environment=part.environment,
            memory_bytes=step_memory_bytes(budget, settings),
        )
