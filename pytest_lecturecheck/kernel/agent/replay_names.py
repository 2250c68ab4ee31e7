"""
Find the names that a cell reads, itself or through functions and classes of the notebook.

Standard library only.
"""

from __future__ import annotations

import ast
import contextlib
import dis
import functools
import re
import types
from collections.abc import Iterator
from typing import Any

MOST_ITEMS = 200
_OWN_NAMES = frozenset({"In", "Out", "get_ipython", "exit", "quit", "_", "__", "___"})
_WORD = re.compile(r"[^\W\d]\w*")
_MAGICS = frozenset({"run_cell_magic", "run_line_magic", "system", "getoutput"})


def names_read(shell: Any, source: str) -> list[str]:
    """Return the names of the namespace that a cell reads, itself or through functions and classes of the notebook."""
    namespace = shell.user_ns
    hidden = _OWN_NAMES | {name for name in namespace if re.fullmatch(r"_i*\d*|_[ido]h", name)}
    found: dict[str, None] = {}
    pending = list(_words_of(shell, source))
    seen: set[int] = set()
    while pending:
        name = pending.pop(0)
        if name in found or name in hidden or name not in namespace:
            continue
        found[name] = None
        pending += _names_through(namespace[name], namespace, seen)
    return list(found)


def _words_of(shell: Any, source: str) -> Iterator[str]:
    texts = [source]
    while texts:
        text = texts.pop(0)
        try:
            tree = ast.parse(shell.transform_cell(text))
        except (SyntaxError, ValueError):
            # The line of a magic, or a shell command with names in braces.
            yield from _WORD.findall(text)
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
                yield node.id
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                yield node.target.id
            elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in _MAGICS:
                constants = (item.value for item in node.args if isinstance(item, ast.Constant))
                texts += [item for item in constants if isinstance(item, str) and item and item != text]


def _names_through(value: Any, namespace: Any, seen: set[int]) -> list[str]:
    """Return the names that code of the notebook reads, in functions and classes below a value."""
    pending, names = [value], []
    while pending:
        item = pending.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, types.FunctionType) and item.__globals__ is namespace:
            names += _names_of_code(item.__code__)
        pending += _parts(item)
    return names


def _parts(value: Any) -> list[Any]:  # noqa: PLR0911 - one for each kind
    """Return what of a value may hold functions of the notebook."""
    if isinstance(value, types.FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
        keywords = list((value.__kwdefaults__ or {}).values())
        return [*cells, *(value.__defaults__ or ()), *keywords, *_wrapped(value)]
    if isinstance(value, type):
        return [*vars(value).values(), *value.__bases__] if value.__module__ == "__main__" else []
    if isinstance(value, staticmethod | classmethod):
        return [value.__func__]
    if isinstance(value, property):
        return [value.fget, value.fset, value.fdel]
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, types.MethodType):
        return [value.__func__, value.__self__]
    if type(value) in (list, tuple, set):
        return list(value)[:MOST_ITEMS]
    if type(value) is dict:
        return list(value.values())[:MOST_ITEMS]
    return [*_wrapped(value), *([type(value)] if type(value).__module__ == "__main__" else [])]


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - reading it raises where a variable was never set
    except ValueError:
        return False
    return True


def _wrapped(value: Any) -> list[Any]:
    with contextlib.suppress(Exception):
        if callable(value) and (inner := value.__wrapped__) is not None:
            return [inner]
    return []


def _names_of_code(code: types.CodeType) -> list[str]:
    names = [
        item.argval for item in dis.get_instructions(code) if "GLOBAL" in item.opname or item.opname.endswith("_NAME")
    ]
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names += _names_of_code(constant)
    return [name for name in names if isinstance(name, str)]
