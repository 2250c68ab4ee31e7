"""
Decide which files are lectures.

- ``.ipynb`` (in any case, on every platform: ``UP.IPYNB`` too): by name; the file is not opened.
- ``.md``: MyST notebooks, recognised by their header (``file_format: mystnb``, jupytext ``format_name: myst``,
  ``kernelspec``). Pages that hold ``{code-cell}`` blocks without a header are collected too, and fail: no book would
  run them, so they must not pass.
- ``.py``: scripts with a jupytext header (percent, light, sphinx, hydrogen). A script without one counts only if it is
  named explicitly or configured, and has ``# %%`` cells.
- ``.Rmd``, ``.qmd``: only if named explicitly or configured.

Built copies, environments and hidden folders hold no lectures, unless one is named explicitly. A folder called
``build`` is left to pytest, whose ``norecursedirs`` excludes it by default.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field
from pathlib import Path
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.files import MOST_DOCUMENT_BYTES, open_plain, read_plain_bytes
from pytest_lecturecheck.lecture.formats import peek as _peek

LECTURE_SUFFIXES: Final = frozenset({".ipynb", ".md", ".py", ".rmd", ".qmd"})
"""Suffixes that can be lectures, in lower case."""
SOURCE_SUFFIXES: Final = {".ipynb": (".md", ".py"), ".py": (".md",)}
"""Suffixes of the source, by the suffix of another form that jupytext keeps: the text is the source."""

_ON_REQUEST: Final = frozenset({".rmd", ".qmd"})
_HEAD_BYTES: Final = 4096
_ENDS_BYTES: Final = 16 * 1024
"""Front matter is at the start of a file; a notebook's metadata is at the end, because its keys are sorted."""
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
    Return True if a file is a lecture, judged by its name and, only if necessary, by its content.

    Args:
        path: the file.
        explicit: whether the user named this file.
        extra_suffixes: suffixes that the settings add (``{".qmd"}``), in any case.

    Returns:
        Whether to collect it. A file that cannot be opened is collected only if it was named.
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


def has_header(path: Path) -> bool:
    """Return True if a page has the header of a notebook, or cannot be opened, so that reading it reports why."""
    try:
        return _peek.has_myst_header(_decode_loosely(read_plain_bytes(path))) is not None
    except OSError:
        return True


def has_jupytext_cells(path: Path) -> bool:
    """Return True if a file holds cells for jupytext: for a book that reads files with this suffix through jupytext."""
    try:
        text = _decode_loosely(read_plain_bytes(path))
    except OSError:
        return False
    if path.suffix.lower() == ".py":
        return bool(_peek.script_format(text)) or _peek.has_percent_cells(text)
    return _peek.has_jupytext_fences(text) or _peek.CODE_CELL in text


def explain_no_lecture(path: Path) -> str:
    """Explain why a file that the user named is no lecture, judged as in :func:`is_candidate`."""
    suffix = path.suffix.lower()
    if suffix == ".py":
        return "it has no jupytext header and no `# %%` cell"
    if suffix in _ON_REQUEST:
        return f"files that end in {suffix} are read only if named, or with --lecture-suffix {suffix}"
    if suffix != ".md":
        return f"its name ends in {path.suffix!r}; lectures end in .ipynb, .md, .py, .Rmd or .qmd"
    try:
        header_line = _peek.late_header(_decode_loosely(read_plain_bytes(path)))
    except OSError:
        header_line = None
    if header_line is not None:
        return f"its header begins on line {header_line}; a header has to begin on line 1"
    return "it has no notebook header (kernelspec, jupytext, or file_format: mystnb) and no {code-cell}"


def contains_at_ends(path: Path, *words: bytes) -> bool:
    """Return True if one of the words occurs in the first or last 16 KiB of a file; see :func:`words_at_ends`."""
    return bool(words_at_ends(path, {word: (word,) for word in words}))


def words_at_ends(path: Path, words: Mapping[bytes, Sequence[bytes]]) -> frozenset[bytes]:
    """
    Return the words that occur in the first or last 16 KiB of a file, where its settings are.

    Longer metadata (such as widget states) can hide the words.

    Args:
        path: the file.
        words: the words to look for, by what stands in every file that has one of them: most files have none of that,
            and are searched no further.
    """
    try:
        with open_plain(path, most_bytes=None) as stream:
            begin = stream.read(_ENDS_BYTES)
            size = stream.seek(0, os.SEEK_END)
            # What was read already is not read again.
            stream.seek(max(len(begin), size - _ENDS_BYTES))
            rest = stream.read(_ENDS_BYTES)
    except OSError:
        # Reading the whole file later reports the reason.
        return frozenset()
    if size <= 2 * _ENDS_BYTES:
        begin, rest = begin + rest, b""
    there = [sign for sign in words if sign in begin or sign in rest]
    return frozenset(word for sign in there for word in words[sign] if word in begin or word in rest)


def read_paired_suffixes(path: Path) -> frozenset[str]:
    """Return the suffixes of the forms that jupytext keeps beside a text, including its own, from its header."""
    try:
        with open_plain(path, most_bytes=None) as stream:
            return _peek.paired_suffixes(_decode_loosely(stream.read(_HEAD_BYTES)))
    except OSError:
        return frozenset()


def is_copy_name(file_name: str) -> bool:
    """Return True if a file's name marks it as a checkpoint or an executed copy."""
    lowered = file_name.lower()
    return lowered.endswith((".nbconvert.ipynb", "-checkpoint.ipynb"))


def explain_folder(folder: Path) -> str:
    """Explain why a folder holds no lectures, judged by its own name and content; empty if it may hold some."""
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
    """Exclusion of whole paths, with a cache of the decision for each folder during one collection."""

    _known: dict[tuple[Path, Path], str] = field(default_factory=dict)

    def why_excluded(self, path: Path, *, below: Path) -> str:
        """
        Explain why a file is in a folder that holds no lectures; empty if it is not.

        Args:
            path: the file.
            below: the folder that the user named, or pytest's rootdir. It and its parents are not examined, so a build
                folder that was named explicitly is searched.
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
    text = _decode_loosely(read_plain_bytes(path))
    return _peek.is_myst_page(text) or (explicit and _peek.is_markdown_notebook(text))


def _is_script(path: Path, *, asked_for: bool) -> bool:
    with open_plain(path) as stream:
        head = _decode_loosely(stream.read(_HEAD_BYTES))
        if _peek.script_format(head):
            return True
        return asked_for and _peek.has_percent_cells(head + _decode_loosely(stream.read(MOST_DOCUMENT_BYTES)))


def _decode_loosely(data: bytes) -> str:
    """Decode without errors: a file in a wrong encoding is collected, so that reading it reports the encoding."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        text = data.decode("utf-16", "replace")
    else:
        text = data.decode("utf-8-sig", "replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")
