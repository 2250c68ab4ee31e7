"""Budgets and entries of a session: looked up while it runs, written when it ends."""

from __future__ import annotations

import datetime as dt
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from pytest_lecturecheck import __version__
from pytest_lecturecheck.budget import LectureBudget, PlatformBudgets, Tolerance
from pytest_lecturecheck.errors import LectureCheckError
from pytest_lecturecheck.metric import Metric
from pytest_lecturecheck.options import Mode, SessionSettings
from pytest_lecturecheck.platform import Machine
from pytest_lecturecheck.recording import Change, record
from pytest_lecturecheck.report.budget_diff import render_changes
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.json import render_json
from pytest_lecturecheck.report.markdown import render_markdown
from pytest_lecturecheck.report.terminal import render_summary
from pytest_lecturecheck.run import Outcome, Run
from pytest_lecturecheck.store.atomic import locked, write_text_atomically
from pytest_lecturecheck.store.budgets import load_budgets, load_folder, save_budgets
from pytest_lecturecheck.store.commit import read_commit
from pytest_lecturecheck.store.folder import NAME as OWN_FOLDER
from pytest_lecturecheck.store.folder import make_own_folder
from pytest_lecturecheck.store.history import DEFAULT_KEEP, FOLDER_NAME, keep_session, with_short_timelines
from pytest_lecturecheck.store.places import hide_places
from pytest_lecturecheck.store.runs import run_from_dict, run_to_dict, verdict_from_dict, verdict_to_dict
from pytest_lecturecheck.verdict import Policy, Verdict, VerdictKind, judge, judge_profiled


class Results:
    """
    What a session knows of budgets and has found out about lectures.

    Args:
        rootdir: pytest's rootdir.
        settings: the session's settings.
        platform: platform label.

    Raises:
        BudgetFileError: a budget file cannot be used.
    """

    def __init__(self, rootdir: Path, settings: SessionSettings, platform: str) -> None:
        """Load all budget files; a fault in one stops the session before any kernel starts."""
        self._rootdir = rootdir
        self._settings = settings
        self.platform = platform
        self.budget_file = settings.budget_folder / f"{platform}.toml"
        self._all: Mapping[str, PlatformBudgets] = load_folder(settings.budget_folder)
        self._own = self._all.get(platform) or PlatformBudgets(platform=platform)
        self.entries: list[Entry] = []
        self._written: list[str] = []
        self._changes: Sequence[Change] = ()

    # -- judging ------------------------------------------------------------------------------------------------------

    def judge(self, run: Run, policy: Policy) -> Verdict:
        """Judge a run as the session's mode asks."""
        if run.is_profiled:
            return judge_profiled(run)
        if self._settings.mode is not Mode.RECORD:
            return judge(run, self.budget_of(run), policy)
        # A run that is made to be recorded is held against what a README declares, not against the old budget.
        verdict = judge(run, None, replace(policy, strict=False))
        if verdict.kind is not VerdictKind.NO_BUDGET:
            return verdict
        return replace(verdict, kind=VerdictKind.RECORDED, failed=False, headline="measured")

    def budget_of(self, run: Run) -> LectureBudget | None:
        """Give the budget that a run is held against."""
        return self._own.find(run.lecture, run.variant)

    def find_budget(self, lecture: str, variant: str = "") -> LectureBudget | None:
        """Give what this platform has recorded for a lecture, or ``None``."""
        return self._own.find(lecture, variant)

    def known_platforms(self, lecture: str, variant: str = "") -> dict[str, float]:
        """Give the highest footprint that other platforms recorded for a lecture, as context."""
        known = {}
        for label, budgets in self._all.items():
            found = budgets.find(lecture, variant) if label != self.platform else None
            memory = found.metrics.get(Metric.PEAK_FOOTPRINT) if found is not None else None
            if memory is not None and (memory.seen or memory.limit is not None):
                known[label] = max(memory.seen) if memory.seen else float(memory.limit or 0)
        return known

    @property
    def tolerance(self) -> Tolerance:
        """Give the rule for limits: the settings' own, or that of the budget file."""
        return self._settings.tolerance or self._own.tolerance

    # -- transport ----------------------------------------------------------------------------------------------------

    @staticmethod
    def dump(entries: Iterable[Entry]) -> str:
        """Pack entries into one text of plain JSON."""
        packed = [
            {"run": run_to_dict(entry.run), "verdict": verdict_to_dict(entry.verdict), "seconds": entry.seconds}
            for entry in entries
        ]
        return json.dumps(packed)

    def unpack(self, text: str) -> list[Entry]:
        """Unpack what :meth:`dump` has packed."""
        entries = []
        for packed in json.loads(text):
            run = run_from_dict(packed["run"])
            verdict = verdict_from_dict(packed["verdict"])
            budget = self.budget_of(run) if self._settings.mode is Mode.CHECK else None
            entries.append(Entry(run=run, verdict=verdict, budget=budget, seconds=packed["seconds"]))
        return entries

    def take(self, entries: Iterable[Entry]) -> None:
        """Keep entries for the summary and the reports."""
        self.entries.extend(entries)

    # -- the end ------------------------------------------------------------------------------------------------------

    def finish(self, machine: Machine) -> bool:
        """
        Write what was recorded, and the reports.

        Returns:
            Whether everything could be written; what could not is said in the summary.
        """
        writes: list[tuple[Path, Callable[[], None]]] = []
        if self._settings.mode is Mode.RECORD:
            writes.append((self.budget_file, self._record))
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
        """Leave the session's document for later sessions and for the ``lecturecheck`` command."""
        most = self._settings.keep_runs if self._settings.keep_runs is not None else DEFAULT_KEEP
        if most <= 0 or not self.entries:
            return
        runs = with_short_timelines([entry.run for entry in self.entries])
        entries = [replace(entry, run=run) for entry, run in zip(self.entries, runs, strict=True)]
        try:
            folder = make_own_folder(self._rootdir) / FOLDER_NAME
            keep_session(folder, self._document(entries, is_compact=True), now=_now(), most=most)
        except OSError as exc:
            self._written.append(f"{OWN_FOLDER} cannot be written ({exc.strerror or exc}): this session is not kept")

    def _document(self, entries: Sequence[Entry], *, is_compact: bool = False) -> str:
        """Give the session as JSON that can be handed on: it does not tell where this machine has its folders."""
        about = {
            "ended": _now().isoformat(timespec="seconds"),
            "mode": self._settings.mode.value,
            "version": __version__,
            "commit": read_commit(self._rootdir),
        }
        records = json.loads(self.dump(entries))
        text = render_json(records, entries, platform=self.platform, about=about, is_compact=is_compact)
        return hide_places(text, root=self._rootdir, home=Path.home(), prefix=Path(sys.prefix))

    def _record(self) -> None:
        runs = [entry.run for entry in self.entries]
        if not any(not _fails(entry) for entry in self.entries):
            return
        with locked(self.budget_file.parent):
            # As the file stands now: another session, or a person, may have written to it since the start.
            before = load_budgets(self.budget_file)
            today = dt.datetime.now(dt.UTC).date()
            budgets, self._changes = record(before, runs, today=today, tolerance=self._settings.tolerance)
            is_changed = budgets != before
            if is_changed:
                save_budgets(self.budget_file, budgets)
        if is_changed:
            self._written.append(f"budgets written to {self._shown(self.budget_file)}")
        else:
            self._written.append(f"budgets in {self._shown(self.budget_file)} are unchanged")

    def _write_report(self, path: Path, machine: Machine) -> None:
        if path.suffix.lower() == ".html":
            # A templating library is loaded only where a page is wanted.
            from pytest_lecturecheck.report.html import render_html  # noqa: PLC0415 - see above

            text = render_html(self.entries, platform=self.platform, machine=machine)
        elif path.suffix.lower() == ".json":
            text = self._document(self.entries)
        else:
            text = render_markdown(self.entries, platform=self.platform, machine=machine)
        write_text_atomically(path, text)
        self._written.append(f"report: {self._shown(path)}")

    def _shown(self, path: Path) -> str:
        return path.relative_to(self._rootdir).as_posix() if path.is_relative_to(self._rootdir) else str(path)

    def summary_lines(self, *, width: int, colour: bool, verbosity: int = 0, encoding: str | None = None) -> list[str]:
        """Give the lines of the terminal summary."""
        if not self.entries:
            return self._written
        lines = render_summary(self.entries, width=width, colour=colour, verbosity=verbosity, encoding=encoding)
        if self._settings.mode is Mode.RECORD:
            lines += ["", *render_changes(self._changes, width=width, colour=colour)]
        return [*lines, *([""] if self._written else []), *self._written]


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def _fails(entry: Entry) -> bool:
    return entry.run.outcome is not Outcome.COMPLETED or entry.verdict.failed
