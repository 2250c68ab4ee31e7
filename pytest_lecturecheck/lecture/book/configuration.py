"""
Read the configuration of a book.

A folder has one configuration. By precedence: ``_config.yml`` (Jupyter Book 1), ``myst.yml`` (Jupyter Book 2, mystmd),
a ``_toc.yml`` alone, a Sphinx ``conf.py``. A lecture belongs to the book of the nearest folder above it that has one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pytest_lecturecheck.errors import LectureReadError
from pytest_lecturecheck.files import is_present
from pytest_lecturecheck.lecture.book.custom_formats import NAME, read_custom_formats
from pytest_lecturecheck.lecture.book.execution import ConfigTable, ExecutionValues
from pytest_lecturecheck.lecture.book.pages import Book, BookEngine
from pytest_lecturecheck.lecture.book.sphinx_conf import current_names, read_constants
from pytest_lecturecheck.lecture.book.toc import Toc, read_toc
from pytest_lecturecheck.lecture.source_text import read_text, refuse_conflict
from pytest_lecturecheck.model.settings import RunSettings

_CONFIG: Final = "_config.yml"
_TOC: Final = "_toc.yml"
_MYST: Final = "myst.yml"
_CONF: Final = "conf.py"
_ONLY_TOC: Final = "only_build_toc_files"


def find_book(folder: Path, *, root: Path) -> Book | None:
    """
    Read the configuration of the nearest folder that has one, from ``folder`` up to ``root``.

    Raises:
        LectureReadError, SettingsError: see :func:`read_book`.
    """
    for candidate in (folder, *folder.parents):
        book = read_book(candidate)
        if book is not None or candidate == root or root not in candidate.parents:
            return book
    return None


def read_book(folder: Path) -> Book | None:
    """
    Read the book configuration in a folder.

    Returns:
        The book, or ``None`` if the folder has no configuration.

    Raises:
        LectureReadError: a configuration file is not valid YAML; file and line.
        SettingsError: a value is of the wrong kind; file, line and key.
    """
    if is_present(folder / _CONFIG):
        return _read_jupyter_book(folder)
    if is_present(folder / _MYST):
        return _read_mystmd(folder)
    if is_present(folder / _TOC):
        return Book(folder=folder, source=_TOC, settings=RunSettings())
    if is_present(folder / _CONF):
        return _read_sphinx(folder)
    return None


_EXECUTE_KEYS: Final = {
    "execute_notebooks": "nb_execution_mode",
    "timeout": "nb_execution_timeout",
    "allow_errors": "nb_execution_allow_errors",
    "run_in_temp": "nb_execution_in_temp",
    "exclude_patterns": "nb_execution_excludepatterns",
    "cache": "nb_execution_cache_path",
}


def read_mystmd_twin(book: Book) -> Book | None:
    """
    Return the mystmd book in the folder of another book, or ``None``.

    A repository that moves from Jupyter Book 1 to 2 has both configurations; lectures are then collected and read as
    Jupyter Book 1 does.

    Raises:
        LectureReadError, SettingsError: see :func:`read_book`.
    """
    if book.engine is BookEngine.MYSTMD or not (book.folder / _MYST).is_file():
        return None
    return _read_mystmd(book.folder)


def _read_jupyter_book(folder: Path) -> Book:
    table = _load_table(folder / _CONFIG)
    execution = ExecutionValues(table)
    for key, value in table.section("execute").items():
        if key in _EXECUTE_KEYS:
            execution.set(_EXECUTE_KEYS[key], f"execute.{key}", value)
    sphinx = table.section("sphinx.config")
    for name, (written, value) in current_names(sphinx).items():
        execution.set(name, f"sphinx.config.{written}", value)
    not_built = [
        *table.patterns("exclude_patterns", table.values.get("exclude_patterns")),
        *table.patterns("sphinx.config.exclude_patterns", sphinx.get("exclude_patterns")),
    ]
    toc: Toc | None = None
    only_toc = table.values.get(_ONLY_TOC)
    if only_toc is not None and not isinstance(only_toc, bool):
        reason = f"is {only_toc!r}; expected true or false"
        raise table.error(_ONLY_TOC, reason)
    if only_toc and is_present(folder / _TOC):
        toc = _load_toc(folder / _TOC)
    return Book(
        folder=folder,
        source=_CONFIG,
        settings=execution.settings(),
        not_executed=execution.excluded(),
        not_built=tuple(not_built),
        toc=toc,
        custom_formats=read_custom_formats(table, f"sphinx.config.{NAME}", sphinx.get(NAME)),
        cache=execution.cache("execute.execute_notebooks"),
    )


def _read_mystmd(folder: Path) -> Book:
    table = _load_table(folder / _MYST)
    project = table.section("project")
    toc: Toc | None = None
    if isinstance(project.get("toc"), list):
        toc = read_toc(project["toc"], origin=f"{_MYST} project.toc")
    elif is_present(folder / _TOC):
        # Without a table of contents of its own, mystmd uses the one of Jupyter Book 1.
        toc = _load_toc(folder / _TOC)
    exclude = project.get("exclude")
    not_built = table.patterns("project.exclude", [exclude] if isinstance(exclude, str) else exclude)
    return Book(
        folder=folder,
        source=_MYST,
        settings=RunSettings(),
        not_built=tuple(not_built),
        toc=toc,
        engine=BookEngine.MYSTMD,
    )


def _read_sphinx(folder: Path) -> Book | None:
    path = folder / _CONF
    try:
        constants = read_constants(read_text(path, name=str(path)))
    except LectureReadError:
        if not path.is_file():
            raise
        # Not UTF-8, so possibly not a Sphinx configuration at all; if it is one, Sphinx reports the encoding.
        return None
    if constants is None:
        return None
    values, lines = constants
    table = ConfigTable(path, values, lines)
    execution = ExecutionValues(table)
    for name, (written, value) in current_names(values).items():
        execution.set(name, written, value)
    return Book(
        folder=folder,
        source=_CONF,
        settings=execution.settings(),
        not_executed=execution.excluded(),
        not_built=tuple(table.patterns("exclude_patterns", values.get("exclude_patterns"))),
        custom_formats=read_custom_formats(table, NAME, values.get(NAME)),
        cache=execution.cache("nb_execution_mode"),
    )


def _load_table(path: Path) -> ConfigTable:
    # PyYAML is loaded only in projects that have such a file.
    from pytest_lecturecheck.lecture.yaml_text import load_table  # noqa: PLC0415 - see above

    text = _read_config_text(path)
    loaded = load_table(text, name=str(path), what=path.name)
    return ConfigTable(path, loaded.values, loaded.lines)


def _load_toc(path: Path) -> Toc:
    from pytest_lecturecheck.lecture.yaml_text import load  # noqa: PLC0415 - see above

    value, _lines = load(_read_config_text(path), name=str(path), what=path.name)
    return read_toc(value, origin=path.name)


def _read_config_text(path: Path) -> str:
    # An empty configuration is valid, but read_text refuses an empty file.
    if path.is_file() and not path.stat().st_size:
        return ""
    text = read_text(path, name=str(path))
    refuse_conflict(text, name=str(path))
    return text
