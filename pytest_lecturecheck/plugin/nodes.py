"""pytest's nodes: one file and one item for each lecture."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

import pytest

from pytest_lecturecheck.errors import LectureCheckError, LectureReadError
from pytest_lecturecheck.model.settings import ItemLimit

if TYPE_CHECKING:
    from _typeshed import StrPath

    from pytest_lecturecheck.model.cohort import CohortSpec
    from pytest_lecturecheck.model.lecture import Lecture
    from pytest_lecturecheck.report.entry import Entry

SESSION_PLUGIN: Final = "lecturecheck_session"
"""Name under which the session object is registered."""

ITEM_NAME: Final = "lecture"
"""Name of a lecture's item behind its path (``lectures/intro.md::lecture``)."""

COHORT_ITEM_NAME: Final = "cohort"
"""Name of the item of a named cohort (``lectures/intro.md::cohort[gpu-three]``)."""

_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Categories of characters that are control characters, invisible, or none at all."""

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

    def run(self, lecture: Lecture, limit: ItemLimit | None = None, *, is_alone: bool = False) -> Iterator[Entry]:
        """Run a lecture as often as asked for; where ``is_alone``, with nothing beside it."""

    def plan_items(self, path: Path, name: str) -> Sequence[CohortSpec | None]:
        """Say what is to be run of a file: cohorts, and ``None`` for the lecture by itself."""

    def read_cohort(self, spec: CohortSpec, path: Path) -> Mapping[str, Lecture]:
        """Read the lectures of a cohort, whose first one is in ``path``."""

    def run_cohort(
        self, spec: CohortSpec, lectures: Mapping[str, Lecture], limit: ItemLimit | None = None
    ) -> Iterator[Entry]:
        """Run a cohort as often as asked for."""


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
        """Give the one item of this lecture, or one for each number of kernels that is to be tried, and its cohorts."""
        runner = session_of(self).runner
        for spec in runner.plan_items(self.path, lecture_name(self)):
            item = LectureItem.from_parent(self, name=_item_name(spec))
            item.cohort = spec
            yield item


class LectureItem(pytest.Item):
    """One lecture, to be run in a kernel and judged; or several kernels at once."""

    lectures: Mapping[str, Lecture] = MappingProxyType({})
    limit: ItemLimit | None = None
    cohort: CohortSpec | None = None
    """What is run at once; ``None`` for the lecture by itself."""

    @property
    def session_plugin(self) -> LectureSession:
        """Give the session object that holds settings and budgets."""
        return session_of(self)

    @property
    def lecture_name(self) -> str:
        """Give the key of the lecture, or of a cohort's first one."""
        return lecture_name(self)

    @property
    def variant(self) -> str:
        """Give the variant under which its figures are kept: a single kernel is the lecture by itself."""
        return self._several.name if self._several is not None else ""

    @property
    def _several(self) -> CohortSpec | None:
        """Give the cohort where it is one of several kernels, or was given a name."""
        spec = self.cohort
        return None if spec is None or (spec.is_repeat and spec.kernel_count == 1) else spec

    def setup(self) -> None:
        """
        Read the lecture.

        Raises:
            LectureReadError: the file cannot be read; pytest reports an error of this item, and the others run.
        """
        runner = self.session_plugin.runner
        try:
            if self._several is not None:
                self.lectures = runner.read_cohort(self._several, self.path)
            else:
                self.lectures = {self.lecture_name: runner.read(self.path, self.lecture_name)}
        except LectureCheckError as exc:
            self.stash[entry_key] = [self._marked(runner.unreadable(self.lecture_name, str(exc)))]
            raise
        for lecture in self.lectures.values():
            reason = runner.why_not_run(lecture)
            if reason and len(self.lectures) > 1:
                reason = f"{lecture.name}: {reason}"
            if reason:
                self.stash[entry_key] = [self._marked(runner.skip(self.lectures[self.lecture_name], reason))]
                pytest.skip(reason)

    def _marked(self, entry: Entry) -> Entry:
        return replace(entry, run=replace(entry.run, variant=self.variant))

    def runtest(self) -> None:
        """
        Run the lecture and judge it.

        Raises:
            LectureFailure: the verdict is a failure.
        """
        entries = self.stash.setdefault(entry_key, [])
        for entry in self._run():
            entries.append(entry)
        for entry in entries:
            self.user_properties.extend(self.session_plugin.properties(entry))
        worst = self.session_plugin.worst(entries)
        if worst.verdict.failed:
            raise LectureFailure(worst)

    def _run(self) -> Iterator[Entry]:
        runner = self.session_plugin.runner
        if self._several is not None:
            return runner.run_cohort(self._several, self.lectures, self.limit)
        # One of several numbers of kernels is to be compared with the others, which run with nothing beside them.
        return runner.run(self.lectures[self.lecture_name], self.limit, is_alone=self.cohort is not None)

    def teardown(self) -> None:
        """Let the notebooks go; a session of many lectures must not keep them all."""
        self.lectures = MappingProxyType({})

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Give the failure text; its first line is what the short summary shows."""
        error = excinfo.value
        if isinstance(error, LectureFailure):
            about = error.entry.run.speaker.lecture
            text = self.session_plugin.failure_text(error.entry, self.lectures.get(about))
            line = error.entry.line
            return self._representation(excinfo, str(error), text, line, about)
        if isinstance(error, LectureCheckError):
            line = error.line if isinstance(error, LectureReadError) else None
            return self._representation(excinfo, str(error), str(error), line, self.lecture_name)
        # A defect of the plugin or of a library: the places are enough, their sources would fill pages.
        return super().repr_failure(excinfo, style or "short")

    def _representation(
        self, excinfo: pytest.ExceptionInfo[BaseException], headline: str, text: str, line: int | None, lecture: str
    ) -> Any:
        # pytest's own representation travels through xdist and into JUnit; only its words are replaced.
        representation: Any = excinfo.getrepr(style="value", chain=False)
        representation.reprtraceback.reprentries[0].lines[:] = text.split("\n")
        representation.reprcrash.message = headline
        representation.reprcrash.path = harmless_id(lecture)
        representation.reprcrash.lineno = line or 1
        return representation

    def reportinfo(self) -> tuple[StrPath, int | None, str]:
        """Say where the item is."""
        several, name = self._several, harmless_id(self.lecture_name)
        path = self.path if name == self.lecture_name else self.config.rootpath / name
        return path, None, name if several is None else f"{name} [{several.name}]"


def session_of(node: pytest.Collector | pytest.Item) -> LectureSession:
    """Give the session object that holds settings and budgets."""
    plugin: LectureSession = node.config.pluginmanager.getplugin(SESSION_PLUGIN)
    return plugin


def lecture_name(node: LectureFile | LectureItem) -> str:
    """Give a lecture's key: POSIX path from rootdir in NFC; a lecture outside of it has one that leads there."""
    text, root = os.fspath(node.path), f"{node.config.rootpath}{os.sep}"
    if text.startswith(root):
        # Asked for every file that is collected, and nearly always below rootdir: relpath costs ten times as much.
        return unicodedata.normalize("NFC", text.removeprefix(root).replace(os.sep, "/"))
    try:
        relative = Path(os.path.relpath(text, node.config.rootpath))
    except ValueError:
        # Another drive, on Windows.
        relative = node.path
    return unicodedata.normalize("NFC", relative.as_posix())


def harmless_id(name: str) -> str:
    r"""
    Give a name as pytest may print it and write it into XML: control characters escaped (``\n``), commands broken.

    Runners of GitHub take a line that begins with ``::`` as a command, and ``##[`` anywhere. Within a name ``::``
    stays: pytest finds such a file by its name, and would not by another.
    """
    if name.isascii() and name.isprintable() and not name.lstrip().startswith("::") and "##[" not in name:
        return name
    escaped = "".join(
        char.encode("unicode_escape").decode("ascii") if unicodedata.category(char) in _UNSEEN else char
        for char in name
    )
    return re.sub(r"\A(\s*):(?=:)", r"\1: ", re.sub(r"#(?=[^\w\s]*#\[)", "# ", escaped))


def _item_name(spec: CohortSpec | None) -> str:
    if spec is None:
        return ITEM_NAME
    return f"{ITEM_NAME if spec.is_repeat else COHORT_ITEM_NAME}[{spec.name}]"
