"""Progress of lectures: shown by the controller, sent to it by a worker."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import pytest

from pytest_lecturecheck.plugin.progress_line import LiveLine, LogLines, open_live, shown_progress
from pytest_lecturecheck.plugin.wait_lines import WaitLines
from pytest_lecturecheck.report.terminal.progress import ShownProgress, render_stop
from pytest_lecturecheck.session.journal_writer import JournalWriter

if TYPE_CHECKING:
    from pytest_lecturecheck.kernel.run.ports import RunProgress
    from pytest_lecturecheck.plugin.notices import Notices
    from pytest_lecturecheck.report.entry import Entry
    from pytest_lecturecheck.session.entry_saver import EntrySaver
    from pytest_lecturecheck.session.results import Results

_NOTICE: Final = "notice"
"""Key of a message that is a line for the summary, and no progress."""
_STOPPED: Final = "stopped"
"""Key of a message with the entries of an item that an interruption has stopped."""


class ProgressSender:
    """
    Sends the progress of a worker's lectures to the controller.

    Args:
        journal: what this process writes down.
        send: sends one text to the controller at once.
        pack: packs entries into one text.
    """

    def __init__(
        self, journal: JournalWriter, send: Callable[[str], None], pack: Callable[[Sequence[Entry]], str]
    ) -> None:
        """Send nothing yet."""
        self._journal = journal
        self._send = send
        self._pack = pack

    def note(self, progress: RunProgress) -> None:
        """Record and send the progress of a run; called on the kernels' thread."""
        self._journal.note(progress)
        self._send(json.dumps(asdict(shown_progress(progress))))

    def send_notice(self, text: str) -> None:
        """Send a line for the summary."""
        self._send(json.dumps({_NOTICE: text}))

    def note_stopped(self, entries: Sequence[Entry]) -> None:
        """Send the entries of an item that an interruption has stopped."""
        if entries:
            self._send(json.dumps({_STOPPED: self._pack(entries)}))

    def note_waiting(self, entries: Sequence[Entry]) -> None:
        """Save nothing: runs of several items alternate without workers only."""

    def show(self) -> None:
        """Force the journal to the disk."""
        self._journal.sync()


class ProgressDisplay:
    """
    Shows the progress of lectures in this process and on workers; also the hooks that this needs.

    Args:
        config: pytest's configuration.
        journal: what this process writes down.
        notices: takes the lectures that were running at an interruption.
        guard: makes printed text harmless to the CI service that reads it.
    """

    def __init__(
        self, config: pytest.Config, journal: JournalWriter, notices: Notices, guard: Callable[[str], str]
    ) -> None:
        """Show nothing before the session starts: pytest registers its terminal reporter late."""
        self._config = config
        self._journal = journal
        self._notices = notices
        self._guard = guard
        self._live: LiveLine | LogLines | WaitLines | None = None
        self._running: dict[str, ShownProgress] = {}
        self.results: Results | None = None
        """Takes the entries of items that an interruption has stopped."""
        self.saver: EntrySaver | None = None
        """Saves the entries of items whose reports come later."""

    def note_stopped(self, entries: Sequence[Entry]) -> None:
        """Keep the entries of an item that an interruption has stopped."""
        if self.results is not None:
            self.results.take(entries)

    def note_waiting(self, entries: Sequence[Entry]) -> None:
        """Save the entries of an item whose test report comes later."""
        if self.saver is not None:
            self.saver.save_early(entries)

    def note(self, progress: RunProgress) -> None:
        """Record the progress of a run in this process; called on the kernels' thread."""
        self._journal.note(progress)
        state = shown_progress(progress)
        # One process runs one lecture, or one cohort, at a time.
        self._warn(state)
        self._running = {state.name: state}
        if self._live is not None:
            self._live.note(state)

    def _warn(self, state: ShownProgress) -> None:
        """Write to a log once what cannot end well; on a terminal the live line has it."""
        before = self._running.get(state.name)
        if state.warning and (before is None or before.warning != state.warning):
            self.announce(f"{state.name}: {state.warning}")

    def show(self) -> None:
        """Show the progress of this process's lecture."""
        self._journal.sync()
        if self._live is not None:
            self._live.show()

    def note_from_worker(self, text: object) -> None:
        """Record and show a worker's progress; called on a thread of execnet."""
        if not isinstance(text, str):
            return
        message = json.loads(text)
        if _NOTICE in message:
            self._notices.add(message[_NOTICE])
            return
        if _STOPPED in message:
            if self.results is not None:
                self.results.take(self.results.unpack(message[_STOPPED]))
            return
        state = ShownProgress(**message)
        self._warn(state)
        self._running[state.name] = state
        if self._live is not None:
            self._live.note(state)
            self._live.show()

    def announce(self, text: str) -> None:
        """Write a line to the log with the next progress; may be called on any thread."""
        if self._live is not None:
            self._live.announce(text)

    def end(self, entry: Entry) -> None:
        """Forget a lecture that has ended."""
        self._running.pop(entry.run.title, None)
        if self._live is not None:
            self._live.end(entry)

    def open(self, interval_seconds: float) -> None:
        """
        Choose between a live line and lines of a log.

        Args:
            interval_seconds: time between two lines about one lecture in a log; 0 for no lines at all.
        """
        self._live = open_live(self._config, interval_seconds=interval_seconds, guarded=self._guard)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logfinish(self) -> None:
        """Erase the live line before pytest continues its own."""
        if self._live is not None:
            self._live.clear()

    def pytest_keyboard_interrupt(self) -> None:
        """Keep for the summary which lectures were running: they have no entry."""
        self._notices.add(*(render_stop(state) for state in self._running.values()))
