"""
Bound a kernel's traceback without losing the lecture's own frames. Pure.

A long traceback is cut by whole frames: those of the lecture and the last ones of libraries are kept. A cut through a
frame would leave source of a library without the heading that says whose it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass

_LINES: Final = 120
_LINE_CHARS: Final = 1_000
_HEADING_CHARS: Final = 400
# Headings of IPython ("Cell In[3], line 2", "File ~/a.py:12, in f(x)") and of Python ('  File "a.py", line 12, in f').
_CELL: Final = re.compile(
    r"(?:Cell In ?\[|Input In ?\[|<ipython-input-|File <ipython-input-|File .*[/\\]ipykernel_\d+[/\\])"
)
_FILE: Final = re.compile(r'\s*File (?:".*", line \d+|.*:\d+)(?:, in .*)?\s*')
_LIBRARY: Final = re.compile(
    r".*(?:[/\\](?:site|dist)-packages[/\\]|[/\\]lib(?:64)?[/\\]python\d|[/\\]Lib[/\\]|File \"?<)"
)
_LAST_LIBRARY_FRAMES: Final = 3


@dataclass(frozen=True, slots=True)
class _Block:
    """A frame with its heading, or text before, between or after frames."""

    kind: str
    lines: list[str]


def bounded_traceback(traceback: object, plain: Callable[[str], str]) -> tuple[str, ...]:
    """
    Return the lines of a traceback, at most about 120 of bounded length.

    Args:
        traceback: the kernel's list of frames; anything else gives nothing.
        plain: removes terminal control sequences.
    """
    if not isinstance(traceback, list | tuple):
        return ()
    blocks = [block for part in traceback for block in _blocks(plain(str(part)).splitlines())]
    if sum(len(block.lines) for block in blocks) <= _LINES:
        return tuple(line for block in blocks for line in block.lines)
    return tuple(_cut(blocks))


def cut_line(text: str, limit: int) -> str:
    """Return ``text`` with at most ``limit`` characters, and how many are missing."""
    return text if len(text) <= limit else f"{text[:limit]} [... {len(text) - limit} characters cut ...]"


def _blocks(lines: Sequence[str]) -> Iterator[_Block]:
    block: _Block | None = None
    for line in lines:
        shown = cut_line(line, _LINE_CHARS)
        kind = _kind(line[:_HEADING_CHARS])
        if kind or block is None:
            if block is not None:
                yield block
            block = _Block(kind or "text", [])
        block.lines.append(shown)
    if block is not None:
        yield block


def _kind(line: str) -> str:
    if _CELL.match(line):
        return "own"
    if _FILE.fullmatch(line):
        return "library" if _LIBRARY.match(line) else "own"
    return ""


def _cut(blocks: Sequence[_Block]) -> Iterator[str]:
    """Keep the most helpful blocks that fit, in their order, and say how many frames are missing."""
    room, kept = _LINES, {}
    for position in _by_importance(blocks):
        lines = _shortened(blocks[position].lines, max(_LINES // 3, 2))
        if len(lines) + 1 > room:
            # One more line may be needed for each gap.
            continue
        room -= len(lines) + 1
        kept[position] = lines
    missing = 0
    for position in range(len(blocks) + 1):
        if position < len(blocks) and position not in kept:
            # The heading of a traceback ("NameError   Traceback (most recent call last)") is no frame.
            missing += blocks[position].kind != "text"
            continue
        if missing:
            yield f"[... {missing} frame{'' if missing == 1 else 's'} cut ...]"
            missing = 0
        yield from kept.get(position, ())


def _by_importance(blocks: Sequence[_Block]) -> list[int]:
    """Return positions: first the error, then own frames from both ends, then library frames from the end."""
    last = len(blocks) - 1
    own = [position for position, block in enumerate(blocks) if block.kind == "own"]
    # The innermost own frame helps most, then the cell that began it.
    own_first = [position for pair in zip(reversed(own), own, strict=True) for position in pair]
    library = [position for position in range(last, -1, -1) if blocks[position].kind == "library"]
    texts = [position for position in range(last, -1, -1) if blocks[position].kind == "text"]
    order = [last, *library[:1], *own_first, *library[:_LAST_LIBRARY_FRAMES], *texts, *library]
    return list(dict.fromkeys(order))


def _shortened(lines: list[str], most: int) -> list[str]:
    if len(lines) <= most:
        return lines
    half = most // 2
    return [*lines[:half], f"[... {len(lines) - 2 * half} lines cut ...]", *lines[-half:]]
