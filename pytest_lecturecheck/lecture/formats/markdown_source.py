"""Parse Markdown into block tokens and fences. The only module that imports markdown-it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.colon_fence import colon_fence_plugin
from mdit_py_plugins.myst_blocks import myst_block_plugin

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.lecture.formats import peek as _peek

FENCE_TYPES: Final = frozenset({"fence", "colon_fence"})
_MAX_LEVELS: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """
    A fenced block.

    Attributes:
        mark: the characters that open it.
        info: the text after them, unchanged.
        content: the text inside.
        line: 1-based line of the opening mark.
        last_line: 1-based last line, normally the closing mark.
        is_top: whether it is at the top level, not in a list or a quote.
    """

    mark: str
    info: str
    content: str
    line: int
    last_line: int
    is_top: bool

    @classmethod
    def of(cls, token: Token, *, first_line: int = 1) -> Fence:
        """Build a fence from a token; ``first_line`` is the line of the file on which the parsed text starts."""
        start, end = token.map or (0, 0)
        return cls(
            mark=token.markup,
            info=token.info,
            content=token.content,
            line=start + first_line,
            last_line=end + first_line - 1,
            is_top=token.level == 0,
        )

    @property
    def directive(self) -> str:
        """Return the name of the directive in braces, or an empty string."""
        match = _peek.DIRECTIVE.match(self.info.strip())
        return match["name"] if match is not None else ""

    @property
    def renders_body(self) -> bool:
        """Return True if the content is Markdown, not verbatim text."""
        if not self.directive:
            # ":::" and ":::name" are containers of text.
            return self.mark.startswith(":")
        return self.directive not in _peek.VERBATIM_DIRECTIVES | {"code-cell", "raw-cell"}


def parse_blocks(text: str, *, colon_fences: bool = True) -> list[Token]:
    """Parse Markdown down to blocks (no inline markup), with MyST's comments, block breaks and colon fences."""
    return _parser(colon_fences=colon_fences).parse(text + "\n")


@cache
def _parser(*, colon_fences: bool) -> MarkdownIt:
    parser = MarkdownIt("commonmark").enable("table").use(myst_block_plugin)
    if colon_fences:
        parser.use(colon_fence_plugin)
    return parser.disable("inline", ignoreInvalid=True)


def nested_code_cells(fence: Fence, *, includes: bool = False, level: int = 1) -> Iterator[Fence]:
    """
    Yield the code-cells inside a fence whose body is Markdown, in the order of the document.

    Args:
        fence: the outer fence.
        includes: whether to yield include directives too.
        level: how deep the fence is; deeper ones than anybody writes are not followed.
    """
    if not fence.renders_body or level > _MAX_LEVELS:
        return
    if "code-cell" not in fence.content and not (includes and "include" in fence.content):
        return
    for token in parse_blocks(fence.content):
        if token.type not in FENCE_TYPES or token.map is None:
            continue
        inner = Fence.of(token, first_line=fence.line + 1)
        if inner.directive == "code-cell" or (includes and inner.directive == "include"):
            yield inner
        else:
            yield from nested_code_cells(inner, includes=includes, level=level + 1)


def code_cells(tokens: Iterable[Token]) -> Iterator[Fence]:
    """Yield the code-cells of a page at any depth, whether or not its book executes them."""
    for token in tokens:
        if token.type in FENCE_TYPES and token.map is not None:
            fence = Fence.of(token)
            if fence.directive == "code-cell":
                yield fence
            else:
                yield from nested_code_cells(fence)


def verbatim_ranges(tokens: Iterable[Token]) -> Iterator[tuple[int, int]]:
    """Yield the first and last line of each verbatim block."""
    for token in tokens:
        if token.type == "fence" and token.map is not None:
            fence = Fence.of(token)
            if fence.directive != "code-cell" and not fence.renders_body:
                yield fence.line, fence.last_line


def find_broken_fence(tokens: Iterable[Token], lines: Sequence[str]) -> tuple[int, str] | None:
    """
    Find a top-level fence without its own closing mark: open until the end of the file, or around a code-cell.

    Args:
        tokens: the blocks.
        lines: the parsed lines.

    Returns:
        1-based line of the opening mark and the fault, or ``None``.
    """
    for token in tokens:
        if token.type not in FENCE_TYPES or token.level != 0:
            continue
        fence = Fence.of(token)
        opening = f"{fence.mark}{fence.info.rstrip()}"
        swallowed = _swallowed_cell(fence)
        if swallowed is not None:
            msg = f"fence {opening!r} is not closed before the code-cell at line {swallowed}"
            return fence.line, f"{msg}; close it with {fence.mark!r}"
        # In a book without colon fences an unclosed ":::" is plain text; it matters only if it hides a cell.
        matters = token.type == "fence" or _peek.CODE_CELL in fence.content
        if matters and not is_closed(fence, lines):
            msg = f"fence {opening!r} is opened here and never closed; close it with {fence.mark!r}"
            return fence.line, msg
    return None


def _swallowed_cell(fence: Fence) -> int | None:
    """
    Return the line of a code-cell that opens inside a fence with at least as many marks.

    Such a cell cannot be nested on purpose: its closing mark would close the outer fence.
    """
    for offset, line in enumerate(fence.content.split("\n"), start=1):
        match = _peek.FENCE.match(line)
        if (
            match is not None
            and match["mark"][0] == fence.mark[0]
            and len(match["mark"]) >= len(fence.mark)
            and match["info"].strip().startswith(_peek.CODE_CELL)
        ):
            return fence.line + offset
    return None


def is_closed(fence: Fence, lines: Sequence[str]) -> bool:
    """Return True if a top-level fence has a closing mark among the parsed lines."""
    last = lines[fence.last_line - 1] if fence.last_line <= len(lines) else ""
    closing = rf" {{0,3}}{re.escape(fence.mark[0])}{{{len(fence.mark)},}}[ \t]*"
    return fence.last_line > fence.line and re.fullmatch(closing, last) is not None
