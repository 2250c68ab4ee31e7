"""Run one item's lecture as often as asked for, judge each run, and yield its entries."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pytest_lecturecheck.config.slurm_settings import step_memory_bytes
from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.kernel.run.ports import MemoryPlan, Tracing
from pytest_lecturecheck.lease.broker import HeldLease
from pytest_lecturecheck.model.executed import ExecutedLecture
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.lecture import Lecture
from pytest_lecturecheck.model.profile import ProfileKind, TraceRequest
from pytest_lecturecheck.model.repetition import RepeatRequest
from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.model.settings import ItemLimit, RunSettings
from pytest_lecturecheck.model.variant import title_of
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.session.cell_lookup import LectureSlice, slice_of
from pytest_lecturecheck.session.deadline import Deadline, limit_total_time
from pytest_lecturecheck.session.fingerprint import Fingerprint
from pytest_lecturecheck.session.gpu_findings import first_devices, unused_gpu_finding, with_gpu_hint
from pytest_lecturecheck.session.lecture_reader import PreparedLecture
from pytest_lecturecheck.session.run_completion import complete_run
from pytest_lecturecheck.session.run_judging import ends_repeats, judged_entry
from pytest_lecturecheck.session.runner_parts import RunnerParts, with_compile_cache
from pytest_lecturecheck.session.runtime_context import RuntimeContext
from pytest_lecturecheck.session.shared_files import shared_file_findings
from pytest_lecturecheck.session.trace_plan import plan_levels_over, plan_memory, plan_tracing
from pytest_lecturecheck.session.tracing import add_traces, cells_over, with_levels_of_focus
from pytest_lecturecheck.session.unrun_entries import refused_entry
from pytest_lecturecheck.session.waiting import waiting_reporter

_UNSEEN_CONCURRENCY = (
    "concurrency is set too far from the beginning and the end of the lecture's file to be found when lectures are "
    "collected, so the lecture was run by itself; set it with --lecture-concurrency or in the settings file"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """What stays the same over the runs of one item."""

    prepared: PreparedLecture
    environment: Mapping[str, str]
    held: HeldLease
    is_followed: bool


class LectureRunner:
    """
    Runs lectures by themselves, one after the other.

    Args:
        context: what the runners of this process work with.
        parts: what it shares with the runner of cohorts.
    """

    def __init__(self, context: RuntimeContext, parts: RunnerParts) -> None:
        """Start nothing yet."""
        self._context = context
        self._states = parts.states
        self._parts = parts
        self._caching = parts.caching

    def run(
        self,
        prepared: PreparedLecture,
        limit: ItemLimit | None = None,
        *,
        is_alone: bool = False,
        repeats: Sequence[int] | None = None,
        is_followed: bool = False,
    ) -> Iterator[Entry]:
        """
        Run a lecture as often as asked for; ends early where a run failed, and at once where it failed before.

        Args:
            prepared: the lecture with its settings.
            limit: time for all its runs together, set from outside, or ``None``.
            is_alone: nothing else may run beside it, whatever it needs.
            repeats: 1-based numbers of the runs to make now; by default all.
            is_followed: whether another lecture comes next in this process.
        """
        context = self._context
        if not is_alone:
            prepared = self._with_concurrency_finding(prepared)
        name, variant, settings = prepared.lecture.name, prepared.variant, prepared.settings
        repeats = repeats or range(1, context.settings.run_count + 1)
        environment = context.kernel_variables(settings)
        environment.update(variant.environment)
        prepared = replace(prepared, lecture=with_gpu_hint(prepared.lecture, settings, context.machine))
        limited = limit_total_time(settings, limit, limit.seconds) if limit is not None else settings
        state = self._states.fingerprint(replace(prepared, settings=limited), environment)
        subject = (name, variant.name, context.results.platform)
        if not self._is_whole:
            # A capture of the failing cell has to run it again, and a part says nothing about the whole.
            state = None
        if repeats[0] == 1 and state is not None and (known := context.memory.recall(subject, state.key())) is not None:
            yield known
            return
        budget = context.results.find_budget(name, variant.name)
        demand = context.leases.demand(title_of(name, variant.name), limited, budget)
        demand = demand.alone(context.leases.capacity) if is_alone else demand
        with context.leases.hold(demand, waiting_reporter(context, prepared.lecture, variant.name)) as held:
            if held.refusal:
                context.journal.end(name, Outcome.REFUSED.value, variant=variant.name)
                refused = refused_entry(context, prepared.lecture, held.refusal)
                yield replace(refused, run=replace(refused.run, variant=variant.name))
                return
            shown = held.device_variables(context.devices) or first_devices(context.devices, settings.gpus)
            environment = {**shown, **environment}
            job = _Job(prepared=prepared, environment=environment, held=held, is_followed=is_followed)
            yield from self._run_all(job, Deadline(limit), state, repeats)

    def _with_concurrency_finding(self, prepared: PreparedLecture) -> PreparedLecture:
        """Add a finding where the lecture asks for several kernels, and collection has not seen it."""
        lecture = prepared.lecture
        if not lecture.settings.concurrency or self._context.collection.may_say_concurrency(lecture.path):
            return prepared
        finding = Finding(kind=FindingKind.NOT_RUN, message=_UNSEEN_CONCURRENCY)
        return replace(prepared, lecture=replace(lecture, findings=(*lecture.findings, finding)))

    def _run_all(
        self, job: _Job, deadline: Deadline, state: Fingerprint | None, repeats: Sequence[int]
    ) -> Iterator[Entry]:
        own, trace = job.prepared.settings, self._context.settings.trace
        wants_traces = trace is not None and trace.is_for_over
        for repeat in repeats:
            settings = deadline.first(own) if repeat == 1 else deadline.later(own)
            try:
                entry = self._run_once(job, settings, repeat)
            except BaseException:
                # Ctrl-C and signals: what had run is reported with the rest of the session.
                if (stopped := self._parts.open_workbench().take_stopped()) is not None:
                    yield self._entry(job, settings, complete_run(stopped, job.held, self._context.rootdir), 0.0)
                raise
            if entry.verdict.failed and state is not None and entry.run.is_comparable:
                self._states.note(job.prepared.lecture.name, job.prepared.variant.name, state.key())
            if trace is not None and wants_traces and (cells := cells_over(entry, trace.kind)):
                wants_traces = False
                began = time.perf_counter()
                traced = self._run_in_kernel(job, deadline.later(own), repeat, replace(trace, cells=cells))
                entry = add_traces(entry, traced, time.perf_counter() - began)
            yield entry
            if ends_repeats(entry.verdict):
                break

    def _run_once(self, job: _Job, settings: RunSettings, repeat: int) -> Entry:
        began = time.perf_counter()
        trace = self._context.settings.trace
        run = self._run_in_kernel(job, settings, repeat, None if trace is None or trace.is_for_over else trace)
        return self._entry(job, settings, run, time.perf_counter() - began)

    def _entry(self, job: _Job, settings: RunSettings, run: Run, seconds: float) -> Entry:
        lecture = job.prepared.lecture
        entry = judged_entry(self._context, run, settings, lectures={lecture.name: lecture}, seconds=seconds)
        return self._with_joint_notes(with_levels_of_focus(entry))

    def _with_joint_notes(self, entry: Entry) -> Entry:
        if not entry.verdict.failed:
            return entry
        from pytest_lecturecheck.session.earlier_failures import with_joint_notes  # noqa: PLC0415 - at failures only

        return with_joint_notes(entry, self._context.rootdir)

    def _run_in_kernel(self, job: _Job, settings: RunSettings, repeat: int, trace: TraceRequest | None) -> Run:
        context, lecture, variant = self._context, job.prepared.lecture, job.prepared.variant.name
        context.journal.begin(lecture, settings.memory_cap_bytes, variant=variant)
        part = self._slice(lecture, variant)
        executed: list[ExecutedLecture] = []
        cache, cache_state = self._parts.compile_cache(context.settings, lecture.name, variant)
        run = self._parts.open_workbench().run(
            part.lecture,
            settings,
            repeat,
            {**job.environment, **cache},
            variant=variant,
            tracing=self._tracing(job, repeat, trace),
            memory=self._memory(job, settings, repeat, trace),
            repeats=self._repeats(repeat, trace),
            capture=part.capture,
            until_cell=part.until_cell,
            pass_fds=job.held.descriptors,
            memory_bytes=step_memory_bytes(context.results.checked_budget(lecture.name, variant), settings),
            on_executed=executed.append if self._caching.is_on else None,
            is_followed=job.is_followed or repeat < context.settings.run_count,
        )
        run = part.finish(run)
        if (unused := unused_gpu_finding(run, settings.gpu)) is not None:
            run = replace(run, findings=(*run.findings, unused))
        run = self._caching.note(job.prepared, run, executed[0] if executed else None)
        run = complete_run(with_compile_cache(run, cache_state), job.held, context.rootdir)
        if run.concurrent_lectures and not settings.run_in_temp:
            run = replace(run, findings=(*run.findings, *shared_file_findings(run, lecture, context.rootdir)))
        context.journal.end(lecture.name, run.outcome.value, variant=variant)
        return run

    def _slice(self, lecture: Lecture, variant: str) -> LectureSlice:
        if self._is_whole:
            return LectureSlice(lecture=lecture)
        return slice_of(lecture, variant, self._context.settings, self._context.rootdir)

    @property
    def _is_whole(self) -> bool:
        settings = self._context.settings
        return settings.replay_capture is None and settings.until is None

    def _tracing(self, job: _Job, repeat: int, trace: TraceRequest | None) -> Tracing | None:
        if trace is None or trace.kind is not ProfileKind.TRACE:
            return None
        prepared = job.prepared
        return plan_tracing(self._context.rootdir, prepared.lecture, repeat, trace.cells, prepared.variant.name)

    def _memory(self, job: _Job, settings: RunSettings, repeat: int, trace: TraceRequest | None) -> MemoryPlan | None:
        rootdir, lecture, variant = self._context.rootdir, job.prepared.lecture, job.prepared.variant.name
        if trace is None and self._is_whole:
            budget = self._context.results.checked_budget(lecture.name, variant)
            return plan_levels_over(rootdir, budget, settings.declared_memory_bytes)
        if trace is None or trace.kind is ProfileKind.TRACE:
            return None
        return plan_memory(rootdir, lecture, repeat, trace.cells, variant)

    def _repeats(self, repeat: int, trace: TraceRequest | None) -> RepeatRequest | None:
        """Return which cells are run again: once for a lecture, and not in a second run for a trace."""
        settings = self._context.settings
        is_second = trace is not None and settings.trace is not None and settings.trace.is_for_over
        return settings.repeats if repeat == 1 and self._is_whole and not is_second else None
