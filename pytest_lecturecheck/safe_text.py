"""
Text that cannot harm the place where it is shown.

Lectures are written by others. Their output, error messages and file names may hold terminal control sequences,
bidirectional overrides or lone surrogates. Every message and every renderer passes such text through :func:`plain` or
:func:`one_line`.
"""

from __future__ import annotations

import re
from typing import Final

ELLIPSIS: Final = "..."
_TAB_WIDTH: Final = 4
_LONGEST_WORD: Final = 24
"""A cut is moved by at most this many characters to fall between words."""
_READ_AT_EACH_END: Final = 4
"""Of a text that is cut to some length, at most this many times that length is processed at either end."""

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
    Return text that is safe on a terminal, in XML and in a UTF-8 file; the only control character left is ``\n``.

    Control sequences are removed. Other control characters are shown as escapes (``\x07``, ``\u202e``, ``\udc80``),
    carriage returns become line feeds, and tabs become spaces.
    """
    text = _SEQUENCE.sub("", text).replace("\r\n", "\n").replace("\r", "\n").expandtabs(_TAB_WIDTH)
    return _UNSAFE.sub(lambda found: _escape(found.group()), text)


def _escape(character: str) -> str:
    code = ord(character)
    if code <= 0xFF:  # noqa: PLR2004 - the width of a two-digit escape
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004 - the width of a four-digit escape


def one_line(text: str, chars: int = 1000) -> str:
    """Return safe text on a single line, with its white space collapsed and its middle cut beyond ``chars``."""
    # The text may be as long as a lecture likes: bound the work, not only the result.
    unread = len(text) - 2 * _READ_AT_EACH_END * chars
    if unread <= 0:
        return cut_line(" ".join(plain(text).split()), chars)
    ends = (text[: _READ_AT_EACH_END * chars], text[-_READ_AT_EACH_END * chars :])
    head, tail = (" ".join(plain(part).split()) for part in ends)
    return cut_line(f"{head} {tail}", chars, unread=unread)


def cut(text: str, lines: int, chars: int) -> str:
    """
    Keep the beginning and the end of a long text; a mark says how much is missing.

    Args:
        text: safe text.
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


def cut_line(text: str, chars: int, *, unread: int = 0) -> str:
    """
    Keep the beginning and the end of one long line; a mark, counted in ``chars``, says how much is missing.

    Args:
        text: safe text without line breaks.
        chars: most characters of the result.
        unread: characters that were left out of the middle of ``text`` already.
    """
    if len(text) <= chars and not unread:
        return text
    longest_mark = f"[... {len(text) + unread} characters cut ...]"
    kept = min(chars - len(longest_mark), len(text))
    if kept <= 0:
        return _without_middle(text, chars)
    head, tail = _between_words(text[: kept - kept // 3], text[len(text) - kept // 3 :])
    return f"{head}[... {len(text) + unread - len(head) - len(tail)} characters cut ...]{tail}"


def _between_words(head: str, tail: str) -> tuple[str, str]:
    """Move both ends of a cut to the nearest space, unless that is far away."""
    end, start = head.rfind(" ") + 1, tail.find(" ")
    if end >= len(head) - _LONGEST_WORD and head[:end].strip():
        head = head[:end]
    if 0 <= start <= _LONGEST_WORD and tail[start:].strip():
        tail = tail[start:]
    return head, tail


def _without_middle(text: str, chars: int) -> str:
    kept = chars - len(ELLIPSIS)
    if kept <= 0:
        return text[:chars]
    head = kept // 3
    return f"{text[:head]}{ELLIPSIS}{text[len(text) - kept + head :]}"
