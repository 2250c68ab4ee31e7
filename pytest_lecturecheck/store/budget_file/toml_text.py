"""
TOML as text with positions: the statements of a file, each with its line, its value and its exact text.

TOML libraries discard the line of a key and the table that a comment belongs to; a budget file needs both. Values are
still read by :mod:`tomllib`, one statement at a time, so that one fault does not hide the next.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import field
from enum import StrEnum
from typing import Any, Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.store.surrogates import escape_surrogates

_TOKEN: Final = re.compile(
    r'''
      """ (?: \\. | [^\\] )*? "{3,5}
    | \'\'\' .*? '{3,5}
    | " (?: \\. | [^"\\\n] )* "
    | ' [^'\n]* '
    | (?P<comment> \# [^\n]* )
    | (?P<open> [\[{] )
    | (?P<close> [\]}] )
    | (?P<newline> \n )
    | (?P<space> [ \t\r]+ )
    | [^"'\#\[\]{}\s]+
    | .
    ''',
    re.VERBOSE | re.DOTALL,
)
_KEY_PART: Final = r"""(?:"(?:\\.|[^"\\\n])*"|'[^'\n]*'|[A-Za-z0-9_-]+)"""
_KEY: Final = re.compile(rf"\s*{_KEY_PART}(?:[ \t]*\.[ \t]*{_KEY_PART})*[ \t]*=[ \t]*")
_POSITION: Final = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)")
_CONFLICT: Final = re.compile(r"(?:<{7}|>{7}|\|{7}|={7})(?: .*|)")


class Kind(StrEnum):
    """The kinds of text pieces."""

    TRIVIA = "trivia"
    """A blank line or a comment on a line of its own."""
    HEADER = "header"
    PAIR = "pair"
    BROKEN = "broken"
    """Not TOML; ``reason`` explains why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """
    One statement, or one line of trivia; the pieces of a text joined are the text.

    Attributes:
        kind: its kind.
        text: the exact text, with its line end.
        line: 1-based line where it starts.
        path: the header's or the key's parts.
        value: the value of a pair.
        value_span: position of the value (or the header) in ``text``.
        comments: comments inside the value.
        reason: why a broken piece is not TOML; ``line`` is then that of the fault.
    """

    kind: Kind
    text: str
    line: int
    path: tuple[str, ...] = ()
    value: Any = None
    value_span: tuple[int, int] = (0, 0)
    comments: tuple[str, ...] = ()
    reason: str = ""

    @property
    def is_blank(self) -> bool:
        """Return True for an empty line."""
        return not self.text.strip()


@dataclass(slots=True, kw_only=True)
class Block:
    """
    One table as written: the lines above its header, the header, and its statements.

    Attributes:
        path: the parts of the header; empty for the text before the first header.
        lead: the trivia above the header.
        header: the header, or ``None`` before the first one.
        body: statements and the trivia between them; trivia after the last statement leads the next block.
        is_lost: the header could not be read; it is the first piece of the body.
    """

    path: tuple[str, ...] = ()
    lead: list[Piece] = field(default_factory=list)
    header: Piece | None = None
    body: list[Piece] = field(default_factory=list)
    is_lost: bool = False

    @property
    def text(self) -> str:
        """Return the block as written."""
        header = [self.header] if self.header else []
        return "".join(piece.text for piece in (*self.lead, *header, *self.body))


def find_conflict_markers(text: str) -> list[tuple[int, str]]:
    """Return line and text of every merge conflict marker."""
    lines = enumerate(text.split("\n"), start=1)
    return [(number, line.rstrip("\r")) for number, line in lines if _CONFLICT.fullmatch(line.rstrip("\r"))]


def scan_pieces(text: str) -> list[Piece]:
    """Split a text into its statements and trivia, in order."""
    pieces, position, line = [], 0, 1
    while position < len(text):
        piece = _read_piece(text, position, line)
        pieces.append(piece)
        position += len(piece.text)
        line += piece.text.count("\n")
    return pieces


def group_blocks(pieces: list[Piece]) -> tuple[list[Block], list[Piece]]:
    """Group pieces into tables; return them and the trivia at the end of the file."""
    blocks, trivia = [Block()], []
    for piece in pieces:
        if piece.kind is Kind.TRIVIA:
            trivia.append(piece)
            continue
        if piece.kind is Kind.HEADER:
            blocks.append(Block(path=piece.path, lead=trivia, header=piece))
        elif piece.kind is Kind.BROKEN and piece.text.lstrip().startswith("["):
            # Statements after an unreadable header do not belong to the table before it.
            blocks.append(Block(is_lost=True, lead=trivia, body=[piece]))
        else:
            blocks[-1].body += [*trivia, piece]
        trivia = []
    return blocks, trivia


def trivia_lines(text: str) -> list[Piece]:
    """Return comment lines and blank lines as pieces."""
    return [Piece(kind=Kind.TRIVIA, text=line, line=0) for line in text.splitlines(keepends=True)]


def quote(text: str) -> str:
    """Format a TOML basic string; only characters that TOML requires and lone surrogates are escaped."""
    return '"' + "".join(_escape(char) for char in escape_surrogates(text)) + '"'


def _escape(char: str) -> str:
    if char in {'"', "\\"}:
        return f"\\{char}"
    if char < " " or char == "\x7f":
        return f"\\u{ord(char):04X}"
    return char


def _read_piece(text: str, start: int, line: int) -> Piece:
    end, span_end, comments = _find_end(text, start)
    raw = text[start:end]
    stripped = raw.strip(" \t\r\n")
    if not stripped or stripped.startswith("#"):
        return Piece(kind=Kind.TRIVIA, text=raw, line=line)
    data, reason = _load(raw)
    if reason:
        return _broken(raw, line, reason)
    if stripped.startswith("["):
        start_column = len(raw) - len(raw.lstrip())
        span = (start_column, span_end - start)
        return Piece(kind=Kind.HEADER, text=raw, line=line, path=_header_path(data), value_span=span)
    key = _KEY.match(raw)
    assert key is not None  # noqa: S101 - it is TOML and no header, so it has a key
    path = _header_path(tomllib.loads(f"{key.group()}{{}}"))
    value: Any = data
    for part in path:
        value = value[part]
    return Piece(
        kind=Kind.PAIR,
        text=raw,
        line=line,
        path=path,
        value=value,
        value_span=(key.end(), span_end - start),
        comments=tuple(comments),
    )


def _load(raw: str) -> tuple[dict[str, Any], str]:
    """Parse one statement; return its data, and why it is refused or an empty string."""
    try:
        data = tomllib.loads(raw)
    # A number of thousands of digits is a ValueError of Python's own.
    except ValueError as error:
        return {}, str(error)
    except RecursionError:
        return {}, "Nested too deeply"
    return data, "Arrays of tables are not used here" if raw.lstrip().startswith("[[") else ""


def _find_end(text: str, start: int) -> tuple[int, int, list[str]]:
    """Return the end of the statement at ``start``, the end of its last token, and the comments before that."""
    depth, span_end = 0, start
    comments: list[str] = []
    inside: list[str] = []
    is_header = text[start : start + 200].lstrip(" \t").startswith("[")
    for token in _TOKEN.finditer(text, start):
        group = token.lastgroup
        if group == "newline" and (depth <= 0 or is_header):
            return token.end(), span_end, inside
        if group == "comment":
            comments.append(token.group())
        elif group not in {"newline", "space"}:
            span_end = token.end()
            inside = [*comments]
        depth += {"open": 1, "close": -1}.get(group or "", 0)
    if depth > 0:
        # An unclosed bracket would consume the rest of the file; report its own line only.
        newline = text.find("\n", start)
        return (newline + 1 if newline >= 0 else len(text)), span_end, []
    return len(text), span_end, inside


def _header_path(data: dict[str, Any]) -> tuple[str, ...]:
    path = []
    while data:
        ((key, data),) = data.items()
        path.append(key)
    return tuple(path)


def _broken(raw: str, line: int, message: str) -> Piece:
    found = _POSITION.search(message)
    offset = int(found.group(1)) - 1 if found and found.group(1) else 0
    # The text keeps its length because the line of the next piece is counted from it.
    reason = _POSITION.sub("", message)
    return Piece(kind=Kind.BROKEN, text=raw, line=line + min(offset, raw.rstrip("\n").count("\n")), reason=reason)
