"""Decide which lectures have changed since a commit; what cannot be known has changed."""

from __future__ import annotations

import functools
import tempfile
import tomllib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, Final

from pytest_lecturecheck.config.option_table import OPTIONS
from pytest_lecturecheck.config.options import SessionSettings
from pytest_lecturecheck.errors import BudgetFileError, LectureCheckError, SettingsError
from pytest_lecturecheck.files import read_plain_bytes
from pytest_lecturecheck.lecture.book.configuration import find_book
from pytest_lecturecheck.lecture.reading import read_lecture
from pytest_lecturecheck.model.lecture import Lecture
from pytest_lecturecheck.model.settings import RunSettings
from pytest_lecturecheck.repository.code_references import find_quoted, find_references
from pytest_lecturecheck.repository.environment_files import decides_environment
from pytest_lecturecheck.repository.git import GitError
from pytest_lecturecheck.repository.local_files import find_changed_file
from pytest_lecturecheck.repository.tree_changes import read_changes
from pytest_lecturecheck.session.lecture_reader import PreparedLecture
from pytest_lecturecheck.session.results import Results
from pytest_lecturecheck.store.budget_file.files import load_budgets

_BOOK_FILES: Final = ("_config.yml", "_toc.yml", "myst.yml", "conf.py", "_quarto.yml", "_metadata.yml", "jupytext.toml")
_SETTINGS_FILES: Final = ("lecturecheck.toml", "pyproject.toml")
_TOOLS: Final = frozenset(
    {"black", "codespell", "coverage", "flake8", "importlinter", "isort", "mypy", "pylint", "pyright", "pytest", "ruff"}
)
"""Tables of ``pyproject.toml`` that no lecture reads."""
_REPORTING: Final = frozenset(option.name for option in OPTIONS if option.group == "report")
_PYTHON: Final = frozenset({"", "python", "ipython", "python3"})
_COMMIT_DIGITS: Final = 7


class ChangedLectures:
    """
    Compares lectures with a commit.

    Args:
        rootdir: pytest's rootdir.
        settings: the session's settings; ``changed`` names the commit.
        results: the budgets as they are now.

    Raises:
        SettingsError: there is no such commit, or no repository.
    """

    def __init__(self, rootdir: Path, settings: SessionSettings, results: Results) -> None:
        """Ask git what differs; no lecture is read."""
        self._rootdir = rootdir
        self._results = results
        try:
            self._changes = read_changes(rootdir, settings.changed or "")
        except GitError as exc:
            msg = f"--lecture-changed: {exc}"
            raise SettingsError(msg) from exc

    def why_left_out(self, prepared: Iterable[PreparedLecture], variant: str = "") -> str:
        """Return the reason why lectures need not run, or an empty string if one of them has to."""
        if any(self.why_run(item, variant) for item in prepared):
            return ""
        changes = self._changes
        return (
            f"unchanged since {changes.ref} ({changes.commit[:_COMMIT_DIGITS]}): its code, its settings, the local "
            "files that it uses and the environment are the same"
        )

    def why_run(self, prepared: PreparedLecture, variant: str = "") -> str:
        """Return what differs for a lecture, or an empty string."""
        lecture = prepared.lecture
        relative = self._changes.relative(lecture.path)
        if relative is None:
            return "it is not in the repository"
        return (
            self._environment
            or self._own_difference(lecture, relative)
            or self._budget_difference(lecture.name, variant)
            or self._file_difference(lecture)
        )

    # -- all lectures -------------------------------------------------------------------------------------------------

    @functools.cached_property
    def _environment(self) -> str:
        """Return what differs for every lecture, or an empty string."""
        found = next((name for name in sorted(self._changes.changed) if decides_environment(name)), "")
        if found:
            return f"{found!r} differs"
        for name in _SETTINGS_FILES:
            for folder in dict.fromkeys((self._rootdir, self._changes.top)):
                relative = self._changes.relative(folder / name)
                if relative in self._changes.changed and self._is_other_table(folder / name, relative):
                    return f"{relative!r} differs"
        return ""

    def _is_other_table(self, path: Path, relative: str) -> bool:
        try:
            new = read_plain_bytes(path) if path.is_file() else b""
            old = self._changes.read_old(relative) or b""
            return bool(_effective(new, path.name) != _effective(old, path.name))
        except (OSError, ValueError, RecursionError):
            return True

    # -- one lecture --------------------------------------------------------------------------------------------------

    def _own_difference(self, lecture: Lecture, relative: str) -> str:
        configurations = self._configurations(PurePosixPath(relative).parent)
        if relative not in self._changes.changed and not any(name in self._changes.changed for name in configurations):
            return ""
        old = self._changes.read_old(relative)
        if old is None:
            return "it is new"
        with tempfile.TemporaryDirectory(prefix="lecturecheck-") as folder:
            root = Path(folder)
            loaded = [PurePosixPath(relative).parent / cell.source_path for cell in lecture.cells if cell.source_path]
            self._copy(root, [*configurations, *(path.as_posix() for path in loaded)])
            _write(root, relative, old)
            return self._compare(lecture, root, relative)

    def _configurations(self, folder: PurePosixPath) -> list[str]:
        return [(parent / name).as_posix() for parent in (folder, *folder.parents) for name in _BOOK_FILES]

    def _copy(self, root: Path, names: Iterable[str]) -> None:
        """Write files of the commit below a folder; they are needed to read the lecture as it was."""
        for name in names:
            if ".." in PurePosixPath(name).parts:
                continue
            if name in self._changes.changed:
                content = self._changes.read_old(name)
            else:
                path = self._changes.top / name
                content = read_plain_bytes(path) if path.is_file() else None
            if content is not None:
                _write(root, name, content)

    def _compare(self, lecture: Lecture, root: Path, relative: str) -> str:
        path, now = root / relative, self._changes.top / relative
        try:
            book = find_book(path.parent, root=root)
            old = read_lecture(path, name=lecture.name, root=root, book=book)
            book_now = find_book(now.parent, root=self._changes.top)
            before = None if book is None else (_stated(book.settings_for(path)), book.engine, book.why_excluded(path))
            after = None if book_now is None else (_stated(book_now.settings_for(now)), book_now.engine, "")
        except (LectureCheckError, OSError):
            return "it could not be read at the commit"
        if before != after:
            return "the settings of its book differ"
        return "" if _essence(old) == _essence(lecture) else "its code or its settings differ"

    def _budget_difference(self, name: str, variant: str) -> str:
        relative = self._changes.relative(self._results.budget_file)
        if relative not in self._changes.changed or relative is None:
            return ""
        old = self._changes.read_old(relative)
        if old is None:
            return "its budget is new" if self._results.find_budget(name, variant) is not None else ""
        with tempfile.TemporaryDirectory(prefix="lecturecheck-") as folder:
            path = Path(folder) / self._results.budget_file.name
            path.write_bytes(old)
            try:
                before = load_budgets(path)
            except (BudgetFileError, OSError):
                return "its budget could not be read at the commit"
        return "" if before.find(name, variant) == self._results.find_budget(name, variant) else "its budget differs"

    def _file_difference(self, lecture: Lecture) -> str:
        for cell in lecture.cells:
            if cell.source_path is not None:
                loaded = self._changes.relative((lecture.path.parent / cell.source_path).resolve())
                if loaded is None or loaded in self._changes.changed or self._changes.is_unknown(loaded):
                    return f"the loaded file {cell.source_path!r} differs"
        sources = [cell.source for cell in lecture.cells]
        is_python = lecture.language.lower() in _PYTHON
        references = find_references(sources) if is_python else find_quoted(sources)
        return find_changed_file(references, lecture.path.parent, self._changes)


def _write(root: Path, name: str, content: bytes) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _essence(lecture: Lecture) -> list[Any]:
    """Return what a run of a lecture depends on in its own file; prose, outputs and lines are no part of it."""
    cells = [(cell.source, cell.skip_reason, cell.expects_error, cell.source_path) for cell in lecture.cells]
    return [lecture.kernel_name, lecture.language, _stated(lecture.settings), cells, lecture.hints_at_gpu]


def _stated(settings: RunSettings) -> RunSettings:
    # Where a value was stated matters to messages only.
    return replace(settings, origins={}, lines={})


def _effective(content: bytes, name: str) -> Any:
    """Return the part of a settings file that runs of lectures may depend on."""
    table = tomllib.loads(content.decode("utf-8-sig"))
    if name == "pyproject.toml":
        tools = {key: value for key, value in table.get("tool", {}).items() if key not in _TOOLS}
        if isinstance(tools.get("lecturecheck"), dict):
            tools["lecturecheck"] = _without_reporting(tools["lecturecheck"])
        return {**table, "tool": tools}
    return _without_reporting(table)


def _without_reporting(table: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key not in _REPORTING}
