"""
Find the lines of cell sources and metadata keys in a notebook's JSON.

Python's ``json`` reports no positions. This module walks the path to each cell's ``source`` and lets ``json`` decode
every value on it. A line is returned only if decoding the lines of the file one by one yields the source again.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pytest_lecturecheck.deferred_dataclass import dataclass

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_DECODER: Final = json.JSONDecoder()
_KEY_DEPTH: Final = 4
_SOURCE_LINE: Final = re.compile(
    r'\s*(?:"(?:source|input)"\s*:\s*)?(?:\[\s*)?(?P<text>"(?:[^"\\]|\\.)*")(?:\s*\])?\s*,?\s*'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotebookLines:
    """
    Lines of a notebook file.

    Attributes:
        sources: for each cell a 1-based line such that line ``k`` of the source is on line ``line + k - 1`` of the
            file, or ``None``.
        keys: the 1-based line of each key of the metadata, by dotted name; settings are at most four levels deep.
    """

    sources: Sequence[int | None]
    keys: Mapping[str, int]


def locate_lines(text: str, cells: Sequence[Any]) -> NotebookLines:
    """
    Find the lines of the cells' sources and of the keys of the metadata.

    Args:
        text: the notebook file (nbformat 4; of others only the keys are found).
        cells: its cells as decoded, in order.
    """
    walk = _Walk(text)
    try:
        walk.walk()
    except (ValueError, IndexError, RecursionError):
        return NotebookLines(sources=[None] * len(cells), keys={})
    starts = _line_starts(text)
    keys = {key: bisect_right(starts, position) for key, position in walk.key_positions.items()}
    return NotebookLines(sources=_source_lines(text, starts, walk.source_positions, cells), keys=keys)


def _source_lines(
    text: str, starts: Sequence[int], positions: Sequence[int | None], cells: Sequence[Any]
) -> list[int | None]:
    if len(positions) != len(cells):
        return [None] * len(cells)
    lines: list[int | None] = []
    for position, cell in zip(positions, cells, strict=True):
        line = None if position is None else bisect_right(starts, position)
        lines.append(line if line is not None and _holds(text, starts, line, cell.get("source")) else None)
    return lines


def _line_starts(text: str) -> list[int]:
    return [0, *(match.end() for match in re.finditer("\n", text))]


def _holds(text: str, starts: Sequence[int], line: int, source: object) -> bool:
    """Return True if each line of the file from ``line`` on holds one line of the source."""
    pieces = [source] if isinstance(source, str) else source
    if not isinstance(pieces, list) or not pieces:
        return False
    for offset, piece in enumerate(pieces):
        if not isinstance(piece, str) or "\n" in piece[:-1] or line - 1 + offset >= len(starts):
            return False
        start = starts[line - 1 + offset]
        end = starts[line + offset] if line + offset < len(starts) else len(text)
        match = _SOURCE_LINE.fullmatch(text[start:end])
        if match is None or json.loads(match["text"]) != piece:
            return False
    return True


class _Walk:
    """A walk over the upper levels of a notebook."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._key_at = 0
        self.source_positions: list[int | None] = []
        self.key_positions: dict[str, int] = {}

    def walk(self) -> None:
        for key in self._keys():
            if key == "cells" and self._text[self._at] == "[":
                self.source_positions = [self._source_position() for _ in self._items()]
            elif key == "metadata" and self._text[self._at] == "{":
                self.key_positions = dict(self._key_positions("", _KEY_DEPTH))
            else:
                self._skip_value()

    def _key_positions(self, prefix: str, depth: int) -> Iterator[tuple[str, int]]:
        for key in self._keys():
            yield f"{prefix}{key}", self._key_at
            # Widget states can be large, and hold no settings.
            if self._text[self._at] == "{" and depth > 1 and key != "widgets":
                yield from self._key_positions(f"{prefix}{key}.", depth - 1)
            else:
                self._skip_value()

    def _source_position(self) -> int | None:
        position: int | None = None
        for key in self._keys():
            if key == "source":
                position = self._at
                if self._text[self._at] == "[":
                    position = self._after_space(self._at + 1)
            self._skip_value()
        return position

    def _keys(self) -> Any:
        """Yield each key of the object at the current position; the caller must then consume the key's value."""
        self._at = self._after_space(self._at)
        self._expect("{")
        while not self._ends("}"):
            self._key_at = self._at
            key, self._at = _DECODER.raw_decode(self._text, self._at)
            self._at = self._after_space(self._at)
            self._expect(":")
            self._at = self._after_space(self._at)
            yield key
            self._comma()

    def _items(self) -> Any:
        self._expect("[")
        while not self._ends("]"):
            yield None
            self._comma()

    def _skip_value(self) -> None:
        _value, self._at = _DECODER.raw_decode(self._text, self._at)

    def _after_space(self, at: int) -> int:
        match = _SPACE.match(self._text, at)
        return at if match is None else match.end()

    def _expect(self, mark: str) -> None:
        if self._text[self._at] != mark:
            msg = f"no {mark!r} at {self._at}"
            raise ValueError(msg)
        self._at += 1

    def _ends(self, mark: str) -> bool:
        self._at = self._after_space(self._at)
        if self._text[self._at] != mark:
            return False
        self._at += 1
        return True

    def _comma(self) -> None:
        self._at = self._after_space(self._at)
        if self._text[self._at] == ",":
            self._at = self._after_space(self._at + 1)
