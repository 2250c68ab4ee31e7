"""Notice a session that collected no lecture: a gate that checked nothing must not pass."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_lecturecheck.plugin.nodes import LectureItem
from pytest_lecturecheck.plugin.xdist import is_worker

if TYPE_CHECKING:
    from pytest_lecturecheck.plugin.session_state import LectureCheckSession

_LECTURE_ID: Final = re.compile(r"::(?:lecture|cohort)(?:\[.*\])?", re.DOTALL)
_NARROWING: Final = ("keyword", "markexpr", "deselect", "lf", "failedfirst", "stepwise")
"""Options of pytest with which the user leaves out items on purpose."""


_part_key: Final = pytest.StashKey[str]()
_OUTPUT_KEY: Final = "lecturecheck_empty_part"


def note_empty_part(config: pytest.Config, text: str) -> None:
    """Note that a part of the lectures is empty, in a session or in one of its workers."""
    config.stash[_part_key] = text
    if is_worker(config):
        config.workeroutput[_OUTPUT_KEY] = text  # type: ignore[attr-defined]


class EmptySessions:
    """
    Counts the lectures that were collected, in this process or by workers.

    Args:
        config: pytest's configuration.
        session: the session's state.
    """

    def __init__(self, config: pytest.Config, session: LectureCheckSession) -> None:
        """Count nothing yet."""
        self._config = config
        self._session = session
        self._is_empty: bool | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Look for lectures before anything is deselected."""
        self._is_empty = not any(isinstance(item, LectureItem) for item in items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Look for lectures among the items of a worker."""
        found = any(_LECTURE_ID.fullmatch(name[name.find("::") :]) for name in ids)
        self._is_empty = not found and self._is_empty is not False

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what a worker found out about its part of the lectures."""
        text = (getattr(node, "workeroutput", None) or {}).get(_OUTPUT_KEY)
        if text:
            self._config.stash[_part_key] = text

    @property
    def empty_part(self) -> str:
        """Return that the other parts have all lectures (``--lecture-shard``), or an empty string."""
        return self._config.stash.get(_part_key, "")

    def explain(self) -> str:
        """Return what was looked for in vain, or an empty string if a lecture was collected or none was asked for."""
        if not self._is_empty or self.empty_part or any(self._option(name) for name in _NARROWING):
            return ""
        folders = self._folders()
        if not folders:
            # Only files were named, and each of them has its own line.
            return ""
        from pytest_lecturecheck.session.empty_collection import explain_empty  # noqa: PLC0415 - only for failures

        context = self._session.context
        return explain_empty(
            context.collection, folders, rootdir=context.rootdir, suffixes=frozenset(context.settings.suffixes)
        )

    def _option(self, name: str) -> Any:
        return getattr(self._config.option, name, None)

    def _folders(self) -> list[Path]:
        arguments = self._session.arguments
        if arguments.named or arguments.odd:
            return []
        asked = [target.path for target in arguments.plain] or [self._session.context.rootdir]
        return [path for path in asked if path.is_dir()]
