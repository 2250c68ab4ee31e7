"""Decode files, and find the marks of an unfinished merge."""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from typing import Final

from pytest_lecturecheck.errors import LectureReadError
from pytest_lecturecheck.files import read_plain_bytes

_WIDE_MARKS: Final = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
_OURS: Final = re.compile(r"^<{7}(?: .*)?$", re.MULTILINE)
_MIDDLE: Final = re.compile(r"^={7}$", re.MULTILINE)
_THEIRS: Final = re.compile(r"^>{7}(?: .*)?$", re.MULTILINE)
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")


def read_text(path: Path, *, name: str) -> str:
    r"""
    Read a file as UTF-8 text with ``\n`` line ends; a UTF-8 byte order mark is accepted.

    Args:
        path: the file.
        name: the file as the user knows it, for messages.

    Raises:
        LectureReadError: the file is empty, cannot be opened, or is not UTF-8.
    """
    try:
        data = read_plain_bytes(path)
    except OSError as exc:
        msg = f"cannot be read: {exc.strerror or exc}"
        raise LectureReadError(name, None, msg) from exc
    return decode(data, name=name)


def decode(data: bytes, *, name: str) -> str:
    """Decode the bytes of a file; see :func:`read_text`."""
    if not data:
        raise LectureReadError(name, None, "is empty (0 bytes)")
    if encoding := wide_encoding(data):
        raise LectureReadError(name, None, f"is {encoding} text; expected UTF-8: save it as UTF-8")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        msg = f"is not UTF-8 text (byte 0x{data[exc.start]:02x}); expected UTF-8: save it as UTF-8"
        raise LectureReadError(name, line, msg) from exc
    return text.replace("\r\n", "\n").replace("\r", "\n")


def wide_encoding(data: bytes) -> str:
    """Return the name of a UTF-16 or UTF-32 encoding, judged by the first bytes, or an empty string."""
    # The little-endian UTF-32 mark begins with the one of UTF-16, so UTF-32 is tried first.
    for mark, encoding in _WIDE_MARKS.items():
        if data.startswith(mark):
            return encoding
    # Without a mark, an ASCII character in UTF-16 has one zero byte beside it.
    pair = data[:2]
    return "UTF-16" if len(pair) == 2 and pair.count(0) == 1 else ""  # noqa: PLR2004 - the width of a unit


def find_conflict(text: str) -> tuple[int, int] | None:
    """
    Find the markers that git leaves in a file whose merge is unfinished.

    Returns:
        1-based lines of the first and the last marker of the first conflict, or ``None``.
    """
    ours = _OURS.search(text)
    middle = _MIDDLE.search(text, ours.end()) if ours else None
    theirs = _THEIRS.search(text, middle.end()) if middle else None
    if ours is None or theirs is None:
        return None
    return text.count("\n", 0, ours.start()) + 1, text.count("\n", 0, theirs.start()) + 1


def refuse_conflict(text: str, *, name: str) -> None:
    """
    Refuse a file with merge conflict markers.

    Raises:
        LectureReadError: with the line of the first marker.
    """
    if conflict := find_conflict(text):
        raise LectureReadError(name, conflict[0], conflict_reason(conflict[0]))


def conflict_reason(line: int) -> str:
    """Return the message for an unfinished merge."""
    return f"has merge conflict markers at line {line}; finish the merge"


def without_surrogates(text: str) -> str:
    """Replace lone surrogates: JSON can carry them, but no encoding can write them."""
    return _SURROGATE.sub("\ufffd", text)


def has_surrogates(text: str) -> bool:
    """Return True if the text holds lone surrogates."""
    return _SURROGATE.search(text) is not None
