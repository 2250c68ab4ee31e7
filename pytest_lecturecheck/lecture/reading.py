"""Read a lecture file as a :class:`Lecture`; the libraries of a format are loaded when a file needs them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, Final
from unicodedata import normalize

from pytest_lecturecheck.errors import LectureReadError
from pytest_lecturecheck.lecture.book.custom_formats import CustomFormat
from pytest_lecturecheck.lecture.book.pages import Book, BookEngine
from pytest_lecturecheck.lecture.book.unexecuted_pages import explain_unexecuted
from pytest_lecturecheck.lecture.formats.counting import count_of
from pytest_lecturecheck.lecture.formats.kernelspec import read_kernelspec
from pytest_lecturecheck.lecture.formats.myst_dialect import MystDialect
from pytest_lecturecheck.lecture.formats.parsed import Parsed, SourceLocation
from pytest_lecturecheck.lecture.own_settings import parse_tags, read_own_settings
from pytest_lecturecheck.lecture.pairing import read_format_options
from pytest_lecturecheck.lecture.source_text import read_text
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.lecture import Cell, Lecture, LectureFormat, all_skipped_text

_SKIP_TAGS: Final = ("skip-execution", "nbval-skip")
_RAISES_TAGS: Final = frozenset({"raises-exception", "nbval-raises-exception"})
_NBMAKE_KEYS: Final = frozenset({"mock", "post_cell_execute"})
"""Keys that make nbmake execute something else than the cell's source."""
# nbval reads its marks from whole comment lines with any number of hashes.
_NBVAL_MARK: Final = re.compile(r"^[ \t]*#+[ \t]*(?P<mark>NBVAL_SKIP|NBVAL_RAISES_EXCEPTION)[ \t]*$", re.MULTILINE)
_GPU_NOTE: Final = re.compile(
    r"^[ \t]*(?:`{3,}|~{3,}|:{3,})\{include\}[ \t]+\S*_admonition/gpu\.md[ \t]*$", re.MULTILINE
)


def read_lecture(path: Path, *, name: str, root: Path | None = None, book: Book | None = None) -> Lecture:
    """
    Read a lecture.

    Args:
        path: the file.
        name: POSIX path relative to pytest's rootdir; the lecture's key in budgets, and its name in messages.
        root: the folder that files loaded by the lecture (``:load:``) must be in. By default the folder that ``name``
            is relative to if ``path`` ends with ``name``, else the lecture's own folder.
        book: the book that the lecture is a page of; it decides which code-cells are executed.

    Raises:
        LectureReadError: the file cannot be read as a notebook; file, line and reason.
    """
    parsed = _parse(path, name=name, root=root or _root_of(path, name), book=book)
    where = "notebook metadata" if parsed.format is LectureFormat.IPYNB else "front matter"
    own = read_own_settings(parsed.metadata, name=name, where=where, key_lines=parsed.key_lines)
    kernel_name, language = read_kernelspec(parsed.metadata, name=name, where=where, key_lines=parsed.key_lines)
    cells = tuple(_cells(parsed))
    unexecuted = explain_unexecuted(book, path, parsed.document.metadata) if cells else ""
    findings = [Finding(kind=FindingKind.FORMAT, message=unexecuted, line=1)] if unexecuted else []
    return Lecture(
        path=path,
        name=name,
        format=parsed.format,
        kernel_name=kernel_name,
        language=language,
        cells=cells,
        settings=own.over(parsed.settings),
        findings=(*_findings(parsed, kernel_name, cells), *findings),
        document=parsed.document,
        metadata=parsed.metadata,
        hints_at_gpu=any(
            cell.cell_type == "markdown" and _GPU_NOTE.search(cell.source) for cell in parsed.document.cells
        ),
    )


def _parse(path: Path, *, name: str, root: Path, book: Book | None) -> Parsed:
    suffix = path.suffix.lower()
    if suffix not in {".ipynb", ".md", ".py", ".rmd", ".qmd"}:
        msg = f"has the suffix {path.suffix!r}; expected .ipynb, .md, .py, .Rmd or .qmd"
        raise LectureReadError(name, None, msg)
    text = read_text(path, name=name)
    custom = book.custom_format(path) if book is not None else None
    if custom is not None:
        from pytest_lecturecheck.lecture.formats.custom import parse_custom  # noqa: PLC0415 - loads jupytext

        parsed = parse_custom(text, custom, path=path, name=name, root=root)
        if parsed is not None:
            return parsed
    parsed = _parse_by_suffix(suffix, text, path=path, name=name, root=root, book=book)
    return parsed if custom is None else replace(parsed, findings=(*parsed.findings, _unsupported(custom)))


def _parse_by_suffix(suffix: str, text: str, *, path: Path, name: str, root: Path, book: Book | None) -> Parsed:
    if suffix == ".ipynb":
        from pytest_lecturecheck.lecture.formats.ipynb import parse_ipynb  # noqa: PLC0415 - loads nbformat

        return parse_ipynb(text, name=name)
    if suffix == ".md":
        from pytest_lecturecheck.lecture.formats.myst import parse_myst  # noqa: PLC0415 - loads nbformat and markdown-it

        is_mystmd = book is not None and book.engine is BookEngine.MYSTMD
        dialect = MystDialect.MYSTMD if is_mystmd else MystDialect.MYST_NB
        return parse_myst(text, path=path, name=name, root=root, dialect=dialect)
    if suffix == ".py":
        from pytest_lecturecheck.lecture.formats.jupytext import parse_script  # noqa: PLC0415 - loads jupytext

        return parse_script(text, name=name, fmt=read_format_options(path.parent, root))
    from pytest_lecturecheck.lecture.formats.chunks import parse_chunks  # noqa: PLC0415 - loads nbformat and markdown-it

    form = LectureFormat.RMARKDOWN if suffix == ".rmd" else LectureFormat.QUARTO
    return parse_chunks(text, path=path, name=name, root=root, form=form)


def _root_of(path: Path, name: str) -> Path:
    parts = PurePosixPath(name).parts
    tail = path.parts[-len(parts) :] if parts else ()
    if parts and [normalize("NFC", part) for part in tail] == [normalize("NFC", part) for part in parts]:
        return path.parents[len(parts) - 1]
    return path.parent


def _cells(parsed: Parsed) -> Iterator[Cell]:
    code = [(index, cell) for index, cell in enumerate(parsed.document.cells) if cell.cell_type == "code"]
    for number, ((index, cell), location) in enumerate(zip(code, parsed.locations, strict=True), start=1):
        yield _cell(index, number, cell, location)


def _cell(index: int, number: int, cell: Any, location: SourceLocation) -> Cell:
    tags = parse_tags(cell.metadata.get("tags"))
    marks = {match["mark"] for match in _NBVAL_MARK.finditer(cell.source)}
    skip_reason = next((f"tag {tag}" for tag in _SKIP_TAGS if tag in tags), "")
    if not skip_reason and "NBVAL_SKIP" in marks:
        skip_reason = "comment # NBVAL_SKIP"
    return Cell(
        index=index,
        number=number,
        source=cell.source,
        line=location.line,
        opening_line=location.opening_line,
        tags=tags,
        skip_reason=skip_reason or location.skip_reason,
        expects_error=bool(tags & _RAISES_TAGS) or "NBVAL_RAISES_EXCEPTION" in marks or location.expects_error,
        source_path=location.source_path,
    )


def _findings(parsed: Parsed, kernel_name: str | None, cells: tuple[Cell, ...]) -> Iterator[Finding]:
    yield from parsed.findings
    if kernel_name is None and cells:
        message = "no kernelspec is named; the default Python kernel is used"
        yield Finding(kind=FindingKind.NO_KERNELSPEC, message=message)
    if not cells:
        yield Finding(kind=FindingKind.NO_CODE, message="no code cells")
    elif all(cell.skip_reason for cell in cells):
        yield Finding(kind=FindingKind.NOT_RUN, message=all_skipped_text(cells))
    else:
        yield from _skipped_by_format(parsed, cells)
    for cell in cells:
        keys = parsed.document.cells[cell.index].metadata.get("nbmake")
        for key in _NBMAKE_KEYS & set(keys if isinstance(keys, dict) else ()):
            message = f"cell metadata nbmake.{key} is not supported; the cell runs as written"
            yield Finding(kind=FindingKind.NOT_RUN, message=message, cell_number=cell.number, line=cell.line)


def _skipped_by_format(parsed: Parsed, cells: tuple[Cell, ...]) -> Iterator[Finding]:
    """Yield a finding for each option of a format that leaves out some of the cells."""
    pairs = [(cell, location) for cell, location in zip(cells, parsed.locations, strict=True) if location.skip_reason]
    for reason in dict.fromkeys(location.skip_reason for _cell, location in pairs):
        lines = [location.opening_line or 0 for _cell, location in pairs if location.skip_reason == reason]
        message = f"{count_of(lines, 'code cell', 'code cells')} skipped ({reason})"
        yield Finding(kind=FindingKind.NOT_RUN, message=message, line=lines[0])


def _unsupported(custom: CustomFormat) -> Finding:
    """Return the finding for a page that its book reads with a program that is not supported."""
    message = (
        f"the book reads {custom.suffix!r} files with {custom.reader!r} ({custom.origin}), which is not supported; "
        "the lecture was read as usual"
    )
    return Finding(kind=FindingKind.FORMAT, message=message)
