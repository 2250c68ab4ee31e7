"""Load YAML of unknown origin: bounded values, the line of each key, and errors with the lines of the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

import yaml

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.errors import LectureReadError
from pytest_lecturecheck.lecture.plain import MAX_VALUES, TooLargeError, plain

_MAX_KEY_LEVELS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlTable:
    """
    A YAML mapping.

    Attributes:
        values: the mapping as plain types.
        lines: 1-based line in the file of each key of the upper levels, by dotted name ("execution.timeout").
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, with a bound on merge keys, which can multiply the values of a mapping."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        if len(node.value) > MAX_VALUES:
            msg = f"merge keys make more than {MAX_VALUES} values"
            raise yaml.constructor.ConstructorError(None, None, msg, node.start_mark)


def load_table(text: str, *, name: str, what: str, first_line: int = 1) -> YamlTable:
    """
    Load a YAML mapping; an empty document is an empty mapping.

    Args:
        text: the YAML.
        name: the file as the user knows it.
        what: what to call the text in messages ("front matter").
        first_line: 1-based line of the file on which ``text`` starts.

    Raises:
        LectureReadError: not YAML, not a mapping, or too large.
    """
    value, lines = load(text, name=name, what=what, first_line=first_line)
    if value is None:
        return YamlTable()
    if not isinstance(value, dict):
        msg = f"{what} is a {type(value).__name__}; expected 'key: value' lines"
        raise LectureReadError(name, first_line, msg)
    return YamlTable(values=value, lines=lines)


def load(text: str, *, name: str, what: str, first_line: int = 1) -> tuple[Any, Mapping[str, int]]:
    """Load any YAML value and the lines of its keys; see :func:`load_table`."""
    loader: _Loader | None = None
    try:
        # The constructor reads the first part of the text, so it may already raise ReaderError.
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None, {}
        lines = dict(_key_lines(node, "", first_line))
        return plain(loader.construct_document(node)), lines
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        line = first_line + mark.line if mark is not None else first_line
        msg = f"{what} is not valid YAML: {exc.problem or exc.context or 'no reason given'}"
        raise LectureReadError(name, line, msg) from exc
    except yaml.reader.ReaderError as exc:
        line = first_line + text.count("\n", 0, exc.position)
        msg = f"{what} is not valid YAML: character {chr(exc.character)!r} is not allowed"
        raise LectureReadError(name, line, msg) from exc
    except (TooLargeError, ValueError, TypeError, AttributeError, RecursionError) as exc:
        # PyYAML does not wrap errors of Python's constructors: a 13th month, an int of 5,000 digits, deep nesting.
        reason = "nested too deeply" if isinstance(exc, RecursionError) else str(exc)
        msg = f"{what} is not valid YAML: {reason}"
        raise LectureReadError(name, first_line, msg) from exc
    finally:
        if loader is not None:
            loader.dispose()


def _key_lines(node: yaml.Node, prefix: str, first_line: int) -> list[tuple[str, int]]:
    """List dotted keys and their lines; the depth is bounded because a mapping may contain itself."""
    found: list[tuple[str, int]] = []
    if not isinstance(node, yaml.MappingNode) or prefix.count(".") >= _MAX_KEY_LEVELS:
        return found
    for key, value in node.value:
        if isinstance(key, yaml.ScalarNode):
            found.append((f"{prefix}{key.value}", first_line + key.start_mark.line))
            found.extend(_key_lines(value, f"{prefix}{key.value}.", first_line))
    return found
