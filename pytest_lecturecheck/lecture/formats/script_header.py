"""Find the YAML header of a text where jupytext looks for it: in comments of a script, plain in Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.errors import LectureReadError
from pytest_lecturecheck.lecture.yaml_text import YamlTable, load_table

_RULE: Final = re.compile(r"---\s*")
# PEP 263, as jupytext matches it: in the first line, or in the second one after "#!".
_ENCODING: Final = re.compile(r"[ \t\f]*#.*?coding[:=][ \t]*[-_.a-zA-Z0-9]+.*")
_OWN_TABLE: Final = "lecturecheck"
_JUPYTER: Final = re.compile(r"jupyter\s*:\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class JupytextHeader:
    """
    The header of a text.

    Attributes:
        table: its values and their lines in the file.
        first: 0-based index of the opening ``# ---``, and ``last`` of the closing one.
        last: see ``first``; both are -1 if there is no header.
        comment: the comment sign of its lines, empty in Markdown.
    """

    table: YamlTable = field(default_factory=YamlTable)
    first: int = -1
    last: int = -1
    comment: str = "#"

    @property
    def is_present(self) -> bool:
        """Return True if the text has a header."""
        return self.first >= 0


def read_header(lines: list[str], *, name: str, comment: str = "#") -> JupytextHeader:
    """
    Read the header of a text.

    As in jupytext, only a ``#!`` line, an encoding and blank lines with the comment sign may precede it.

    Raises:
        LectureReadError: the header is not valid YAML.
    """
    found = _find(lines, comment)
    if found is None:
        return JupytextHeader(comment=comment)
    first, last = found
    sections = list(_sections(lines[first + 1 : last], comment))
    # Blank lines in the place of the other section keep the line numbers.
    jupyter = "\n".join(text if is_jupyter else "" for text, is_jupyter in sections)
    root = "\n".join("" if is_jupyter else text for text, is_jupyter in sections)
    table = load_table(jupyter, name=name, what="front matter", first_line=first + 2)
    try:
        other = load_table(root, name=name, what="front matter", first_line=first + 2)
    except LectureReadError:
        # Outside of "jupyter" jupytext keeps any text as a raw cell, so it need not be YAML.
        if _OWN_TABLE in root:
            raise
        other = YamlTable()
    table = YamlTable(values={**other.values, **table.values}, lines={**other.lines, **table.lines})
    return JupytextHeader(table=table, first=first, last=last, comment=comment)


def uncomment(line: str, comment: str = "#") -> str:
    """Remove the comment sign of a line and one space after it, as jupytext does."""
    if not comment:
        return line
    return line.removeprefix(f"{comment} ") if line.startswith(f"{comment} ") else line.removeprefix(comment)


def replace_kernelspec(lines: list[str], header: JupytextHeader, spec: Mapping[str, Any]) -> list[str]:
    """Return the text with another kernelspec, and with only the header keys that decide how cells are read."""
    inner = header.table.values.get("jupyter")
    kept = {key: value for key, value in (inner if isinstance(inner, dict) else {}).items() if key == "jupytext"}
    kept["kernelspec"] = dict(spec)
    inside = lines[header.first + 1 : header.last]
    root = [
        line
        for line, (_text, is_jupyter) in zip(inside, _sections(inside, header.comment), strict=True)
        if not is_jupyter
    ]
    # JSON is YAML. Blank lines keep the number of lines.
    sign = f"{header.comment} " if header.comment else ""
    padding = [header.comment] * (len(inside) - len(root) - 2)
    body = [f"{sign}jupyter:", f"{sign}  {json.dumps(kept)}", *padding, *root]
    return [*lines[: header.first + 1], *body, *lines[header.last :]]


def _sections(lines: Sequence[str], comment: str) -> Iterator[tuple[str, bool]]:
    """Yield the text of each header line, and whether it belongs to ``jupyter``, as jupytext decides it."""
    is_jupyter = False
    for line in lines:
        text = uncomment(line, comment)
        if _JUPYTER.fullmatch(text):
            is_jupyter = True
        elif text and not text[0].isspace():
            is_jupyter = False
        yield text, is_jupyter


def _find(lines: list[str], comment: str) -> tuple[int, int] | None:
    first: int | None = None
    for index, line in enumerate(lines):
        is_preamble = (index == 0 and line.startswith("#!")) or (
            first is None and index <= 1 and bool(comment) and _ENCODING.fullmatch(line) is not None
        )
        if is_preamble:
            continue
        if not line.startswith(comment):
            return None
        text = uncomment(line, comment)
        if _RULE.fullmatch(text):
            if first is not None:
                return first, index
            first = index
        elif first is None and text.strip():
            return None
    return None
