"""
Parse MyST Markdown notebooks as book builders do.

As in myst-nb 1.4 (``core/read.py``), cells are top-level fences whose info starts with ``{code-cell}``. The options
before the body follow ``parse_directive_text`` of myst-parser. The pages of a mystmd book follow mystmd 1.8
(``myst-directives`` and ``myst-execute``). Cells that a builder drops silently become findings with their lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from markdown_it.token import Token

from pytest_lecturecheck.errors import LectureReadError
from pytest_lecturecheck.lecture.formats import peek as _peek
from pytest_lecturecheck.lecture.formats.counting import count_of
from pytest_lecturecheck.lecture.formats.markdown_source import (
    code_cells,
    find_broken_fence,
    parse_blocks,
    verbatim_ranges,
)
from pytest_lecturecheck.lecture.formats.myst_cells import MystCells
from pytest_lecturecheck.lecture.formats.myst_dialect import MystDialect
from pytest_lecturecheck.lecture.formats.myst_dropped import find_dropped
from pytest_lecturecheck.lecture.formats.myst_files import find_included
from pytest_lecturecheck.lecture.formats.myst_languages import find_other_languages
from pytest_lecturecheck.lecture.formats.notebook import make_notebook
from pytest_lecturecheck.lecture.formats.parsed import Parsed, lift_jupyter, lift_lines
from pytest_lecturecheck.lecture.source_text import conflict_reason, find_conflict
from pytest_lecturecheck.lecture.yaml_text import YamlTable, load_table
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.lecture import LectureFormat

_EVAL: Final = re.compile(r"\{eval\}`[^`]+`")


def parse_myst(text: str, *, path: Path, name: str, root: Path, dialect: MystDialect = MystDialect.MYST_NB) -> Parsed:
    r"""
    Parse a MyST notebook.

    Args:
        text: the file, with ``\n`` line ends.
        path: the file, to which loaded files are relative.
        name: the file as the user knows it.
        root: the folder that loaded files must be in.
        dialect: the program whose rules apply.

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
    findings = tuple(find_dropped(tokens, dialect))
    if dialect is MystDialect.JUPYTEXT:
        # jupytext finds other blocks: to it a colon fence is text. It reads every page, with a header or without.
        tokens = parse_blocks(body, colon_fences=False)
    else:
        late = None if front else _peek.late_header(text)
        _require_header(metadata, header, tokens, findings, name=name, front_line=late)
    found = MystCells(path=path, name=name, root=root, lines=body.split("\n"), dialect=dialect)
    found.read(tokens)
    return Parsed(
        format=LectureFormat.MYST,
        document=_document(header.values, found.cells),
        locations=tuple(found.locations),
        metadata=metadata,
        key_lines=lift_lines(header.lines),
        findings=(
            *findings,
            *find_included(tokens, path.parent, root, dialect),
            *find_other_languages(metadata, found.fences),
            *_inline_expressions(tokens, dialect),
        ),
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
    # Code-cells in HTML are known as findings alone.
    lines = [fence.line for fence in code_cells(tokens)]
    lines = lines or [finding.line for finding in findings if finding.line is not None]
    if lines and front_line is not None:
        msg = f"has its header at line {front_line}; expected it on line 1: remove the blank lines above it"
        raise LectureReadError(name, front_line, msg)
    if lines:
        blocks = "1 code-cell block" if len(lines) == 1 else f"{len(lines)} code-cell blocks"
        msg = f"has {blocks} but no kernelspec/jupytext header, so no book runs it; add one, or use code-block"
        raise LectureReadError(name, min(lines), msg)


def _inline_expressions(tokens: list[Token], dialect: MystDialect) -> Iterator[Finding]:
    """Yield one finding for the inline expressions of a page, which only mystmd evaluates."""
    if dialect is not MystDialect.MYSTMD:
        return
    lines = [
        token.map[0] + token.content.count("\n", 0, match.start()) + 1
        for token in tokens
        if token.type == "inline" and token.map is not None
        for match in _EVAL.finditer(token.content)
    ]
    if lines:
        which = count_of(lines, "inline expression", "inline expressions")
        message = f"{which} not evaluated; mystmd evaluates {{eval}} when it builds the page"
        yield Finding(kind=FindingKind.NOT_RUN, message=message, line=lines[0])


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
