"""End a session in order when a signal asks for it, and name the signal."""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

import pytest

from pytest_lecturecheck.session.end_signals import SIGNAL_NAMES, describe_signal
from pytest_lecturecheck.session.journal_writer import JournalWriter

_LEAVING_COUNT: Final = 3
"""The Ctrl-C that ends the process at once."""
_ENDING: Final = (
    b"\nlecturecheck: the session is ending: kernels are stopped, budgets and reports written; "
    b"Ctrl-C once more leaves at once\n"
)
_LEFT: Final = b"\nlecturecheck: left at once; `lecturecheck recover` keeps the lectures that had finished\n"


class SignalHooks:
    """
    Ends the session as Ctrl-C does when a signal arrives that would end the process at once.

    A further signal does not interrupt that end, and neither does a second Ctrl-C. The third one leaves at once.

    Args:
        journal: receives the signal at once: the process may be killed before it comes to its end.
        report: receives the description once the interrupted lecture has been stopped.
        is_worker: whether the controller, which receives the same Ctrl-C, says what it does.
    """

    def __init__(self, journal: JournalWriter, report: Callable[[str], None], *, is_worker: bool = False) -> None:
        """Handle no signal yet."""
        self._is_worker = is_worker
        self._journal = journal
        self._report = report
        self._replaced: dict[int, Any] = {}
        self._received = ""
        self._interrupt_count = 0
        self._is_ending = self._is_told = self._is_shown_whole = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Handle the signals that nobody handles or ignores."""
        self._is_shown_whole = bool(session.config.getoption("fulltrace", default=False))
        for name in SIGNAL_NAMES:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                self._replace(number, self._handle)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._replace(signal.SIGINT, self._handle_interrupt)

    def _replace(self, number: int, handler: Callable[[int, FrameType | None], None]) -> None:
        # Only the main thread may; execnet can run a worker in another one.
        with contextlib.suppress(ValueError):
            self._replaced[number] = signal.signal(number, handler)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self._is_told:
            self._interrupt_once()
            return
        text = describe_signal(number, os.environ, time.time())
        # One system call without a lock: safe in a handler, wherever it has interrupted this thread.
        self._journal.note_signal(text)
        # A second one must not interrupt the end, which writes budgets and reports.
        if not self._received and not self._is_ending:
            self._received = text
            self._is_ending = True
            raise KeyboardInterrupt(text)

    def _interrupt_once(self) -> None:
        if not self._is_ending:
            self._is_ending = True
            raise KeyboardInterrupt

    def _handle_interrupt(self, _number: int, _frame: FrameType | None) -> None:
        self._interrupt_count += 1
        self._interrupt_once()
        leaves = self._interrupt_count >= _LEAVING_COUNT
        # Not print: the handler may have interrupted the writing of a line.
        with contextlib.suppress(OSError):
            if not self._is_worker:
                os.write(sys.__stderr__.fileno() if sys.__stderr__ is not None else 2, _LEFT if leaves else _ENDING)
        if leaves:
            os._exit(int(pytest.ExitCode.INTERRUPTED))

    def interrupt(self) -> None:
        """Interrupt the main thread as Ctrl-C does, unless the session is ending; may be called on any thread."""
        if self._is_ending:
            return
        # SIGINT is ignored in what a shell has started in the background.
        number = signal.SIGTERM if signal.SIGTERM in self._replaced else signal.SIGINT
        self._is_told = True
        if sys.platform == "win32":
            _thread.interrupt_main(number)
        else:
            os.kill(os.getpid(), number)

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Report the signal, and keep only the place where it arrived: pytest reads the source of every frame."""
        self._is_ending = True
        if not self._is_shown_whole:
            excinfo.traceback = excinfo.traceback[-1:]
        if self._received:
            self._report(self._received)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Let nothing interrupt the writing of budgets and reports."""
        self._is_ending = True

    def pytest_unconfigure(self) -> None:
        """Put the handlers back."""
        while self._replaced:
            number, handler = self._replaced.popitem()
            signal.signal(number, handler)
