"""Keep the beginning and the end of a long text, with a mark where it was cut."""

from __future__ import annotations

from collections import deque
from typing import Final, Self

_HEAD_CHARS: Final = 4_096
_TAIL_CHARS: Final = 16_384


class SkippedText(str):
    """
    Stands for text that was not decoded because nobody keeps it; empty itself.

    Args:
        chars: number of its characters.
    """

    __slots__ = ("chars",)
    chars: int

    def __new__(cls, chars: int) -> Self:
        """Return an empty text that knows how many characters are missing."""
        text = super().__new__(cls)
        text.chars = chars
        return text


class BoundedText:
    """
    Collects text of any length in bounded memory.

    Args:
        head_chars: how much of the beginning is kept.
        tail_chars: how much of the end is kept.
    """

    def __init__(self, head_chars: int = _HEAD_CHARS, tail_chars: int = _TAIL_CHARS) -> None:
        """Start empty."""
        self._head_chars = head_chars
        self._tail_chars = tail_chars
        self.clear()

    def clear(self) -> None:
        """Remove all text."""
        self._head = ""
        self._tail: deque[str] = deque()
        self._tail_size = 0
        self.total_chars = 0

    def append(self, text: str) -> None:
        """Add ``text``, however long it is; skipped text comes between texts that are longer than what is kept."""
        if isinstance(text, SkippedText):
            self.total_chars += text.chars
            self._tail.clear()
            self._tail_size = 0
            return
        self.total_chars += len(text)
        if (room := self._head_chars - len(self._head)) > 0:
            self._head += text[:room]
            text = text[room:]
        if not text:
            return
        self._tail.append(text[-self._tail_chars :])
        self._tail_size += len(self._tail[-1])
        while self._tail_size - len(self._tail[0]) >= self._tail_chars:
            self._tail_size -= len(self._tail.popleft())

    @property
    def is_cut(self) -> bool:
        """Return True if text was dropped."""
        return self.total_chars > self._head_chars + self._tail_chars

    @property
    def text(self) -> str:
        """Return the kept text, with a line that states how much is missing."""
        tail = "".join(self._tail)[-self._tail_chars :]
        if not self.is_cut:
            return self._head + tail
        missing = self.total_chars - len(self._head) - len(tail)
        return f"{self._head}\n[... {missing} characters cut ...]\n{tail}"
