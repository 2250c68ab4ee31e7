"""The hooks of collection: what is a lecture, what is deselected, and in which order workers start lectures."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_lecturecheck.errors import LectureCheckError
from pytest_lecturecheck.lease.admission import Capacity
from pytest_lecturecheck.lease.broker import plan_order, shard_of
from pytest_lecturecheck.plugin.empty_sessions import note_empty_part
from pytest_lecturecheck.plugin.nodes import LectureFile, LectureItem, harmless_id
from pytest_lecturecheck.plugin.session_state import LectureCheckSession
from pytest_lecturecheck.plugin.xdist import kernel_count


class CollectionHooks:
    """
    The hooks of collection.

    Args:
        session: the session's state.
        capacity: what all lectures at once may take, on a worker whose lectures are put in order; else ``None``.
    """

    def __init__(self, session: LectureCheckSession, capacity: Capacity | None) -> None:
        """Hold what the hooks need."""
        self._collection = session.context.collection
        self._settings, self._rootdir = session.context.settings, session.context.rootdir
        self._arguments = session.arguments
        self._results = session.context.results
        self._capacity = capacity
        self._shard = session.context.settings.shard

    @pytest.hookimpl(tryfirst=True)
    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Ignore what only the folder of an oddly named file would bring in, and links that lead back."""
        return True if self._collection.is_left_out(collection_path) else None

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> Iterator[None]:
        """Collect lectures; a script that looks like a test module is a lecture only."""
        collectors: list[pytest.Collector] = yield  # type: ignore[assignment]
        if self._has_programs(file_path):
            from pytest_lecturecheck.plugin.program_items import ProgramFile  # noqa: PLC0415 - few sessions have programs

            collectors = [*collectors, ProgramFile.from_parent(parent, path=file_path)]
        try:
            is_lecture = self._collection.is_lecture(file_path)
        except LectureCheckError as exc:
            # pytest shows the text of this error, and no traceback.
            raise pytest.Collector.CollectError(str(exc)) from exc
        if not is_lecture:
            return collectors  # type: ignore[return-value]
        if file_path.suffix == ".py":
            collectors = self._without_modules(collectors, file_path)
        return [*collectors, _lecture_file(parent, file_path)]  # type: ignore[return-value]

    def _has_programs(self, path: Path) -> bool:
        settings = self._settings
        return bool(settings.programs) and path == self._rootdir / settings.file_name.partition(" ")[0]

    def _without_modules(self, collectors: list[pytest.Collector], path: Path) -> list[pytest.Collector]:
        """Drop collectors that would import a script, and with that run the lecture in pytest's own process."""
        modules = [item for item in collectors if isinstance(item, pytest.Module)]
        # pytest's collector of doctests is a module too, and not part of its public names.
        if any(type(item) is not pytest.Module for item in modules):
            self._collection.note_doctests(path)
        return [item for item in collectors if item not in modules]

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselect what only the folder of an oddly named file has brought in."""
        if not self._arguments.odd:
            return
        deselected = [item for item in items if self._arguments.deselects(item.path, _names_below_file(item))]
        if deselected:
            items[:] = [item for item in items if item not in deselected]
            config.hook.pytest_deselected(items=deselected)

    @pytest.hookimpl(specname="pytest_collection_modifyitems")
    def pytest_collection_shard(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselect the lectures of other parts; tests that are no lectures stay in each."""
        if self._shard is None:
            return
        part, count = self._shard
        lectures = [item for item in items if isinstance(item, LectureItem)]
        subjects = dict.fromkeys((item.lecture_name, item.variant) for item in lectures)
        kept = shard_of({key: self._results.find_budget(*key) for key in subjects}, part, count)
        left_out: list[pytest.Item] = [item for item in lectures if item.lecture_name not in kept]
        if left_out:
            items[:] = [item for item in items if item not in left_out]
            config.hook.pytest_deselected(items=left_out)
        if len(left_out) == len(lectures) > 0:
            number = len({item.lecture_name for item in lectures})
            those = "the only lecture is" if number == 1 else f"all {number} lectures are"
            note_empty_part(config, f"part {part} of {count} has nothing to run: {those} in other parts")

    @pytest.hookimpl(trylast=True, specname="pytest_collection_modifyitems")
    def pytest_collection_order(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Reorder the lectures of a worker so that they wait for each other as little as possible; tests stay."""
        capacity = self._capacity
        if capacity is None:
            return
        slots = [index for index, item in enumerate(items) if isinstance(item, LectureItem)]
        lectures = [item for item in items if isinstance(item, LectureItem)]
        budgets = [self._results.find_budget(item.lecture_name, item.variant) for item in lectures]
        planned = plan_order(budgets, capacity, kernel_count(config))
        for slot, position in zip(slots, planned, strict=True):
            items[slot] = lectures[position]


def _lecture_file(parent: pytest.Collector, path: Path) -> LectureFile:
    """Return the node of a lecture; an odd name is replaced by an id that is safe in terminals, logs and XML."""
    text, root = os.fspath(path), f"{parent.config.rootpath}{os.sep}"
    if text.startswith(root):
        # Called for every file that is collected; relpath costs ten times as much.
        name = text.removeprefix(root).replace(os.sep, "/")
    else:
        name = Path(os.path.relpath(text, root)).as_posix() if path.drive == parent.path.drive else ""
    harmless = harmless_id(name)
    if harmless == name:
        return LectureFile.from_parent(parent, path=path)
    return LectureFile.from_parent(parent, path=path, nodeid=harmless)


def _names_below_file(item: pytest.Item) -> list[str]:
    return [
        node.name for node in item.listchain() if not isinstance(node, pytest.Session | pytest.Directory | pytest.File)
    ]
