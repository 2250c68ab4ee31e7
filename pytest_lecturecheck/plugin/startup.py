"""The start of a session: settings are read and checked, and everything that a session needs is put together."""

from __future__ import annotations

import os

import pytest

from pytest_lecturecheck.config.option_table import OPTIONS
from pytest_lecturecheck.config.options import Mode, SessionSettings, read_command_line, resolve
from pytest_lecturecheck.errors import LectureCheckError, SettingsError
from pytest_lecturecheck.kernel.launchers.launcher_choice import merge_launchers, open_launcher
from pytest_lecturecheck.kernel.launchers.local_launcher import LOCAL
from pytest_lecturecheck.kernel.launchers.port import Launcher
from pytest_lecturecheck.plugin import hookspecs
from pytest_lecturecheck.plugin import xdist as scheduling
from pytest_lecturecheck.plugin.collection_hooks import CollectionHooks
from pytest_lecturecheck.plugin.nodes import SESSION_PLUGIN
from pytest_lecturecheck.plugin.rootdir import explain_moved_rootdir
from pytest_lecturecheck.plugin.session_hooks import LectureCheckSession
from pytest_lecturecheck.probe.gpu.accelerators import detect_accelerators
from pytest_lecturecheck.probe.machine import detect_platform
from pytest_lecturecheck.session.failure_memory import FailureMemory, is_ci
from pytest_lecturecheck.session.results import Results
from pytest_lecturecheck.store.own_folder import NAME as OWN_FOLDER
from pytest_lecturecheck.store.writable import explain_unwritable


def register(config: pytest.Config) -> None:
    """
    Register the session object.

    Raises:
        pytest.UsageError: settings or budget files cannot be used; nothing has been started.
    """
    if not scheduling.is_worker(config) and (fault := _moved_rootdir(config)):
        msg = f"lecturecheck: {fault}"
        raise pytest.UsageError(msg)
    try:
        given = read_command_line(config.getoption)
        settings = resolve(given, config.rootpath, config.invocation_params.dir)
        accelerators = detect_accelerators()
        results = Results(config.rootpath, settings, settings.platform or detect_platform(accelerators.model))
        if not scheduling.is_worker(config) and not config.getoption("collectonly"):
            _check_places(settings, results)
        memory = _open_memory(config, settings)
        config.pluginmanager.add_hookspecs(hookspecs)
        launcher = _open_launcher(config, settings)
    except LectureCheckError as exc:
        msg = f"lecturecheck: {exc}"
        raise pytest.UsageError(msg) from exc
    session = LectureCheckSession(config, settings, results, memory, accelerators, launcher)
    config.pluginmanager.register(session, SESSION_PLUGIN)
    hooks = CollectionHooks(session.collection, session.arguments, results, session.planned_capacity)
    config.pluginmanager.register(hooks, f"{SESSION_PLUGIN}_collection")
    if not scheduling.is_worker(config) and config.pluginmanager.hasplugin("xdist"):
        doors = scheduling.WorkerHooks(session.orders, session.note_worker_progress, session.note_worker_crash)
        config.pluginmanager.register(doors)


def _check_places(settings: SessionSettings, results: Results) -> None:
    """Refuse places that cannot be written before anything has run for hours in vain."""
    if settings.budget_folder.exists() and not settings.budget_folder.is_dir():
        msg = f"the budget folder {settings.budget_folder} is a file; expected a folder"
        raise SettingsError(msg)
    wanted = [("report", path) for path in settings.reports]
    if settings.mode is Mode.RECORD:
        wanted.append(("budget file", results.budget_file))
    for what, path in wanted:
        if reason := explain_unwritable(path):
            msg = f"{what} {reason}"
            raise SettingsError(msg)


def _open_launcher(config: pytest.Config, settings: SessionSettings) -> Launcher:
    if config.getoption("collectonly"):
        return LOCAL
    others = merge_launchers(config.hook.pytest_lecturecheck_launchers(config=config))
    folder = config.rootpath / OWN_FOLDER / "kernels"
    return open_launcher(settings.launcher, slurm=settings.slurm, folder=folder, others=others)


def _moved_rootdir(config: pytest.Config) -> str:
    return explain_moved_rootdir(
        [str(word) for word in config.invocation_params.args],
        flags=[option.flag for option in OPTIONS if option.on_command_line and option.metavar],
        tests=config.args,
        invocation_dir=config.invocation_params.dir,
        rootdir=config.rootpath,
    )


def _open_memory(config: pytest.Config, settings: SessionSettings) -> FailureMemory:
    is_worker = scheduling.is_worker(config)
    is_on = settings.remember_failures if settings.remember_failures is not None else is_ci(os.environ)
    if is_worker:
        is_on = bool(scheduling.orders_from_controller(config).get("remembers", is_on))
    memory = FailureMemory(
        rootdir=config.rootpath,
        is_on=is_on,
        recalls=settings.mode is Mode.CHECK and not settings.rerun_failed,
        writes=not is_worker,
    )
    memory.load()
    return memory
