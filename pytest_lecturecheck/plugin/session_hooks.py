"""The session: one object that holds settings, budgets and results, and the hooks that need them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_lecturecheck.config.environment import EnvironmentContext
from pytest_lecturecheck.config.options import Mode, SessionSettings
from pytest_lecturecheck.errors import LectureCheckError
from pytest_lecturecheck.kernel.launchers.port import Launcher
from pytest_lecturecheck.lease.admission import Capacity
from pytest_lecturecheck.lease.broker import LeaseBroker, is_covered, machine_capacity, read_capacity
from pytest_lecturecheck.model.platform import Machine
from pytest_lecturecheck.model.settings import ItemLimit
from pytest_lecturecheck.plugin import xdist as scheduling
from pytest_lecturecheck.plugin.nodes import LectureItem, entry_key
from pytest_lecturecheck.plugin.progress_line import LiveLine, LogLines, encoding_of, open_live, state_of
from pytest_lecturecheck.probe.gpu.accelerators import Accelerators
from pytest_lecturecheck.probe.machine import detect_machine
from pytest_lecturecheck.report import junit_properties as junit
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.terminal import progress as terminal
from pytest_lecturecheck.report.terminal.declared import declared_text, render_declared
from pytest_lecturecheck.session.cohort_runner import CohortRunner
from pytest_lecturecheck.session.collection import LectureCollection
from pytest_lecturecheck.session.failure_memory import FailureMemory, is_ci
from pytest_lecturecheck.session.github_actions import GitHub, guard_for, guard_longrepr
from pytest_lecturecheck.session.journal_writer import (
    JournalWriter,
    find_worker,
    lost_run,
    tell_interrupted,
    tell_worker,
    try_folder,
)
from pytest_lecturecheck.session.lecture_runner import RuntimeContext
from pytest_lecturecheck.session.pytest_arguments import Arguments, read_arguments
from pytest_lecturecheck.session.results import Results
from pytest_lecturecheck.store.own_folder import NAME as OWN_FOLDER
from pytest_lecturecheck.verdict import Policy

if TYPE_CHECKING:
    from pytest_lecturecheck.kernel.run.ports import RunProgress
    from pytest_lecturecheck.model.lecture import Lecture

_DEFAULT_WIDTH: Final = 100
_HEARTBEAT_SECONDS: Final = 60.0
_REPORT_KEY: Final = "lecturecheck"
"""Attribute of the test report that carries the entries to the controller."""
_STATE_KEY: Final = "lecturecheck_state"
"""The same for the state in which a lecture failed."""


class LectureCheckSession:
    """
    The state of one session, on the controller or on a worker.

    Args:
        config: pytest's configuration.
        settings: the session's settings.
        results: budgets and entries.
        memory: how lectures failed before.
        accelerators: the GPUs that kernels may use.
        launcher: what starts kernels.
    """

    def __init__(
        self,
        config: pytest.Config,
        settings: SessionSettings,
        results: Results,
        memory: FailureMemory,
        accelerators: Accelerators,
        launcher: Launcher,
    ) -> None:
        """Prepare; no kernel is started and no lecture is read."""
        self.config = config
        self.settings = settings
        self.results = results
        self.memory = memory
        mark, worker = scheduling.worker_identity(config)
        self.chronicle = JournalWriter(config.rootpath, session=mark, worker=worker)
        self._github = GitHub(os.environ, config.rootpath, is_on=settings.github)
        self._guard = guard_for(os.environ)
        self._told: list[str] = []
        self._crashes: list[str] = []
        self._said: set[str] = set()
        self._running: dict[str, terminal.ShownProgress] = {}
        self.platform = results.platform
        self.machine: Machine = detect_machine(
            accelerators=accelerators.names, driver=accelerators.driver, cuda=accelerators.cuda
        )
        if accelerators.is_fault:
            self._told.append(
                f"the GPU cannot be used here: {accelerators.reason}; lectures run as on a machine without one"
            )
        self.leases = LeaseBroker(
            machine_capacity(self.machine, accelerators.devices, settings.capacity_bytes),
            worker_count=scheduling.kernel_count(config),
            is_on=settings.takes_leases and not is_covered(os.environ),
            is_strict=settings.strict,
            takes_all=settings.mode is Mode.RECORD and not launcher.admits,
            has_queue=launcher.admits,
        )
        self._orders = scheduling.orders_from_controller(config)
        self.arguments = self._read_arguments()
        self.collection = LectureCollection(config.rootpath, settings, self.arguments, config.invocation_params.dir)
        self._send = scheduling.progress_sender(config)
        self._live: LiveLine | LogLines | None = None
        self._waiting: dict[str, list[Entry]] = {}
        self.runner = CohortRunner(
            rootdir=config.rootpath,
            invocation_dir=config.invocation_params.dir,
            settings=settings,
            results=results,
            memory=memory,
            collection=self.collection,
        )
        place = EnvironmentContext(
            kernel_count=scheduling.kernel_count(config),
            device_bytes=accelerators.smallest_bytes,
            cache_folder=str(config.rootpath / OWN_FOLDER / "jax-cache"),
        )
        self.runner.attach(
            RuntimeContext(
                machine=self.machine,
                devices=accelerators.devices,
                place=place,
                leases=self.leases,
                launcher=launcher,
            ),
            chronicle=self.chronicle,
            on_progress=self._note_progress,
            on_wait=self._show_progress,
        )

    # -- arguments and orders -----------------------------------------------------------------------------------------

    def _read_arguments(self) -> Arguments:
        if scheduling.is_worker(self.config):
            # pytest-xdist hands its workers the command line itself, not what the controller has made of it.
            arguments = read_arguments(self._orders.get("args", []), Path(self._orders.get("invocation_dir", ".")))
        else:
            arguments = read_arguments(self.config.args, self.config.invocation_params.dir)
            self._orders = self._new_orders()
        if arguments.odd:
            self.config.args[:] = arguments.args
        return arguments

    @property
    def planned_capacity(self) -> Capacity | None:
        """Give what a worker plans the order of its lectures by; ``None`` on a controller, or without leases."""
        capacity = self._orders.get("capacity")
        return read_capacity(capacity) if scheduling.is_worker(self.config) and capacity is not None else None

    def orders(self) -> dict[str, Any]:
        """Give what workers must know: the arguments as the user wrote them, and how failure text should look."""
        return dict(self._orders)

    def _new_orders(self) -> dict[str, Any]:
        has_terminal = self.config.pluginmanager.hasplugin("terminalreporter")
        writer = self.config.get_terminal_writer() if has_terminal else None
        # JUnit takes the failure text as it is; escape sequences would be noise there.
        has_junit = bool(getattr(self.config.option, "xmlpath", None))
        return {
            "args": list(self.config.args),
            "invocation_dir": str(self.config.invocation_params.dir),
            "width": writer.fullwidth if writer is not None else _DEFAULT_WIDTH,
            "colour": writer is not None and writer.hasmarkup and not has_junit,
            "remembers": self.memory.is_on,
            # Every worker has to come to the same order, on whatever machine it runs.
            "capacity": asdict(self.leases.capacity)
            if self.leases.gives_room and self.settings.mode is Mode.CHECK
            else None,
        }

    # -- running one item ---------------------------------------------------------------------------------------------

    @staticmethod
    def worst(entries: Sequence[Entry]) -> Entry:
        """Choose the entry that speaks for an item: a failing one first, else the last."""
        return next((entry for entry in entries if entry.verdict.failed), entries[-1])

    @staticmethod
    def properties(entry: Entry) -> list[tuple[str, str]]:
        """Give an entry's figures as JUnit properties."""
        return junit.properties(entry)

    def failure_text(self, entry: Entry, lecture: Lecture | None) -> str:
        """Render what pytest shows for a failed item."""
        number = entry.focus.number if lecture is not None and entry.focus is not None else None
        cell = next((cell for cell in lecture.cells if cell.number == number), None) if lecture is not None else None
        from pytest_lecturecheck.report.terminal.failure import render_failure  # noqa: PLC0415 - only where something failed

        return render_failure(
            entry,
            source_lines=cell.source.rstrip("\n").split("\n") if cell is not None and cell.source else (),
            loaded_from=(cell.source_path or "") if cell is not None else "",
            colour=bool(self._orders.get("colour")),
            width=int(self._orders.get("width", _DEFAULT_WIDTH)),
            verbosity=self.config.get_verbosity(),
        )

    @pytest.hookimpl(tryfirst=True, optionalhook=True)
    def pytest_timeout_set_timer(self, item: pytest.Item, settings: Any) -> bool | None:
        """
        Take over the limit that pytest-timeout has for an item.

        Its own timers know nothing of kernels: one leaves the kernel running, the other ends the whole process.
        """
        if not isinstance(item, LectureItem):
            return None
        item.limit = ItemLimit(seconds=settings.timeout, origin="pytest-timeout")
        return True

    @staticmethod
    @pytest.hookimpl(tryfirst=True, optionalhook=True)
    def pytest_timeout_cancel_timer(item: pytest.Item) -> bool | None:
        """Keep pytest-timeout from cancelling a timer that it has not set."""
        return True if isinstance(item, LectureItem) else None

    # -- progress -----------------------------------------------------------------------------------------------------

    def _note_progress(self, progress: RunProgress) -> None:
        self.chronicle.note(progress)
        state = state_of(progress)
        self._running = {state.name: state}
        if self._send is not None:
            self._send(json.dumps(asdict(state)))
        elif self._live is not None:
            self._live.note(state)

    def _show_progress(self) -> None:
        self.chronicle.sync()
        if self._live is not None:
            self._live.show()

    def note_worker_progress(self, text: object) -> None:
        """Take a worker's progress; called on a thread of execnet."""
        if isinstance(text, str):
            state = terminal.ShownProgress(**json.loads(text))
            self._running[state.name] = state
        if self._live is not None:
            self._live.note_text(text)

    def note_worker_crash(self, mark: str, worker: str) -> None:
        """Take the last words of a worker that went down."""
        found = find_worker(self.config.rootpath, session=mark, worker=worker)
        if found is None:
            return
        self._crashes.append(tell_worker(found))
        if found.lecture:
            run = lost_run(found, platform=self.platform, machine=self.machine)
            self.results.take([Entry(run=run, verdict=self.results.judge(run, Policy()))])

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Find out whether there is a terminal for a live line, and what sessions before left untold."""
        if scheduling.is_worker(self.config):
            return
        interval = self.settings.heartbeat_seconds
        if interval is None:
            interval = _HEARTBEAT_SECONDS if is_ci(os.environ) else 0.0
        self._live = open_live(self.config, interval_seconds=interval, guarded=self._guard)
        if not self.config.getoption("collectonly"):
            fault = try_folder(self.config.rootpath)
            self._told += tell_interrupted(self.config.rootpath) + ([fault] if fault else [])

    # -- results ------------------------------------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
        """
        Hand the item's entries on; from a worker as one text on the report, which is what survives every transport.

        Without workers the entries wait here: packing and unpacking the figures of some hundred cells takes a second.
        """
        report: Any = yield
        if not isinstance(item, LectureItem):
            return report  # type: ignore[no-any-return]
        if call.when == "setup" and call.excinfo is not None and call.excinfo.errisinstance(LectureCheckError):
            # pytest asks an item for its failure text only when the test itself failed.
            report.longrepr = item.repr_failure(call.excinfo)
        report.longrepr = guard_longrepr(report.longrepr, self._guard)
        if call.when == "call" or (call.when == "setup" and not report.passed):
            # The session keeps its items; what they have found out goes its own way.
            entries = item.stash.get(entry_key, [])
            item.stash[entry_key] = []
            if entries:
                if scheduling.is_worker(self.config):
                    setattr(report, _REPORT_KEY, self.results.dump(entries))
                else:
                    self._waiting[report.nodeid] = entries
                setattr(report, _STATE_KEY, self.runner.take_state_key(item.lecture_name))
        return report  # type: ignore[no-any-return]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect entries on the controller."""
        if scheduling.is_worker(self.config):
            return
        text = getattr(report, _REPORT_KEY, None)
        entries = self._waiting.pop(report.nodeid, [])
        if isinstance(text, str):
            entries = self.results.unpack(text)
            # pytest keeps the reports of a session.
            delattr(report, _REPORT_KEY)
        if not entries:
            return
        for entry in entries:
            self._running.pop(entry.run.title, None)
        self.results.take(entries)
        self.memory.note(entries, str(getattr(report, _STATE_KEY, "")))
        for entry in entries:
            self.config.hook.pytest_lecturecheck_verdict(config=self.config, run=entry.run, verdict=entry.verdict)
            if self._live is not None:
                self._live.end(entry)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logfinish(self) -> None:
        """Take the live line away before pytest writes on."""
        if self._live is not None:
            self._live.clear()

    def pytest_keyboard_interrupt(self) -> None:
        """Remember for the summary which lectures were running: they have no entry."""
        self._told += [terminal.render_stop(state) for state in self._running.values()]

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Stop the kernels' loop; on the controller, write budgets and reports."""
        self.runner.close()
        self.chronicle.close()
        # A session that only collects has no results, and must not write over those of an earlier one.
        if not scheduling.is_worker(self.config) and not self.config.getoption("collectonly"):
            is_whole = self.results.finish(self.machine)
            fault = self._github.write_summary(self.results.entries, platform=self.platform, machine=self.machine)
            self._told += [fault] if fault else []
            if not is_whole and session.exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_unconfigure(self) -> None:
        """Stop the kernels' loop where the session never finished."""
        self.runner.close()
        self.chronicle.close()

    # -- terminal -----------------------------------------------------------------------------------------------------

    def pytest_report_header(self) -> list[str]:
        """Say which budgets hold and on what machine."""
        budget_file = self.results.budget_file
        shown = os.path.relpath(budget_file, self.config.rootpath)
        exists = self.settings.mode is Mode.RECORD or budget_file.is_file()
        layers = self.settings.for_all_lectures
        lines = terminal.render_header(
            self.platform,
            self.machine,
            self.settings.mode.value,
            shown if exists else None,
            declared_text(layers.declared_memory_bytes, layers.declared_time_seconds),
        )
        if layers.env_profile is not None:
            lines.append(f"environment profile of kernels: {layers.env_profile}")
        lines += [*self._budgets_above(), *self._declared_lines(), *self._tell()]
        return [self._guard(line) for line in lines]

    def _budgets_above(self) -> Iterator[str]:
        """Say where budgets are when rootdir, which depends on where pytest is called, has none."""
        folder = self.results.budget_file.parent
        if folder.is_dir():
            return
        for parent in self.config.rootpath.parents:
            if (parent / folder.name).is_dir():
                shown = os.path.relpath(parent / folder.name, self.config.rootpath)
                yield f"no budgets under this rootdir, but there are some in {shown}: call pytest from there"
                return

    def _tell(self) -> list[str]:
        """Give what is to be said beside the results, each line once: in the header, or in the summary."""
        lines = [line for line in (*self._told, *self._crashes, *self.memory.warnings) if line not in self._said]
        self._said.update(lines)
        return lines

    def _declared_lines(self) -> Iterator[str]:
        layers = self.settings.for_all_lectures
        declared = layers.declared_memory_bytes
        if declared is not None:
            yield from render_declared(declared, self.machine)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Show the summary table, what was recorded, and where the reports are."""
        writer = self.config.get_terminal_writer()
        lines = self.results.summary_lines(
            width=writer.fullwidth,
            colour=writer.hasmarkup,
            verbosity=self.config.get_verbosity(),
            encoding=encoding_of(writer),
        )
        told = self._tell()
        if not scheduling.has_workers(self.config):
            told += [f"--lecture-exclude {text!r} left out nothing" for text in self.collection.unused_patterns()]
            told += [*self.collection.left_out_forms(), *self.collection.missing_pages()]
        told += self.results.unmatched_budgets() if self.results.entries else []
        lines = [*told, *([""] if told and lines else []), *lines]
        if lines:
            # Unlike section(), this ends the line of progress first, so that no blank line follows the heading.
            terminalreporter.write_sep("=", "lectures")
            for line in lines:
                terminalreporter.write_line(self._guard(line))
        for line in self._github.annotations(self.results.entries):
            terminalreporter.write_line(line)
