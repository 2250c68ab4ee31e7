"""Find the code-cells of a MyST page that book builders do not execute, so that none is dropped silently."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from markdown_it.token import Token

from pytest_lecturecheck.files import read_plain_bytes
from pytest_lecturecheck.lecture.formats import peek as _peek
from pytest_lecturecheck.lecture.formats.markdown_source import Fence, parse_blocks
from pytest_lecturecheck.model.finding import Finding, FindingKind

_MAX_LEVELS: Final = 12
_MAX_INCLUDED_BYTES: Final = 4 * 1024 * 1024
_VERBATIM: Final = re.compile(
    r"^[ \t]*:(?:literal|code|lang(?:uage)?)\b|^[ \t]*(?:literal|code|lang)[ \t]*:", re.MULTILINE
)


def find_dropped(tokens: Iterable[Token]) -> Iterator[Finding]:
    """Yield a finding for each code-cell that is nested, in a colon fence, or spelled so that builders ignore it."""
    for token in tokens:
        if token.map is None:
            continue
        if token.type in {"fence", "colon_fence"}:
            yield from _from_fence(token)
        elif token.type == "html_block" and not token.content.lstrip().startswith("<!--"):
            for offset in _peek.find_code_cells(token.content):
                yield _nested(token.map[0] + offset)


def find_included(tokens: Iterable[Token], folder: Path, root: Path) -> Iterator[Finding]:
    """
    Yield a finding for each included file with code-cells, which builders include as text.

    Args:
        tokens: the blocks.
        folder: the page's folder.
        root: the folder that an included file must be in to be read.
    """
    for token in tokens:
        if token.type not in {"fence", "colon_fence"} or token.map is None:
            continue
        fence = Fence.of(token)
        if fence.directive != "include" or _VERBATIM.search(fence.content):
            continue
        target = fence.info.partition("}")[2].strip()
        count = _count_cells(folder, target, root)
        if count:
            cells, verb = ("1 code-cell", "is") if count == 1 else (f"{count} code-cells", "are")
            message = f"{cells} in the included file {target!r} {verb} not executed, as in the book build"
            yield Finding(kind=FindingKind.NOT_RUN, message=message, line=fence.line)


def _count_cells(folder: Path, target: str, root: Path) -> int:
    try:
        path = (folder / target).resolve()
        is_inside = any(path.is_relative_to(allowed.resolve()) for allowed in (root, folder))
        if not target or not is_inside or not path.is_file() or path.stat().st_size > _MAX_INCLUDED_BYTES:
            return 0
        text = read_plain_bytes(path, most_bytes=_MAX_INCLUDED_BYTES).decode("utf-8", "replace")
    except (OSError, RuntimeError, ValueError):
        return 0
    return sum(1 for _line in _peek.find_code_cells(text.replace("\r\n", "\n")))


def _from_fence(token: Token) -> Iterator[Finding]:
    fence = Fence.of(token)
    if fence.directive == "code-cell":
        if token.type == "colon_fence":
            yield _not_run("in a colon fence", fence.line)
        elif not fence.is_top:
            yield _nested(fence.line)
        elif not fence.info.startswith(_peek.CODE_CELL):
            yield _not_run("with a space in front of its name", fence.line)
        return
    for line in _inside(fence, 1):
        yield _nested(line)


def _inside(fence: Fence, level: int) -> Iterator[int]:
    """Yield the lines of the code-cells inside a fence whose body is Markdown."""
    if not fence.renders_body or level > _MAX_LEVELS or _peek.CODE_CELL not in fence.content:
        return
    for token in parse_blocks(fence.content):
        if token.type not in {"fence", "colon_fence"} or token.map is None:
            continue
        inner = Fence.of(token, first_line=fence.line + 1)
        if inner.directive == "code-cell":
            yield inner.line
        else:
            yield from _inside(inner, level + 1)


def _nested(line: int) -> Finding:
    message = f"1 nested code-cell (line {line}) is not executed, as in the book build"
    return Finding(kind=FindingKind.NESTED_CELL, message=message, line=line)


def _not_run(how: str, line: int) -> Finding:
    message = f"1 code-cell {how} (line {line}) is not executed, as in the book build"
    return Finding(kind=FindingKind.NOT_RUN, message=message, line=line)
