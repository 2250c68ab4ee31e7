"""
Text that cannot harm the place it is printed to, cut and fitted to it.

Lectures are written by others: their output, error messages and file names may hold terminal control sequences,
bidirectional overrides or lone surrogates. Every renderer passes such text through :func:`plain` or :func:`one_line`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

_TAB_WIDTH: Final = 4
ELLIPSIS: Final = "..."

# A figure and its unit ("7.63 s", "(+21 %)", "2 min 20 s") are one word to whoever reads them.
_NUMBER: Final = re.compile(r"\W*[0-9][0-9.,]*(?<![.,])")
_UNIT: Final = re.compile(r"(?:bytes?|[KMGTP]i?B|[kMGTP]?B|ms|s|min|h|d|%)[^\w\s]*")
_LARGER_UNITS: Final = frozenset({"min", "h", "d"})
"""Units of time that a smaller one may follow."""

# Whole control sequences vanish (ECMA-48: CSI; OSC, DCS, SOS, PM and APC strings with their terminator; nF and
# two-character escapes). A sequence without its end is no sequence: its first character is shown escaped and the rest
# stays readable. The string class excludes every start of a string, which keeps the search linear.
_SEQUENCE: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90\x98\x9c-\x9f]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]+[0-~]"
    r"|\x1b[0-OQ-WYZ\\`a-~]"
)
# C0 (but the line feed), DEL, C1, bidirectional controls, line and paragraph separators, the byte order mark,
# non-characters, lone surrogates, and the invisible tag characters.
_UNSAFE: Final = re.compile(
    r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff"
    r"\ud800-\udfff\U000e0000-\U000e007f]"
)


def plain(text: str) -> str:
    r"""
    Make text harmless on a terminal, in XML and in a UTF-8 file; only the line feed is kept of all controls.

    Control sequences are removed, other control characters are shown as escapes (``\x07``, ``\u202e``, ``\udc80``),
    carriage returns become line feeds, tabs become spaces.
    """
    text = _SEQUENCE.sub("", text).replace("\r\n", "\n").replace("\r", "\n").expandtabs(_TAB_WIDTH)
    return _UNSAFE.sub(lambda found: _escape(found.group()), text)


def _escape(character: str) -> str:
    code = ord(character)
    if code <= 0xFF:  # noqa: PLR2004 - the width of a two-digit escape
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004 - the width of a four-digit escape


def one_line(text: str, chars: int = 1000) -> str:
    """Make text harmless, fold its white space so that it stays on one line, and cut what is longer than ``chars``."""
    return cut_line(" ".join(plain(text).split()), chars)


def cut(text: str, lines: int, chars: int) -> str:
    """
    Keep the beginning and the end of a long text; a mark says how much is missing.

    Args:
        text: harmless text.
        lines: most lines of the result, the mark included.
        chars: most characters of each line, the mark included.
    """
    rows = text.split("\n")
    if len(rows) > lines:
        head_count = lines // 2
        tail_count = max(0, lines - head_count - 1)
        missing = len(rows) - head_count - tail_count
        rows = [*rows[:head_count], f"[... {missing} lines cut ...]", *rows[len(rows) - tail_count :]]
    return "\n".join(cut_line(row, chars) for row in rows)


def cut_line(text: str, chars: int) -> str:
    """Keep the beginning and the end of one long line; a mark, counted in ``chars``, says how much is missing."""
    if len(text) <= chars:
        return text
    mark = f"[... {len(text)} characters cut ...]"
    kept = chars - len(mark)
    if kept <= 0:
        return fit_middle(text, chars)
    tail = kept // 3
    mark = f"[... {len(text) - kept} characters cut ...]"
    return f"{text[: kept - tail]}{mark}{text[len(text) - tail :]}"


def display_width(text: str) -> int:
    """Count the columns that text takes on a terminal: two for wide characters, none for combining ones."""
    if text.isascii():
        return len(text)
    return sum(_character_width(character) for character in text)


def _character_width(character: str) -> int:
    if unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1


def fit_middle(text: str, width: int) -> str:
    """Fit a name into ``width`` columns by leaving out its middle; the end of a path tells more than its beginning."""
    if display_width(text) <= width:
        return text
    if width <= len(ELLIPSIS):
        return _take(text, width)
    room = width - len(ELLIPSIS)
    head = _take(text, room // 3)
    tail = _take(text[::-1], room - display_width(head))[::-1]
    return f"{head}{ELLIPSIS}{tail}"


def fit_end(text: str, width: int) -> str:
    """Fit text into ``width`` columns by leaving out its end."""
    if display_width(text) <= width:
        return text
    return f"{_take(text, max(0, width - len(ELLIPSIS)))}{ELLIPSIS}"[: max(width, 0)]


def _take(text: str, width: int) -> str:
    used = 0
    for position, character in enumerate(text):
        used += _character_width(character)
        if used > width:
            return text[:position]
    return text


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Fill text with spaces to ``width`` columns."""
    space = " " * max(0, width - display_width(text))
    return f"{space}{text}" if right else f"{text}{space}"


def fold(text: str, width: int) -> list[str]:
    """Break one line into pieces of at most ``width`` columns, wherever that falls."""
    pieces, width = [], max(1, width)
    while display_width(text) > width:
        # A character wider than the width is a piece of its own: every turn takes something.
        piece = _take(text, width) or text[:1]
        pieces.append(piece)
        text = text[len(piece) :]
    return [*pieces, text]


def wrap(text: str, width: int, *, first: str = "", rest: str | None = None) -> list[str]:
    """
    Break text between words into lines of at most ``width`` columns; a number stays with its unit where that fits.

    Args:
        text: harmless text; its line breaks are treated as spaces.
        width: columns, prefixes included.
        first: prefix of the first line.
        rest: prefix of the others; spaces of the same width where it is ``None``.
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
    """Give what no line is broken in: words, and figures with their units; folded where wider than ``width``."""
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
    """Tell whether a word is the unit of the number before it, or goes on with the duration that ``piece`` ends in."""
    if _UNIT.fullmatch(word):
        return _NUMBER.fullmatch(before) is not None
    return before in _LARGER_UNITS and piece != before and _NUMBER.fullmatch(word) is not None
