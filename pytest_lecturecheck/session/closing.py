"""Write what a session leaves: recorded budgets, reports and its kept document; render the summary."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_lecturecheck import __version__
from pytest_lecturecheck.config.options import Mode, SessionSettings
from pytest_lecturecheck.errors import LectureCheckError
from pytest_lecturecheck.model.platform import Machine
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.json_report import render_json
from pytest_lecturecheck.report.terminal.summary import render_summary
from pytest_lecturecheck.store.atomic import locked, write_text_atomically
from pytest_lecturecheck.store.budget_file.files import load_budgets, save_budgets
from pytest_lecturecheck.store.git_commit import read_commit
from pytest_lecturecheck.store.own_folder import NAME as OWN_FOLDER
from pytest_lecturecheck.store.own_folder import make_own_folder
from pytest_lecturecheck.store.path_redaction import hide_places
from pytest_lecturecheck.store.runs import entry_to_dict
from pytest_lecturecheck.store.session_history import FOLDER_NAME, keep_session, with_short_timelines

if TYPE_CHECKING:
    from pytest_lecturecheck.budget.recording import Change


class Closing:
    """
    The end of a session on the controller. Workers and sessions that only collect never load it.

    Args:
        rootdir: pytest's rootdir.
        settings: the session's settings.
        platform: platform label.
        budget_file: the platform's budget file.
        entries: the session's entries; read when something is written or rendered.
    """

    def __init__(
        self,
        rootdir: Path,
        settings: SessionSettings,
        platform: str,
        budget_file: Path,
        *,
        entries: Sequence[Entry],
    ) -> None:
        """Write nothing yet."""
        self._rootdir = rootdir
        self._settings = settings
        self._platform = platform
        self._budget_file = budget_file
        self._entries = entries
        self._written: list[str] = []
        self._changes: Sequence[Change] = ()

    def finish(self, machine: Machine) -> bool:
        """
        Write what was recorded, and the reports.

        Returns:
            Whether everything could be written; the summary names what could not.
        """
        writes: list[tuple[Path, Callable[[], None]]] = []
        if self._settings.mode is Mode.RECORD:
            writes.append((self._budget_file, self._record))
        writes += [(path, partial(self._write_report, path, machine)) for path in self._settings.reports]
        is_whole = True
        for path, write in writes:
            try:
                write()
            except (OSError, LectureCheckError) as exc:
                is_whole = False
                self._written.append(f"ERROR: {self._shown(path)} could not be written: {exc}")
        self._keep()
        return is_whole

    def _keep(self) -> None:
        """Keep the session's document for later sessions and for the ``lecturecheck`` command."""
        most = self._settings.keep_runs
        if most <= 0 or not self._entries:
            return
        runs = with_short_timelines([entry.run for entry in self._entries])
        entries = [replace(entry, run=run) for entry, run in zip(self._entries, runs, strict=True)]
        try:
            folder = make_own_folder(self._rootdir) / FOLDER_NAME
            keep_session(folder, self._document(entries, is_compact=True), now=_now(), most=most)
        except OSError as exc:
            self._written.append(f"{OWN_FOLDER} cannot be written ({exc.strerror or exc}): this session is not kept")

    def _document(self, entries: Sequence[Entry], *, is_compact: bool = False) -> str:
        """Return the session as JSON that can be shared: the folders of this machine are hidden."""
        about = {
            "ended": _now().isoformat(timespec="seconds"),
            "mode": self._settings.mode.value,
            "version": __version__,
            "commit": read_commit(self._rootdir),
        }
        records = [
            # The budget file may change later; this is what the session was compared with.
            entry_to_dict(entry.run, entry.verdict, seconds=entry.seconds, budget=entry.budget)
            for entry in entries
        ]
        text = render_json(records, entries, platform=self._platform, about=about, is_compact=is_compact)
        return hide_places(text, root=self._rootdir, home=Path.home(), prefix=Path(sys.prefix))

    def _record(self) -> None:
        from pytest_lecturecheck.budget.recording import record  # noqa: PLC0415 - only to record

        runs = [entry.run for entry in self._entries]
        if not any(not _fails(entry) for entry in self._entries):
            return
        with locked(self._budget_file.parent):
            # As the file stands now: another session, or a person, may have written to it since the start.
            before = load_budgets(self._budget_file)
            today = dt.datetime.now(dt.UTC).date()
            budgets, self._changes = record(before, runs, today=today, tolerance=self._settings.tolerance)
            is_changed = budgets != before
            if is_changed:
                save_budgets(self._budget_file, budgets)
        if is_changed:
            self._written.append(f"budgets written to {self._shown(self._budget_file)}")
        else:
            self._written.append(f"budgets in {self._shown(self._budget_file)} are unchanged")

    def _write_report(self, path: Path, machine: Machine) -> None:
        if path.suffix.lower() == ".html":
            # A templating library is loaded only where a page is wanted.
            from pytest_lecturecheck.report.html import render_html  # noqa: PLC0415 - see above

            text = render_html(self._entries, platform=self._platform, machine=machine)
        elif path.suffix.lower() == ".json":
            text = self._document(self._entries)
        else:
            from pytest_lecturecheck.report.markdown_report import render_markdown  # noqa: PLC0415 - as above

            text = render_markdown(self._entries, platform=self._platform, machine=machine)
        write_text_atomically(path, text)
        self._written.append(f"report: {self._shown(path)}")

    def _shown(self, path: Path) -> str:
        return path.relative_to(self._rootdir).as_posix() if path.is_relative_to(self._rootdir) else str(path)

    def summary_lines(self, *, width: int, colour: bool, verbosity: int = 0, encoding: str | None = None) -> list[str]:
        """Return the lines of the terminal summary."""
        if not self._entries:
            return self._written
        lines = render_summary(
            self._entries,
            width=width,
            colour=colour,
            verbosity=verbosity,
            encoding=encoding,
        )
        if self._settings.mode is Mode.RECORD:
            from pytest_lecturecheck.report.terminal.budget_diff import render_changes, render_unrecorded  # noqa: PLC0415 - only to record

            lines += ["", *render_changes(self._changes, width=width, colour=colour)]
            lines += render_unrecorded([entry.run for entry in self._entries], width=width)
        return [*lines, *([""] if self._written else []), *self._written]


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def _fails(entry: Entry) -> bool:
    return entry.run.outcome is not Outcome.COMPLETED or entry.verdict.failed
