"""Write what a session leaves: recorded budgets, reports and its kept document; render the summary."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_lecturecheck import __version__
from pytest_lecturecheck.config.options import Mode, SessionSettings
from pytest_lecturecheck.config.report_formats import check_report_name
from pytest_lecturecheck.errors import LectureCheckError
from pytest_lecturecheck.model.platform import Machine
from pytest_lecturecheck.model.run import Outcome, Run
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
from pytest_lecturecheck.store.session_history import FOLDER_NAME, keep_session, new_session_name, with_short_timelines
from pytest_lecturecheck.verdict import VerdictKind, has_strict_findings
from pytest_lecturecheck.verdict.kept_session import KeptRun, KeptSession

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
        entries: the session's entries; read when something is written or rendered, and corrected where what they say
            could not be done.

    Attributes:
        is_kept: whether the session is kept, from which everything else can be written again.
    """

    def __init__(
        self,
        rootdir: Path,
        settings: SessionSettings,
        platform: str,
        budget_file: Path,
        *,
        entries: list[Entry],
    ) -> None:
        """Write nothing yet."""
        self._rootdir = rootdir
        self._settings = settings
        self._platform = platform
        self._budget_file = budget_file
        self._entries = entries
        self._ended = dt.datetime.now(dt.UTC)
        self._name = ""
        self._written: list[str] = []
        self.is_kept = False
        self._changes: Sequence[Change] = ()

    def finish(self, machine: Machine) -> bool:
        """
        Write what was recorded, and the reports.

        Returns:
            Whether everything could be written; the summary names what could not.
        """
        self._ended = dt.datetime.now(dt.UTC)
        self._name = new_session_name(self._ended)
        writes: list[tuple[Path, Callable[[], None]]] = []
        if self._settings.mode is Mode.RECORD:
            writes.append((self._budget_file, self._record))
        writes += [(path, partial(self._write_report, path, machine)) for path in self._settings.reports]
        if self._settings.history is not None:
            writes.append((self._settings.history, partial(self._append_history, self._settings.history)))
        is_whole = True
        for path, write in writes:
            try:
                write()
            except (OSError, LectureCheckError) as exc:
                is_whole = False
                self._written.append(f"ERROR: {self._shown(path)} could not be written: {exc}")
                if path == self._budget_file:
                    self._note_unrecorded()
        self._keep()
        return is_whole

    def _note_unrecorded(self) -> None:
        """Name nothing recorded that is not, and say how what was measured can still be."""
        self._entries[:] = [
            replace(entry, verdict=replace(entry.verdict, kind=VerdictKind.NO_BUDGET, headline=_UNRECORDED))
            if entry.verdict.kind is VerdictKind.RECORDED
            else entry
            for entry in self._entries
        ]
        if self._settings.keep_runs > 0:
            self._written.append(
                "nothing measured is lost: correct the cause, then `lecturecheck record last` writes these budgets"
            )

    def _keep(self) -> None:
        """Keep the session's document for later sessions and for the ``lecturecheck`` command."""
        most = self._settings.keep_runs
        if most <= 0 or not self._entries:
            return
        runs = with_short_timelines([entry.run for entry in self._entries])
        entries = [replace(entry, run=run) for entry, run in zip(self._entries, runs, strict=True)]
        try:
            folder = make_own_folder(self._rootdir) / FOLDER_NAME
            text = self._document(entries, is_compact=True)
            keep_session(folder, text, now=self._ended, most=most, name=self._name)
            self.is_kept = True
        except OSError as exc:
            self._written.append(f"{OWN_FOLDER} cannot be written ({exc.strerror or exc}): this session is not kept")

    def _document(self, entries: Sequence[Entry], *, is_compact: bool = False) -> str:
        """Return the session as JSON that can be shared: the folders of this machine are hidden."""
        about = {
            "session": self._name,
            "ended": self._ended.isoformat(timespec="seconds"),
            "mode": self._settings.mode.value,
            "version": __version__,
            "commit": read_commit(self._rootdir),
        }
        records = [
            # The budget file may change later; this is what the session was compared with.
            entry_to_dict(entry.run, entry.verdict, seconds=entry.seconds, budget=entry.budget)
            for entry in entries
        ]
        return self._hide(render_json(records, entries, platform=self._platform, about=about, is_compact=is_compact))

    def _hide(self, text: str) -> str:
        return hide_places(text, root=self._rootdir, home=Path.home(), prefix=Path(sys.prefix))

    def _append_history(self, path: Path) -> None:
        from pytest_lecturecheck.store.history import append_history  # noqa: PLC0415 - only where there is a history
        from pytest_lecturecheck.verdict.history_lines import history_lines  # noqa: PLC0415 - as above

        lines = history_lines(self._as_kept())
        append_history(path, lines, self._hide)
        count = len(lines)
        self._written.append(f"history: {count} line{'' if count == 1 else 's'} appended to {self._shown(path)}")

    def _as_kept(self) -> KeptSession:
        """Return the session as it will be read back."""
        runs = (
            KeptRun(run=entry.run, verdict=entry.verdict, seconds=entry.seconds, budget=entry.budget)
            for entry in self._entries
        )
        return KeptSession(
            name=self._name,
            platform=self._platform,
            runs=tuple(runs),
            ended=self._ended,
            mode=self._settings.mode.value,
            version=__version__,
            commit=read_commit(self._rootdir),
        )

    def _record(self) -> None:
        from pytest_lecturecheck.budget.recording import record  # noqa: PLC0415 - only to record

        refused = {_subject(run) for run in self._strictly_failed()}
        runs = [entry.run for entry in self._entries if _subject(entry.run) not in refused]
        if not any(not _fails(entry) for entry in self._entries):
            return
        with locked(self._budget_file.parent):
            # As the file stands now: another session, or a person, may have written to it since the start.
            before = load_budgets(self._budget_file)
            today = self._ended.date()
            budgets, self._changes = record(before, runs, today=today, tolerance=self._settings.tolerance)
            is_changed = budgets != before
            if is_changed:
                save_budgets(self._budget_file, budgets)
        if is_changed:
            self._written.append(f"budgets written to {self._shown(self._budget_file)}")
        else:
            self._written.append(f"budgets in {self._shown(self._budget_file)} are unchanged")

    def _strictly_failed(self) -> list[Run]:
        """Return the runs that completed and failed because of their findings: they make no budget."""
        return [entry.run for entry in self._entries if has_strict_findings(entry.run, entry.verdict)]

    def _write_report(self, path: Path, machine: Machine) -> None:
        from pytest_lecturecheck.report.report_file import SessionFacts, render_report  # noqa: PLC0415 - only for reports

        facts = SessionFacts(
            platform=self._platform,
            session=self._name,
            ended=self._ended.isoformat(timespec="seconds"),
            version=__version__,
            commit=read_commit(self._rootdir),
            machine=machine,
        )
        form = check_report_name(path.name)
        text = render_report(form, self._entries, facts, document=lambda: self._document(self._entries))
        write_text_atomically(path, text, follows_links=False)
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
            runs = [entry.run for entry in self._entries]
            lines += render_unrecorded(runs, strictly_failed=self._strictly_failed(), width=width)
        return [*lines, *([""] if self._written else []), *self._written]


_UNRECORDED: Final = "measured, and not recorded: the budget file could not be written"


def _subject(run: Run) -> tuple[str, str]:
    return run.lecture, run.variant


def _fails(entry: Entry) -> bool:
    return entry.run.outcome is not Outcome.COMPLETED or entry.verdict.failed
