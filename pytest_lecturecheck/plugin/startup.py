"""The start of a session: read and check the settings, then put together what the session needs."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_lecturecheck.config.environment import EnvironmentContext
from pytest_lecturecheck.config.options import Mode, SessionSettings, command_line_texts, read_command_line, resolve
from pytest_lecturecheck.errors import LectureCheckError
from pytest_lecturecheck.kernel.launchers.launcher_choice import merge_launchers, open_launcher
from pytest_lecturecheck.kernel.launchers.local_launcher import LOCAL
from pytest_lecturecheck.kernel.launchers.port import Launcher
from pytest_lecturecheck.lease.admission import Capacity
from pytest_lecturecheck.lease.broker import LeaseBroker, is_covered, machine_capacity
from pytest_lecturecheck.plugin import hookspecs
from pytest_lecturecheck.plugin.nodes import SESSION_PLUGIN
from pytest_lecturecheck.plugin.notices import Notices
from pytest_lecturecheck.plugin.roles import Role, choose_role
from pytest_lecturecheck.plugin.session_state import LectureCheckSession
from pytest_lecturecheck.plugin.timeout_bridge import TimeoutBridge
from pytest_lecturecheck.plugin.xdist import kernel_count, worker_identity
from pytest_lecturecheck.probe.gpu.accelerators import Accelerators, detect_accelerators
from pytest_lecturecheck.probe.machine import detect_machine, detect_platform
from pytest_lecturecheck.session.collection import LectureCollection
from pytest_lecturecheck.session.failure_memory import FailureMemory
from pytest_lecturecheck.session.github_actions import guard_for
from pytest_lecturecheck.session.journal_writer import JournalWriter
from pytest_lecturecheck.session.outer_project import explain_outer_project, find_outer_project
from pytest_lecturecheck.session.pytest_arguments import read_arguments
from pytest_lecturecheck.session.results import Results
from pytest_lecturecheck.session.runtime_context import RuntimeContext
from pytest_lecturecheck.store.own_folder import NAME as OWN_FOLDER


def register(config: pytest.Config) -> None:
    """
    Register the session's state and its hooks.

    Raises:
        pytest.UsageError: settings or budget files cannot be used; nothing has been started.
    """
    mark, worker = worker_identity(config)
    journal = JournalWriter(config.rootpath, session=mark, worker=worker)
    notices = Notices()
    role = choose_role(config, journal, notices, guard_for(os.environ))
    try:
        role.check_arguments()
        session = _build_session(config, role, journal, notices)
    except LectureCheckError as exc:
        msg = f"lecturecheck: {exc}"
        raise pytest.UsageError(msg) from exc
    config.pluginmanager.register(session, SESSION_PLUGIN)
    for hooks in (TimeoutBridge(), *role.hooks(session)):
        config.pluginmanager.register(hooks, f"{SESSION_PLUGIN}_{type(hooks).__name__}")


def _build_session(config: pytest.Config, role: Role, journal: JournalWriter, notices: Notices) -> LectureCheckSession:
    given = read_command_line(config.getoption)
    texts = command_line_texts(config.getoption)
    settings = resolve(given, config.rootpath, config.invocation_params.dir, texts=texts)
    outer = find_outer_project(config.rootpath, settings.budget_folder)
    if outer is not None:
        is_kept = settings.mode is Mode.RECORD or (config.rootpath / OWN_FOLDER).is_dir()
        notices.add(*explain_outer_project(config.rootpath, outer, is_kept=is_kept))
        if not is_kept:
            journal.switch_off()
            settings = replace(settings, keep_runs=0, remember_failures=False)
    accelerators = detect_accelerators()
    if accelerators.is_fault:
        notices.add(f"the GPU cannot be used here: {accelerators.reason}; lectures run as on a machine without one")
    if accelerators.devices:
        notices.add(*_card_notices(accelerators))
    machine = accelerators.added_to(
        detect_machine(accelerators=accelerators.names, driver=accelerators.driver, cuda=accelerators.cuda)
    )
    results = Results(config.rootpath, settings, settings.platform or detect_platform(accelerators.model))
    role.check_outputs(settings, results)
    config.pluginmanager.add_hookspecs(hookspecs)
    launcher = _open_launcher(config, settings)
    leases = _open_leases(
        config, settings, machine_capacity(machine, accelerators.devices, settings.capacity_bytes), launcher
    )
    configuration = role.configuration(settings, leases)
    arguments = read_arguments(configuration.args, Path(configuration.invocation_dir))
    if arguments.odd:
        config.args[:] = arguments.args
    context = RuntimeContext(
        rootdir=config.rootpath,
        invocation_dir=config.invocation_params.dir,
        settings=settings,
        results=results,
        memory=_open_memory(config, settings, is_on=configuration.remembers_failures, writes=role.writes_failures),
        collection=LectureCollection(config.rootpath, settings, arguments, config.invocation_params.dir),
        machine=machine,
        devices=accelerators.devices,
        environment_context=EnvironmentContext(
            kernel_count=kernel_count(config),
            device_bytes=accelerators.smallest_bytes,
            cache_folder=str(config.rootpath / OWN_FOLDER / "jax-cache"),
            jax_memory=settings.jax_memory,
        ),
        leases=leases,
        journal=journal,
        progress=role.progress,
        launcher=launcher,
    )
    return LectureCheckSession(context, configuration, arguments)


def _card_notices(accelerators: Accelerators) -> list[str]:
    """Return what the installed JAX needs of the cards, once for each model."""
    from pytest_lecturecheck.diagnosis.gpu.preflight import installed_cuda_builds, preflight_lines  # noqa: PLC0415 - only where there is a card

    models = {device.name: device for device in reversed(accelerators.devices)}
    return list(preflight_lines(tuple(reversed(models.values())), accelerators.driver, installed_cuda_builds()))


def _open_launcher(config: pytest.Config, settings: SessionSettings) -> Launcher:
    if config.getoption("collectonly"):
        return LOCAL
    others = merge_launchers(config.hook.pytest_lecturecheck_launchers(config=config))
    folder = config.rootpath / OWN_FOLDER / "kernels"
    return open_launcher(
        settings.launcher,
        slurm=settings.slurm,
        folder=folder,
        others=others,
        kernel_start=settings.kernel_start,
    )


def _open_leases(
    config: pytest.Config, settings: SessionSettings, capacity: Capacity, launcher: Launcher
) -> LeaseBroker:
    return LeaseBroker(
        capacity,
        worker_count=kernel_count(config),
        is_on=settings.takes_leases and not is_covered(os.environ),
        is_strict=settings.strict,
        takes_all=settings.mode is Mode.RECORD and not launcher.admits,
        has_queue=launcher.admits,
    )


def _open_memory(config: pytest.Config, settings: SessionSettings, *, is_on: bool, writes: bool) -> FailureMemory:
    memory = FailureMemory(
        rootdir=config.rootpath,
        is_on=is_on,
        recalls=settings.mode is Mode.CHECK and not settings.rerun_failed,
        writes=writes,
    )
    memory.load()
    return memory
