"""Parse Python scripts that jupytext reads as notebooks: percent, light, sphinx-gallery and hydrogen."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, Final

import jupytext

from pytest_lecturecheck.errors import LectureReadError
from pytest_lecturecheck.lecture.formats.notebook import to_node
from pytest_lecturecheck.lecture.formats.parsed import Parsed, SourceLocation, lift_jupyter, lift_lines
from pytest_lecturecheck.lecture.formats.peek import has_percent_cells, script_format
from pytest_lecturecheck.lecture.source_text import refuse_conflict
from pytest_lecturecheck.lecture.yaml_text import YamlTable, load_table
from pytest_lecturecheck.model.lecture import LectureFormat

_RULE: Final = "# ---"
_PERCENT_MARK: Final = re.compile(r"[ \t]*#[ \t]*%%")
# Lines that jupytext comments out because they are not Python: magics, shell lines, help.
_COMMENTED: Final = re.compile(r"#[ \t]?(?P<code>[ \t]*[%!?].*|.*\?[ \t]*)")


def parse_script(text: str, *, name: str) -> Parsed:
    r"""
    Parse a script.

    Args:
        text: the file, with ``\n`` line ends.
        name: the file as the user knows it.

    Raises:
        LectureReadError: merge conflict markers, invalid YAML in the header, not a notebook, or refused by jupytext.
    """
    refuse_conflict(text, name=name)
    format_name = script_format(text)
    if not format_name and not has_percent_cells(text):
        msg = "is a plain script; expected a jupytext header or '# %%' cells"
        raise LectureReadError(name, None, msg)
    header, body = _split(text, name=name)
    document = _read(body, format_name or "percent", name=name)
    metadata = lift_jupyter(header.values)
    document["metadata"] = to_node(metadata)
    sources = [cell.source for cell in document.cells if cell.cell_type == "code"]
    return Parsed(
        format=LectureFormat.PERCENT,
        document=document,
        locations=tuple(locate_cells(sources, body.split("\n"), marked=format_name in {"", "percent", "hydrogen"})),
        metadata=metadata,
        key_lines=lift_lines(header.lines),
    )


def _split(text: str, *, name: str) -> tuple[YamlTable, str]:
    """Split header and body; blank lines replace the header, so jupytext finds nothing to refuse in it."""
    lines = text.split("\n")
    rules = [index for index, line in enumerate(lines[:200]) if line.rstrip() == _RULE]
    first_code = next((index for index, line in enumerate(lines) if line.strip() and not line.startswith("#")), 0)
    if len(rules) < 2 or (first_code and rules[1] > first_code):  # noqa: PLR2004 - a header has two rules
        return YamlTable(), text
    start, end = rules[:2]
    yaml_text = "\n".join(line.removeprefix("#").removeprefix(" ") for line in lines[start + 1 : end])
    header = load_table(yaml_text, name=name, what="front matter", first_line=start + 2)
    blanked = [*lines[:start], *[""] * (end + 1 - start), *lines[end + 1 :]]
    return header, "\n".join(blanked)


def _read(body: str, format_name: str, *, name: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Leading blank lines would become a cell.
            document = jupytext.reads(body.lstrip("\n"), fmt={"extension": ".py", "format_name": format_name})
    except Exception as exc:
        # Any exception of the parser is a fault of the file.
        msg = f"cannot be read as a jupytext {format_name} script: {type(exc).__name__}: {exc}"
        raise LectureReadError(name, None, msg) from exc
    document["nbformat_minor"] = 4
    for cell in document.cells:
        cell.pop("id", None)
    return document


def locate_cells(sources: Iterable[str], lines: Sequence[str], *, marked: bool) -> Iterable[SourceLocation]:
    """
    Find the location of each cell's source in a script.

    Args:
        sources: the sources of the code cells in order.
        lines: the script.
        marked: whether cells begin at ``# %%`` marks, the only lines where a source is then searched.

    Returns:
        One location for each cell, without a line if the script does not contain the source line by line.
    """
    starts = list(_starts(lines, marked=marked))
    cursor = 0
    for source in sources:
        # A search starts at non-blank lines; blank lines before them still belong to the cell.
        pieces = source.lstrip("\n").split("\n")
        blank_count = len(source) - len(source.lstrip("\n"))
        found = next((index for index in range(cursor, len(starts)) if _matches(pieces, lines, starts[index][1])), None)
        if found is None or not source.strip():
            yield SourceLocation()
            continue
        opening, line = starts[found]
        cursor = found + 1
        yield SourceLocation(line=line + 1 - blank_count, opening_line=opening + 1)


def _starts(lines: Sequence[str], *, marked: bool) -> Iterable[tuple[int, int]]:
    """Yield opening line and first non-blank line (0-based) of every possible cell."""
    at_mark: int | None = 0
    for index, line in enumerate(lines):
        if marked and _PERCENT_MARK.match(line):
            at_mark = index
        elif not line.strip():
            continue
        elif not marked:
            yield index, index
        elif at_mark is not None:
            yield at_mark, index
            at_mark = None


def _matches(pieces: Sequence[str], lines: Sequence[str], start: int) -> bool:
    if start + len(pieces) > len(lines):
        return False
    return all(_same_line(piece, lines[start + offset]) for offset, piece in enumerate(pieces))


def _same_line(piece: str, line: str) -> bool:
    if piece.rstrip() == line.rstrip():
        return True
    commented = _COMMENTED.fullmatch(line.strip())
    return commented is not None and commented["code"].strip() == piece.strip()
