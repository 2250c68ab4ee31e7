"""Find out whether code depends on a file that changed: modules that it imports, and files that it names."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from pytest_lecturecheck.files import read_plain_text
from pytest_lecturecheck.repository.code_references import References, find_references, is_pattern
from pytest_lecturecheck.repository.tree_changes import TreeChanges

_SOURCE_FOLDERS: Final = ("", "src", "lib", "code", "python")
"""Where a repository keeps modules, from the lecture's folder and every folder above it."""
_MODULE_ENDINGS: Final = frozenset({".py", ".pyi", ".pyx", ".pyd", ".so", ".c", ".cpp"})
_PAGES: Final = frozenset(
    {".md", ".ipynb", ".rst", ".rmd", ".qmd", ".bib", ".css", ".scss", ".html", ".js", ".tex", ".cff", ".lock"}
)
_NO_CONTENT: Final = frozenset(
    {
        "_config.yml", "_toc.yml", "_quarto.yml", "authors", "codeowners", "conf.py", "lecturecheck.toml", "license",
        "myst.yml", "pyproject.toml", ".gitattributes", ".gitignore", ".editorconfig",
    }
)  # fmt: skip
"""Files that are compared by their content, or that nobody reads as data."""
_MOST_SOURCE_BYTES: Final = 4_000_000
_MOST_MODULES: Final = 500


def find_changed_file(references: References, folder: Path, changes: TreeChanges) -> str:
    """
    Return the reason why code has to run again, or an empty string.

    Args:
        references: what the code refers to.
        folder: where it runs.
        changes: what differs.
    """
    base = changes.relative(folder / "x")
    if base is None:
        return "it is not in the repository"
    return _Search(changes, PurePosixPath(base).parent).reason(references)


class _Search:
    """Follows imports from a lecture through the modules of its repository."""

    def __init__(self, changes: TreeChanges, folder: PurePosixPath) -> None:
        self._changes = changes
        self._folder = folder
        above = [folder, *folder.parents]
        self._roots = list(dict.fromkeys(parent / name for parent in above for name in _SOURCE_FOLDERS))
        self._seen: set[str] = set()

    def reason(self, references: References) -> str:
        return self._of_code(references, self._folder)

    def _of_code(self, references: References, package: PurePosixPath) -> str:
        if references.uncertain:
            found = next((name for name in sorted(self._changes.changed) if _may_matter(name)), "")
            if found:
                return f"{references.uncertain}, and {found!r} differs"
        for name in sorted(references.names):
            if found := self._named(name, package):
                return found
        for module in sorted(references.modules):
            if found := self._imported(module, package):
                return found
        return ""

    # -- files by name ------------------------------------------------------------------------------------------------

    def _named(self, name: str, package: PurePosixPath) -> str:
        posix = name.replace("\\", "/").removeprefix("./").rstrip("/")
        if is_pattern(posix):
            found = next((path for path in sorted(self._changes.changed) if _matches(path, posix)), "")
            return f"{found!r} differs" if found else ""
        # A part of a path that is put together elsewhere: the end decides.
        tail = "/" + posix.lstrip("./")
        found = next((path for path in sorted(self._changes.changed) if f"/{path}".endswith(tail)), "")
        if found:
            return f"{found!r} differs"
        for folder in dict.fromkeys((self._folder, package)):
            if reason := self._at(_normal(folder, posix), posix):
                return reason
        return ""

    def _at(self, relative: str, name: str) -> str:
        """Return what differs at a place that exists, or an empty string."""
        top = self._changes.top
        try:
            place = top / relative
            is_inside = not relative.startswith(("..", "/"))
            if not is_inside:
                return f"{name!r} is outside of the repository" if place.is_file() else ""
            if self._changes.is_unknown(relative):
                return f"{relative!r} is not in the repository"
            if not place.is_dir() or relative == ".":
                return ""
        except (OSError, ValueError):
            return ""
        found = next((path for path in sorted(self._changes.changed) if path.startswith(f"{relative}/")), "")
        if found:
            return f"{found!r} differs"
        return "" if self._changes.is_known_folder(relative) else f"the folder {relative!r} is not in the repository"

    # -- modules ------------------------------------------------------------------------------------------------------

    def _imported(self, module: str, package: PurePosixPath) -> str:
        dots = len(module) - len(module.lstrip("."))
        parts = [part for part in module.split(".") if part]
        roots = [_above(package, dots - 1)] if dots else self._roots
        for root in roots:
            for path in self._files_of(root, parts):
                if path in self._changes.changed or self._changes.is_unknown(path):
                    return f"the module {path!r} differs"
                if reason := self._inside(path):
                    return reason
        return ""

    def _files_of(self, root: PurePosixPath, parts: list[str]) -> Iterator[str]:
        """Yield the files that an import of a module executes, as far as they exist or have existed."""
        folder = root
        for part in parts or [""]:
            if part:
                yield from self._existing(folder, part)
            folder = folder / part if part else folder
            yield from self._existing(folder, "__init__")

    def _existing(self, folder: PurePosixPath, stem: str) -> Iterator[str]:
        for ending in _MODULE_ENDINGS:
            path = _normal(folder, stem + ending)
            if path in self._changes.tracked or path in self._changes.changed or self._changes.is_unknown(path):
                yield path

    def _inside(self, path: str) -> str:
        if path in self._seen or not path.endswith(".py"):
            return ""
        self._seen.add(path)
        if len(self._seen) > _MOST_MODULES:
            return f"it imports more than {_MOST_MODULES} modules of the repository"
        try:
            text = read_plain_text(self._changes.top / path, most_bytes=_MOST_SOURCE_BYTES, errors="replace")
        except OSError as exc:
            return f"the module {path!r} cannot be read ({exc})"
        return self._of_code(find_references([text]), PurePosixPath(path).parent)


def _may_matter(relative: str) -> bool:
    """Return True if a lecture that reads unknown files may read this one: pages and their styles are no data."""
    path = PurePosixPath(relative)
    is_known = {path.name.lower(), path.stem.lower()} & _NO_CONTENT or path.parts[0] in {".github", "lecture-budgets"}
    return path.suffix.lower() not in _PAGES and not is_known


def _matches(relative: str, pattern: str) -> bool:
    tail = pattern.lstrip("./")
    return fnmatch.fnmatchcase(relative, tail) or fnmatch.fnmatchcase(relative, f"*/{tail}")


def _normal(folder: PurePosixPath, name: str) -> str:
    return os.path.normpath((folder / name).as_posix()).replace(os.sep, "/")


def _above(folder: PurePosixPath, levels: int) -> PurePosixPath:
    for _ in range(levels):
        folder = folder.parent
    return folder
