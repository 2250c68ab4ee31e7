"""How one item's lecture becomes entries: read, perhaps not run at all, else run, written down and judged."""

from __future__ import annotations

import functools
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

from pytest_lecturecheck.config.environment import EnvironmentContext, kernel_environment
from pytest_lecturecheck.config.options import Mode, SessionSettings
from pytest_lecturecheck.config.replaced_flags import replaced_flags
from pytest_lecturecheck.config.slurm_settings import step_memory_bytes
from pytest_lecturecheck.errors import LectureReadError, SettingsError
from pytest_lecturecheck.kernel.launchers.local_launcher import LOCAL
from pytest_lecturecheck.kernel.launchers.port import Launcher
from pytest_lecturecheck.lease.broker import HeldLease, LeaseBroker
from pytest_lecturecheck.model.device import Device
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.metric import Method, Metric
from pytest_lecturecheck.model.platform import Machine
from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.model.settings import GpuNeed, ItemLimit
from pytest_lecturecheck.model.variant import DEFAULT_VARIANT, title_of
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.session.collection import LectureCollection
from pytest_lecturecheck.session.failure_memory import FailureMemory
from pytest_lecturecheck.session.journal_writer import JournalWriter
from pytest_lecturecheck.session.library_path import library_path
from pytest_lecturecheck.session.results import Results
from pytest_lecturecheck.session.tracing import add_traces, cells_over
from pytest_lecturecheck.verdict import Policy, VerdictKind

if TYPE_CHECKING:
    from pytest_lecturecheck.kernel.run.ports import RunProgress
    from pytest_lecturecheck.model.lecture import Lecture
    from pytest_lecturecheck.model.settings import RunSettings
    from pytest_lecturecheck.session.fingerprint import Fingerprint
    from pytest_lecturecheck.session.workbench import Workbench

_NEEDS_GPU: Final[Mapping[GpuNeed | None, str]] = {
    GpuNeed.REQUIRED: "needs a GPU",
    GpuNeed.NARRATIVE: "tells of a GPU in its output",
}
_HINT_TEXT: Final = (
    "the page says that it was built with a GPU (_admonition/gpu.md) and runs on the CPU here; `gpu: required` under "
    "`lecturecheck:` in its front matter leaves it out where there is none, `gpu: cpu` says that this is meant"
)


def unused_gpu_finding(run: Run, gpu: GpuNeed | None) -> Finding | None:
    """Tell that a lecture of a GPU came to its end without one: libraries go on on the CPU, and all is green."""
    used = run.measured(Metric.GPU_USED)
    if gpu not in _NEEDS_GPU or run.outcome is not Outcome.COMPLETED:
        return None
    # A range that begins at 0 says that processes cannot be told apart, not that there was no memory.
    if used is None or used.value > 0 or used.method is Method.BRACKET or run.measured(Metric.GPU_LIVE) is not None:
        return None
    message = (
        f"the lecture {_NEEDS_GPU[gpu]}, and none of its processes was seen with memory of one: it may have run on the "
        "CPU"
    )
    return Finding(kind=FindingKind.GPU, message=message, fails_when_strict=True)


def under(limit: ItemLimit | None, seconds: float, settings: RunSettings) -> RunSettings:
    """Lay a limit from outside over a lecture's settings, where it is the tighter one."""
    if limit is None or (settings.total_timeout_seconds or math.inf) <= seconds:
        return settings
    origins = {**settings.origins, "total_timeout_seconds": limit.origin}
    return replace(settings, total_timeout_seconds=seconds, origins=origins)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeContext:
    """
    Where the kernels of a session run.

    Attributes:
        machine: the machine.
        devices: the GPUs that kernels may use.
        place: what environment profiles depend on.
        leases: where lectures get room.
        launcher: what starts kernels.
    """

    machine: Machine
    devices: Sequence[Device]
    place: EnvironmentContext
    leases: LeaseBroker
    launcher: Launcher = LOCAL


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """What stays the same over the runs of one item."""

    lecture: Lecture
    environment: Mapping[str, str]
    held: HeldLease
    limit: ItemLimit | None


class LectureRunner:
    """
    Runs the lectures of one process, one after the other.

    Args:
        rootdir: pytest's rootdir.
        invocation_dir: where pytest was called.
        settings: the session's settings.
        results: budgets.
        memory: how lectures failed before.
        collection: the books that lectures belong to.
    """

    def __init__(
        self,
        *,
        rootdir: Path,
        invocation_dir: Path,
        settings: SessionSettings,
        results: Results,
        memory: FailureMemory,
        collection: LectureCollection,
    ) -> None:
        """Load nothing and start nothing yet."""
        self._rootdir = rootdir
        self._invocation_dir = invocation_dir
        self._settings = settings
        self._results = results
        self._memory = memory
        self._collection = collection
        self._workbench: Workbench | None = None
        self._state_keys: dict[str, str] = {}

    def attach(
        self,
        site: RuntimeContext,
        *,
        chronicle: JournalWriter,
        on_progress: Callable[[RunProgress], None],
        on_wait: Callable[[], None],
    ) -> None:
        """Say where kernels run, and who is told what happens during a run."""
        self._machine = site.machine
        self._place = site.place
        self._leases = site.leases
        self._launcher = site.launcher
        self._devices = site.devices
        self._chronicle = chronicle
        self._on_progress = on_progress
        self._on_wait = on_wait

    def _library_path(self) -> AbstractContextManager[None]:
        """Keep the folders of lectures off the path while libraries are imported."""
        return library_path(self._rootdir, self._invocation_dir)

    @functools.cached_property
    def _execution(self) -> ModuleType:
        """Load nbformat, nbclient and the like when the first lecture runs, not for collection."""
        with self._library_path():
            from pytest_lecturecheck.session import workbench as execution  # noqa: PLC0415 - see above

            return execution

    def read(self, path: Path, name: str) -> Lecture:
        """Read a lecture's file; errors are those of :func:`~pytest_lecturecheck.lecture.reading.read_lecture`."""
        with self._library_path():
            lecture: Lecture = self._execution.read_lecture(path, name=name, root=self._rootdir)
        if (profile := lecture.settings.env_profile) is not None:
            try:
                self._settings.environment.check_profile(profile)
            except SettingsError as exc:
                raise LectureReadError(name, None, f"{lecture.settings.origin('env_profile')}: {exc}") from exc
        replaced = replaced_flags(name, lecture.settings, self._settings)
        return replace(lecture, findings=(*lecture.findings, *replaced))

    def _settings_of(self, lecture: Lecture) -> RunSettings:
        return self._settings.for_lecture(lecture.settings, self._collection.book_settings(lecture.path))

    def why_not_run(self, lecture: Lecture) -> str:
        """Say why a lecture is not run, or give an empty string."""
        settings = self._settings_of(lecture)
        if settings.skip_reason:
            return settings.skip_reason
        if not self._machine.accelerators and not self._launcher.gives_gpu and settings.gpu in _NEEDS_GPU:
            return f"{_NEEDS_GPU[settings.gpu]} ({settings.origin('gpu')}), and there is none here"
        if not lecture.has_work:
            return f"nothing to run: {self._execution.nothing_to_run(lecture)}"
        return ""

    def skip(self, lecture: Lecture, reason: str) -> Entry:
        """Give the entry of a lecture that is not run."""
        run = self._execution.skipped_run(lecture, self._results.platform, self._machine, reason)
        return Entry(run=run, verdict=self._results.judge(run, Policy()))

    def unreadable(self, name: str, reason: str) -> Entry:
        """Give the entry of a file that could not be read as a lecture."""
        run = self._execution.unreadable_run(name, self._results.platform, self._machine, reason)
        return Entry(run=run, verdict=self._results.judge(run, Policy()))

    def run(self, lecture: Lecture, limit: ItemLimit | None = None, *, is_alone: bool = False) -> Iterator[Entry]:
        """
        Run a lecture as often as asked for; ends early where a run failed, and at once where it failed before.

        Args:
            lecture: the lecture.
            limit: time for all its runs together, set from outside, or ``None``.
            is_alone: nothing else may run beside it, whatever it needs.
        """
        settings = under(limit, limit.seconds if limit is not None else 0.0, self._settings_of(lecture))
        environment = kernel_environment(
            self._settings.environment, settings.env_profile, settings.gpu, self._kernel_place()
        )
        lecture = self._with_gpu_hint(lecture, settings)
        state = self._fingerprint(lecture, settings, environment)
        subject = (lecture.name, DEFAULT_VARIANT, self._results.platform)
        if state is not None and (known := self._memory.recall(subject, state.key())) is not None:
            yield known
            return
        demand = self._leases.demand(lecture.name, settings, self._results.find_budget(lecture.name))
        demand = demand.alone(self._leases.capacity) if is_alone else demand
        with self._leases.hold(demand, functools.partial(self._tell_waiting, lecture, DEFAULT_VARIANT)) as held:
            if held.refusal:
                self._chronicle.end(lecture.name, Outcome.REFUSED.value)
                yield self._refused(lecture, held.refusal)
                return
            environment = {**held.device_variables(self._devices), **environment}
            yield from self._run_all(_Job(lecture=lecture, environment=environment, held=held, limit=limit), state)

    def _tell_waiting(self, lecture: Lecture, variant: str, reason: str, seconds: float) -> None:
        self._chronicle.wait(lecture.name, reason, variant=variant)
        titled = replace(lecture, name=title_of(lecture.name, variant))
        waiting = self._execution.waiting_progress(titled, reason, seconds)
        self._on_progress(waiting)
        self._on_wait()

    def _refused(self, lecture: Lecture, reason: str) -> Entry:
        run = self._execution.refused_run(lecture, self._results.platform, self._machine, reason)
        return Entry(run=run, verdict=self._results.judge(run, Policy()))

    def _run_all(self, job: _Job, state: Fingerprint | None) -> Iterator[Entry]:
        lecture, limit = job.lecture, job.limit
        deadline = time.monotonic() + limit.seconds if limit is not None else None
        settings = under(limit, limit.seconds if limit is not None else 0.0, self._settings_of(lecture))
        wants_traces = self._settings.trace is not None and self._settings.trace.is_for_over
        for repeat in range(1, self._settings.run_count + 1):
            if limit is not None and deadline is not None and repeat > 1:
                settings = under(limit, max(1.0, deadline - time.monotonic()), self._settings_of(lecture))
            entry = self._run_once(job, settings, repeat)
            if entry.verdict.failed and state is not None and not entry.run.is_profiled:
                self._state_keys[lecture.name] = state.key()
            if wants_traces and (cells := cells_over(entry)):
                wants_traces = False
                if limit is not None and deadline is not None:
                    settings = under(limit, max(1.0, deadline - time.monotonic()), self._settings_of(lecture))
                began = time.perf_counter()
                traced = self._run_in_kernel(job, settings, repeat, cells)
                entry = add_traces(entry, traced, time.perf_counter() - began)
            yield entry
            if entry.verdict.failed and entry.verdict.kind not in {VerdictKind.OVER, VerdictKind.UNDER}:
                break

    def _kernel_place(self) -> EnvironmentContext:
        return replace(self._place, inherited=frozenset(os.environ))

    def _with_gpu_hint(self, lecture: Lecture, settings: RunSettings) -> Lecture:
        """Add that a page which says it was built with a GPU runs without one."""
        if not lecture.hints_at_gpu or settings.gpu is not None or self._machine.accelerators:
            return lecture
        finding = Finding(kind=FindingKind.GPU, message=_HINT_TEXT)
        return replace(lecture, findings=(*lecture.findings, finding))

    def _run_once(self, job: _Job, settings: RunSettings, repeat: int) -> Entry:
        began = time.perf_counter()
        cells = self._settings.trace.cells if self._settings.trace is not None else frozenset()
        run = self._run_in_kernel(job, settings, repeat, cells)
        verdict = self._results.judge(run, self._policy(settings, job.lecture.name))
        budget = self._results.budget_of(run) if self._settings.mode is Mode.CHECK else None
        entry = Entry(run=run, verdict=verdict, budget=budget, seconds=time.perf_counter() - began)
        sources = {cell.number: cell.source for cell in job.lecture.cells}
        return entry.with_source(lambda number: sources.get(number, ""))

    def _run_in_kernel(self, job: _Job, settings: RunSettings, repeat: int, traced_cells: frozenset[int]) -> Run:
        lecture, held = job.lecture, job.held
        tracing = self._execution.plan_tracing(self._rootdir, lecture, repeat, traced_cells) if traced_cells else None
        self._chronicle.begin(lecture, settings.memory_cap_bytes)
        # A run that is made to be recorded is not held to what was recorded before.
        budget = self._results.find_budget(lecture.name) if self._settings.mode is Mode.CHECK else None
        found = self._bench().run(
            lecture,
            settings,
            repeat,
            job.environment,
            tracing=tracing,
            pass_fds=held.descriptors,
            memory_bytes=step_memory_bytes(budget, settings),
        )
        run = self._shown(replace(found, concurrent_lectures=held.company))
        self._chronicle.end(lecture.name, run.outcome.value)
        if (unused := unused_gpu_finding(run, settings.gpu)) is not None:
            run = replace(run, findings=(*run.findings, unused))
        if held.warning:
            finding = Finding(kind=FindingKind.LEASE, message=held.warning)
            run = replace(run, findings=(*run.findings, finding))
        return run

    def _shown(self, run: Run) -> Run:
        """Keep where this machine has its folders out of the record."""
        root = str(self._rootdir)
        shown = {name: text.replace(root, ".") for name, text in run.conditions.environment.items()}
        evidence = run.evidence
        if evidence is not None:
            evidence = replace(evidence, conditions=replace(evidence.conditions, environment=shown))
        return replace(run, conditions=replace(run.conditions, environment=shown), evidence=evidence)

    def take_state_key(self, lecture: str) -> str:
        """Give the digest of the state in which a lecture failed, once, or an empty string."""
        return self._state_keys.pop(lecture, "")

    def _fingerprint(
        self, lecture: Lecture, settings: RunSettings, environment: Mapping[str, str]
    ) -> Fingerprint | None:
        if not self._memory.is_on:
            return None
        with self._library_path():
            from pytest_lecturecheck.session.fingerprint import take_fingerprint  # noqa: PLC0415 - it needs jupyter_client
        outputs = frozenset({*self._settings.reports, self._results.budget_file})
        platform = self._results.platform
        return take_fingerprint(
            lecture,
            settings,
            platform=platform,
            machine=self._machine,
            outputs=outputs,
            environment=environment,
        )

    def _policy(self, settings: RunSettings, lecture: str) -> Policy:
        return Policy(
            strict=self._settings.strict,
            declared_memory_bytes=settings.declared_memory_bytes,
            declared_time_seconds=settings.declared_time_seconds,
            tolerance=self._results.tolerance,
            known_platforms=self._results.known_platforms(lecture),
        )

    def _bench(self) -> Workbench:
        if self._workbench is None:
            self._workbench = self._execution.Workbench(
                platform=self._results.platform,
                machine=self._machine,
                on_kernel=self._chronicle.note_kernel,
                on_progress=self._on_progress,
                on_wait=self._on_wait,
                kernel_count=self._place.kernel_count,
                launcher=self._launcher,
            )
        bench: Workbench = self._workbench
        return bench

    def close(self) -> None:
        """Stop the kernels' loop; safe to call twice."""
        if self._workbench is not None:
            self._workbench.close()
