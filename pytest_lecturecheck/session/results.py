"""Budgets and entries of a session, as they are looked up and kept while it runs."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_lecturecheck.budget.limits import LectureBudget, PlatformBudgets, Tolerance, closest_name
from pytest_lecturecheck.config.options import Mode, SessionSettings
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.platform import Machine
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.model.variant import title_of
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.store.budget_file.files import load_folder
from pytest_lecturecheck.store.runs import entry_from_dict, entry_to_dict
from pytest_lecturecheck.verdict import (
    Policy,
    Verdict,
    VerdictKind,
    compare_package,
    judge,
    judge_profiled,
    judge_recorded,
)

if TYPE_CHECKING:
    from pytest_lecturecheck.session.closing import Closing

_SHARED_PARTS: Final = ("machine", "software", "manifest")
"""Parts of a run that are mostly equal in all runs of a session, and take more memory than its measurements."""
_MOST_SHARED: Final = 32
_TEXT_CHARS: Final = 200
_MOST_TEXTS: Final = 5_000
_UNMATCHED_SHOWN: Final = 3


class Results:
    """
    The budgets and the entries of a session.

    Args:
        rootdir: pytest's rootdir.
        settings: the session's settings.
        platform: platform label.

    Raises:
        BudgetFileError: a budget file cannot be used.
    """

    def __init__(self, rootdir: Path, settings: SessionSettings, platform: str) -> None:
        """Load all budget files; an invalid one stops the session before any kernel starts."""
        self._rootdir = rootdir
        self._settings = settings
        self.platform = platform
        self.budget_file = settings.budget_folder / f"{platform}.toml"
        self._all: Mapping[str, PlatformBudgets] = load_folder(settings.budget_folder)
        self._own = self._all.get(platform) or PlatformBudgets(platform=platform)
        self.entries: list[Entry] = []
        self.superseded: list[Entry] = []
        self._shared: dict[str, list[Any]] = {}
        self._texts: dict[str, str] = {}
        self._closing: Closing | None = None

    # -- judging ------------------------------------------------------------------------------------------------------

    def judge(self, run: Run, policy: Policy) -> Verdict:
        """Judge a run according to the session's mode."""
        if not run.is_comparable:
            return judge_profiled(run)
        if self._settings.mode is not Mode.RECORD:
            return judge(run, self.budget_of(run), policy)
        return judge_recorded(run, policy)

    def budget_of(self, run: Run) -> LectureBudget | None:
        """Return the budget that this platform has for a run, or ``None``."""
        return self._own.find(run.lecture, run.variant)

    def find_budget(self, lecture: str, variant: str = "") -> LectureBudget | None:
        """Return the budget that this platform has for a lecture, or ``None``."""
        return self._own.find(lecture, variant)

    def checked_budget(self, lecture: str, variant: str = "") -> LectureBudget | None:
        """Return the budget that a run is compared with; ``None`` while recording, which replaces it."""
        return self.find_budget(lecture, variant) if self._settings.mode is Mode.CHECK else None

    def known_platforms(self, lecture: str, variant: str = "") -> dict[str, float]:
        """Return the highest footprint that other platforms recorded for a lecture, as context."""
        known = {}
        for label, budgets in self._all.items():
            found = budgets.find(lecture, variant) if label != self.platform else None
            memory = found.metrics.get(Metric.PEAK_FOOTPRINT) if found is not None else None
            if memory is not None and (memory.seen or memory.limit is not None):
                known[label] = max(memory.seen) if memory.seen else float(memory.limit or 0)
        return known

    def former_name(self, lecture: str, variant: str = "") -> str:
        """Return a lecture or cohort in the budget file that matches none of today's and probably means this one."""
        keys = self._own.lectures
        if self._settings.mode is not Mode.CHECK or (lecture, variant) in keys:
            return ""
        # A cohort that has the same name but for its spelling.
        same = closest_name(variant, (other for name, other in keys if name == lecture and other)) if variant else ""
        if same:
            return title_of(lecture, same)
        if not variant and any(name == lecture for name, _variant in keys):
            return ""
        found = closest_name(lecture, (name for name in self._own.unmatched(self._is_file) if (name, variant) in keys))
        return title_of(found, variant) if found else ""

    @property
    def tolerance(self) -> Tolerance:
        """Return the rule for limits: that of the settings, else that of the budget file."""
        return self._settings.tolerance or self._own.tolerance

    # -- transport ----------------------------------------------------------------------------------------------------

    @staticmethod
    def dump(entries: Iterable[Entry]) -> str:
        """Pack entries into one text of plain JSON."""
        return json.dumps([entry_to_dict(entry.run, entry.verdict, seconds=entry.seconds) for entry in entries])

    def unpack(self, text: str) -> list[Entry]:
        """Unpack what :meth:`dump` has packed."""
        entries = []
        for packed in json.loads(text, object_pairs_hook=self._with_shared_texts):
            kept = entry_from_dict(packed)
            run = self._with_shared_parts(kept.run)
            budget = self.checked_budget(run.lecture, run.variant)
            entries.append(Entry(run=run, verdict=kept.verdict, budget=budget, seconds=kept.seconds))
        return entries

    def _with_shared_texts(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return {self._shared_text(name): self._shared_text(value) for name, value in pairs}

    def _shared_text(self, value: Any) -> Any:
        """Return the equal text of an earlier entry: half of an entry is text that most entries have."""
        if not isinstance(value, str) or len(value) > _TEXT_CHARS:
            return value
        if len(self._texts) >= _MOST_TEXTS:
            return self._texts.get(value, value)
        return self._texts.setdefault(value, value)

    def _with_shared_parts(self, run: Run) -> Run:
        """Return the run with the descriptions of machine and software that equal those of earlier runs, once."""
        return replace(run, **{name: self._shared_part(name, getattr(run, name)) for name in _SHARED_PARTS})

    def _shared_part(self, name: str, part: Any) -> Any:
        if part is None:
            return None
        # Lectures that import the same have equal ones; those that die in between have others.
        known = self._shared.setdefault(name, [])
        for earlier in known:
            if earlier == part:
                return earlier
        known.insert(0, part)
        del known[_MOST_SHARED:]
        return part

    def take(self, entries: Sequence[Entry], *, instead_of: Sequence[Entry] = ()) -> Sequence[Entry]:
        """
        Keep entries for the summary and the reports.

        Args:
            entries: the entries of one item.
            instead_of: entries of an earlier run of the same item, which these supersede.

        Returns:
            The entries as they are kept: the first one says how the earlier runs ended.
        """
        superseded = {id(entry) for entry in instead_of}
        if entries and instead_of:
            entries = [_after(instead_of, entries[0]), *entries[1:]]
        # In place: what writes the end of the session holds this list.
        self.entries[:] = [entry for entry in self.entries if id(entry) not in superseded]
        self.superseded.extend(instead_of)
        self.entries.extend(entries)
        return entries

    # -- the end ------------------------------------------------------------------------------------------------------

    def finish(self, machine: Machine) -> bool:
        """
        Write what was recorded, and the reports.

        Returns:
            Whether everything could be written; the summary names what could not.
        """
        return self._close().finish(machine)

    @property
    def is_kept(self) -> bool:
        """Return True if the session is kept, once it has finished."""
        return self._close().is_kept

    def package_fits(self) -> bool:
        """Return False if all lectures together need more than was declared for the package."""
        compared = compare_package([(entry.run, entry.verdict) for entry in self.entries])
        return not any(item.kind is VerdictKind.NOT_FITTING for item in compared)

    def summary_lines(self, *, width: int, colour: bool, verbosity: int = 0, encoding: str | None = None) -> list[str]:
        """Return the lines of the terminal summary."""
        if not self.entries and self._closing is None:
            return []
        return self._close().summary_lines(width=width, colour=colour, verbosity=verbosity, encoding=encoding)

    def unmatched_budgets(self) -> list[str]:
        """Return a line for each budget that no lecture is compared with, because no file has its name."""
        tried = {entry.run.lecture for entry in self.entries}
        without = {entry.run.lecture for entry in self.entries if self.budget_of(entry.run) is None}
        found = self._own.unmatched(lambda name: name in tried or self._is_file(name))
        lines = []
        for name in found[:_UNMATCHED_SHOWN]:
            closest = closest_name(name, without)
            meant = f"; is it {closest!r}?" if closest else ""
            lines.append(f"{self.budget_file.name} has a budget for {name!r}, and there is no such lecture{meant}")
        rest = len(found) - _UNMATCHED_SHOWN
        return [*lines, f"and budgets for {rest} more that are not there"] if rest > 0 else lines

    def _is_file(self, name: str) -> bool:
        # Some systems write names with their accents apart.
        try:
            return any((self._rootdir / unicodedata.normalize(form, name)).is_file() for form in ("NFC", "NFD"))
        except (OSError, ValueError):
            return False

    def _close(self) -> Closing:
        if self._closing is None:
            # Workers and sessions that only collect write nothing.
            from pytest_lecturecheck.session.closing import Closing  # noqa: PLC0415 - see above

            self._closing = Closing(
                self._rootdir, self._settings, self.platform, self.budget_file, entries=self.entries
            )
        return self._closing


def _after(earlier: Sequence[Entry], entry: Entry) -> Entry:
    """Return the entry with the ends of the runs that it replaces."""
    last = next((item for item in earlier if item.verdict.failed), earlier[-1])
    ends = (*earlier[0].verdict.earlier_ends, f"{last.verdict.kind.value}: {last.headline}")
    return replace(entry, verdict=replace(entry.verdict, earlier_ends=ends))
