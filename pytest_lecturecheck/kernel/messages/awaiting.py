"""Find the lines at which a cell is suspended while the kernel's event loop waits. Pure."""

from __future__ import annotations

import ast
import re
from typing import Final

_OWN_FRAME: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SUSPENDS: Final = (ast.Await, ast.AsyncFor, ast.AsyncWith)
_MAGIC: Final = re.compile(r"^(\s*)[!%].*$", re.MULTILINE)


def await_lines(source: str) -> tuple[int, ...]:
    """
    Return the 1-based lines at which a cell can be suspended; empty if it awaits nothing, or cannot be parsed.

    A suspended coroutine has no frame on the stack of its thread, so that the source alone can tell.
    """
    try:
        nodes: list[ast.AST] = [*ast.parse(_MAGIC.sub(r"\1pass", source)).body]
    except (SyntaxError, ValueError, RecursionError):
        return ()
    lines: set[int] = set()
    while nodes:
        node = nodes.pop()
        if isinstance(node, _OWN_FRAME):
            continue
        if isinstance(node, _SUSPENDS):
            lines.add(node.lineno)
        elif isinstance(node, ast.comprehension) and node.is_async:
            lines.add(node.iter.lineno)
        nodes.extend(ast.iter_child_nodes(node))
    return tuple(sorted(lines))
