"""Find faults of workflows that let a broken lecture pass, hang, or leave nothing behind; each with its cure. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.repository.build_steps import BUILD_ACTION, GATE_ACTION, Build, find_builds, is_gate
from pytest_lecturecheck.repository.workflow_file import Job, Step, Workflow
from pytest_lecturecheck.units import format_duration

_PUBLISHING: Final = re.compile(
    r"gh-pages|deploy-pages|publish|netlify|cloudflare/(?:pages|wrangler)|aws-actions/|rclone|s3\s+sync|git\s+push"
)
_JAX: Final = re.compile(r"\bjax\b|numpyro|\bjax\[", re.IGNORECASE)
_ON_FAILURE: Final = re.compile(r"failure\(\)|always\(\)|!\s*cancelled\(\)")
_CACHE_VARIABLE: Final = "JAX_COMPILATION_CACHE_DIR"
_CELL_LIMIT: Final = re.compile(r"nb_execution_timeout=(?P<seconds>\d+)")
_DEFAULT_MINUTES: Final = 360
_LEAST_FACTOR: Final = 1.2
_MOST_FACTOR: Final = 10.0
_PLENTY_MINUTES: Final = 60.0
_CELL_FACTOR: Final = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryTimes:
    """
    What the repository itself says about times.

    Attributes:
        cell_seconds: limit of one cell in the book's configuration, or ``None`` for none.
        cell_origin: where that is stated.
        whole_seconds: the sum of the recorded times of all lectures, or ``None`` if none is recorded.
        raises_errors: whether the book fails for a failed notebook without ``-W``.
    """

    cell_seconds: float | None = None
    cell_origin: str = ""
    whole_seconds: float | None = None
    raises_errors: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowFault:
    """One fault: where, which kind, why it matters, and the line that mends it."""

    path: str
    line: int
    kind: str
    why: str
    mend: str


def audit_workflows(workflows: Sequence[Workflow], times: RepositoryTimes) -> list[WorkflowFault]:
    """Return the faults of all workflows, by file and line."""
    found = [
        WorkflowFault(path=workflow.shown, line=line, kind=kind, why=why, mend=mend)
        for workflow in workflows
        for job in workflow.jobs
        for line, kind, why, mend in _audit_job(workflow, job, times)
    ]
    return sorted(set(found), key=lambda fault: (fault.path, fault.line, fault.kind))


_Row = tuple[int, str, str, str]


def _audit_job(workflow: Workflow, job: Job, times: RepositoryTimes) -> Iterator[_Row]:
    builds = [(step, build) for step in job.steps for build in find_builds(step)]
    runs_lectures = bool(builds) or any(is_gate(step) for step in job.steps)
    yield from _statuses(job, builds, times)
    if runs_lectures:
        yield from _missing_timeout(job, times)
        yield from _failure_artifacts(job, builds)
        yield from _compile_cache(job)
        yield from _far_timeouts(job, times)
    if "runs-on=" in job.runner and _publishes(workflow, job):
        yield from _spot(job)


# -- exit status of builds ---------------------------------------------------------------------------------------------


def _statuses(job: Job, builds: Sequence[tuple[Step, Build]], times: RepositoryTimes) -> Iterator[_Row]:
    gates = [position for position, step in enumerate(job.steps) if is_gate(step)]
    for number, (step, build) in enumerate(builds):
        is_gated = any(position < job.steps.index(step) for position in gates)
        if number == 0 and not is_gated:
            yield from _first_build(build, times)
        lost = build.lost
        if lost is None and job.continues:
            lost = ("the job has `continue-on-error: true`", "continue-on-error: false")
        if lost is not None:
            why, mend = lost
            yield build.line, "build-status", f"a build that fails does not fail the step: {why}", mend


def _first_build(build: Build, times: RepositoryTimes) -> Iterator[_Row]:
    """Yield why the build that executes the lectures passes although one of them fails."""
    if build.is_tojupyter:
        why = (
            "the first build executes the lectures, and the builder of sphinx-tojupyter ends with an exit status of "
            "its own, which is 0 although a notebook failed"
        )
        mend = "jb build lectures --path-output ./ -n -W --keep-going   # HTML first; or a lecture-budget step before"
        yield build.line, "first-build", why, mend
    elif not build.is_strict and not times.raises_errors:
        why = (
            "the first build executes the lectures, and a notebook that fails is only a warning there: the exit status "
            "is 0"
        )
        option = "--strict" if build.program == "myst" else "-W --keep-going"
        option = "-W" if "--keep-going" in build.command else option
        yield build.line, "first-build", why, f"{build.command} {option}"


# -- jobs --------------------------------------------------------------------------------------------------------------


def _missing_timeout(job: Job, times: RepositoryTimes) -> Iterator[_Row]:
    if job.timeout_minutes is None and job.timeout_line == job.line:
        why = (
            f"job {job.name!r} runs lectures without timeout-minutes: one that hangs is stopped after "
            f"{_DEFAULT_MINUTES} min"
        )
        yield job.line, "no-timeout", why, f"timeout-minutes: {_proposed_minutes(times)}"


def _proposed_minutes(times: RepositoryTimes) -> int:
    if times.whole_seconds is None:
        return max(120, round(2 * (times.cell_seconds or 0) / 60))
    return max(15, round(3 * times.whole_seconds / 60 / 5) * 5)


def _failure_artifacts(job: Job, builds: Sequence[tuple[Step, Build]]) -> Iterator[_Row]:
    own = [step for step in job.steps if BUILD_ACTION in step.uses.lower()]
    is_kept_by_action = bool(own) and all(step.inputs.get("upload-failure-reports") == "true" for step in own)
    is_kept = any(
        GATE_ACTION in step.uses or ("upload-artifact" in step.uses and _ON_FAILURE.search(step.condition))
        for step in job.steps
    )
    if not builds or is_kept or is_kept_by_action:
        return
    why = (
        f"job {job.name!r} keeps nothing if the build fails: the reports of failed notebooks are lost with the machine"
    )
    mend = "upload-failure-reports: 'true'" if own else "if: failure()   # on a step with actions/upload-artifact"
    yield (own[0].lines.get("uses", own[0].line) if own else builds[0][1].line), "no-artifacts", why, mend


def _compile_cache(job: Job) -> Iterator[_Row]:
    first = next((step for step in job.steps if _JAX.search(step.script)), None)
    if first is None or any(GATE_ACTION in step.uses for step in job.steps):
        return
    folder = _cache_folder(job)
    name = folder.rstrip("/'\"").rpartition("/")[2]
    if any(name and name in step.inputs.get("path", "") for step in job.steps if "/cache" in step.uses):
        return
    why = f"job {job.name!r} uses JAX and keeps no compile cache, so it compiles everything again in each run"
    place = "${{ github.workspace }}/.jax-cache"
    mend = f"{_CACHE_VARIABLE}: {place}   # in env; and actions/cache with path .jax-cache"
    if folder:
        why = f"job {job.name!r} sets {_CACHE_VARIABLE}, and no cache step keeps that folder"
        mend = f"path: {folder}   # of a step with actions/cache"
    yield first.lines.get("run", first.line), "no-compile-cache", why, mend


def _cache_folder(job: Job) -> str:
    """Return the folder of the compile cache that a job sets, or an empty string."""
    for env in (job.env, *(step.env for step in job.steps)):
        if _CACHE_VARIABLE in env:
            return env[_CACHE_VARIABLE]
    found = (re.search(rf"{_CACHE_VARIABLE}=(\S+)", step.script) for step in job.steps)
    return next((match[1] for match in found if match is not None), "")


def _far_timeouts(job: Job, times: RepositoryTimes) -> Iterator[_Row]:
    """Yield limits that do not agree with those of the book, or with what was recorded."""
    if job.timeout_minutes is not None and (why := _why_far(job, job.timeout_minutes, times)):
        yield job.timeout_line, "far-timeout", why, f"timeout-minutes: {_proposed_minutes(times)}"
    for step in job.steps:
        yield from _other_cell_limits(step, times)


def _why_far(job: Job, minutes: float, times: RepositoryTimes) -> str:
    seconds, whole, cell = minutes * 60, times.whole_seconds, times.cell_seconds
    if whole is not None and seconds < _LEAST_FACTOR * whole:
        return (
            f"job {job.name!r} is stopped after {format_duration(seconds)}, and the recorded times of the lectures "
            f"add up to {format_duration(whole)}"
        )
    if whole is not None and minutes > _PLENTY_MINUTES and seconds > _MOST_FACTOR * whole:
        return (
            f"job {job.name!r} may hang for {format_duration(seconds)}, and the recorded times of the lectures add "
            f"up to {format_duration(whole)}"
        )
    if whole is None and cell is not None and seconds <= cell:
        return (
            f"job {job.name!r} is stopped after {format_duration(seconds)}, before a cell that hangs reaches its "
            f"own limit of {format_duration(cell)} ({times.cell_origin}), so nothing says which cell it was"
        )
    return ""


def _other_cell_limits(step: Step, times: RepositoryTimes) -> Iterator[_Row]:
    cell = times.cell_seconds
    for offset, row in enumerate(step.script.split("\n")):
        found = _CELL_LIMIT.search(row)
        if found is None or cell is None:
            continue
        seconds = float(found["seconds"])
        if max(seconds, cell) > _CELL_FACTOR * max(1.0, min(seconds, cell)):
            why = f"a cell may take {format_duration(seconds)} here, and {format_duration(cell)} by {times.cell_origin}"
            yield step.script_line + offset, "far-timeout", why, f"nb_execution_timeout={cell:.0f}"


def _spot(job: Job) -> Iterator[_Row]:
    if re.search(r"spot\s*=\s*(?:false|never|on-demand)", job.runner):
        return
    label = re.sub(r"spot=[^/\s]*", "spot=false", job.runner)
    why = (
        f"job {job.name!r} publishes, and RunsOn takes a spot machine unless told otherwise, which can be taken back "
        "during the job"
    )
    yield job.runner_line, "spot", why, f"runs-on: {label if 'spot=' in label else f'{label}/spot=false'}"


def _publishes(workflow: Workflow, job: Job) -> bool:
    if "pull_request" in workflow.triggers:
        return False
    acts = job.writes_pages or any(_PUBLISHING.search(f"{step.uses} {step.script}") for step in job.steps)
    return acts or workflow.pushes_tags
