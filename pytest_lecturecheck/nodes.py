"""pytest's nodes: one file and one item for each lecture."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import pytest

from pytest_lecturecheck.errors import LectureCheckError, LectureReadError
from pytest_lecturecheck.settings import ItemLimit

if TYPE_CHECKING:
    from _typeshed import StrPath

    from pytest_lecturecheck.lecture.model import Lecture
    from pytest_lecturecheck.report.entry import Entry

SESSION_PLUGIN: Final = "lecturecheck_session"
"""Name under which the session object is registered."""

ITEM_NAME: Final = "lecture"
"""Name of a lecture's item behind its path (``lectures/intro.md::lecture``)."""

entry_key = pytest.StashKey[list["Entry"]]()
"""The item's entries, in the order of its runs."""


class Runner(Protocol):
    """What reads and runs an item's lecture."""

    def read(self, path: Path, name: str) -> Lecture:
        """Read a lecture's file."""

    def why_not_run(self, lecture: Lecture) -> str:
        """Say why a lecture is not run, or give an empty string."""

    def unreadable(self, name: str, reason: str) -> Entry:
        """Give the entry of a file that could not be read as a lecture."""

    def skip(self, lecture: Lecture, reason: str) -> Entry:
        """Give the entry of a lecture that is not run."""

    def run(self, lecture: Lecture, limit: ItemLimit | None = None) -> Iterator[Entry]:
        """Run a lecture as often as asked for."""


class LectureSession(Protocol):
    """What an item needs from the session."""

    @property
    def runner(self) -> Runner:
        """Give what reads and runs lectures."""

    def properties(self, entry: Entry) -> list[tuple[str, str]]:
        """Give an entry's figures as JUnit properties."""

    def worst(self, entries: Sequence[Entry]) -> Entry:
        """Choose the entry that speaks for an item."""

    def failure_text(self, entry: Entry, lecture: Lecture | None) -> str:
        """Render what pytest shows for a failed item."""


class LectureFailure(Exception):  # noqa: N818 - a failed comparison, as an AssertionError is; not a defect of the plugin
    """A lecture that failed, died or exceeded its budget; the entry says everything."""

    def __init__(self, entry: Entry) -> None:
        """Keep the entry for the failure text."""
        super().__init__(entry.headline)
        self.entry = entry


class LectureFile(pytest.File):
    """A lecture's file; it is read when its item runs, not when it is collected."""

    def collect(self) -> Iterator[LectureItem]:
        """Give the one item of this lecture."""
        yield LectureItem.from_parent(self, name=ITEM_NAME)


class LectureItem(pytest.Item):
    """One lecture, to be run in a kernel and judged."""

    lecture: Lecture | None = None
    limit: ItemLimit | None = None

    @property
    def session_plugin(self) -> LectureSession:
        """Give the session object that holds settings and budgets."""
        plugin: LectureSession = self.config.pluginmanager.getplugin(SESSION_PLUGIN)
        return plugin

    @property
    def lecture_name(self) -> str:
        """Give the lecture's key: POSIX path from rootdir in NFC; a lecture outside of it has one that leads there."""
        try:
            relative = Path(os.path.relpath(self.path, self.config.rootpath))
        except ValueError:
            # Another drive, on Windows.
            relative = self.path
        return unicodedata.normalize("NFC", relative.as_posix())

    def setup(self) -> None:
        """
        Read the lecture.

        Raises:
            LectureReadError: the file cannot be read; pytest reports an error of this item, and the others run.
        """
        try:
            self.lecture = self.session_plugin.runner.read(self.path, self.lecture_name)
        except LectureCheckError as exc:
            self.stash[entry_key] = [self.session_plugin.runner.unreadable(self.lecture_name, str(exc))]
            raise
        reason = self.session_plugin.runner.why_not_run(self.lecture)
        if reason:
            self.stash[entry_key] = [self.session_plugin.runner.skip(self.lecture, reason)]
            pytest.skip(reason)

    def runtest(self) -> None:
        """
        Run the lecture and judge it.

        Raises:
            LectureFailure: the verdict is a failure.
        """
        assert self.lecture is not None  # noqa: S101 - setup has run; this tells the type checker
        entries = self.stash.setdefault(entry_key, [])
        for entry in self.session_plugin.runner.run(self.lecture, self.limit):
            entries.append(entry)
        for entry in entries:
            self.user_properties.extend(self.session_plugin.properties(entry))
        worst = self.session_plugin.worst(entries)
        if worst.verdict.failed:
            raise LectureFailure(worst)

    def teardown(self) -> None:
        """Let the notebook go; a session of many lectures must not keep them all."""
        self.lecture = None

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Give the failure text; its first line is what the short summary shows."""
        error = excinfo.value
        if isinstance(error, LectureFailure):
            text = self.session_plugin.failure_text(error.entry, self.lecture)
            line = error.entry.line
            return self._representation(excinfo, str(error), text, line)
        if isinstance(error, LectureCheckError):
            line = error.line if isinstance(error, LectureReadError) else None
            return self._representation(excinfo, str(error), str(error), line)
        # A defect of the plugin or of a library: the places are enough, their sources would fill pages.
        return super().repr_failure(excinfo, style or "short")

    def _representation(
        self, excinfo: pytest.ExceptionInfo[BaseException], headline: str, text: str, line: int | None
    ) -> Any:
        # pytest's own representation travels through xdist and into JUnit; only its words are replaced.
        representation: Any = excinfo.getrepr(style="value", chain=False)
        representation.reprtraceback.reprentries[0].lines[:] = text.split("\n")
        representation.reprcrash.message = headline
        representation.reprcrash.path = self.lecture_name
        representation.reprcrash.lineno = line or 1
        return representation

    def reportinfo(self) -> tuple[StrPath, int | None, str]:
        """Say where the item is."""
        return self.path, None, self.lecture_name
