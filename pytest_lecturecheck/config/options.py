"""
The settings of a session: options of all sources, checked and combined.

Precedence: ``--lecture-override`` > a lecture's own metadata > command line > settings file > book configuration >
default. Values for the whole session are fields of :class:`SessionSettings`; those of a lecture are layers of
:class:`~pytest_lecturecheck.model.settings.RunSettings`, which :meth:`SessionSettings.for_lecture` stacks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_lecturecheck.budget.limits import Tolerance
from pytest_lecturecheck.config.declared_limits import with_declared_limits
from pytest_lecturecheck.config.environment import EnvironmentRules, JaxMemory
from pytest_lecturecheck.config.option_reading import (
    LECTURE_OPTIONS,
    command_line_texts,
    default_values,
    fields_of,
    read_command_line,
    read_settings_file,
    run_layer,
)
from pytest_lecturecheck.config.slurm_settings import SlurmSettings
from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.errors import SettingsError, expected_instead
from pytest_lecturecheck.model.cell_choice import CellChoice
from pytest_lecturecheck.model.cohort import CohortSpec
from pytest_lecturecheck.model.kernel_start import KernelStart
from pytest_lecturecheck.model.profile import ProfileKind, TraceRequest
from pytest_lecturecheck.model.program import ProgramSpec
from pytest_lecturecheck.model.repetition import RepeatRequest
from pytest_lecturecheck.model.settings import GpuNeed, RunSettings
from pytest_lecturecheck.model.variant import Variant

if TYPE_CHECKING:
    from pytest_lecturecheck.model.fleet import ReaderTarget

_DEFAULTS: Final = default_values()
_RECORD_RUNS: Final = 3
TARGET_FLAG: Final = "--lecture-target"
DEFAULTS: Final = RunSettings(**fields_of("run", _DEFAULTS), concurrency=())
"""The lowest layer of a lecture's settings."""


class Mode(StrEnum):
    """What the session does with lectures."""

    OFF = "off"
    CHECK = "check"
    RECORD = "record"


@dataclass(frozen=True, slots=True, kw_only=True)
class BookCacheRequest:
    """The wish to fill the book's cache: in ``folder``, or with ``None`` where the book keeps it."""

    folder: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """
    All settings of a session, checked.

    Attributes:
        mode: check or record.
        run_count: runs of each lecture.
        strict: conditions that otherwise only show in the summary fail a lecture.
        platform: the label the user chose, or ``None`` for the detected one.
        budget_folder: folder of the budget files.
        reports: files to write.
        history: file to which each session appends its lectures, or ``None``.
        suffixes: further file endings that are lectures.
        exclude: glob patterns of lectures to leave out, relative to rootdir.
        tolerance: the rule for new limits where the settings state one; ``None`` keeps the one of a budget file.
        override: the layer of ``--lecture-override``.
        command_line: the layer of the command line.
        file: the layer of the settings file.
        file_name: name of the settings file, or an empty string.
        remember_failures: whether failures are remembered; ``None`` lets the session decide.
        changed: the commit from which a lecture has to differ to be run, or ``None``.
        rerun_failed: run lectures again whose failure is remembered.
        environment: variables for kernels.
        jax_memory: how the profile ``jax-ci`` lets JAX take memory of a GPU.
        trace: cells to trace, or ``None``.
        repeats: cells that are run again after the last one, or ``None``.
        launcher: name of what starts kernels.
        kernel_start: how their processes are started here.
        slurm: what Slurm is asked for.
        keep_runs: number of sessions to keep.
        cloud_notices: whether a cloud's notice of interruption is watched for.
        github: whether GitHub Actions gets a job summary and annotations.
        heartbeat_seconds: interval of progress lines where there is no terminal; 0 for never, ``None`` lets the
            session decide.
        takes_leases: whether lectures wait for each other.
        capacity_bytes: memory that all lectures together may take, or ``None`` for what the machine can give.
        cohorts: named sets of lectures that run at the same time.
        programs: programs that are not notebooks, in their order.
        variants: the tables ``[variant.NAME]``.
        shard: the part of the lectures to run and the number of parts, or ``None`` for all.
        has_fresh_compile_cache: whether the first of several runs begins with an empty compile cache; ``None`` for
            variants only.
        book_cache: whether, and where, the book's cache is filled; ``None`` for not at all.
        measures_cached: also run lectures that the book's cache has.
        replay_capture: the cell before which state is saved, or ``None``.
        replay_limit_bytes: most bytes of such a state.
        until: the last cell of each lecture that runs, or ``None`` for all.
    """

    mode: Mode
    run_count: int
    budget_folder: Path
    reports: tuple[Path, ...]
    tolerance: Tolerance | None
    command_line: RunSettings
    file: RunSettings
    strict: bool
    suffixes: frozenset[str]
    exclude: tuple[str, ...]
    rerun_failed: bool
    launcher: str
    keep_runs: int
    cloud_notices: bool
    github: bool
    takes_leases: bool
    history: Path | None = None
    platform: str | None = None
    changed: str | None = None
    jax_memory: JaxMemory = JaxMemory.SHARE
    kernel_start: KernelStart = KernelStart.AUTO
    override: RunSettings = field(default_factory=RunSettings)
    file_name: str = ""
    remember_failures: bool | None = None
    environment: EnvironmentRules = field(default_factory=EnvironmentRules)
    trace: TraceRequest | None = None
    repeats: RepeatRequest | None = None
    slurm: SlurmSettings = field(default_factory=SlurmSettings)
    heartbeat_seconds: float | None = None
    capacity_bytes: int | None = None
    cohorts: tuple[CohortSpec, ...] = ()
    programs: tuple[ProgramSpec, ...] = ()
    variants: tuple[Variant, ...] = ()
    shard: tuple[int, int] | None = None
    has_fresh_compile_cache: bool | None = None
    book_cache: BookCacheRequest | None = None
    measures_cached: bool = False
    replay_capture: CellChoice | None = None
    replay_limit_bytes: int = 4 * 10**9
    until: CellChoice | None = None

    @property
    def for_all_lectures(self) -> RunSettings:
        """Return what override, command line and settings file state together."""
        return self.override.over(self.command_line).over(self.file)

    def stated_for(self, own: RunSettings) -> RunSettings:
        """Return what this session and a lecture's own metadata state, without book configuration and defaults."""
        return self.override.over(own).over(self.command_line).over(self.file)

    def for_lecture(self, own: RunSettings, book: RunSettings | None = None) -> RunSettings:
        """
        Return the settings of one lecture.

        Args:
            own: the layer of the lecture's own metadata.
            book: the layer of the book that the lecture belongs to, or ``None``.
        """
        stated = self.stated_for(own)
        return with_declared_limits((stated if book is None else stated.over(book)).over(DEFAULTS))


def resolve(
    given: Mapping[str, Any], rootdir: Path, invocation_dir: Path, *, texts: Mapping[str, str] | None = None
) -> SessionSettings:
    """
    Combine the command line with the settings file and the defaults.

    Args:
        given: checked values of the command line.
        texts: those of a lecture's settings as they were written; see ``command_line_texts``.
        rootdir: pytest's rootdir; the settings file's relative paths start there.
        invocation_dir: where pytest was called; the command line's report paths start there.

    Raises:
        SettingsError: the settings file cannot be used, or both modes are asked for.
    """
    file_name, in_file = read_settings_file(rootdir)
    if given.get("budget") and given.get("record"):
        msg = "--lecture-budget and --lecture-record cannot be given together: check, or record"
        raise SettingsError(msg)
    mode = Mode.RECORD if given.get("record") else Mode.CHECK if given.get("budget") else Mode.OFF
    values = {**_DEFAULTS, **in_file, **given}
    environment = EnvironmentRules(base=values.get("env", {}), profiles=values.get("env-profiles", {}))
    override = run_layer(dict(values["override"]), lambda option: f"--lecture-override {option.name}")
    if "target" in given:
        override = override.over(_target_layer(given["target"], values.get("targets")))
    for variant in values.get("variant", ()):
        _check_profile(variant.settings.env_profile, environment, f"{file_name} [variant.{variant.name}] env-profile")
    for profile, where in (
        (values.get("env-profile"), "--lecture-env-profile" if "env-profile" in given else f"{file_name} env-profile"),
        (override.env_profile, "--lecture-override env-profile"),
    ):
        _check_profile(profile, environment, where)
    reports = [rootdir / name for name in in_file.get("report", ()) if "report" not in given]
    reports += [invocation_dir / name for name in given.get("report", ())]
    tolerance = fields_of("tolerance", values)
    session = fields_of("session", values)
    session["suffixes"] = frozenset(session["suffixes"])
    variant_names = {variant.name for variant in values.get("variant", ())}
    _check_cohorts(session.get("cohorts", ()), variant_names, rootdir, file_name)
    if mode is Mode.RECORD and (flag := next((name for name in ("replay-capture", "until") if name in given), "")):
        msg = f"--lecture-{flag} and --lecture-record cannot be given together: such a run cannot be a budget"
        raise SettingsError(msg)
    return SessionSettings(
        **session,
        mode=mode,
        run_count=values.get("runs", _RECORD_RUNS if mode is Mode.RECORD else 1),
        budget_folder=rootdir / values["budget-dir"],
        reports=tuple(reports),
        history=_history(given, in_file, rootdir, invocation_dir),
        tolerance=Tolerance(**tolerance) if tolerance else None,
        override=override,
        command_line=replace(run_layer(given, lambda option: option.flag), texts=texts or {}),
        file=run_layer(in_file, lambda option: f"{file_name} {option.name}"),
        file_name=file_name,
        environment=environment,
        trace=_trace_request(mode, given, in_file, file_name),
        book_cache=_cache_request(given, in_file, rootdir, invocation_dir),
    )


def _history(given: Mapping[str, Any], in_file: Mapping[str, Any], rootdir: Path, invocation_dir: Path) -> Path | None:
    if "history" in given:
        return invocation_dir / str(given["history"])
    return rootdir / str(in_file["history"]) if "history" in in_file else None


def _target_layer(name: str, stated: Sequence[ReaderTarget] | None) -> RunSettings:
    """Return the layer that gives lectures no more than a reader has."""
    from pytest_lecturecheck.model.fleet import BUILT_IN_TARGETS  # noqa: PLC0415 - rarely needed

    targets = {target.name: target for target in stated or BUILT_IN_TARGETS}
    if name not in targets:
        msg = f"{TARGET_FLAG} {name!r} is not known; {expected_instead(name, targets)}"
        raise SettingsError(msg)
    origin = f"{TARGET_FLAG} {name}"
    gpu = None if targets[name].has_gpu else GpuNeed.CPU
    origins = {"memory_cap_bytes": origin} | ({} if gpu is None else {"gpu": origin})
    return RunSettings(memory_cap_bytes=float(targets[name].memory_bytes), gpu=gpu, origins=origins)


def _cache_request(
    given: Mapping[str, Any], in_file: Mapping[str, Any], rootdir: Path, invocation_dir: Path
) -> BookCacheRequest | None:
    for values, base in ((given, invocation_dir), (in_file, rootdir)):
        if "cache" in values:
            return BookCacheRequest(folder=base / values["cache"] if values["cache"] else None)
    return None


def _check_cohorts(cohorts: tuple[CohortSpec, ...], variants: AbstractSet[str], rootdir: Path, file_name: str) -> None:
    """Refuse a cohort with the name of a variant, or with a lecture that does not exist, before anything starts."""
    for cohort in cohorts:
        if cohort.name in variants:
            name = cohort.name
            msg = f"{file_name}: [cohort.{name}] and [variant.{name}] would share a budget; give one another name"
            raise SettingsError(msg)
        for lecture in cohort.lectures:
            if not (rootdir / lecture).is_file():
                msg = f"{file_name}: [cohort.{cohort.name}]: there is no lecture {lecture!r} below rootdir {rootdir}"
                raise SettingsError(msg)


def _trace_request(
    mode: Mode, given: Mapping[str, Any], in_file: Mapping[str, Any], file_name: str
) -> TraceRequest | None:
    """Return the cells to trace; a run that is recorded has none, because tracing takes time and memory."""
    where, values = ("--lecture-profile", given) if "profile" in given else (f"{file_name} profile", in_file)
    request: TraceRequest | None = values.get("profile")
    if mode is not Mode.RECORD or request is None:
        return request
    if request.kind is ProfileKind.LEVELS:
        return request
    if values is in_file and request.is_for_over:
        # Nothing is over its limit while limits are recorded.
        return None
    msg = (
        f"{where} and --lecture-record cannot be given together: a traced run cannot be a budget; "
        "record without it, or trace with --lecture-budget"
    )
    raise SettingsError(msg)


def _check_profile(profile: str | None, environment: EnvironmentRules, where: str) -> None:
    if profile is None:
        return
    try:
        environment.check_profile(profile)
    except SettingsError as exc:
        msg = f"{where}: {exc}"
        raise SettingsError(msg) from exc


__all__ = [
    "DEFAULTS",
    "LECTURE_OPTIONS",
    "Mode",
    "SessionSettings",
    "command_line_texts",
    "read_command_line",
    "resolve",
]
