"""
What a book's own configuration says about the runs of its lectures.

One configuration counts for a folder: ``_config.yml`` (Jupyter Book 1) before ``myst.yml`` (Jupyter Book 2, mystmd)
before a ``_toc.yml`` alone before a Sphinx ``conf.py``. The nearest folder up the tree that has one is the book.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final
from unicodedata import normalize

from pytest_lecturecheck.errors import LectureReadError, SettingsError
from pytest_lecturecheck.lecture.book.patterns import matches_path
from pytest_lecturecheck.lecture.book.sphinx_conf import current_names, read_constants
from pytest_lecturecheck.lecture.book.toc import Toc, read_toc
from pytest_lecturecheck.lecture.own_settings import BadValueError, read_bool, read_mode, read_number_timeout
from pytest_lecturecheck.lecture.source_text import read_text, refuse_conflict
from pytest_lecturecheck.model.settings import RunSettings

_CONFIG: Final = "_config.yml"
_TOC: Final = "_toc.yml"
_MYST: Final = "myst.yml"
_CONF: Final = "conf.py"
_ONLY_TOC: Final = "only_build_toc_files"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A pattern and where it was said ("_config.yml exclude_patterns")."""

    text: str
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """
    A book's configuration.

    Attributes:
        folder: the folder that holds it; tables of contents and page patterns count from there.
        source: the configuration file's name.
        settings: what holds for every lecture of the book.
        not_executed: patterns of lectures that the book shows and does not execute.
        not_built: patterns of files that are no pages of the book.
        toc: the files that are pages, where the book says that nothing else is; ``None`` where every file is.
    """

    folder: Path
    source: str
    settings: RunSettings
    not_executed: tuple[Pattern, ...] = ()
    not_built: tuple[Pattern, ...] = ()
    toc: Toc | None = None

    def settings_for(self, path: Path) -> RunSettings:
        """Give the layer of settings for one lecture; excluded from execution is a reason to skip."""
        # As in myst-nb: the pattern is matched against the end of the whole path, so "drafts/*" and "big.md" both work.
        whole = PurePosixPath(normalize("NFC", path.as_posix()))
        for pattern in self.not_executed:
            if _matches_end(whole, pattern.text):
                reason = f"excluded from execution by {pattern.origin} {pattern.text!r}"
                origins = {**self.settings.origins, "skip_reason": pattern.origin}
                return replace(self.settings, skip_reason=reason, origins=origins)
        return self.settings

    def why_excluded(self, path: Path) -> str:
        """Say why a file is no page of the book; empty where it is one, and for a file outside the book's folder."""
        relative = _relative(path, self.folder)
        if relative is None:
            return ""
        for pattern in self.not_built:
            if matches_path(pattern.text, relative):
                return f"excluded by {pattern.origin} {pattern.text!r}"
        if self.toc is not None and not self.toc.holds(relative):
            return f"not in {self.toc.origin}"
        return ""


def find_book(folder: Path, *, rootdir: Path) -> Book | None:
    """
    Read the configuration of the nearest folder that has one, from ``folder`` up to ``rootdir``.

    Raises:
        LectureReadError, SettingsError: see :func:`read_book`.
    """
    for candidate in (folder, *folder.parents):
        book = read_book(candidate)
        if book is not None or candidate == rootdir:
            return book
        if rootdir not in candidate.parents:
            break
    return None


def read_book(folder: Path) -> Book | None:
    """
    Read the book configuration that a folder holds.

    Returns:
        The book, or ``None`` where the folder has no configuration.

    Raises:
        LectureReadError: a configuration file that is no valid YAML, with its line.
        SettingsError: a value of the wrong kind, with file, line and key.
    """
    if (folder / _CONFIG).is_file():
        return _read_jupyter_book(folder)
    if (folder / _MYST).is_file():
        return _read_mystmd(folder)
    if (folder / _TOC).is_file():
        return Book(folder=folder, source=_TOC, settings=RunSettings())
    if (folder / _CONF).is_file():
        return _read_sphinx(folder)
    return None


class _Table:
    """Values of one file, and errors that name its lines."""

    def __init__(self, path: Path, values: Mapping[str, Any], lines: Mapping[str, int]) -> None:
        self.path = path
        self.values = values
        self._lines = lines

    def section(self, key: str) -> Mapping[str, Any]:
        value: Any = self.values
        for part in key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        return value if isinstance(value, Mapping) else {}

    def error(self, key: str, reason: str) -> SettingsError:
        line = self._lines.get(key)
        where = str(self.path) if line is None else f"{self.path}:{line}"
        return SettingsError(f"{where}: {key} {reason}")

    def origin(self, key: str) -> str:
        return f"{self.path.name} {key}"


class _Execution:
    """The ``nb_execution_*`` values of a book, each with the key under which it was written; later statements win."""

    def __init__(self, table: _Table) -> None:
        self._table = table
        self._said: dict[str, tuple[str, Any]] = {}

    def say(self, name: str, key: str, value: object) -> None:
        self._said[name] = (key, value)

    def settings(self) -> RunSettings:
        values: dict[str, Any] = {}
        readers = (
            ("nb_execution_timeout", "timeout_seconds", read_number_timeout),
            ("nb_execution_allow_errors", "allow_errors", read_bool),
            ("nb_execution_in_temp", "run_in_temp", read_bool),
            ("nb_execution_mode", "skip_reason", self._read_skip),
        )
        origins: dict[str, str] = {}
        for name, attribute, read in readers:
            if name not in self._said:
                continue
            key, value = self._said[name]
            try:
                result = read(value)
            except BadValueError as exc:
                raise self._table.error(key, str(exc)) from exc
            if result is not None:
                values[attribute], origins[attribute] = result, self._table.origin(key)
        return RunSettings(**values, origins=origins)

    def _read_skip(self, value: object) -> str | None:
        if value is None or read_mode(value):
            return None
        key, _value = self._said["nb_execution_mode"]
        return f"{self._table.origin(key)} is off"

    def excluded(self) -> tuple[Pattern, ...]:
        if "nb_execution_excludepatterns" not in self._said:
            return ()
        key, value = self._said["nb_execution_excludepatterns"]
        return tuple(_patterns(self._table, key, value))


_EXECUTE_KEYS: Final = {
    "execute_notebooks": "nb_execution_mode",
    "timeout": "nb_execution_timeout",
    "allow_errors": "nb_execution_allow_errors",
    "run_in_temp": "nb_execution_in_temp",
    "exclude_patterns": "nb_execution_excludepatterns",
}


def _read_jupyter_book(folder: Path) -> Book:
    table = _load_table(folder / _CONFIG)
    execution = _Execution(table)
    for key, value in table.section("execute").items():
        if key in _EXECUTE_KEYS:
            execution.say(_EXECUTE_KEYS[key], f"execute.{key}", value)
    sphinx = table.section("sphinx.config")
    for name, (written, value) in current_names(sphinx).items():
        execution.say(name, f"sphinx.config.{written}", value)
    not_built = [
        *_patterns(table, "exclude_patterns", table.values.get("exclude_patterns")),
        *_patterns(table, "sphinx.config.exclude_patterns", sphinx.get("exclude_patterns")),
    ]
    toc: Toc | None = None
    only_toc = table.values.get(_ONLY_TOC)
    if only_toc is not None and not isinstance(only_toc, bool):
        reason = f"is {only_toc!r}; expected true or false"
        raise table.error(_ONLY_TOC, reason)
    if only_toc and (folder / _TOC).is_file():
        toc = _load_toc(folder / _TOC)
    return Book(
        folder=folder,
        source=_CONFIG,
        settings=execution.settings(),
        not_executed=execution.excluded(),
        not_built=tuple(not_built),
        toc=toc,
    )


def _read_mystmd(folder: Path) -> Book:
    table = _load_table(folder / _MYST)
    project = table.section("project")
    toc: Toc | None = None
    if isinstance(project.get("toc"), list):
        toc = read_toc(project["toc"], origin=f"{_MYST} project.toc")
    elif (folder / _TOC).is_file():
        # mystmd builds what an old table of contents lists, where it has none of its own.
        toc = _load_toc(folder / _TOC)
    exclude = project.get("exclude")
    not_built = _patterns(table, "project.exclude", [exclude] if isinstance(exclude, str) else exclude)
    return Book(folder=folder, source=_MYST, settings=RunSettings(), not_built=tuple(not_built), toc=toc)


def _read_sphinx(folder: Path) -> Book | None:
    path = folder / _CONF
    try:
        constants = read_constants(read_text(path, name=str(path)))
    except LectureReadError:
        # A conf.py that is no UTF-8 text may be anything; Sphinx itself will speak up where it is its own.
        return None
    if constants is None:
        return None
    values, lines = constants
    table = _Table(path, values, lines)
    execution = _Execution(table)
    for name, (written, value) in current_names(values).items():
        execution.say(name, written, value)
    return Book(
        folder=folder,
        source=_CONF,
        settings=execution.settings(),
        not_executed=execution.excluded(),
        not_built=tuple(_patterns(table, "exclude_patterns", values.get("exclude_patterns"))),
    )


def _load_table(path: Path) -> _Table:
    from pytest_lecturecheck.lecture.yaml_text import load_table  # noqa: PLC0415 - loads yaml, which most projects never need

    text = _read_config_text(path)
    loaded = load_table(text, name=str(path), what=path.name)
    return _Table(path, loaded.values, loaded.lines)


def _load_toc(path: Path) -> Toc:
    from pytest_lecturecheck.lecture.yaml_text import load  # noqa: PLC0415 - see above

    value, _lines = load(_read_config_text(path), name=str(path), what=path.name)
    return read_toc(value, origin=path.name)


def _read_config_text(path: Path) -> str:
    if not path.stat().st_size:
        return ""
    text = read_text(path, name=str(path))
    refuse_conflict(text, name=str(path))
    return text


def _patterns(table: _Table, key: str, value: object) -> Iterator[Pattern]:
    if value is None:
        return
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
        raise table.error(key, f"is {value!r}; expected a list of patterns")
    for item in value:
        if item.strip():
            yield Pattern(text=item.strip(), origin=table.origin(key))


def _matches_end(path: PurePosixPath, pattern: str) -> bool:
    try:
        return path.match(normalize("NFC", pattern))
    except ValueError:
        return False


def _relative(path: Path, folder: Path) -> str | None:
    for one, other in ((path, folder), (path.resolve(), folder.resolve())):
        if one.is_relative_to(other):
            return one.relative_to(other).as_posix()
    return None
