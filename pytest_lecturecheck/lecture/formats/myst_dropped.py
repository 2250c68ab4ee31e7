"""Find the code-cells of a MyST page that its book does not execute, so that none is dropped silently."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from markdown_it.token import Token

from pytest_lecturecheck.lecture.formats import peek as _peek
from pytest_lecturecheck.lecture.formats.counting import count_of
from pytest_lecturecheck.lecture.formats.markdown_source import FENCE_TYPES, Fence, nested_code_cells
from pytest_lecturecheck.lecture.formats.myst_dialect import MystDialect
from pytest_lecturecheck.model.finding import Finding, FindingKind

_NESTED: Final = "nested"
_COLON: Final = "in a colon fence"
_SPACE: Final = "with a space in front of its name"
_NAMES: Final = {
    _NESTED: ("nested code-cell", "nested code-cells"),
    _COLON: ("code-cell in a colon fence", "code-cells in colon fences"),
    _SPACE: ("code-cell with a space in front of its name", "code-cells with a space in front of their names"),
}


def find_dropped(tokens: Iterable[Token], dialect: MystDialect) -> Iterator[Finding]:
    """Yield a finding for each way in which code-cells are hidden from the program that executes the page."""
    lines: dict[str, list[int]] = {}
    for token in tokens:
        if token.map is None:
            continue
        for how, line in _dropped(token, dialect):
            lines.setdefault(how, []).append(line)
    for how, found in lines.items():
        message = f"{count_of(found, *_NAMES[how])} not executed, as in the book build"
        kind = FindingKind.NESTED_CELL if how == _NESTED else FindingKind.NOT_RUN
        yield Finding(kind=kind, message=message, line=found[0])


def _dropped(token: Token, dialect: MystDialect) -> Iterator[tuple[str, int]]:
    """Yield how a cell is hidden, and its line."""
    if token.type == "html_block":
        yield from _in_html(token)
    elif token.type in FENCE_TYPES and dialect is not MystDialect.MYSTMD:
        yield from _in_fence(token, dialect)


def _in_html(token: Token) -> Iterator[tuple[str, int]]:
    if not token.content.lstrip().startswith("<!--"):
        for offset in _peek.find_code_cells(token.content):
            yield _NESTED, (token.map or [0])[0] + offset


def _in_fence(token: Token, dialect: MystDialect) -> Iterator[tuple[str, int]]:
    fence = Fence.of(token)
    if fence.directive != "code-cell":
        # For jupytext a colon fence is text, and what is inside is at the top level.
        if dialect is not MystDialect.JUPYTEXT or token.type == "fence":
            for inner in nested_code_cells(fence):
                yield _NESTED, inner.line
    elif token.type == "colon_fence":
        yield _COLON, fence.line
    elif not fence.is_top:
        yield _NESTED, fence.line
    elif not fence.info.startswith(_peek.CODE_CELL) and _peek.CODE_CELL in fence.info:
        yield _SPACE, fence.line
