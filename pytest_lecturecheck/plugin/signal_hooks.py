"""End a session in order when a signal asks for it, and name the signal."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from pytest_lecturecheck.session.end_signals import SIGNAL_NAMES, describe_signal
from pytest_lecturecheck.session.journal_writer import JournalWriter


class SignalHooks:
    """
    Ends the session as Ctrl-C does when a signal arrives that would end the process at once.

    Args:
        journal: receives the signal at once: the process may be killed before it comes to its end.
        report: receives the description once the interrupted lecture has been stopped.
    """

    def __init__(self, journal: JournalWriter, report: Callable[[str], None]) -> None:
        """Handle no signal yet."""
        self._journal = journal
        self._report = report
        self._replaced: dict[int, Any] = {}
        self._received = ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Handle the signals that nobody handles or ignores."""
        for name in SIGNAL_NAMES:
            number = getattr(signal, name, None)
            if number is None or signal.getsignal(number) is not signal.SIG_DFL:
                continue
            # Only the main thread may; execnet can run a worker in another one.
            with contextlib.suppress(ValueError):
                self._replaced[number] = signal.signal(number, self._handle)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        text = describe_signal(number, os.environ, time.time())
        # One system call without a lock: safe in a handler, wherever it has interrupted this thread.
        self._journal.note_signal(text)
        # A second one must not interrupt the end, which writes budgets and reports.
        if not self._received:
            self._received = text
            raise KeyboardInterrupt(text)

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self) -> None:
        """Report the signal."""
        if self._received:
            self._report(self._received)

    def pytest_unconfigure(self) -> None:
        """Put the handlers back."""
        while self._replaced:
            number, handler = self._replaced.popitem()
            signal.signal(number, handler)
