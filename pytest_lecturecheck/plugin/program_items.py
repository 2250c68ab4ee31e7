"""pytest's nodes of plain programs: the settings file with the table ``[programs]``, and one item for each program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from pytest_lecturecheck.plugin.nodes import LectureItem, entry_key, session_of

if TYPE_CHECKING:
    from pytest_lecturecheck.model.program import ProgramSpec
    from pytest_lecturecheck.session.lecture_service import LectureService


class ProgramFile(pytest.File):
    """The settings file; its programs are run in their order, and one that fails does not stop the others."""

    def collect(self) -> Iterator[ProgramItem]:
        """Yield an item for each program."""
        for spec in session_of(self).context.settings.programs:
            item = ProgramItem.from_parent(self, name=spec.name)
            item.spec = spec
            yield item


class ProgramItem(LectureItem):
    """One program, to be run and judged as a lecture of one step."""

    spec: ProgramSpec

    @property
    def lecture_name(self) -> str:
        """Return the program's name in records."""
        return self.spec.name

    @property
    def _lectures(self) -> LectureService:
        return session_of(self).start_lectures()

    def setup(self) -> None:
        """Do nothing: there is no file to read."""

    def prepare(self) -> tuple[str, str]:
        """Return that the program is run."""
        return "", ""

    def _run_all(self) -> None:
        from pytest_lecturecheck.session.program_session import run_in_session  # noqa: PLC0415 - loads the kernel room

        seconds = self.limit.seconds if self.limit is not None else None
        entry = run_in_session(self.spec, session_of(self).context, limit_seconds=seconds)
        self.stash.setdefault(entry_key, []).append(entry)

    def reportinfo(self) -> tuple[Any, int | None, str]:
        """Return where the item is."""
        return self.path, None, self.spec.name
