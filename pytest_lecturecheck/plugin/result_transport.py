"""How an item's entries reach the controller: directly, or from a worker as text on the test report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import pytest

from pytest_lecturecheck.errors import LectureCheckError
from pytest_lecturecheck.plugin.nodes import LectureItem, is_own_property, take_entries
from pytest_lecturecheck.plugin.plain_imports import plain_imports
from pytest_lecturecheck.plugin.xdist import worker_of
from pytest_lecturecheck.session.github_actions import guard_longrepr

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_lecturecheck.plugin.progress_display import ProgressDisplay
    from pytest_lecturecheck.plugin.session_state import LectureCheckSession
    from pytest_lecturecheck.report.entry import Entry
    from pytest_lecturecheck.session.cache_filling import CacheFiller
    from pytest_lecturecheck.session.entry_saver import EntrySaver

_ENTRIES: Final = "lecturecheck"
"""Attribute of the test report that carries the entries to the controller."""
_STATE: Final = "lecturecheck_state"
"""Attribute of the test report that carries the key of the state in which a lecture failed."""
_EXECUTED: Final = "lecturecheck_executed"
"""Attribute of the test report with the file that holds what enters the book's cache."""
_OUTCOMES: Final = frozenset({"passed", "failed", "skipped"})
"""Outcomes that pytest knows; pytest-rerunfailures reports a run that it will repeat as ``rerun``."""


class EntrySender(Protocol):
    """Hands an item's entries on to the controller."""

    def send(self, report: pytest.TestReport, entries: Sequence[Entry]) -> None:
        """Hand on the entries that belong to a test report."""


class LocalEntries:
    """Keeps entries in this process: packing and unpacking the values of some hundred cells takes a second."""

    def __init__(self) -> None:
        """Hold nothing yet."""
        self._waiting: dict[str, Sequence[Entry]] = {}

    def send(self, report: pytest.TestReport, entries: Sequence[Entry]) -> None:
        """Keep the entries until the report is logged."""
        self._waiting[report.nodeid] = entries

    def take(self, report: pytest.TestReport) -> Sequence[Entry]:
        """Return the entries that belong to a test report, once."""
        return self._waiting.pop(report.nodeid, ())


class WorkerEntries:
    """
    Puts entries on the test report as one text, which is what survives every transport.

    Args:
        pack: packs entries into one text.
    """

    def __init__(self, pack: Callable[[Sequence[Entry]], str]) -> None:
        """Remember how to pack."""
        self._pack = pack

    def send(self, report: pytest.TestReport, entries: Sequence[Entry]) -> None:
        """Put the entries on the report."""
        setattr(report, _ENTRIES, self._pack(entries))


class ItemReports:
    """
    Hooks that make the report of a lecture's item, in the process that ran it.

    Args:
        session: the session's state.
        sender: hands entries on to the controller.
        guard: makes printed text harmless to the CI service that reads it.
    """

    def __init__(self, session: LectureCheckSession, sender: EntrySender, guard: Callable[[str], str]) -> None:
        """Hold what the hook needs."""
        self._session = session
        self._sender = sender
        self._guard = guard

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
        """Hand the item's entries on with its report."""
        report: Any = yield
        if not isinstance(item, LectureItem):
            return report  # type: ignore[no-any-return]
        if call.when == "setup" and call.excinfo is not None and call.excinfo.errisinstance(LectureCheckError):
            # pytest asks an item for its failure text only when the test itself failed.
            report.longrepr = item.repr_failure(call.excinfo)
        report.longrepr = guard_longrepr(report.longrepr, self._guard)
        if call.when == "call" or (call.when == "setup" and not report.passed):
            # pytest keeps the items of a session; their entries go to the results instead.
            entries = take_entries(item)
            if entries:
                self._sender.send(report, entries)
                setattr(report, _STATE, self._session.lectures.take_state_key(item.lecture_name, item.variant))
                if not item.variant:
                    setattr(report, _EXECUTED, self._session.lectures.take_executed(item.lecture_name))
        return report  # type: ignore[no-any-return]


class ReportedEntries:
    """
    Hooks of the controller that take entries from reports.

    Args:
        config: pytest's configuration.
        session: the session's state.
        local: entries of items that ran in this process.
        display: shows progress.
        saver: saves entries on the disk as they finish.
        filler: puts lectures that passed into the book's cache.
    """

    def __init__(
        self,
        config: pytest.Config,
        session: LectureCheckSession,
        local: LocalEntries,
        *,
        display: ProgressDisplay,
        saver: EntrySaver,
        filler: CacheFiller,
    ) -> None:
        """Hold what the hook needs."""
        self._config = config
        self._context = session.context
        self._local = local
        self._display = display
        self._saver = saver
        self._filler = filler
        self._reported: dict[tuple[str, str], Sequence[Entry]] = {}
        self._decided: set[tuple[str, str]] = set()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Iterator[None]:
        """Add the entries to the results, remember failures, and call the hook for verdicts."""
        self._take(report)
        try:
            return (yield)
        finally:
            if worker_of(report):
                # JUnit and report logs have taken them, and pytest keeps the reports of a session.
                report.user_properties[:] = _foreign_properties(report)

    def _take(self, report: pytest.TestReport) -> None:
        # Other plugins run a failed item again (pytest-rerunfailures, flaky): its last run counts. With `--dist=each`
        # every worker reports the same node id.
        key = (report.nodeid, worker_of(report))
        outcome: str = report.outcome
        is_final = outcome in _OUTCOMES
        if is_final and (report.when == "call" or (report.when == "setup" and not report.passed)):
            self._decided.add(key)
        if report.when == "teardown":
            self._drop_properties(report, key)
        text = getattr(report, _ENTRIES, None)
        entries = self._local.take(report)
        if isinstance(text, str):
            entries = self._context.results.unpack(text)
            # pytest keeps the reports of a session.
            delattr(report, _ENTRIES)
        if not entries:
            return
        entries = self._context.results.take(entries, instead_of=self._reported.get(key, ()))
        self._reported[key] = entries
        if executed := str(getattr(report, _EXECUTED, "")):
            self._filler.fill(executed, passed=outcome == "passed")
        if is_final:
            with plain_imports():
                self._saver.save(entries)
            self._context.memory.note(entries, str(getattr(report, _STATE, "")))
        for entry in entries:
            self._config.hook.pytest_lecturecheck_verdict(config=self._config, run=entry.run, verdict=entry.verdict)
            self._display.end(entry)

    def _drop_properties(self, report: pytest.TestReport, key: tuple[str, str]) -> None:
        """Keep the properties of a run that will be repeated out of JUnit, which reads them from this report."""
        if key not in self._decided:
            report.user_properties[:] = _foreign_properties(report)
        self._decided.discard(key)


def _foreign_properties(report: pytest.TestReport) -> list[tuple[str, object]]:
    return [pair for pair in report.user_properties if not is_own_property(pair[0])]
