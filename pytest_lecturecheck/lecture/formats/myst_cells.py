"""Collect the cells of a MyST page, each with its options and location."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any, Final

from markdown_it.token import Token

from pytest_lecturecheck.errors import LectureReadError
from pytest_lecturecheck.lecture.formats import peek as _peek
from pytest_lecturecheck.lecture.formats.markdown_source import FENCE_TYPES, Fence, nested_code_cells
from pytest_lecturecheck.lecture.formats.myst_dialect import MystDialect
from pytest_lecturecheck.lecture.formats.myst_files import load_source, read_included_cells
from pytest_lecturecheck.lecture.formats.notebook import make_code_cell, make_text_cell
from pytest_lecturecheck.lecture.formats.parsed import SourceLocation
from pytest_lecturecheck.lecture.yaml_text import load_table

_RAW: Final = "{raw-cell}"
_COLON_OPTION: Final = re.compile(r":(?P<key>[^:\s]+?):(?:\s*(?P<value>.*))?\s*")
"""An option of mystmd; its value is text, and not YAML as in myst-nb."""


class MystCells:
    """
    The cells of a page, in order.

    Args:
        path: the page, to which loaded files are relative.
        name: the page as the user knows it.
        root: the folder that loaded files must be in.
        lines: the page's lines, with blank lines in the place of the front matter.
        dialect: whose rules apply.
    """

    def __init__(self, *, path: Path, name: str, root: Path, lines: list[str], dialect: MystDialect) -> None:
        self._path = path
        self._name = name
        self._root = root
        self._lines = lines
        self._dialect = dialect
        self._text_start = 0
        self._text_metadata: dict[str, Any] = {}
        self.cells: list[dict[str, Any]] = []
        self.locations: list[SourceLocation] = []
        self.fences: list[Fence] = []
        """The fences of the code cells; for a cell of an included file, the fence that includes it."""

    def read(self, tokens: list[Token]) -> None:
        """Collect the cells among the blocks of a page."""
        for token in tokens:
            if token.map is None:
                continue
            if token.level == 0 and token.type == "fence" and token.info.startswith(_RAW):
                self._flush_text(token.map[0])
                self._add_raw(Fence.of(token))
            elif token.level == 0 and token.type == "myst_block_break":
                self._flush_text(token.map[0])
                self._text_metadata = self._break_metadata(token)
            elif self._is_cell(token):
                if token.level == 0:
                    self._flush_text(token.map[0])
                self._add_code(Fence.of(token))
            else:
                self._add_nested(token)
                continue
            if token.level == 0:
                self._text_start = token.map[1]
        self._flush_text(len(self._lines))

    def _is_cell(self, token: Token) -> bool:
        if self._dialect is MystDialect.MYSTMD:
            return token.type in FENCE_TYPES and Fence.of(token).directive == "code-cell"
        return token.level == 0 and token.type == "fence" and token.info.startswith(_peek.CODE_CELL)

    def _add_nested(self, token: Token) -> None:
        """Add the cells inside a directive or an included file, which only mystmd executes."""
        if self._dialect is not MystDialect.MYSTMD or token.type not in FENCE_TYPES:
            return
        fence = Fence.of(token)
        for inner in (fence, *nested_code_cells(fence, includes=True)):
            if inner.directive == "code-cell":
                self._add_code(inner)
            elif inner.directive == "include":
                for source, options, file in self._included(inner):
                    self._add(source, options, inner, SourceLocation(opening_line=inner.line, source_path=file))

    def _included(self, fence: Fence) -> Iterator[tuple[str, dict[str, Any], str]]:
        folder = self._path.parent.resolve()
        for inner, path in read_included_cells(fence, folder, self._root):
            options, body, _offset = self._split_options(inner)
            yield "\n".join(body), options, Path(os.path.relpath(path, folder)).as_posix()

    def _flush_text(self, end: int) -> None:
        source = "\n".join(self._lines[self._text_start : end]).rstrip().lstrip("\n")
        if source:
            self.cells.append(make_text_cell(source, self._text_metadata))
        self._text_metadata = {}

    def _add_code(self, fence: Fence) -> None:
        options, body, offset = self._split_options(fence)
        location = SourceLocation(line=fence.line + 1 + offset if body else None, opening_line=fence.line)
        source = "\n".join(body)
        # Only myst-nb knows this option.
        if "load" in options and self._dialect is MystDialect.MYST_NB:
            source, location = load_source(options["load"], fence, path=self._path, name=self._name, root=self._root)
        self._add(source, options, fence, location)

    def _add(self, source: str, options: dict[str, Any], fence: Fence, location: SourceLocation) -> None:
        self.locations.append(location)
        self.cells.append(make_code_cell(source, options))
        self.fences.append(fence)

    def _add_raw(self, fence: Fence) -> None:
        options, body, _offset = self._split_options(fence)
        self.cells.append(make_text_cell("\n".join(body), options, kind="raw"))

    def _split_options(self, fence: Fence) -> tuple[dict[str, Any], list[str], int]:
        """Split a fence's content into options, body lines and the number of lines before the body."""
        # Not splitlines: a form feed is no line end of the file.
        lines = fence.content.split("\n")
        if lines and not lines[-1]:
            lines.pop()
        if self._dialect is MystDialect.MYSTMD and not (lines and lines[0].startswith("---")):
            return self._split_mystmd(fence, lines)
        yaml_lines, taken = _option_lines(lines)
        body = lines[taken:]
        # After reading options, myst-parser joins and splits the body again, which drops one blank line at the end.
        if taken and body and not body[-1]:
            body = body[:-1]
        if body and not body[0].strip():
            body, taken = body[1:], taken + 1
        first_line = fence.line + (2 if lines and lines[0].startswith("---") else 1)
        table = load_table(
            dedent("\n".join(yaml_lines)), name=self._name, what="code-cell options", first_line=first_line
        )
        return dict(table.values), body, taken

    def _split_mystmd(self, fence: Fence, lines: list[str]) -> tuple[dict[str, Any], list[str], int]:
        options: dict[str, Any] = {}
        taken = 0
        for line in lines:
            match = _COLON_OPTION.fullmatch(line)
            if match is None:
                break
            taken += 1
            options.setdefault(match["key"], (match["value"] or "").strip() or True)
        tags = options.get("tags")
        if isinstance(tags, str) and tags.startswith("["):
            table = load_table(f"tags: {tags}", name=self._name, what="code-cell options", first_line=fence.line + 1)
            options["tags"] = table.values["tags"]
        while taken < len(lines) and not lines[taken].strip():
            taken += 1
        body = lines[taken:]
        while body and not body[-1].strip():
            body.pop()
        return options, body, taken

    def _break_metadata(self, token: Token) -> dict[str, Any]:
        text = token.content.strip()
        if not text:
            return {}
        try:
            metadata = json.loads(text)
        except (ValueError, RecursionError):
            metadata = None
        if not isinstance(metadata, dict):
            line = (token.map or [0])[0] + 1
            msg = f"block break '+++' is followed by {text!r}; expected nothing or a JSON object"
            raise LectureReadError(self._name, line, msg)
        return metadata


def _option_lines(lines: list[str]) -> tuple[list[str], int]:
    """Return the YAML lines of a fence's options (``---`` block or ``:key: value`` lines) and the lines they take."""
    if lines and lines[0].startswith("---"):
        for index, line in enumerate(lines[1:], start=1):
            if line.startswith("---"):
                return lines[1:index], index + 1
        return lines[1:], len(lines)
    options: list[str] = []
    for line in lines:
        stripped = line.lstrip()
        # Three colons open a fence; they are not an option.
        if not stripped.startswith(":") or stripped.startswith(":::"):
            break
        options.append(stripped[1:])
    return options, len(options)
