"""Write progress: a live line on a terminal, after what pytest has already written, or lines of their own in a log."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_lecturecheck.plugin.wait_lines import WaitLines
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.terminal.progress import ShownProgress, render_live
from pytest_lecturecheck.session.heartbeat import Heartbeat
from pytest_lecturecheck.session.machine_watch import read_machine

if TYPE_CHECKING:
    from pytest_lecturecheck.kernel.run.ports import RunProgress

_SAVE: Final = "\x1b7"
_RESTORE: Final = "\x1b8"
_CLEAR: Final = "\x1b[K"
_LEAST_COLUMNS: Final = 30
_STALE_SECONDS: Final = 5.0


def shown_progress(progress: RunProgress) -> ShownProgress:
    """Return what is shown of a run's progress."""
    snapshot = progress.snapshot
    gpu_used_bytes, gpu_free_bytes = _fullest_device(progress)
    return ShownProgress(
        name=progress.lecture,
        cell=progress.number,
        total=progress.total,
        elapsed_seconds=progress.elapsed_seconds,
        now_bytes=snapshot.footprint_bytes if snapshot is not None else None,
        peak_bytes=snapshot.peak_footprint_bytes if snapshot is not None else None,
        waits_for=progress.waits_for,
        is_ending=progress.is_ending,
        gpu_used_bytes=gpu_used_bytes,
        gpu_free_bytes=gpu_free_bytes,
        warning=progress.warning,
        place=_place(progress),
    )


def _place(progress: RunProgress) -> str:
    if progress.sample is None:
        return ""
    place = progress.sample.place
    return f"line {place.file_line}" if place.file_line and place.cell_number == progress.number else place.place


def _fullest_device(progress: RunProgress) -> tuple[int | None, int | None]:
    """Return used and free bytes of the GPU that has least left, or of any if none says how large it is."""
    sized = [(item.total_bytes - item.used_bytes, item) for item in progress.devices if item.total_bytes is not None]
    if sized:
        free_bytes, fullest = min(sized, key=lambda pair: pair[0])
        return fullest.used_bytes, max(0, free_bytes)
    return (progress.devices[0].used_bytes, None) if progress.devices else (None, None)


class LiveLine:
    """
    Writes the live line on a terminal; elsewhere it writes nothing.

    Args:
        config: pytest's configuration.
    """

    def __init__(self, config: pytest.Config) -> None:
        """Check whether there is a terminal to write to."""
        self._config = config
        self._states: dict[str, tuple[float, ShownProgress]] = {}
        reporter = config.pluginmanager.getplugin("terminalreporter")
        shows = reporter is not None and config.get_verbosity() >= 0 and _is_terminal(reporter)
        self._reporter = reporter if shows else None
        self._shown = False

    def note(self, progress: ShownProgress) -> None:
        """Record the progress of a lecture."""
        self._states[progress.name] = (time.monotonic(), progress)

    def announce(self, text: str) -> None:
        """Do nothing: the summary has the line."""

    def end(self, entry: Entry) -> None:
        """Drop a lecture that has ended, and erase the line."""
        self._states.pop(entry.run.title, None)
        self.clear()

    def show(self) -> None:
        """Write the line."""
        if self._reporter is None:
            return
        now = time.monotonic()
        running = [progress for seen, progress in self._states.values() if now - seen < _STALE_SECONDS]
        writer = self._config.get_terminal_writer()
        room = writer.fullwidth - writer.width_of_current_line - 2
        if not running or room < _LEAST_COLUMNS:
            return
        # A lecture that waits is shown only if none runs.
        longest = max(running, key=lambda progress: (not progress.waits_for, progress.elapsed_seconds))
        text = render_live(longest, width=room - 6)
        if len(running) > 1:
            text += f" (+{len(running) - 1})"
        self._write(f"{_SAVE}  {text}{_CLEAR}{_RESTORE}")
        self._shown = True

    def clear(self) -> None:
        """Erase the line before pytest continues its own."""
        if self._shown:
            self._shown = False
            self._write(_CLEAR)

    def _write(self, text: str) -> None:
        # While an item runs, pytest captures the very file that its terminal writer writes to.
        with _uncaptured(self._config):
            stream: Any = self._config.get_terminal_writer()._file  # noqa: SLF001 - write() would count columns
            stream.write(text)
            stream.flush()


class LogLines:
    """
    Writes progress as lines of their own, for a log; see :class:`~pytest_lecturecheck.session.heartbeat.Heartbeat`.

    Args:
        write: writes one line at once.
        interval_seconds: time between two lines about one lecture.
    """

    def __init__(self, write: Callable[[str], None], interval_seconds: float) -> None:
        """Write nothing yet."""
        self._heartbeat = Heartbeat(
            write, interval_seconds=interval_seconds, clock=time.monotonic, read_machine=read_machine
        )

    def note(self, progress: ShownProgress) -> None:
        """Record the progress of a lecture."""
        self._heartbeat.note(progress)

    def announce(self, text: str) -> None:
        """Write a line with the next ones."""
        self._heartbeat.announce(text)

    def show(self) -> None:
        """Write the lines that are due."""
        self._heartbeat.beat()

    def end(self, entry: Entry) -> None:
        """Write that a lecture has ended."""
        self._heartbeat.end(entry)

    def clear(self) -> None:
        """Do nothing: a log keeps its lines."""


def open_live(
    config: pytest.Config, *, interval_seconds: float, guarded: Callable[[str], str]
) -> LiveLine | LogLines | WaitLines:
    """
    Return what shows progress: a live line on a terminal, lines in a log, or only what lectures wait for.

    Args:
        config: pytest's configuration.
        interval_seconds: time between two lines about one lecture in a log; 0 for no lines but those about waiting.
        guarded: makes printed text harmless to the CI service that reads it.
    """
    reporter = config.pluginmanager.getplugin("terminalreporter")
    is_quiet = config.get_verbosity() < 0
    if reporter is None or (not is_quiet and _is_terminal(reporter)):
        return LiveLine(config)

    def write(text: str) -> None:
        with _uncaptured(config):
            writer = config.get_terminal_writer()
            if writer.width_of_current_line:
                writer.line()
            writer.line(guarded(text))
            writer.flush()

    return WaitLines(write) if is_quiet or interval_seconds <= 0 else LogLines(write, interval_seconds)


def encoding_of(writer: Any) -> str | None:
    """Return the encoding of a terminal writer's stream, or ``None`` if it is not known."""
    encoding = getattr(getattr(writer, "_file", None), "encoding", None)
    return encoding if isinstance(encoding, str) else None


def _is_terminal(reporter: Any) -> bool:
    isatty = getattr(reporter, "isatty", False)
    return bool(isatty() if callable(isatty) else isatty)


def _uncaptured(config: pytest.Config) -> AbstractContextManager[Any]:
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is None:
        return nullcontext()
    manager: AbstractContextManager[Any] = capture.global_and_fixture_disabled()
    return manager
