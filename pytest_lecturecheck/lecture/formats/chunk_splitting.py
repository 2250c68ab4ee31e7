"""Split R Markdown and Quarto documents into chunks, line by line as knitr and Quarto do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass

_LANGUAGE: Final = r"[A-Za-z][\w+#-]*"
_PLAIN_FENCE: Final = re.compile(r"(?P<ticks>`{3,})[^`]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkBlock:
    """
    A fenced chunk.

    Attributes:
        language: the language in its braces, as written.
        options: the text after the language in its braces.
        opening: the text of its opening line.
        ticks: its fence marks.
        lines: the lines inside, without the indentation of the fence.
        line: 1-based line of its opening mark.
        last_line: 1-based line of its closing mark, or the last line of the document if it is not closed.
        is_closed: whether it has a closing mark.
    """

    language: str
    options: str
    opening: str
    ticks: str
    lines: tuple[str, ...]
    line: int
    last_line: int
    is_closed: bool


def split_chunks(lines: Sequence[str], *, language: str = "", quoted: bool = False) -> Iterator[ChunkBlock]:
    """
    Yield the chunks of a document.

    Neither tool parses Markdown first: a chunk in an HTML comment, a list or a longer fence is a chunk.

    Args:
        lines: the document.
        language: the only language to look for. Without one, chunks of all languages are found, but not those in a
            plain fence, which may show any language.
        quoted: whether quote marks may precede a fence, as in knitr.
    """
    indent = r"[ \t>]*" if quoted else r"[ \t]*"
    wanted = re.escape(language) if language else _LANGUAGE
    start = re.compile(
        rf"(?P<indent>{indent})(?P<ticks>`{{3,}})[ \t]*\{{(?P<language>{wanted})(?P<options>[ ,].*)?\}}\s*"
    )
    index = 0
    plain = ""
    while index < len(lines):
        line = lines[index]
        opening = start.fullmatch(line)
        fence = _PLAIN_FENCE.fullmatch(line)
        if plain and not language:
            if line.strip() == plain:
                plain = ""
        elif opening is not None:
            end = _find_end(lines, index + 1, opening, quoted=quoted)
            yield _block(lines, index, end, opening)
            index = len(lines) if end is None else end
        elif fence is not None:
            plain = fence["ticks"]
        index += 1


def _find_end(lines: Sequence[str], first: int, opening: re.Match[str], *, quoted: bool) -> int | None:
    ticks = len(opening["ticks"])
    # Quarto wants the indentation and the number of marks of the opening line, knitr at least as many marks.
    pattern = rf"[ \t>]*`{{{ticks},}}\s*" if quoted else rf"{re.escape(opening['indent'])}`{{{ticks}}}\s*"
    end = re.compile(pattern)
    return next((index for index in range(first, len(lines)) if end.fullmatch(lines[index])), None)


def _block(lines: Sequence[str], start: int, end: int | None, opening: re.Match[str]) -> ChunkBlock:
    last = len(lines) if end is None else end
    return ChunkBlock(
        language=opening["language"],
        options=opening["options"] or "",
        opening=lines[start].strip(),
        ticks=opening["ticks"],
        lines=tuple(line.removeprefix(opening["indent"]) for line in lines[start + 1 : last]),
        line=start + 1,
        last_line=last + (end is not None),
        is_closed=end is not None,
    )
