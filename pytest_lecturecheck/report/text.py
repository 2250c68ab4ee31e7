"""
Fit safe text into the columns of a terminal: measure, shorten, pad and wrap it.

Text from lectures is made safe by ``safe_text`` first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from pytest_lecturecheck.safe_text import ELLIPSIS

# A number and its unit ("7.63 s", "(+21 %)", "2 min 20 s") are one word to whoever reads them.
_NUMBER: Final = re.compile(r"\W*[0-9][0-9.,]*(?<![.,])")
_UNIT: Final = re.compile(r"(?:bytes?|[KMGTP]i?B|[kMGTP]?B|ms|s|min|h|d|%)[^\w\s]*")
_WORD_END: Final = re.compile(r"\s+|[,;({\[/]")
_LARGER_UNITS: Final = frozenset({"min", "h", "d"})
"""Units of time that a smaller one may follow."""


def display_width(text: str) -> int:
    """Return the columns that text takes on a terminal: two for wide characters, none for combining ones."""
    if text.isascii():
        return len(text)
    # Nearly all names and messages are ASCII: most sessions never pay for the import.
    from wcwidth import wcswidth, wcwidth  # noqa: PLC0415

    width = wcswidth(text)
    return width if width >= 0 else sum(max(0, wcwidth(character)) for character in text)


def fit_middle(text: str, width: int) -> str:
    """Shorten a name to ``width`` columns in its middle: the end of a path says more than its beginning."""
    if display_width(text) <= width:
        return text
    if width <= len(ELLIPSIS):
        return _take(text, width)
    room = width - len(ELLIPSIS)
    head = _take(text, room // 3)
    tail = _take(text[::-1], room - display_width(head))[::-1]
    return f"{head}{ELLIPSIS}{tail}"


def fit_end(text: str, width: int) -> str:
    """Shorten text to ``width`` columns at its end."""
    if display_width(text) <= width:
        return text
    taken = _take(text, max(0, width - len(ELLIPSIS)))
    ends = [found.end() for found in _WORD_END.finditer(taken)]
    # A long word is cut all the same: half a line says more than a few columns of it.
    if ends and 2 * ends[-1] >= len(taken) and not text[len(taken)].isspace():
        taken = taken[: ends[-1]]
    return f"{taken.rstrip()}{ELLIPSIS}"[: max(width, 0)]


def _take(text: str, width: int) -> str:
    """Return the longest beginning of text that fits into ``width`` columns."""
    if text.isascii():
        return text[: max(0, width)]
    for end in range(1, len(text) + 1):
        if display_width(text[:end]) > width:
            return text[: end - 1]
    return text


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Pad text with spaces to ``width`` columns."""
    space = " " * max(0, width - display_width(text))
    return f"{space}{text}" if right else f"{text}{space}"


def fold(text: str, width: int) -> list[str]:
    """Break one line into pieces of at most ``width`` columns, regardless of words."""
    pieces, width = [], max(1, width)
    while display_width(text) > width:
        # A character wider than the width becomes a piece of its own, so that every turn makes progress.
        piece = _take(text, width) or text[:1]
        pieces.append(piece)
        text = text[len(piece) :]
    return [*pieces, text]


def fold_between_words(text: str, width: int) -> list[str]:
    """
    Break one line of code or output into pieces of at most ``width`` columns, between words where that is possible.

    Spaces are kept, so that the pieces joined are the text.
    """
    pieces, width = [], max(1, width)
    while display_width(text) > width:
        piece = _take(text, width) or text[:1]
        if not text[len(piece) : len(piece) + 1].isspace():
            end = max((found.end() for found in _WORD_END.finditer(piece)), default=0)
            # Never a piece of indentation alone.
            piece = piece[:end] if piece[:end].strip() else piece
        pieces.append(piece)
        text = text[len(piece) :]
    return [*pieces, text]


def wrap(text: str, width: int, *, first: str = "", rest: str | None = None) -> list[str]:
    """
    Break text between words into lines of at most ``width`` columns; a number stays with its unit where that fits.

    Args:
        text: safe text; its line breaks are treated as spaces.
        width: columns, prefixes included.
        first: prefix of the first line.
        rest: prefix of the other lines; ``None`` means spaces of the same width.
    """
    rest = " " * display_width(first) if rest is None else rest
    prefix, line, result = first, "", []
    for word in _pieces(text, max(8, width - display_width(first))):
        candidate = f"{line} {word}" if line else word
        if line and display_width(prefix) + display_width(candidate) > width:
            result.append(prefix + line)
            prefix, line = rest, word
        else:
            line = candidate
    return [*result, (prefix + line).rstrip()]


def _pieces(text: str, width: int) -> Iterator[str]:
    """Yield the pieces that stay on one line: words, and numbers with their units; wider ones are folded."""
    words = text.split()
    piece = words[0] if words else ""
    for before, word in pairwise(words):
        if _belongs(before, word, piece) and display_width(piece) + 1 + display_width(word) <= width:
            piece = f"{piece} {word}"
        else:
            yield from fold(piece, width)
            piece = word
    if piece:
        yield from fold(piece, width)


def _belongs(before: str, word: str, piece: str) -> bool:
    """Return True if a word is the unit of the number before it, or continues the duration at the end of ``piece``."""
    if _UNIT.fullmatch(word):
        return _NUMBER.fullmatch(before) is not None
    return before in _LARGER_UNITS and piece != before and _NUMBER.fullmatch(word) is not None
