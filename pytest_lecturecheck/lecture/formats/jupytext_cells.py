"""Let jupytext split a text into cells, and record the lines that each cell takes."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final

import jupytext

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.errors import LectureReadError
from pytest_lecturecheck.lecture.formats.parsed import SourceLocation
from pytest_lecturecheck.lecture.formats.script_header import uncomment

_EXTENT: Final = "lecturecheck_extent"
"""Cell metadata key that carries lines through jupytext, which copies the cells it reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JupytextDocument:
    """
    A notebook as jupytext reads it.

    Attributes:
        notebook: the nbformat 4 ``NotebookNode``.
        lines: the lines as jupytext splits them, which it also does at form feeds.
        extents: for each cell its first line and the one after its last, 0-based indices into ``lines``; ``None`` for
            a cell that is not in the text.
        file_lines: the 0-based line in the file of each of ``lines``.
    """

    notebook: Any
    lines: Sequence[str]
    extents: Sequence[tuple[int, int] | None]
    file_lines: Sequence[int]

    def locations(self) -> list[SourceLocation]:
        """Return the location of each code cell."""
        cells = zip(self.notebook.cells, self.extents, strict=True)
        return [self._locate(cell.source, extent) for cell, extent in cells if cell.cell_type == "code"]

    def _locate(self, source: str, extent: tuple[int, int] | None) -> SourceLocation:
        if extent is None:
            return SourceLocation()
        start, end = extent
        opening = next((index for index in range(start, end) if self.lines[index].strip()), start)
        line = self._find_source(source.split("\n"), start, end) if source.strip() else None
        return SourceLocation(line=line, opening_line=self.file_lines[opening] + 1 if start < end else None)

    def _find_source(self, pieces: list[str], start: int, end: int) -> int | None:
        """Return the 1-based line where a source starts, if each of its lines is one line of the file."""
        while not pieces[-1].strip():
            # jupytext adds a line to a cell magic that it makes itself.
            pieces = pieces[:-1]
        found = self._match(pieces, start, end)
        if found is None and pieces[0].startswith("%%"):
            # jupytext made the cell magic from the language in the marker above: "# %% language='R'".
            below = self._match(pieces[1:], start + 1, end)
            found = None if below is None else below - 1
        if found is None:
            return None
        first = self.file_lines[found]
        is_aligned = all(self.file_lines[found + offset] == first + offset for offset in range(len(pieces)))
        return first + 1 if is_aligned else None

    def _match(self, pieces: list[str], start: int, end: int) -> int | None:
        for index in range(start, end - len(pieces) + 1):
            if all(_is_same(piece, self.lines[index + offset]) for offset, piece in enumerate(pieces)):
                return index
        return None


def read_document(text: str, fmt: Mapping[str, Any], *, name: str, what: str) -> JupytextDocument:
    """
    Read a text with jupytext.

    Args:
        text: the text.
        fmt: jupytext's format: ``extension``, ``format_name`` and options.
        name: the file as the user knows it.
        what: what to call the text in messages.

    Raises:
        LectureReadError: jupytext refuses the text.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            notebook = jupytext.reads(text, fmt=dict(fmt))
            extents = _record_extents(text, fmt, notebook)
    except Exception as exc:
        # jupytext does not validate its input, so any exception is a fault of the file.
        msg = f"cannot be read as a {what}: {type(exc).__name__}: {str(exc).strip().partition(chr(10))[0]}"
        raise LectureReadError(name, None, msg) from exc
    notebook["nbformat_minor"] = 4
    for cell in notebook.cells:
        cell.pop("id", None)
    file_lines: list[int] = []
    line = 0
    for piece in text.splitlines(keepends=True):
        file_lines.append(line)
        line += piece.count("\n")
    return JupytextDocument(notebook=notebook, lines=text.splitlines(), extents=extents, file_lines=file_lines)


def _record_extents(text: str, fmt: Mapping[str, Any], notebook: Any) -> list[tuple[int, int] | None]:
    """
    Read a text again with a cell reader that records lines.

    jupytext reports no lines, and it rewrites sources, so that their text alone does not identify them. Its converter
    is not a public interface: if that changes, cells have no lines but remain right.
    """
    unknown: list[tuple[int, int] | None] = [None] * len(notebook.cells)
    try:
        cells = _read_marked(text, fmt)
    except (ImportError, AttributeError, TypeError, LookupError):
        return unknown
    if [cell.source for cell in cells] != [cell.source for cell in notebook.cells]:
        return unknown
    return [tuple(cell.metadata[_EXTENT]) if _EXTENT in cell.metadata else None for cell in cells]


def _read_marked(text: str, fmt: Mapping[str, Any]) -> Any:
    from jupytext.formats import guess_format, read_format_from_metadata  # noqa: PLC0415 - see _record_extents
    from jupytext.jupytext import TextNotebookConverter  # noqa: PLC0415 - see _record_extents

    extension = fmt["extension"]
    # The precedence of jupytext.reads.
    format_name, options = read_format_from_metadata(text, extension) or fmt.get("format_name"), {}
    if not format_name:
        format_name, options = guess_format(text, extension)
    converter: Any = TextNotebookConverter({**fmt, "format_name": format_name, **options}, None)
    implementation = copy.copy(converter.implementation)
    make_reader = implementation.cell_reader_class
    line_count = len(text.splitlines())

    def make_recorder(*arguments: Any) -> Any:
        reader = make_reader(*arguments)
        read = reader.read

        def read_and_record(lines: list[str]) -> Any:
            cell, taken = read(lines)
            start = line_count - len(lines)
            # The last cell of a sphinx-gallery script takes a line more than there is.
            cell.metadata[_EXTENT] = [start, min(start + taken, line_count)]
            return cell, taken

        reader.read = read_and_record
        return reader

    implementation.cell_reader_class = make_recorder
    converter.implementation = implementation
    return converter.reads(text).cells


def _is_same(piece: str, line: str) -> bool:
    """Return True if a line of a source is this line of the text, possibly without its comment sign."""
    if piece.rstrip() == line.rstrip():
        return True
    # jupytext also keeps the indentation of a magic: "    # %time x" becomes "    %time x".
    stripped = line.strip()
    return stripped.startswith("#") and uncomment(stripped).strip() == piece.strip()
