"""
Which files are lectures.

- ``.ipynb`` (in any case: ``UP.IPYNB`` too, on every platform): by name, the file is not opened.
- ``.md``: MyST notebooks, told by their header (``file_format: mystnb``, jupytext ``format_name: myst``,
  ``kernelspec``), and pages that hold ``{code-cell}`` blocks without one; those are items that fail, because no book
  would run them and none should pass.
- ``.py``: scripts with a jupytext header (percent, light, sphinx, hydrogen); without one, only where named explicitly
  or configured, and cut into ``# %%`` cells.
- ``.Rmd``, ``.qmd``: only where named explicitly or configured.

Built copies, environments and hidden folders hold no lectures, unless one is named explicitly. A folder called
``build`` is none of our business: pytest's own ``norecursedirs`` leaves it out by default.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pytest_lecturecheck.lecture.formats import peek as _peek

LECTURE_SUFFIXES: Final = frozenset({".ipynb", ".md", ".py", ".rmd", ".qmd"})
"""Suffixes that can be lectures, in lower case."""
SOURCES: Final = {".ipynb": (".md", ".py"), ".py": (".md",)}
"""Of a lecture that jupytext keeps in several forms the text is the source, and often all that is committed."""

_ON_REQUEST: Final = frozenset({".rmd", ".qmd"})
_HEAD_BYTES: Final = 4096
_ENDS_BYTES: Final = 16 * 1024
"""Front matter is at a file's beginning; the metadata of a notebook, whose keys are sorted, at its end."""
_COPIES: Final = {
    "_build": "the output of a book build",
    "_site": "the output of a site build",
    "jupyter_execute": "executed copies of a book build",
    "node_modules": "installed packages",
    "site-packages": "installed packages",
    "__pycache__": "compiled Python files",
}
_ENVIRONMENT_MARKS: Final = ("pyvenv.cfg", "conda-meta")


def is_candidate(path: Path, *, explicit: bool = False, extra_suffixes: AbstractSet[str] = frozenset()) -> bool:
    """
    Decide whether a file is a lecture, from its name and, only where that is not enough, a look into it.

    Args:
        path: the file.
        explicit: the user named this very file.
        extra_suffixes: suffixes that the settings add (``{".qmd"}``), in any case.

    Returns:
        Whether it is an item. A file that cannot be opened is one only where it was named.
    """
    suffix = path.suffix.lower()
    if not explicit and is_copy_name(path.name):
        return False
    if suffix == ".ipynb":
        return True
    if suffix not in LECTURE_SUFFIXES:
        return False
    asked_for = explicit or suffix in {item.lower() for item in extra_suffixes}
    if suffix in _ON_REQUEST:
        return asked_for
    try:
        return _is_page(path, explicit=explicit) if suffix == ".md" else _is_script(path, asked_for=asked_for)
    except OSError:
        return explicit


def says_at_ends(path: Path, word: bytes) -> bool:
    """
    Tell whether a file may have a word in its own settings: a look at its two ends, 16 KiB each.

    Metadata that fills more than that (the states of widgets may) hides it.
    """
    try:
        with path.open("rb", buffering=0) as stream:
            if word in stream.read(_ENDS_BYTES):
                return True
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - _ENDS_BYTES))
            return word in stream.read()
    except OSError:
        # Reading it in full says what is wrong with it.
        return False


def forms_kept_beside(path: Path) -> frozenset[str]:
    """Give the suffixes of the forms that jupytext keeps beside a text, its own among them; from a look at its head."""
    try:
        with path.open("rb") as stream:
            return _peek.paired_suffixes(_decode_loosely(stream.read(_HEAD_BYTES)))
    except OSError:
        return frozenset()


def is_copy_name(file_name: str) -> bool:
    """Tell whether a file's name marks it as a checkpoint or an executed copy."""
    lowered = file_name.lower()
    return lowered.endswith((".nbconvert.ipynb", "-checkpoint.ipynb"))


def explain_folder(folder: Path) -> str:
    """Say why a folder holds no lectures (by its own name and content, not its parents'), or give an empty string."""
    name = folder.name
    if reason := _COPIES.get(name):
        return f"{name} holds {reason}"
    if name.startswith(".") and name not in {".", ".."}:
        return f"{name} is a hidden folder"
    for mark in _ENVIRONMENT_MARKS:
        if (folder / mark).exists():
            return f"{name} is an environment (it has {mark})"
    return ""


@dataclass(slots=True)
class Folders:
    """Answers for whole paths, and remembers what was decided for each folder during one collection."""

    _known: dict[tuple[Path, Path], str] = field(default_factory=dict)

    def why_excluded(self, path: Path, *, below: Path) -> str:
        """
        Say why a file lies in a place that holds no lectures, or give an empty string.

        Args:
            path: the file.
            below: the folder that the user named (or pytest's rootdir); it and its parents are not questioned, so a
                build folder that was named explicitly is searched.
        """
        return self._explain(path.parent, below)

    def _explain(self, folder: Path, below: Path) -> str:
        key = (folder, below)
        if key not in self._known:
            if folder in {below, folder.parent} or below not in folder.parents:
                self._known[key] = ""
            else:
                self._known[key] = self._explain(folder.parent, below) or explain_folder(folder)
        return self._known[key]


def _is_page(path: Path, *, explicit: bool) -> bool:
    text = _decode_loosely(path.read_bytes())
    return _peek.is_myst_page(text) or (explicit and _peek.is_markdown_notebook(text))


def _is_script(path: Path, *, asked_for: bool) -> bool:
    with path.open("rb") as stream:
        head = _decode_loosely(stream.read(_HEAD_BYTES))
        if _peek.script_format(head):
            return True
        return asked_for and _peek.has_percent_cells(head + _decode_loosely(stream.read()))


def _decode_loosely(data: bytes) -> str:
    """Decode for a look only: a file in a wrong encoding is collected, so that reading it can say so."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        text = data.decode("utf-16", "replace")
    else:
        text = data.decode("utf-8-sig", "replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")
