"""What the journal says of sessions and workers that never came to their end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.plugin.nodes import ITEM_NAME
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.session.entry_saver import describe_unfinished
from pytest_lecturecheck.session.journal_writer import (
    describe_worker,
    find_worker,
    lost_run,
    report_interrupted,
    try_folder,
)
from pytest_lecturecheck.verdict import Policy

if TYPE_CHECKING:
    from pytest_lecturecheck.plugin.notices import Notices
    from pytest_lecturecheck.session.runtime_context import RuntimeContext

_CRASHED = "???"
"""Phase of the report that pytest-xdist makes of an item whose worker went down."""


class CrashReports:
    """
    Reports on the controller what was running when a session or a worker was cut off.

    Args:
        context: what the runners of this process work with.
        notices: takes what is to be said.
    """

    def __init__(self, context: RuntimeContext, notices: Notices) -> None:
        """Read nothing yet."""
        self._context = context
        self._notices = notices

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Report earlier sessions that were cut off, and a folder that cannot be written."""
        if not session.config.getoption("collectonly") and not self._context.journal.is_off:
            fault = try_folder(self._context.rootdir)
            rootdir = self._context.rootdir
            self._notices.add(*report_interrupted(rootdir), *describe_unfinished(rootdir), fault)

    def note_worker_crash(self, mark: str, worker: str) -> None:
        """
        Report a worker that went down, and add an entry for the lecture that it ran.

        Args:
            mark: identifies the test run.
            worker: the worker's name.
        """
        context = self._context
        found = find_worker(context.rootdir, session=mark, worker=worker)
        if found is None:
            return
        self._notices.add(describe_worker(found))
        if found.lecture:
            run = lost_run(found, platform=context.results.platform, machine=context.machine)
            self._take(run)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add an entry for a lecture whose worker went down before it wrote what it was going to run."""
        lecture, _, item = report.nodeid.rpartition("::")
        context = self._context
        if report.when != _CRASHED or item != ITEM_NAME:
            return
        if any(entry.run.lecture == lecture for entry in context.results.entries):
            return
        self._take(
            Run(
                lecture=lecture,
                platform=context.results.platform,
                machine=context.machine,
                outcome=Outcome.NOT_STARTED,
                reason="its worker went down before the lecture began",
            )
        )

    def _take(self, run: Run) -> None:
        results = self._context.results
        results.take([Entry(run=run, verdict=results.judge(run, Policy()))])
