"""Count blocks in messages: one finding names them all, with their lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_MOST_LINES: Final = 5


def count_of(lines: Sequence[int], one: str, several: str) -> str:
    """
    Return the subject and verb of a message about blocks at some lines.

    Args:
        lines: 1-based lines of the blocks, at least one.
        one: what to call a single block.
        several: what to call more than one.

    Returns:
        "1 chunk (line 4) is" or "3 chunks (lines 4, 8 and 12) are".
    """
    if len(lines) == 1:
        return f"1 {one} (line {lines[0]}) is"
    shown = [str(line) for line in lines[:_MOST_LINES]]
    last = f"{len(lines) - _MOST_LINES} more" if len(lines) > _MOST_LINES else shown.pop()
    return f"{len(lines)} {several} (lines {', '.join(shown)} and {last}) are"
