"""
Parse MyST Markdown notebooks as book builders do.

As in myst-nb 1.4 (``core/read.py``), cells are top-level fences whose info starts with ``{code-cell}``. The options
before the body follow ``parse_directive_text`` of myst-parser. Cells that a builder drops silently (nested cells, colon
fences) become findings with their lines.
"""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent
from typing import Any, Final

from markdown_it.token import Token

from pytest_lecturecheck.errors import LectureReadError
from pytest_lecturecheck.files import read_plain_bytes
from pytest_lecturecheck.lecture.formats import myst_dropped as _myst_dropped
from pytest_lecturecheck.lecture.formats import peek as _peek
from pytest_lecturecheck.lecture.formats.markdown_source import (
    Fence,
    content_fences,
    find_broken_fence,
    parse_blocks,
    verbatim_ranges,
)
from pytest_lecturecheck.lecture.formats.myst_languages import find_other_languages
from pytest_lecturecheck.lecture.formats.notebook import make_code_cell, make_notebook, make_text_cell
from pytest_lecturecheck.lecture.formats.parsed import Parsed, SourceLocation, lift_jupyter, lift_lines
from pytest_lecturecheck.lecture.source_text import conflict_reason, decode, find_conflict
from pytest_lecturecheck.lecture.yaml_text import YamlTable, load_table
from pytest_lecturecheck.model.finding import Finding
from pytest_lecturecheck.model.lecture import LectureFormat

_CODE: Final = "{code-cell}"
_RAW: Final = "{raw-cell}"


def parse_myst(text: str, *, path: Path, name: str, root: Path) -> Parsed:
    r"""
    Parse a MyST notebook.

    Args:
        text: the file, with ``\n`` line ends.
        path: the file, to which loaded files are relative.
        name: the file as the user knows it.
        root: the folder that loaded files must be in.

    Raises:
        LectureReadError: merge conflict markers, invalid YAML, an unclosed fence, a page without a notebook header.
    """
    front, body = _split(text, name=name)
    tokens = parse_blocks(body)
    _refuse_conflict(text, tokens, name=name)
    header = load_table(front, name=name, what="front matter", first_line=2)
    broken = find_broken_fence(tokens, body.split("\n"))
    if broken is not None:
        raise LectureReadError(name, *broken)
    metadata = lift_jupyter(header.values)
    findings = tuple(_myst_dropped.find_dropped(tokens))
    late = None if front else _peek.late_header(text)
    _require_header(metadata, header, tokens, findings, name=name, front_line=late)
    included = tuple(_myst_dropped.find_included(tokens, path.parent, root))
    builder = _Builder(path=path, name=name, root=root, lines=body.split("\n"))
    builder.read(tokens)
    return Parsed(
        format=LectureFormat.MYST,
        document=_document(header.values, builder.cells),
        locations=tuple(builder.locations),
        metadata=metadata,
        key_lines=lift_lines(header.lines),
        findings=(*findings, *included, *find_other_languages(metadata, tokens)),
    )


def _split(text: str, *, name: str) -> tuple[str, str]:
    """Split front matter and body; blank lines replace the front matter, so that line numbers stay the same."""
    front = _peek.split_front_matter(text)
    if front is None:
        if text.startswith("---\n") and _peek.looks_like_header(text):
            msg = "front matter is opened here and never closed; expected a line '---' after it"
            raise LectureReadError(name, 1, msg)
        return "", text
    yaml_text, line_count = front
    return yaml_text, "\n" * line_count + "\n".join(text.split("\n")[line_count:])


def _refuse_conflict(text: str, tokens: list[Token], *, name: str) -> None:
    conflict = find_conflict(text)
    if conflict is None:
        return
    # A lecture about git may show such markers in a block that is not executed.
    first, last = conflict
    if not any(start <= first and last <= end for start, end in verbatim_ranges(tokens)):
        raise LectureReadError(name, first, conflict_reason(first))


def _require_header(
    metadata: dict[str, Any],
    header: YamlTable,
    tokens: list[Token],
    findings: tuple[Finding, ...],
    *,
    name: str,
    front_line: int | None,
) -> None:
    """Refuse a page with code-cells that no builder recognises as a MyST notebook."""
    format_name = _format_name(metadata)
    if format_name not in {None, "myst"}:
        line = header.lines.get("jupytext.text_representation.format_name")
        msg = (
            f"is a jupytext notebook of the format {format_name!r}; expected 'myst' (jupytext --to md:myst converts it)"
        )
        raise LectureReadError(name, line, msg)
    if format_name == "myst" or metadata.get("file_format") == "mystnb" or "kernelspec" in metadata:
        return
    lines = [fence.line for fence in content_fences(tokens) if fence.info.startswith(_CODE)]
    lines += [finding.line for finding in findings if finding.line is not None]
    if lines and front_line is not None:
        msg = f"has its header at line {front_line}; expected it on line 1: remove the blank lines above it"
        raise LectureReadError(name, front_line, msg)
    if lines:
        blocks = "1 code-cell block" if len(lines) == 1 else f"{len(lines)} code-cell blocks"
        msg = f"has {blocks} but no kernelspec/jupytext header, so no book runs it; add one, or use code-block"
        raise LectureReadError(name, min(lines), msg)


def _format_name(metadata: dict[str, Any]) -> str | None:
    jupytext = metadata.get("jupytext")
    representation = jupytext.get("text_representation") if isinstance(jupytext, dict) else None
    format_name = representation.get("format_name") if isinstance(representation, dict) else None
    return format_name if isinstance(format_name, str) else None


def _document(metadata: Any, cells: list[dict[str, Any]]) -> Any:
    """Build the notebook that myst-nb builds: with a display name in the kernelspec, and without cell ids."""
    metadata = dict(metadata)
    spec = metadata.get("kernelspec")
    if isinstance(spec, dict) and "name" in spec and "display_name" not in spec:
        metadata["kernelspec"] = {**spec, "display_name": spec["name"]}
    return make_notebook(metadata, cells)


class _Builder:
    """Collects cells in order, with the location of each code cell."""

    def __init__(self, *, path: Path, name: str, root: Path, lines: list[str]) -> None:
        self._path = path
        self._name = name
        self._root = root
        self._lines = lines
        self._text_start = 0
        self._text_metadata: dict[str, Any] = {}
        self.cells: list[dict[str, Any]] = []
        self.locations: list[SourceLocation] = []

    def read(self, tokens: list[Token]) -> None:
        for token in tokens:
            if token.level != 0 or token.map is None:
                continue
            if token.type == "fence" and token.info.startswith(_CODE):
                self._flush_text(token.map[0])
                self._add_code(Fence.of(token))
            elif token.type == "fence" and token.info.startswith(_RAW):
                self._flush_text(token.map[0])
                self._add_raw(Fence.of(token))
            elif token.type == "myst_block_break":
                self._flush_text(token.map[0])
                self._text_metadata = self._break_metadata(token)
            else:
                continue
            self._text_start = token.map[1]
        self._flush_text(len(self._lines))

    def _flush_text(self, end: int) -> None:
        source = "\n".join(self._lines[self._text_start : end]).rstrip().lstrip("\n")
        if source:
            self.cells.append(make_text_cell(source, self._text_metadata))
        self._text_metadata = {}

    def _add_code(self, fence: Fence) -> None:
        options, body, offset = self._split_options(fence)
        location = SourceLocation(line=fence.line + 1 + offset if body else None, opening_line=fence.line)
        source = "\n".join(body)
        if "load" in options:
            source, location = self._load(options["load"], fence)
        self.locations.append(location)
        self.cells.append(make_code_cell(source, options))

    def _add_raw(self, fence: Fence) -> None:
        options, body, _offset = self._split_options(fence)
        self.cells.append(make_text_cell("\n".join(body), options, kind="raw"))

    def _split_options(self, fence: Fence) -> tuple[dict[str, Any], list[str], int]:
        """Split a fence's content into options, body lines and the number of lines before the body."""
        lines = fence.content.splitlines()
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

    def _load(self, target: object, fence: Fence) -> tuple[str, SourceLocation]:
        loaded = self._resolve_load(target, fence)
        try:
            data = read_plain_bytes(loaded)
        except OSError as exc:
            msg = f":load: {target!r} cannot be read: {exc.strerror or exc}"
            raise LectureReadError(self._name, fence.line, msg) from exc
        try:
            source = decode(data, name=self._name) if data else ""
        except LectureReadError as exc:
            msg = f":load: {target!r} {exc.reason}"
            raise LectureReadError(self._name, fence.line, msg) from exc
        return source, SourceLocation(line=None, opening_line=fence.line, source_path=Path(str(target)).as_posix())

    def _resolve_load(self, target: object, fence: Fence) -> Path:
        if not isinstance(target, str) or not target.strip() or "\0" in target:
            msg = f":load: is {target!r}; expected a file beside the lecture"
            raise LectureReadError(self._name, fence.line, msg)
        try:
            loaded = (self._path.parent / target).resolve()
            is_file = loaded.is_file()
        except (OSError, RuntimeError) as exc:
            msg = f":load: {target!r} cannot be read: {exc}"
            raise LectureReadError(self._name, fence.line, msg) from exc
        if not any(loaded.is_relative_to(folder.resolve()) for folder in (self._root, self._path.parent)):
            msg = f":load: {target!r} leaves the lectures' folder; expected a file inside it"
            raise LectureReadError(self._name, fence.line, msg)
        if not is_file:
            msg = f":load: {target!r} is not a file; expected one relative to the lecture"
            raise LectureReadError(self._name, fence.line, msg)
        return loaded

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
