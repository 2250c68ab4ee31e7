"""Find code in the text cells of a script: Python would execute it, and a notebook does not."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from typing import Final

from pytest_lecturecheck.lecture.formats.jupytext_cells import JupytextDocument
from pytest_lecturecheck.model.finding import Finding, FindingKind

_MAGIC: Final = re.compile(r"[ \t]*(?:!|%{1,2}[A-Za-z])")


def find_code_in_text(document: JupytextDocument) -> Iterator[Finding]:
    """Yield one finding for all text cells that contain code."""
    lines: list[int] = []
    kinds: list[str] = []
    for cell, extent in zip(document.notebook.cells, document.extents, strict=True):
        # A cell with "active" is raw on purpose: it belongs to the script alone.
        if cell.cell_type == "code" or extent is None or "active" in cell.metadata:
            continue
        offset = _first_code(list(document.lines[slice(*extent)]))
        if offset is not None:
            lines.append(document.file_lines[extent[0] + offset] + 1)
            kinds.append(cell.cell_type)
    if not lines:
        return
    where = f"code in a {kinds[0]} cell is not run (line {lines[0]})"
    if len(lines) > 1:
        where = f"code in {len(lines)} text cells is not run (first at line {lines[0]})"
    message = f"{where}; put '# %%' above it to make it a code cell"
    yield Finding(kind=FindingKind.NOT_RUN, message=message, line=lines[0], fails_when_strict=True)


def _first_code(lines: list[str]) -> int | None:
    """Return the 0-based line of the first statement that is not text, or ``None``."""
    magics = [index for index, line in enumerate(lines) if _MAGIC.match(line)]
    # Magics are no Python; without them the rest can be parsed.
    tree = _parse("\n".join("" if index in magics else line for index, line in enumerate(lines)))
    if tree is not None:
        quoted = {line for node in tree.body if _is_text(node) for line in range(node.lineno - 1, _end(node))}
        found = [node.lineno - 1 for node in tree.body if not _is_text(node)]
        found += [index for index in magics if index not in quoted]
        return min(found, default=None)
    return next((index for index, line in enumerate(lines) if _is_statement(line)), None)


def _is_statement(line: str) -> bool:
    """Return True if one line alone is code; a sentence hardly ever parses, and a single word is no statement."""
    if line.startswith("#") or not line.strip():
        return False
    if _MAGIC.match(line):
        return True
    tree = _parse(line)
    return tree is not None and any(
        not isinstance(node, ast.Expr) or isinstance(node.value, ast.Call | ast.Await) for node in tree.body
    )


def _parse(text: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            # Formulas in text cells hold escapes that Python does not know.
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno
