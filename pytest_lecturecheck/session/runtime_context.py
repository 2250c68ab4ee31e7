"""What the runners of one process work with: settings, budgets, the machine, and what receives progress."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pytest_lecturecheck.config.environment import EnvironmentContext, kernel_environment
from pytest_lecturecheck.config.options import SessionSettings
from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.kernel.launchers.local_launcher import LOCAL
from pytest_lecturecheck.kernel.launchers.port import Launcher
from pytest_lecturecheck.lease.broker import LeaseBroker
from pytest_lecturecheck.model.device import Device
from pytest_lecturecheck.model.platform import Machine
from pytest_lecturecheck.model.settings import RunSettings
from pytest_lecturecheck.session.collection import LectureCollection
from pytest_lecturecheck.session.failure_memory import FailureMemory
from pytest_lecturecheck.session.journal_writer import JournalWriter
from pytest_lecturecheck.session.results import Results

if TYPE_CHECKING:
    from pytest_lecturecheck.kernel.run.ports import RunProgress
    from pytest_lecturecheck.report.entry import Entry


class ProgressListener(Protocol):
    """Receives the progress of runs."""

    def note(self, progress: RunProgress) -> None:
        """Record the progress of a run; called on the kernels' thread."""

    def show(self) -> None:
        """Show the progress that was recorded; called about twice a second on the main thread."""

    def note_stopped(self, entries: Sequence[Entry]) -> None:
        """Keep the entries of an item that an interruption has stopped, for which there will be no test report."""

    def note_waiting(self, entries: Sequence[Entry]) -> None:
        """Save the entries of an item whose test report comes later, so that a killed session leaves them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeContext:
    """
    What the runners of one process work with.

    Attributes:
        rootdir: pytest's rootdir.
        invocation_dir: where pytest was called.
        settings: the session's settings.
        results: budgets and entries.
        memory: how lectures failed before.
        collection: the books that lectures belong to.
        machine: the machine.
        devices: the GPUs that kernels may use.
        environment_context: what environment profiles depend on.
        leases: decides when a lecture may start.
        journal: what this process writes down while lectures run.
        progress: receives the progress of runs.
        launcher: starts kernels.
    """

    rootdir: Path
    invocation_dir: Path
    settings: SessionSettings
    results: Results
    memory: FailureMemory
    collection: LectureCollection
    machine: Machine
    devices: Sequence[Device]
    environment_context: EnvironmentContext
    leases: LeaseBroker
    journal: JournalWriter
    progress: ProgressListener
    launcher: Launcher = LOCAL

    def kernel_variables(self, settings: RunSettings) -> dict[str, str]:
        """Return the variables that are set for the kernel of a lecture with these settings, by name."""
        surroundings = replace(self.environment_context, inherited=frozenset(os.environ))
        return kernel_environment(self.settings.environment, settings.env_profile, settings.gpu, surroundings)
