"""
Give a lecture values for its parameters: the cell tagged ``parameters``, as papermill has it.

The values are appended to that cell as assignments, so that no other cell moves and line numbers stay those of the
file. Papermill adds a cell of its own instead.
"""

from __future__ import annotations

import ast
import copy
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.errors import LectureReadError, SettingsError, expected_instead
from pytest_lecturecheck.model.axis import value_text
from pytest_lecturecheck.model.lecture import Cell, Lecture
from pytest_lecturecheck.model.variant import Variant

PARAMETERS_TAG: Final = "parameters"
_LARGEST_POWER: Final = 1000
_UNKNOWN: Final = object()
_OPERATIONS: Final[Mapping[type[ast.AST], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}
_CALLS: Final[Mapping[str, Callable[[Any], Any]]] = {"int": int, "float": float, "str": str, "bool": bool}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """
    One parameter of a lecture.

    Attributes:
        name: the variable.
        kind: type of its default, or ``None`` where the default is no literal.
        line: 1-based line of its assignment in the lecture's file, or ``None``.
    """

    name: str
    kind: type | None
    line: int | None


def parameters_cell(lecture: Lecture) -> Cell | None:
    """Return the cell with the lecture's parameters, the first one with the tag, or ``None``."""
    return next((cell for cell in lecture.cells if PARAMETERS_TAG in cell.tags), None)


def read_parameters(lecture: Lecture) -> dict[str, Parameter]:
    """
    Return the parameters of a lecture by name: what its cell assigns at the top level.

    Raises:
        LectureReadError: the cell is not Python.
    """
    cell = parameters_cell(lecture)
    if cell is None:
        return {}
    try:
        tree = ast.parse(cell.source)
    except (SyntaxError, ValueError, RecursionError) as exc:
        number = exc.lineno if isinstance(exc, SyntaxError) else None
        reason = f"the cell tagged {PARAMETERS_TAG} is not plain Python: {exc}; write only assignments into it"
        raise LectureReadError(lecture.name, cell.file_line(number) or cell.line, reason) from exc
    found = {}
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            targets, value = statement.targets, statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            targets, value = [statement.target], statement.value
        else:
            continue
        default = _literal(value)
        kind = None if default is _UNKNOWN or default is None else type(default)
        for target in targets:
            if isinstance(target, ast.Name):
                line = cell.file_line(statement.lineno)
                found[target.id] = Parameter(name=target.id, kind=kind, line=line)
    return found


def _literal(node: ast.expr) -> Any:
    """Return the value of a literal, also of ``10 ** 6``, ``-(10 ** 6)`` or ``int(1e6)``, or :data:`_UNKNOWN`."""
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        pass
    try:
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
            return _calculated(node)
        if (
            isinstance(node, ast.UnaryOp)
            and isinstance(node.op, ast.USub)
            and _is_number(found := _literal(node.operand))
        ):
            return -found
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLS:
            found = _literal(node.args[0]) if len(node.args) == 1 and not node.keywords else _UNKNOWN
            return _CALLS[node.func.id](found) if _is_number(found) or isinstance(found, str) else _UNKNOWN
    except (ArithmeticError, ValueError, RecursionError):
        pass
    return _UNKNOWN


def _calculated(node: ast.BinOp) -> Any:
    left, right = _literal(node.left), _literal(node.right)
    if not (_is_number(left) and _is_number(right)):
        return _UNKNOWN
    if isinstance(node.op, ast.Pow) and (abs(right) > _LARGEST_POWER or abs(left) > _LARGEST_POWER):
        return _UNKNOWN
    return _OPERATIONS[type(node.op)](left, right)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def with_parameters(lecture: Lecture, variant: Variant) -> Lecture:
    """
    Return the lecture with the values that a variant has for its parameters, typed after their defaults.

    Raises:
        LectureReadError: it has no such parameter, the value is not of the default's type, or it is no Python lecture.
    """
    if not variant.parameters and not variant.offered:
        return lecture
    cell = parameters_cell(lecture)
    try:
        known = read_parameters(lecture)
    except LectureReadError:
        if variant.parameters:
            raise
        # A cell that cannot be read has nothing that could be offered a value.
        return lecture
    for name in variant.parameters:
        if name not in known:
            raise _unknown(lecture, cell, name, variant, known)
    given = {**{name: value for name, value in variant.offered.items() if name in known}, **variant.parameters}
    if cell is None or not given:
        return lecture
    if lecture.language.lower() not in {"", "python"}:
        reason = f"parameters are handed to Python lectures only, and this one is written in {lecture.language}"
        raise LectureReadError(lecture.name, cell.line, reason)
    lines = [f"{name} = {_typed(lecture, known[name], value, variant)!r}" for name, value in given.items()]
    # A blank line before them would be one more; the source may or may not end with a line feed.
    source = "\n".join([cell.source.rstrip("\n"), *lines])
    document = copy.deepcopy(lecture.document)
    document.cells[cell.index].source = source
    cells = tuple(replace(item, source=source) if item is cell else item for item in lecture.cells)
    return replace(lecture, cells=cells, document=document)


def _unknown(
    lecture: Lecture, cell: Cell | None, name: str, variant: Variant, known: Mapping[str, Parameter]
) -> LectureReadError:
    origin = variant.origins.get(name, "the variant")
    if cell is None:
        off = "axes: {}" if origin.startswith("axis ") else "variants: []"
        reason = (
            f"{origin} sets {name!r}, and the lecture has no cell tagged {PARAMETERS_TAG}; add one that assigns "
            f"{name!r}, run only lectures that have one, or set {off} under lecturecheck: in its front matter"
        )
        return LectureReadError(lecture.name, None, reason)
    if not known:
        reason = f"{origin} sets {name!r}, and the cell tagged {PARAMETERS_TAG} assigns nothing"
        return LectureReadError(lecture.name, cell.line, reason)
    reason = f"{origin} sets {name!r}, which is not a parameter of this lecture; {expected_instead(name, known)}"
    return LectureReadError(lecture.name, cell.line, reason)


def _typed(lecture: Lecture, parameter: Parameter, value: Any, variant: Variant) -> Any:
    """Return a value as the type of the parameter's default."""
    try:
        return convert_value(value, parameter.kind)
    except SettingsError as exc:
        origin = variant.origins.get(parameter.name, "the variant")
        reason = f"{origin} sets {parameter.name!r} to {value!r}, which {exc}"
        raise LectureReadError(lecture.name, parameter.line, reason) from exc


def convert_value(value: Any, kind: type | None) -> Any:
    """
    Convert a value from settings to the type of a default; text from a command line counts as what it states.

    Args:
        value: text, a number, a boolean, a list or a table.
        kind: type of the default, or ``None`` for any.

    Raises:
        SettingsError: it does not state a value of this type; the message goes on after "which".
    """
    if kind is None or (type(value) is kind and kind is not float):
        return value
    reader = _READERS.get(kind)
    if reader is None:
        msg = f"is not of type {kind.__name__}, as the default is"
        raise SettingsError(msg)
    return reader(value)


def _read_bool(value: Any) -> bool:
    found = {"true": True, "false": False}.get(str(value).lower())
    if found is None:
        msg = "is neither true nor false, as the default is"
        raise SettingsError(msg)
    return found


def _read_int(value: Any) -> int:
    number = _read_float(value)
    if not number.is_integer():
        msg = "is not a whole number, as the default is"
        raise SettingsError(msg)
    try:
        # Beyond 2**53 a float would lose digits.
        return int(str(value))
    except ValueError:
        return int(number)


def _read_float(value: Any) -> float:
    try:
        number = math.nan if isinstance(value, bool | list | Mapping) else float(value)
    except (ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        msg = "is not a number, as the default is"
        raise SettingsError(msg)
    return number


def _read_text(value: Any) -> str:
    if isinstance(value, list | Mapping):
        msg = "is not text, as the default is"
        raise SettingsError(msg)
    return value_text(value)


_READERS: Final[Mapping[type, Callable[[Any], Any]]] = {
    bool: _read_bool,
    int: _read_int,
    float: _read_float,
    str: _read_text,
    tuple: lambda value: tuple(value) if isinstance(value, list) else (value,),
    list: lambda value: [value],
}
