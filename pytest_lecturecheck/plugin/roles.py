"""
The two roles of a process: controller, or worker of pytest-xdist.

The role is chosen once, in :func:`choose_role`; no other module asks. A session without xdist is a controller that
runs its lectures itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from pytest_lecturecheck.config.option_table import OPTIONS
from pytest_lecturecheck.config.options import Mode, SessionSettings
from pytest_lecturecheck.errors import SettingsError
from pytest_lecturecheck.lease.broker import LeaseBroker
from pytest_lecturecheck.plugin.collection_hooks import CollectionHooks
from pytest_lecturecheck.plugin.crash_reports import CrashReports
from pytest_lecturecheck.plugin.empty_sessions import EmptySessions
from pytest_lecturecheck.plugin.progress_display import ProgressDisplay, ProgressSender
from pytest_lecturecheck.plugin.result_transport import ItemReports, LocalEntries, ReportedEntries, WorkerEntries
from pytest_lecturecheck.plugin.rootdir import explain_moved_rootdir
from pytest_lecturecheck.plugin.session_end import ControllerEnd, WorkerEnd
from pytest_lecturecheck.plugin.signal_hooks import SignalHooks
from pytest_lecturecheck.plugin.terminal_hooks import TerminalHooks
from pytest_lecturecheck.plugin.worker_configuration import DEFAULT_WIDTH, WorkerConfiguration
from pytest_lecturecheck.plugin.xdist import (
    WorkerManager,
    WorkerStop,
    configuration_from_controller,
    is_worker,
    progress_sender,
)
from pytest_lecturecheck.session.cache_filling import CacheFiller
from pytest_lecturecheck.session.cache_requirements import require_library
from pytest_lecturecheck.session.entry_saver import EntrySaver
from pytest_lecturecheck.session.failure_memory import is_ci
from pytest_lecturecheck.session.github_actions import GitHub
from pytest_lecturecheck.session.journal_writer import JournalWriter
from pytest_lecturecheck.session.results import Results
from pytest_lecturecheck.store.writable import explain_unwritable

if TYPE_CHECKING:
    from pytest_lecturecheck.plugin.notices import Notices
    from pytest_lecturecheck.plugin.session_state import LectureCheckSession
    from pytest_lecturecheck.session.runtime_context import ProgressListener


class Role(Protocol):
    """
    What differs between the controller and a worker.

    Attributes:
        writes_failures: whether this process writes the memory of failures.
        progress: receives the progress of runs.
    """

    writes_failures: bool

    @property
    def progress(self) -> ProgressListener:
        """Return what receives the progress of runs."""

    def check_arguments(self) -> None:
        """Refuse a command line that has moved rootdir."""

    def check_outputs(self, settings: SessionSettings, results: Results) -> None:
        """Refuse files that cannot be written, before anything has run for hours."""

    def configuration(self, settings: SessionSettings, leases: LeaseBroker) -> WorkerConfiguration:
        """Return what the controller has decided."""

    def hooks(self, session: LectureCheckSession) -> Sequence[object]:
        """Return the hook objects of this role."""


def choose_role(config: pytest.Config, journal: JournalWriter, notices: Notices, guard: Callable[[str], str]) -> Role:
    """
    Return the role of this process.

    Args:
        config: pytest's configuration.
        journal: what this process writes down.
        notices: what is to be said beside the results.
        guard: makes printed text harmless to the CI service that reads it.
    """
    if is_worker(config):
        return WorkerRole(config, journal, guard)
    return ControllerRole(config, journal, notices, guard)


def _check_commit(rootdir: Path, ref: str) -> None:
    """Refuse a commit that git does not know, before anything has run for hours."""
    from pytest_lecturecheck.repository.git import GitError, find_commit  # noqa: PLC0415 - only with --lecture-changed

    try:
        find_commit(rootdir, ref)
    except GitError as exc:
        msg = f"--lecture-changed: {exc}"
        raise SettingsError(msg) from exc


class WorkerRole:
    """A worker: it sends entries and progress, and writes nothing but its journal."""

    writes_failures = False

    def __init__(self, config: pytest.Config, journal: JournalWriter, guard: Callable[[str], str]) -> None:
        """Open the channel to the controller."""
        self._config = config
        self._guard = guard
        self.progress = ProgressSender(journal, progress_sender(config), Results.dump)

    def check_arguments(self) -> None:
        """Check nothing: the controller has done so."""

    def check_outputs(self, settings: SessionSettings, results: Results) -> None:
        """Check nothing: the controller has done so."""

    def configuration(self, settings: SessionSettings, leases: LeaseBroker) -> WorkerConfiguration:  # noqa: ARG002 - see Role
        """Return what the controller has sent."""
        return WorkerConfiguration.from_plain(configuration_from_controller(self._config))

    def hooks(self, session: LectureCheckSession) -> Sequence[object]:
        """Return the hooks that send entries and stop kernels."""
        sender = WorkerEntries(session.context.results.dump)
        signals = SignalHooks(session.context.journal, self.progress.send_notice, is_worker=True)
        return (
            CollectionHooks(session, session.configuration.capacity),
            ItemReports(session, sender, self._guard),
            signals,
            WorkerStop(self._config, signals.interrupt),
            WorkerEnd(session),
        )


class ControllerRole:
    """The controller: it shows progress and results, and writes budgets, reports and remembered failures."""

    writes_failures = True

    def __init__(
        self, config: pytest.Config, journal: JournalWriter, notices: Notices, guard: Callable[[str], str]
    ) -> None:
        """Show nothing yet."""
        self._config = config
        self._journal = journal
        self._notices = notices
        self._guard = guard
        self.progress = ProgressDisplay(config, journal, notices, guard)

    def check_arguments(self) -> None:
        """Refuse a command line that has moved rootdir, and with it the place of budgets."""
        fault = explain_moved_rootdir(
            [str(argument) for argument in self._config.invocation_params.args],
            flags=[option.flag for option in OPTIONS if option.on_command_line and option.metavar],
            tests=self._config.args,
            invocation_dir=self._config.invocation_params.dir,
            rootdir=self._config.rootpath,
        )
        if fault:
            raise SettingsError(fault)

    def check_outputs(self, settings: SessionSettings, results: Results) -> None:
        """Refuse an unknown commit, and files that cannot be written, before anything has run for hours."""
        if settings.changed is not None:
            _check_commit(self._config.rootpath, settings.changed)
        if self._config.getoption("collectonly"):
            return
        if settings.budget_folder.exists() and not settings.budget_folder.is_dir():
            msg = f"the budget folder {settings.budget_folder} is a file; expected a folder"
            raise SettingsError(msg)
        named = [Path(self._config.invocation_params.dir, text.split("::")[0]) for text in self._config.args]
        require_library(settings, named, self._config.rootpath)
        outputs = [("report", path) for path in settings.reports]
        if settings.history is not None:
            outputs.append(("history", settings.history))
        if settings.mode is Mode.RECORD:
            outputs.append(("budget file", results.budget_file))
        for what, path in outputs:
            if reason := explain_unwritable(path):
                msg = f"{what} {reason}"
                raise SettingsError(msg)

    def configuration(self, settings: SessionSettings, leases: LeaseBroker) -> WorkerConfiguration:
        """Decide what holds for this process and for its workers."""
        config, remembers = self._config, settings.remember_failures
        writer = config.get_terminal_writer() if config.pluginmanager.hasplugin("terminalreporter") else None
        # JUnit takes the failure text as it is; escape sequences would be noise there.
        has_junit = bool(getattr(config.option, "xmlpath", None))
        plans_order = leases.gives_room and settings.mode is Mode.CHECK
        return WorkerConfiguration(
            args=tuple(config.args),
            invocation_dir=str(config.invocation_params.dir),
            width=writer.fullwidth if writer is not None else DEFAULT_WIDTH,
            colour=writer is not None and writer.hasmarkup and not has_junit,
            remembers_failures=is_ci(os.environ) if remembers is None else remembers,
            capacity=leases.capacity if plans_order else None,
        )

    def hooks(self, session: LectureCheckSession) -> Sequence[object]:
        """Return the hooks that take entries, show them, and write what a session leaves."""
        config, context, local = self._config, session.context, LocalEntries()
        self.progress.results = context.results
        github = GitHub(os.environ, context.rootdir, is_on=context.settings.github)
        crashes = CrashReports(context, self._notices)
        filler = CacheFiller(context.rootdir)
        terminal = TerminalHooks(
            config,
            context,
            display=self.progress,
            notices=self._notices,
            github=github,
            guard=self._guard,
            filler=filler,
        )
        self.progress.saver = saver = EntrySaver(context.rootdir, context.settings, context.results.platform)
        collected = EmptySessions(config, session)
        hooks: list[object] = [
            collected,
            CollectionHooks(session, None),
            ItemReports(session, local, self._guard),
            ReportedEntries(config, session, local, display=self.progress, saver=saver, filler=filler),
            self.progress,
            SignalHooks(context.journal, self._notices.add),
            crashes,
            terminal,
            ControllerEnd(session, github, self._notices, saver=saver, filler=filler, collected=collected),
        ]
        if context.settings.cloud_notices:
            hooks += self._cloud_hooks()
        if config.pluginmanager.hasplugin("xdist"):
            configuration = session.configuration.to_plain()
            from_worker = self.progress.note_from_worker
            hooks.append(WorkerManager(configuration, from_worker, crashes.note_worker_crash, config))
        return hooks

    def _cloud_hooks(self) -> Sequence[object]:
        # Both load http.client, which few sessions need.
        from pytest_lecturecheck.plugin.cloud_hooks import CloudHooks  # noqa: PLC0415 - see above
        from pytest_lecturecheck.session.cloud_notices import detect_cloud  # noqa: PLC0415 - see above

        cloud = detect_cloud()
        return () if cloud is None else (CloudHooks(cloud, self._report_notice),)

    def _report_notice(self, text: str) -> None:
        self._journal.note_signal(text)
        self._notices.add(text)
        self.progress.announce(text)
