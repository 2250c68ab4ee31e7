"""
Everything that an item asks the session for: read a lecture, say why it is not run, run it, run a cohort.

Importing this module loads nbclient, nbformat, jupyter_client and psutil. The plugin therefore imports it when the
first lecture is read, and only :mod:`pytest_lecturecheck.plugin.session_state` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_lecturecheck.errors import LectureCheckError
from pytest_lecturecheck.model.cohort import CohortSpec
from pytest_lecturecheck.model.lecture import Lecture
from pytest_lecturecheck.model.settings import ItemLimit
from pytest_lecturecheck.model.variant import PLAIN, Variant
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.session.book_caching import BookCaching
from pytest_lecturecheck.session.cohort_runner import CohortRunner
from pytest_lecturecheck.session.compile_caches import CompileCaches
from pytest_lecturecheck.session.failure_states import FailureStates
from pytest_lecturecheck.session.lecture_reader import LectureReader, PreparedLecture
from pytest_lecturecheck.session.lecture_runner import LectureRunner
from pytest_lecturecheck.session.runner_parts import RunnerParts
from pytest_lecturecheck.session.runtime_context import RuntimeContext
from pytest_lecturecheck.session.unrun_entries import skipped_entry, unreadable_entry
from pytest_lecturecheck.session.workbench import Workbench

if TYPE_CHECKING:
    from pytest_lecturecheck.session.changed_lectures import ChangedLectures


class LectureService:
    """
    Reads and runs the lectures of one process.

    Args:
        context: what the runners of this process work with.
    """

    def __init__(self, context: RuntimeContext) -> None:
        """Read nothing and start nothing yet."""
        self._context = context
        self._workbench: Workbench | None = None
        self._states = FailureStates(context)
        self._caches = CompileCaches(lambda folder: self._open_workbench().guard(folder))
        self._reader = LectureReader(context)
        self._changed: ChangedLectures | None = None
        self._caching = BookCaching(context)
        parts = RunnerParts(
            states=self._states, caches=self._caches, caching=self._caching, open_workbench=self._open_workbench
        )
        self._lectures = LectureRunner(context, parts)
        self._cohorts = CohortRunner(context, parts)

    def read(self, path: Path, name: str) -> Lecture:
        """Read a lecture's file; see :meth:`LectureReader.read`."""
        return self._reader.read(path, name)

    def prepare(self, path: Path, name: str, variant: Variant = PLAIN) -> PreparedLecture:
        """Read a lecture's file and resolve its settings; see :meth:`LectureReader.prepare`."""
        return self._reader.prepare(path, name, variant)

    def prepare_cohort(self, spec: CohortSpec, path: Path, variant: Variant = PLAIN) -> Mapping[str, PreparedLecture]:
        """Read the lectures of a cohort; see :meth:`LectureReader.prepare_cohort`."""
        return self._reader.prepare_cohort(spec, path, variant)

    def why_not_run(self, prepared: PreparedLecture) -> str:
        """Return the reason why a lecture is not run, or an empty string."""
        return self._reader.why_not_run(prepared)

    def why_left_out(self, prepared: Mapping[str, PreparedLecture], variant: str) -> str:
        """Return the reason why ``--lecture-changed`` leaves lectures out, or an empty string."""
        context = self._context
        if context.settings.changed is None:
            return ""
        if any(context.memory.has_failed((name, variant, context.results.platform)) for name in prepared):
            # What failed is no less broken for being unchanged.
            return ""
        if self._changed is None:
            from pytest_lecturecheck.session.changed_lectures import ChangedLectures  # noqa: PLC0415 - on demand only

            self._changed = ChangedLectures(context.rootdir, context.settings, context.results)
        return self._changed.why_left_out(prepared.values(), variant)

    def why_cached(self, prepared: PreparedLecture) -> str:
        """Return what to say of a lecture that its book's cache has; see :meth:`BookCaching.why_cached`."""
        return self._caching.why_cached(prepared)

    def unreadable(self, name: str, fault: LectureCheckError) -> Entry:
        """Return the entry of a file that could not be read as a lecture."""
        return unreadable_entry(self._context, name, fault)

    def skip(self, lecture: Lecture, reason: str) -> Entry:
        """Return the entry of a lecture that is not run."""
        return skipped_entry(self._context, lecture, reason)

    def run(
        self,
        prepared: PreparedLecture,
        limit: ItemLimit | None = None,
        *,
        is_alone: bool = False,
        repeats: Sequence[int] | None = None,
        is_followed: bool = False,
    ) -> Iterator[Entry]:
        """Run a lecture by itself; see :meth:`LectureRunner.run`."""
        return self._lectures.run(prepared, limit, is_alone=is_alone, repeats=repeats, is_followed=is_followed)

    def run_cohort(
        self,
        spec: CohortSpec,
        prepared: Mapping[str, PreparedLecture],
        limit: ItemLimit | None = None,
        *,
        repeats: Sequence[int] | None = None,
    ) -> Iterator[Entry]:
        """Run a cohort; see :meth:`CohortRunner.run`."""
        return self._cohorts.run(spec, prepared, limit, repeats=repeats)

    def take_state_key(self, lecture: str, variant: str = "") -> str:
        """Return the key of the state in which a lecture failed, once, or an empty string."""
        return self._states.take(lecture, variant)

    def take_executed(self, lecture: str) -> str:
        """Return the file with what enters the book's cache, once, or an empty string."""
        return self._caching.take(lecture)

    def _open_workbench(self) -> Workbench:
        if self._workbench is None:
            context = self._context
            self._workbench = Workbench(
                platform=context.results.platform,
                machine=context.machine,
                on_kernel=context.journal.note_kernel,
                on_progress=context.progress.note,
                on_wait=context.progress.show,
                kernel_count=context.environment_context.kernel_count,
                launcher=context.launcher,
            )
        return self._workbench

    def close(self) -> None:
        """Stop the kernels' loop; safe to call twice."""
        self._caching.close()
        if self._workbench is not None:
            self._workbench.close()
