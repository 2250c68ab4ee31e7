"""
Keep the line numbers of a cell when IPython transforms its source.

IPython drops empty lines at the beginning of a cell, and joins a shell or magic line that continues after a backslash
into one call. All later lines then have numbers that are too small: in tracebacks, in stacks, and for ``inspect``. The
agent adds empty lines to the transformed source, so that every statement stays on its line. IPython's transformations
are those of ``IPython.core.inputtransformer2``. Standard library only; compiled when the first such cell runs.
"""

from __future__ import annotations

from typing import Any

_MOST_STEPS = 500
"""IPython's own limit on the transformations of one cell."""


def with_kept_lines(raw: str, transformed: str, manager: Any) -> str:
    """
    Return the transformed source with empty lines where IPython removed some.

    Args:
        raw: source of the cell.
        transformed: the same as IPython transformed it.
        manager: a fresh ``TransformerManager``. It repeats the transformation step by step; a result that differs
            (custom transformers) is returned unchanged.
    """
    pieces = _trace(raw, manager)
    if "".join(piece for piece, _ in pieces) != transformed:
        if transformed.count("\n") != 1 or not pieces:
            return transformed
        # A single line may have been changed by IPython's prefilter as well, which keeps its number.
        pieces = [(transformed, pieces[0][1])]
    result: list[str] = []
    number = 1
    for piece, origin in pieces:
        if origin > number and (not result or result[-1].endswith("\n")):
            result.append("\n" * (origin - number))
            number = origin
        result.append(piece)
        number += piece.count("\n")
    return "".join(result)


def _trace(raw: str, manager: Any) -> list[tuple[str, int]]:
    """Transform a cell; return the pieces of the result, each with the line of the cell from which it came."""
    # splitlines, as IPython does it: pieces also end at form feeds, which end no line for Python.
    lines = (raw if raw.endswith("\n") else raw + "\n").splitlines(keepends=True)
    origins, number = [], 1
    for line in lines:
        origins.append(number)
        number += line.count("\n")
    for transform in [*manager.cleanup_transforms, *manager.line_transforms]:
        new = transform(list(lines))
        origins, lines = _follow(lines, origins, new), new
    for _ in range(_MOST_STEPS):
        has_changed, new = manager.do_one_token_transform(list(lines))
        if not has_changed:
            break
        origins, lines = _follow(lines, origins, new), new
    return list(zip(lines, origins, strict=True))


def _follow(old: list[str], origins: list[int], new: list[str]) -> list[int]:
    """Return the origins after one step, which replaces one run of lines or changes lines one by one."""
    if len(new) == len(old):
        return origins
    most = min(len(old), len(new))
    head = next((count for count in range(most) if old[count] != new[count]), most)
    tail = next((count for count in range(most - head) if old[-1 - count] != new[-1 - count]), most - head)
    replaced = origins[head] if head < len(origins) else origins[-1]
    return [*origins[:head], *[replaced] * (len(new) - head - tail), *origins[len(origins) - tail :]]
