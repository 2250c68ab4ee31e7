"""The end of a session: kernels stop, and the controller writes budgets and reports."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from pytest_lecturecheck.errors import LectureCheckError
from pytest_lecturecheck.plugin.nodes import take_entries
from pytest_lecturecheck.plugin.plain_imports import plain_imports

if TYPE_CHECKING:
    from pytest_lecturecheck.plugin.empty_sessions import EmptySessions
    from pytest_lecturecheck.plugin.notices import Notices
    from pytest_lecturecheck.plugin.session_state import LectureCheckSession
    from pytest_lecturecheck.session.cache_filling import CacheFiller
    from pytest_lecturecheck.session.entry_saver import EntrySaver
    from pytest_lecturecheck.session.github_actions import GitHub


class WorkerEnd:
    """
    Stops the kernels of a worker.

    Args:
        session: the session's state.
    """

    def __init__(self, session: LectureCheckSession) -> None:
        """Hold what is closed at the end."""
        self._session = session

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Stop the kernels' loop."""
        self._session.close()

    def pytest_unconfigure(self) -> None:
        """Stop the kernels' loop where the session never finished."""
        self._session.close()


class ControllerEnd:
    """
    Stops the kernels of this process, and writes what the session found out.

    Args:
        session: the session's state.
        github: the job summary of GitHub Actions.
        notices: takes what could not be written.
        saver: saves entries until everything is written.
        collected: whether lectures were collected, and what was looked for.
        filler: fills the book's cache.
    """

    def __init__(
        self,
        session: LectureCheckSession,
        github: GitHub,
        notices: Notices,
        *,
        saver: EntrySaver,
        filler: CacheFiller,
        collected: EmptySessions,
    ) -> None:
        """Hold what is written and closed at the end."""
        self._collected = collected
        self._session = session
        self._github = github
        self._notices = notices
        self._saver = saver
        self._filler = filler

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Stop the kernels' loop, then write budgets and reports."""
        self._session.close()
        # A session that only collects has no results, and must not write over those of an earlier one.
        if session.config.getoption("collectonly"):
            return
        context = self._session.context
        # Runs of alternating variants whose turn did not come after Ctrl-C, a signal or `-x`. A controller of
        # workers collects nothing itself.
        for item in getattr(session, "items", ()):
            context.results.take(take_entries(item))
        with plain_imports():
            is_whole = context.results.finish(context.machine)
        self._saver.end(is_whole=is_whole or context.results.is_kept)
        fault = self._github.write_summary(
            context.results.entries, platform=context.results.platform, machine=context.machine
        )
        self._notices.add(fault)
        self._notices.add(*self._build_differences())
        fails = not is_whole or not self._filler.is_whole or not context.results.package_fits()
        if session.exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
            nothing, part = self._collected.explain(), self._collected.empty_part
            self._notices.add(nothing, part)
            # With nothing else collected, pytest's own status says so already.
            if fails or (nothing and session.exitstatus == pytest.ExitCode.OK):
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
            elif part:
                # More parts than lectures are no failure of the last ones.
                session.exitstatus = pytest.ExitCode.OK

    def _build_differences(self) -> list[str]:
        """Return where the build of the book will differ; configurations that cannot be read have been reported."""
        from pytest_lecturecheck.session.build_differences import explain_build_differences  # noqa: PLC0415 - at the end

        context = self._session.context
        try:
            return explain_build_differences(
                context.results.entries,
                context.settings,
                context.collection.book_of,
                rootdir=context.rootdir,
                environ=os.environ,
            )
        except LectureCheckError:
            return []

    def pytest_unconfigure(self) -> None:
        """Stop the kernels' loop where the session never finished."""
        self._session.close()
