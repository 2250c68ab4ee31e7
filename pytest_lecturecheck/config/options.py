"""
What the options mean: values are read, checked and laid over each other.

Precedence: lecture's own metadata > command line > settings file > book configuration > default. Session-wide
settings end in :class:`SessionSettings`, those of a lecture in layers of
:class:`~pytest_lecturecheck.model.settings.RunSettings`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from pytest_lecturecheck.budget.limits import Tolerance
from pytest_lecturecheck.config.environment import EnvironmentRules
from pytest_lecturecheck.config.option_table import OPTIONS, Option
from pytest_lecturecheck.config.option_values import READERS
from pytest_lecturecheck.config.slurm_settings import SlurmSettings
from pytest_lecturecheck.errors import SettingsError, UnitError, expected_instead
from pytest_lecturecheck.model.cohort import CohortSpec
from pytest_lecturecheck.model.profile import TraceRequest
from pytest_lecturecheck.model.settings import RunSettings

SETTINGS_FILE: Final = "lecturecheck.toml"
_RECORD_RUNS: Final = 3


class Mode(StrEnum):
    """What the session does with lectures."""

    OFF = "off"
    CHECK = "check"
    RECORD = "record"


_BY_NAME: Final = {option.name: option for option in OPTIONS}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """
    Everything a session needs to know, checked.

    Attributes:
        mode: check or record.
        run_count: runs of each lecture.
        strict: what is soft otherwise fails.
        platform: the label the user chose, or ``None`` for the detected one.
        budget_folder: folder of the budget files.
        reports: files to write.
        suffixes: further file endings that are lectures.
        exclude: glob patterns of lectures to leave out, from rootdir.
        tolerance: the rule for new limits where the settings name one; ``None`` leaves a budget file its own.
        command_line: the layer of the command line.
        file: the layer of the settings file.
        file_name: name of the settings file, or an empty string.
        remember_failures: whether failures are remembered; ``None`` leaves it to where the session runs.
        rerun_failed: run lectures again whose failure is remembered.
        environment: variables for kernels.
        trace: cells to be traced, or ``None``.
        launcher: name of what starts kernels.
        slurm: what Slurm is asked for.
        keep_runs: sessions that are kept, or ``None`` for the usual number.
        github: whether GitHub Actions gets a job summary and annotations.
        heartbeat_seconds: how often a running lecture is told of where there is no terminal; 0 for never, ``None``
            leaves it to where the session runs.
        takes_leases: whether lectures wait for each other.
        capacity_bytes: memory that all lectures at once may take, or ``None`` for what the machine gives.
        cohorts: named sets of lectures that are run at once.
    """

    mode: Mode
    run_count: int
    strict: bool
    platform: str | None
    budget_folder: Path
    reports: tuple[Path, ...]
    suffixes: frozenset[str]
    exclude: tuple[str, ...]
    tolerance: Tolerance | None
    command_line: RunSettings
    file: RunSettings
    file_name: str = ""
    remember_failures: bool | None = None
    rerun_failed: bool = False
    environment: EnvironmentRules = field(default_factory=EnvironmentRules)
    trace: TraceRequest | None = None
    launcher: str = "local"
    slurm: SlurmSettings = field(default_factory=SlurmSettings)
    keep_runs: int | None = None
    github: bool = True
    heartbeat_seconds: float | None = None
    takes_leases: bool = True
    capacity_bytes: int | None = None
    cohorts: tuple[CohortSpec, ...] = ()


def read_settings_file(rootdir: Path) -> tuple[str, Mapping[str, Any]]:
    """
    Read ``lecturecheck.toml`` or ``[tool.lecturecheck]`` of ``pyproject.toml`` under ``rootdir``.

    Returns:
        The file's name (empty where there is none) and its checked values by option name.

    Raises:
        SettingsError: the file is not valid TOML, a key is unknown, or a value cannot be used.
    """
    own, project = rootdir / SETTINGS_FILE, rootdir / "pyproject.toml"
    if own.is_file():
        return own.name, _check_table(_load_toml(own), own.name)
    if project.is_file():
        table = _load_toml(project).get("tool", {}).get("lecturecheck")
        if table is not None:
            name = f"{project.name} [tool.lecturecheck]"
            if not isinstance(table, dict):
                msg = f"{name}: {table!r} is not a table"
                raise SettingsError(msg)
            return name, _check_table(table, name)
    return "", {}


def _load_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as exc:
        msg = f"{path.name}: cannot be read as TOML: {exc}"
        raise SettingsError(msg) from exc


def _check_table(table: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    checked = {}
    for key, value in table.items():
        option = _BY_NAME.get(key)
        if option is None or not option.in_file:
            known = (item.name for item in OPTIONS if item.in_file)
            msg = f"{name}: unknown key {key!r}; {expected_instead(key, known)}"
            raise SettingsError(msg)
        checked[key] = _check(option, value, f"{name}: {key}")
    return checked


def _check(option: Option, value: object, where: str) -> Any:
    if option.is_list:
        if not isinstance(value, list):
            msg = f"{where}: {value!r} is not a list"
            raise SettingsError(msg)
        return tuple(_check_one(option, item, where) for item in value)
    return _check_one(option, value, where)


def _check_one(option: Option, value: object, where: str) -> Any:
    try:
        return READERS[option.name](value)
    except (SettingsError, UnitError) as exc:
        msg = f"{where}: {exc}"
        raise SettingsError(msg) from exc


def read_command_line(get_option: Callable[[str], Any]) -> Mapping[str, Any]:
    """
    Check the values that pytest parsed.

    Args:
        get_option: gives the raw value of a destination, ``None`` where the flag was not given.

    Raises:
        SettingsError: a value cannot be used.
    """
    given = {}
    for option in OPTIONS:
        if not option.on_command_line:
            continue
        value = get_option(option.destination)
        if value is not None:
            given[option.name] = _check(option, value, option.flag)
    return given


def resolve(given: Mapping[str, Any], rootdir: Path, invocation_dir: Path) -> SessionSettings:
    """
    Lay the command line over the settings file.

    Args:
        given: checked values of the command line.
        rootdir: pytest's rootdir; the settings file's relative paths start there.
        invocation_dir: where pytest was called; the command line's report paths start there.

    Raises:
        SettingsError: the settings file cannot be used, or both modes are asked for.
    """
    file_name, in_file = read_settings_file(rootdir)
    if given.get("budget") and given.get("record"):
        msg = "--lecture-budget and --lecture-record exclude each other: check, or record"
        raise SettingsError(msg)
    mode = Mode.RECORD if given.get("record") else Mode.CHECK if given.get("budget") else Mode.OFF
    both = {**in_file, **given}
    folder = Path(both.get("budget-dir", "lecture-budgets"))
    environment = EnvironmentRules(base=both.get("env", {}), profiles=both.get("env-profiles", {}))
    _check_profile(both, environment, "--lecture-env-profile" if "env-profile" in given else f"{file_name} env-profile")
    reports = [rootdir / name for name in in_file.get("report", ()) if "report" not in given]
    reports += [invocation_dir / name for name in given.get("report", ())]
    return SessionSettings(
        mode=mode,
        run_count=both.get("runs", _RECORD_RUNS if mode is Mode.RECORD else 1),
        strict=both.get("strict", False),
        platform=both.get("platform"),
        budget_folder=rootdir / folder,
        reports=tuple(reports),
        suffixes=frozenset(both.get("suffix", ())),
        exclude=both.get("exclude", ()),
        tolerance=_tolerance(both),
        command_line=_run_layer(given, lambda option: option.flag),
        file=_run_layer(in_file, lambda option: f"{file_name} {option.name}"),
        file_name=file_name,
        remember_failures=both.get("remember-failures"),
        rerun_failed=both.get("rerun-failed", False),
        environment=environment,
        trace=_trace_request(mode, given, in_file, file_name),
        launcher=both.get("launcher", "local"),
        slurm=both.get("slurm", SlurmSettings()),
        keep_runs=both.get("keep-runs"),
        github=both.get("github", True),
        heartbeat_seconds=both.get("heartbeat"),
        takes_leases=not both.get("no-leases", False),
        capacity_bytes=both.get("capacity"),
        cohorts=_find_cohorts(both.get("cohort", ()), rootdir, file_name),
    )


def _find_cohorts(cohorts: tuple[CohortSpec, ...], rootdir: Path, file_name: str) -> tuple[CohortSpec, ...]:
    """Refuse a cohort with a lecture that is not there, before anything is started."""
    for cohort in cohorts:
        for lecture in cohort.lectures:
            if not (rootdir / lecture).is_file():
                msg = f"{file_name}: [cohort.{cohort.name}]: there is no lecture {lecture!r} below rootdir {rootdir}"
                raise SettingsError(msg)
    return cohorts


def _trace_request(
    mode: Mode, given: Mapping[str, Any], in_file: Mapping[str, Any], file_name: str
) -> TraceRequest | None:
    """Choose the cells to be traced; a run that is recorded has none: tracing takes time and memory."""
    where, values = ("--lecture-profile", given) if "profile" in given else (f"{file_name} profile", in_file)
    request: TraceRequest | None = values.get("profile")
    if mode is not Mode.RECORD or request is None:
        return request
    if values is in_file and request.is_for_over:
        # Nothing is over its limit while limits are recorded.
        return None
    msg = (
        f"{where} and --lecture-record exclude each other: the times and the memory of a traced run are no budget; "
        "record without it, or trace with --lecture-budget"
    )
    raise SettingsError(msg)


def _check_profile(values: Mapping[str, Any], environment: EnvironmentRules, where: str) -> None:
    if "env-profile" in values:
        try:
            environment.check_profile(values["env-profile"])
        except SettingsError as exc:
            msg = f"{where}: {exc}"
            raise SettingsError(msg) from exc


_RUN_ATTRIBUTES: Final = {
    "timeout": "timeout_seconds",
    "total-timeout": "total_timeout_seconds",
    "startup-timeout": "startup_timeout_seconds",
    "kernel": "kernel_name",
    "memory-cap": "memory_cap_bytes",
    "declared-memory": "declared_memory_bytes",
    "declared-time": "declared_time_seconds",
    "env-profile": "env_profile",
    "concurrency": "concurrency",
}


def _run_layer(values: Mapping[str, Any], describe: Callable[[Option], str]) -> RunSettings:
    found = {attribute: values[name] for name, attribute in _RUN_ATTRIBUTES.items() if name in values}
    origins = {attribute: describe(_BY_NAME[name]) for name, attribute in _RUN_ATTRIBUTES.items() if name in values}
    return RunSettings(**found, origins=origins)


def _tolerance(values: Mapping[str, Any]) -> Tolerance | None:
    names = {
        "memory-fraction": "memory_fraction",
        "memory-slack": "memory_slack_bytes",
        "time-factor": "time_factor",
        "time-slack": "time_slack_seconds",
    }
    given = {attribute: values[name] for name, attribute in names.items() if name in values}
    return Tolerance(**given) if given else None
