"""The state of one session, on the controller or on a worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_lecturecheck.plugin.plain_imports import plain_imports
from pytest_lecturecheck.plugin.worker_configuration import WorkerConfiguration
from pytest_lecturecheck.session.early_start import start_early
from pytest_lecturecheck.session.item_planning import ItemPlanner
from pytest_lecturecheck.session.library_path import library_path
from pytest_lecturecheck.session.pytest_arguments import Arguments
from pytest_lecturecheck.session.runtime_context import RuntimeContext

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_lecturecheck.model.lecture import Lecture
    from pytest_lecturecheck.session.lecture_service import LectureService


class LectureCheckSession:
    """
    The state that items and hooks share.

    Args:
        context: settings, budgets, the machine, and what receives progress.
        configuration: what the controller decided.
        arguments: what the command line names.

    Attributes:
        context: see above.
        configuration: see above.
        arguments: see above.
        planner: decides which items a file has.
    """

    def __init__(self, context: RuntimeContext, configuration: WorkerConfiguration, arguments: Arguments) -> None:
        """Prepare; no kernel is started and no lecture is read."""
        self.context = context
        self.configuration = configuration
        self.arguments = arguments
        self.planner = ItemPlanner(context.settings, context.collection, self._read)
        self._lectures: LectureService | None = None
        self._has_started = False

    @property
    def lectures(self) -> LectureService:
        """Return what reads and runs lectures; the first use loads nbclient, nbformat and the like."""
        if self._lectures is None:
            # Only here, so that collection stays cheap; and not from a lecture's folder, which may hold a yaml.py.
            with plain_imports(), library_path(self.context.rootdir, self.context.invocation_dir):
                from pytest_lecturecheck.session.lecture_service import LectureService  # noqa: PLC0415 - see above
            self._lectures = LectureService(self.context)
        return self._lectures

    def expect_lectures(self) -> None:
        """Start the server of kernels, which takes longer than all that comes before the first one; once."""
        if not self._has_started:
            self._has_started = True
            start_early(self.context)

    def start_lectures(self) -> LectureService:
        """Return what runs lectures, now that the first one is about to run."""
        self.expect_lectures()
        return self.lectures

    def _read(self, path: Path, name: str) -> Lecture:
        return self.lectures.read(path, name)

    def close(self) -> None:
        """Stop the kernels' loop and end the journal; safe to call twice."""
        if self._lectures is not None:
            self._lectures.close()
        self.context.journal.close()
