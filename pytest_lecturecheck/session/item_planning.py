"""Decide which items a lecture's file has: the lecture by itself, numbers of kernels at once, and named cohorts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_lecturecheck.config.options import SessionSettings
from pytest_lecturecheck.errors import LectureCheckError
from pytest_lecturecheck.model.cohort import CohortSpec, repeat_lecture
from pytest_lecturecheck.session.collection import LectureCollection

if TYPE_CHECKING:
    from pytest_lecturecheck.model.lecture import Lecture


class ItemPlanner:
    """
    Decides about the items of files during collection.

    Args:
        settings: the session's settings.
        collection: the books that lectures belong to.
        read: reads a lecture's file; called only where the file may set its concurrency, because it is expensive.
    """

    def __init__(
        self, settings: SessionSettings, collection: LectureCollection, read: Callable[[Path, str], Lecture]
    ) -> None:
        """Read nothing yet."""
        self._settings = settings
        self._collection = collection
        self._read = read

    def plan(self, path: Path, name: str) -> Sequence[CohortSpec | None]:
        """
        Return what is to be run of a file: cohorts, and ``None`` for the lecture by itself.

        Args:
            path: the file.
            name: the lecture's name.
        """
        repeats: list[CohortSpec | None] = [repeat_lecture(name, count) for count in self._concurrency(path, name)]
        named = [spec for spec in self._settings.cohorts if spec.lectures[0] == name]
        return (*(repeats or [None]), *named)

    def _concurrency(self, path: Path, name: str) -> tuple[int, ...]:
        layers = self._settings.for_all_lectures
        if self._collection.may_say_concurrency(path):
            try:
                layers = self._settings.stated_for(self._read(path, name).settings)
            except LectureCheckError:
                # The item's setup reports it.
                return ()
        return layers.concurrency or ()
