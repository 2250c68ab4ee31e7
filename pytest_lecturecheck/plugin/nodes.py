"""pytest's nodes: one file and one item for each lecture."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_lecturecheck.errors import LectureCheckError, LectureReadError
from pytest_lecturecheck.model.settings import ItemLimit
from pytest_lecturecheck.plugin.failure_text import failure_text
from pytest_lecturecheck.plugin.interleaving import interleaved_items, run_interleaved
from pytest_lecturecheck.plugin.xdist import is_worker
from pytest_lecturecheck.report import junit_properties
from pytest_lecturecheck.session.item_planning import PlannedItem
from pytest_lecturecheck.verdict import VerdictKind

if TYPE_CHECKING:
    from _typeshed import StrPath

    from pytest_lecturecheck.plugin.session_state import LectureCheckSession
    from pytest_lecturecheck.report.entry import Entry
    from pytest_lecturecheck.session.lecture_reader import PreparedLecture
    from pytest_lecturecheck.session.lecture_service import LectureService

SESSION_PLUGIN: Final = "lecturecheck_session"
"""Name under which the session's state is registered."""

ITEM_NAME: Final = "lecture"
"""Name of a lecture's item behind its path (``lectures/intro.md::lecture``)."""

COHORT_ITEM_NAME: Final = "cohort"
"""Name of the item of a named cohort (``lectures/intro.md::cohort[gpu-three]``)."""

_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Categories of characters that are control characters, invisible, or none at all."""

entry_key = pytest.StashKey[list["Entry"]]()
"""The item's entries, in the order of its runs."""
_attempts_key = pytest.StashKey[int]()


class LectureFailure(Exception):  # noqa: N818 - a failed comparison, as an AssertionError is; not a defect of the plugin
    """A lecture that failed, died or exceeded its budget; the entry has the details."""

    def __init__(self, entry: Entry) -> None:
        """Keep the entry for the failure text."""
        super().__init__(entry.headline)
        self.entry = entry


class LectureFile(pytest.File):
    """A lecture's file; it is read when its item runs, not when it is collected."""

    def collect(self) -> Iterator[LectureItem]:
        """
        Yield the item of this lecture, or one for each variant and number of kernels at once, and one for each cohort.

        Raises:
            CollectError: the lecture's variants cannot be spanned.
        """
        try:
            planned = session_of(self).planner.plan(self.path, lecture_name(self))
        except LectureCheckError as exc:
            # pytest shows the text of this error, and no traceback.
            raise self.CollectError(str(exc)) from exc
        if not self.config.getoption("collectonly"):
            session_of(self).expect_lectures()
        for plan in planned:
            item = LectureItem.from_parent(self, name=_item_name(plan))
            item.plan = plan
            yield item


class LectureItem(pytest.Item):
    """One lecture, to be run in a kernel and judged; or several kernels at once."""

    prepared: Mapping[str, PreparedLecture] = MappingProxyType({})
    """What is run, by the lecture's name; filled by :meth:`setup`."""
    limit: ItemLimit | None = None
    """The time limit that another plugin sets for all runs of the item."""
    plan = PlannedItem()
    """What is run: the variant, and how many kernels at once."""
    is_made: bool = False
    """Whether another item of the lecture has made this item's runs, in turn with its own."""

    @property
    def lecture_name(self) -> str:
        """Return the key of the lecture, or of a cohort's first one."""
        return lecture_name(self)

    @property
    def variant(self) -> str:
        """Return the variant under which measurements are kept: a single kernel is the lecture by itself."""
        return self.plan.subject

    @property
    def _lectures(self) -> LectureService:
        return session_of(self).lectures

    def setup(self) -> None:
        """
        Read the lecture.

        Raises:
            LectureReadError: the file cannot be read; pytest reports an error of this item, and the others run.
        """
        session_of(self).start_lectures()
        try:
            name, reason = self.prepare()
        except LectureCheckError as exc:
            self._keep([self._marked(self._lectures.unreadable(self.lecture_name, exc))])
            raise
        if reason:
            reason = f"{name}: {reason}" if name else reason
            first = self.prepared[self.lecture_name].lecture
            self._keep([self._marked(self._lectures.skip(first, reason))])
            pytest.skip(reason)

    def prepare(self) -> tuple[str, str]:
        """
        Read the lectures of the item.

        Returns:
            Which lecture of several is not run, and why not; an empty reason where all are.

        Raises:
            LectureReadError: a file cannot be read.
        """
        several, variant = self.plan.several, self.plan.variant
        if several is not None:
            self.prepared = self._lectures.prepare_cohort(several, self.path, variant)
        else:
            self.prepared = {self.lecture_name: self._lectures.prepare(self.path, self.lecture_name, variant)}
        reasons = ((name, self._lectures.why_not_run(prepared)) for name, prepared in self.prepared.items())
        for name, reason in reasons:
            if reason:
                return name if len(self.prepared) > 1 else "", reason
        reason = self._lectures.why_left_out(self.prepared, self.variant)
        if not reason and self.plan.cohort is None:
            reason = self._lectures.why_cached(self.prepared[self.lecture_name])
        return "", reason

    def _keep(self, entries: list[Entry]) -> None:
        """Keep the entries for the session, and as properties of the item's test case."""
        self.stash[entry_key] = entries
        # Where another plugin runs the item again, its first properties must not stay beside the last ones.
        self.user_properties[:] = [pair for pair in self.user_properties if not is_own_property(pair[0])]
        self.stash[_attempts_key] = attempts = self.stash.get(_attempts_key, 0) + 1
        for entry in entries:
            self.user_properties.extend(junit_properties.properties(entry, attempts))

    def _marked(self, entry: Entry) -> Entry:
        return replace(entry, run=replace(entry.run, variant=self.variant))

    def runtest(self) -> None:
        """
        Run the lecture and judge it.

        Raises:
            LectureFailure: the verdict is a failure.
        """
        if not self.is_made:
            try:
                self._run_all()
            except (KeyboardInterrupt, pytest.exit.Exception):
                session_of(self).context.progress.note_stopped(take_entries(self))
                raise
        # Another plugin may run the item again, by itself.
        self.is_made = False
        entries = self.stash[entry_key]
        self._keep(entries)
        # A failing entry decides about the item; without one the last does.
        decisive = next((entry for entry in entries if entry.verdict.failed), entries[-1])
        if decisive.verdict.failed:
            raise LectureFailure(decisive)

    def _run_all(self) -> None:
        """Make the item's runs; where they alternate with those of other variants, make theirs as well."""
        count = session_of(self).context.settings.run_count
        later = self.session.items[self.session.items.index(self) :]
        # An item that has its runs already is not run again when another plugin repeats this one.
        same = [item for item in later if isinstance(item, LectureItem) and item.parent is self.parent]
        same = [item for item in same if not item.is_made]
        together = interleaved_items(self, same, count)
        if not together:
            self.stash.setdefault(entry_key, []).extend(self._run())
            return
        run_interleaved(together, count)

    def run_repeat(self, repeat: int) -> bool:
        """Make one of the item's runs, and return True unless it is the last one."""
        self.is_made = True
        kept = self.stash.setdefault(entry_key, [])
        ends = {VerdictKind.OVER, VerdictKind.UNDER}
        goes_on = True
        # One by one: an interruption yields what had run, and then raises.
        for entry in self._run([repeat]):
            kept.append(entry)
            session_of(self).context.progress.note_waiting([entry])
            goes_on = goes_on and not (entry.verdict.failed and entry.verdict.kind not in ends)
        return goes_on

    def _run(self, repeats: Sequence[int] | None = None) -> Iterator[Entry]:
        if self.plan.several is not None:
            return self._lectures.run_cohort(self.plan.several, self.prepared, self.limit, repeats=repeats)
        # One of several numbers of kernels is to be compared with the others, which run with nothing beside them. So
        # is one of several variants.
        is_alone = self.plan.cohort is not None
        return self._lectures.run(
            self.prepared[self.lecture_name],
            self.limit,
            is_alone=is_alone,
            repeats=repeats,
            is_followed=self._is_followed,
        )

    @property
    def _is_followed(self) -> bool:
        """Return True if the next item in this process is known to be a lecture by itself; workers do not know."""
        items = self.session.items
        following = items[items.index(self) + 1 :][:1]
        is_lecture = bool(following) and isinstance(following[0], LectureItem) and following[0].plan.several is None
        return is_lecture and not is_worker(self.config)

    def teardown(self) -> None:
        """Drop the notebooks: pytest keeps the items of a session."""
        self.prepared = MappingProxyType({})

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the failure text; its first line is what the short summary shows."""
        error = excinfo.value
        if isinstance(error, LectureFailure):
            name = error.entry.subject.lecture
            lecture = self.prepared[name].lecture if name in self.prepared else None
            configuration = session_of(self).configuration
            text = failure_text(error.entry, lecture, configuration, self.config.get_verbosity())
            return self._representation(excinfo, str(error), text, error.entry.line, name)
        if isinstance(error, LectureCheckError):
            line = error.line if isinstance(error, LectureReadError) else None
            return self._representation(excinfo, str(error), str(error), line, self.lecture_name)
        # A defect of the plugin or of a library: locations are enough, sources would fill pages.
        return super().repr_failure(excinfo, style or "short")

    def _representation(
        self, excinfo: pytest.ExceptionInfo[BaseException], headline: str, text: str, line: int | None, lecture: str
    ) -> Any:
        # pytest's own representation survives xdist and reaches JUnit; only its text is replaced.
        representation: Any = excinfo.getrepr(style="value", chain=False)
        representation.reprtraceback.reprentries[0].lines[:] = text.split("\n")
        representation.reprcrash.message = headline
        representation.reprcrash.path = harmless_id(lecture)
        representation.reprcrash.lineno = line or 1
        return representation

    def reportinfo(self) -> tuple[StrPath, int | None, str]:
        """Return where the item is."""
        several, name = self.plan.name, harmless_id(self.lecture_name)
        path = self.path if name == self.lecture_name else self.config.rootpath / name
        return path, None, f"{name} [{several}]" if several else name


def take_entries(item: pytest.Item) -> list[Entry]:
    """Return the entries of an item that have not been reported, once; empty for what is no lecture."""
    entries: list[Entry] = item.stash.get(entry_key, [])
    if entries:
        item.stash[entry_key] = []
    return entries


def is_own_property(name: str) -> bool:
    """Return True if a property of a test case is one of :mod:`~pytest_lecturecheck.report.junit_properties`."""
    return name.startswith("lecturecheck.")


def session_of(node: pytest.Collector | pytest.Item) -> LectureCheckSession:
    """Return the session's state."""
    plugin: LectureCheckSession = node.config.pluginmanager.getplugin(SESSION_PLUGIN)
    return plugin


def lecture_name(node: LectureFile | LectureItem) -> str:
    """Return a lecture's key: its POSIX path from rootdir in NFC, with ``..`` for a lecture outside of rootdir."""
    text, root = os.fspath(node.path), f"{node.config.rootpath}{os.sep}"
    if text.startswith(root):
        # Called for every file that is collected; relpath costs ten times as much.
        return unicodedata.normalize("NFC", text.removeprefix(root).replace(os.sep, "/"))
    try:
        relative = Path(os.path.relpath(text, node.config.rootpath))
    except ValueError:
        # Another drive, on Windows.
        relative = node.path
    return unicodedata.normalize("NFC", relative.as_posix())


def harmless_id(name: str) -> str:
    r"""
    Return a name that is safe to print and to write into XML: control characters escaped (``\n``), commands broken.

    GitHub's runners read a line that begins with ``::`` as a command, and ``##[`` anywhere in a line. Within a name
    ``::`` stays, because pytest finds such a file by its name only.
    """
    if name.isascii() and name.isprintable() and not name.lstrip().startswith("::") and "##[" not in name:
        return name
    escaped = "".join(
        char.encode("unicode_escape").decode("ascii") if unicodedata.category(char) in _UNSEEN else char
        for char in name
    )
    return re.sub(r"\A(\s*):(?=:)", r"\1: ", re.sub(r"#(?=[^\w\s]*#\[)", "# ", escaped))


def _item_name(plan: PlannedItem) -> str:
    if not plan.name:
        return ITEM_NAME
    is_named = plan.cohort is not None and not plan.cohort.is_repeat
    return f"{COHORT_ITEM_NAME if is_named else ITEM_NAME}[{plan.name}]"
