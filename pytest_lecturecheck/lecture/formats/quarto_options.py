"""Read the execution options that hold for a whole Quarto document: its front matter and its project's files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.errors import LectureReadError
from pytest_lecturecheck.files import is_present
from pytest_lecturecheck.lecture.source_text import read_text
from pytest_lecturecheck.lecture.yaml_text import load_table

_PROJECT: Final = ("_quarto.yml", "_quarto.yaml")
_FOLDER: Final = ("_metadata.yml", "_metadata.yaml")
_KEYS: Final = frozenset({"eval", "error", "enabled"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentOption:
    """The value of an option and its origin ("_quarto.yml execute.eval")."""

    value: Any
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuartoOptions:
    """
    Options of a document, which a chunk's own options override.

    Attributes:
        values: the options ``eval``, ``error`` and ``enabled``, where they are set.
        kernel: the value of the key ``jupyter``, where the project sets it and the document does not.
        runs_in_project: the setting that executes documents in the project's folder, or an empty string.
        profiles: files of the project's profiles that set how documents are executed, and that are not read.
    """

    values: Mapping[str, DocumentOption] = field(default_factory=dict)
    kernel: Any = None
    runs_in_project: str = ""
    profiles: tuple[str, ...] = ()

    def why_disabled(self) -> str:
        """Explain why no chunk is executed, whatever its own options are; empty if chunks are."""
        enabled = self.values.get("enabled")
        return f"{enabled.origin} is false" if enabled is not None and enabled.value is False else ""

    def why_skipped(self) -> str:
        """Explain why chunks without an option of their own are not executed; empty if they are."""
        option = self.values.get("eval")
        # Quarto compares with true, so that a list of lines, which only knitr understands, executes nothing.
        if option is None or option.value is True:
            return ""
        return f"{option.origin} is {_shown(option.value)}"

    def allows_errors(self) -> DocumentOption | None:
        """Return the option that lets chunks raise, or ``None``."""
        option = self.values.get("error")
        return option if option is not None and option.value else None


def read_quarto_options(front: Mapping[str, Any], *, path: Path, root: Path) -> QuartoOptions:
    """
    Read the options of a document.

    By increasing precedence: ``_quarto.yml`` of the project, ``_metadata.yml`` of the folders below it, front matter.

    Args:
        front: the document's front matter.
        path: the document.
        root: the folder above which no project is looked for.

    Raises:
        LectureReadError: a file of the project cannot be read.
    """
    values: dict[str, DocumentOption] = {}
    kernel: Any = None
    runs_in_project = ""
    for name, table in _project_tables(path, root):
        values.update(_options(table, name))
        kernel = table.get("jupyter", kernel)
        project = table.get("project")
        if isinstance(project, dict) and project.get("execute-dir") == "project":
            runs_in_project = f"{name} project.execute-dir"
    values.update(_options(front, "front matter"))
    kernel = None if "jupyter" in front else kernel
    profiles = tuple(_profiles(_project_folder(path, root)))
    return QuartoOptions(values=values, kernel=kernel, runs_in_project=runs_in_project, profiles=profiles)


def _profiles(project: Path | None) -> Iterator[str]:
    """Yield the files of profiles (``_quarto-draft.yml``) and of this copy that say how documents are executed."""
    found = [] if project is None else [*project.glob("_quarto-*.y*ml"), *project.glob("_quarto.yml.local")]
    for file in sorted(found):
        table = _load(file) if file.is_file() else {}
        if "jupyter" in table or "engine" in table or any(_options(table, file.name)):
            yield file.name


def _options(table: Mapping[str, Any], name: str) -> Iterator[tuple[str, DocumentOption]]:
    """Yield the options of one file; those of the first output format override the general ones."""
    yield from _section(table, name, "")
    formats = table.get("format")
    if isinstance(formats, dict) and formats:
        key, inner = next(iter(formats.items()))
        if isinstance(inner, dict):
            yield from _section(inner, name, f"format.{key}.")


def _section(table: Mapping[str, Any], name: str, prefix: str) -> Iterator[tuple[str, DocumentOption]]:
    for key in _KEYS & table.keys():
        yield key, DocumentOption(value=table[key], origin=f"{name} {prefix}{key}")
    execute = table.get("execute")
    if isinstance(execute, bool):
        yield "enabled", DocumentOption(value=execute, origin=f"{name} {prefix}execute")
    elif isinstance(execute, dict):
        for key in _KEYS & execute.keys():
            yield key, DocumentOption(value=execute[key], origin=f"{name} {prefix}execute.{key}")


def _folders(path: Path, root: Path) -> list[Path]:
    folders = [path.parent, *path.parent.parents]
    return folders[: folders.index(root) + 1] if root in folders else folders[:1]


def _project_folder(path: Path, root: Path) -> Path | None:
    return next((folder for folder in _folders(path, root) if _first(folder, _PROJECT)), None)


def _project_tables(path: Path, root: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    folders, project = _folders(path, root), _project_folder(path, root)
    if project is None:
        return
    # Only folders below the project's own, or that one alone for documents in it.
    below = list(reversed(folders[: folders.index(project)])) or [project]
    for file in [_first(project, _PROJECT), *(_first(folder, _FOLDER) for folder in below)]:
        if file is not None:
            yield file.relative_to(project).as_posix(), _load(file)


def _first(folder: Path, names: Sequence[str]) -> Path | None:
    return next((folder / name for name in names if is_present(folder / name)), None)


def _load(file: Path) -> Mapping[str, Any]:
    try:
        if file.is_file() and not file.stat().st_size:
            return {}
    except OSError as exc:
        msg = f"cannot be read: {exc.strerror or exc}"
        raise LectureReadError(str(file), None, msg) from exc
    return load_table(read_text(file, name=str(file)), name=str(file), what=file.name).values


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) or value is None else repr(value)
