"""Parse R Markdown and Quarto documents: fenced chunks with a language in braces."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.errors import LectureReadError
from pytest_lecturecheck.files import read_plain_bytes
from pytest_lecturecheck.lecture.formats import peek as _peek
from pytest_lecturecheck.lecture.formats.chunk_options import ChunkOptions, read_chunk_options
from pytest_lecturecheck.lecture.formats.chunk_splitting import ChunkBlock, split_chunks
from pytest_lecturecheck.lecture.formats.counting import count_of
from pytest_lecturecheck.lecture.formats.kernelspec import language_of_kernel, read_kernelspec
from pytest_lecturecheck.lecture.formats.notebook import make_code_cell, make_notebook, make_text_cell
from pytest_lecturecheck.lecture.formats.parsed import Parsed, SourceLocation, lift_jupyter, lift_lines
from pytest_lecturecheck.lecture.formats.quarto_options import DocumentOption, QuartoOptions, read_quarto_options
from pytest_lecturecheck.lecture.source_text import refuse_conflict
from pytest_lecturecheck.lecture.yaml_text import YamlTable, load_table
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.lecture import LectureFormat
from pytest_lecturecheck.model.settings import RunSettings

_INCLUDE: Final = re.compile(r"\{\{<[ \t]*include[ \t]+(?P<target>[^>]*?)[ \t]*>\}\}")
_DRAWN: Final = frozenset({"mermaid", "dot", "ojs"})
"""Languages of chunks that Quarto draws or leaves to the browser, with no kernel."""
_MAX_INCLUDED_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chunk:
    """A chunk in the kernel's language, with its options."""

    block: ChunkBlock
    options: ChunkOptions


def parse_chunks(text: str, *, path: Path, name: str, root: Path, form: LectureFormat) -> Parsed:
    r"""
    Parse a document of chunks.

    The language is that of the kernel in the header, or else of the first chunk. As in Quarto's Jupyter engine, chunks
    of other languages are not executed; each is a finding.

    Args:
        text: the file, with ``\n`` line ends.
        path: the file; a Quarto project is looked for in its folder and above.
        name: the file as the user knows it.
        root: the folder above which no project is looked for.
        form: R Markdown or Quarto.

    Raises:
        LectureReadError: merge conflict markers, invalid YAML, an unclosed chunk, or no chunk in the kernel's language.
    """
    refuse_conflict(text, name=name)
    front = _peek.split_front_matter(text)
    yaml_text, header_lines = front if front is not None else ("", 0)
    header = load_table(yaml_text, name=name, what="front matter", first_line=2)
    is_quarto = form is LectureFormat.QUARTO
    document = read_quarto_options(header.values, path=path, root=root) if is_quarto else QuartoOptions()
    metadata = _metadata(header, document.kernel, name=name)
    lines = ["" for _ in range(header_lines)] + text.split("\n")[header_lines:]
    key_lines = lift_lines(header.lines)
    chunks, others = _find_chunks(lines, metadata, key_lines, name=name, is_quarto=is_quarto)
    language = chunks[0].block.language if chunks else "python"
    findings = [
        *_other_languages(others, language),
        *(finding for chunk in chunks for finding in chunk.options.findings),
        *_not_supported(document),
    ]
    if is_quarto:
        findings += [*_inline_code(lines, chunks, language), *_included(lines, path.parent, root)]
    allows = document.allows_errors()
    # A setting for the whole lecture cannot except a chunk with "error: false", so then each chunk has its own.
    is_mixed = allows is not None and any(chunk.options.error is False for chunk in chunks)
    return Parsed(
        format=form,
        document=_document(metadata, lines, chunks),
        locations=tuple(_locate(chunk, document, expects_error=is_mixed) for chunk in chunks),
        metadata=metadata,
        key_lines=key_lines,
        findings=tuple(findings),
        settings=RunSettings() if is_mixed else _settings(allows),
    )


def _settings(allows: DocumentOption | None) -> RunSettings:
    if allows is None:
        return RunSettings()
    return RunSettings(allow_errors=True, origins={"allow_errors": allows.origin})


def _metadata(header: YamlTable, project_kernel: object, *, name: str) -> dict[str, Any]:
    metadata = lift_jupyter({"jupyter": project_kernel, **header.values} if project_kernel else header.values)
    kernel = metadata.get("jupyter")
    if isinstance(header.values.get("jupyter", project_kernel), dict):
        # The short form inside the table: "jupyter: {kernel: python3}".
        kernel = metadata.get("kernel")
    if kernel is None or "kernelspec" in metadata:
        return metadata
    if not isinstance(kernel, str):
        msg = f"front matter jupyter is {kernel!r}; expected the name of a kernel"
        raise LectureReadError(name, header.lines.get("jupyter"), msg)
    metadata["kernelspec"] = {"name": kernel, "display_name": kernel}
    return metadata


def _find_chunks(
    lines: Sequence[str], metadata: Mapping[str, Any], key_lines: Mapping[str, int], *, name: str, is_quarto: bool
) -> tuple[list[_Chunk], list[ChunkBlock]]:
    """Find the chunks that run and those in other languages."""
    blocks = [block for block in split_chunks(lines, quoted=not is_quarto) if block.language not in _DRAWN]
    kernel_name, named = read_kernelspec(metadata, name=name, where="front matter", key_lines=key_lines)
    language = _language(kernel_name, named, blocks)
    ran = list(split_chunks(lines, language=language, quoted=not is_quarto))
    others = [block for block in blocks if block.language != language]
    if others and not ran:
        msg = f"has no chunk in {language!r}, the language of its kernel; its chunks are in {_languages(blocks)}"
        raise LectureReadError(name, others[0].line, msg)
    if ran and kernel_name is None and language != "python":
        msg = f"has chunks in {language!r} but no kernelspec that runs them; name one under 'jupyter: kernelspec:'"
        raise LectureReadError(name, ran[0].line, msg)
    for block in ran:
        if not block.is_closed:
            msg = f"chunk {block.opening.lstrip('`').strip()} is opened here and never closed"
            raise LectureReadError(name, block.line, f"{msg}; close it with {block.ticks!r}")
    return [_Chunk(block=block, options=read_chunk_options(block, name=name)) for block in ran], others


def _language(kernel_name: str | None, named: str, blocks: Sequence[ChunkBlock]) -> str:
    if named:
        return named.lower()
    if kernel_name is not None and (usual := language_of_kernel(kernel_name)):
        return usual
    present = [block.language for block in blocks]
    return "python" if "python" in present else next(iter(present), "python")


def _languages(blocks: Sequence[ChunkBlock]) -> str:
    counts = Counter(block.language for block in blocks)
    return ", ".join(f"{language!r} ({count})" for language, count in sorted(counts.items()))


def _document(metadata: Mapping[str, Any], lines: Sequence[str], chunks: Sequence[_Chunk]) -> Any:
    cells: list[dict[str, Any]] = []
    for (start, end), chunk in zip(_text_ranges(lines, chunks), [*chunks, None], strict=True):
        source = "\n".join(lines[start:end]).strip("\n").rstrip()
        if source:
            cells.append(make_text_cell(source, {}))
        if chunk is not None:
            tags = chunk.options.tags
            cells.append(make_code_cell("\n".join(chunk.options.source), {"tags": list(tags)} if tags else {}))
    return make_notebook(metadata, cells)


def _text_ranges(lines: Sequence[str], chunks: Sequence[_Chunk]) -> Iterator[tuple[int, int]]:
    """Yield the 0-based ranges of lines before, between and after the chunks."""
    start = 0
    for chunk in chunks:
        yield start, chunk.block.line - 1
        start = chunk.block.last_line
    yield start, len(lines)


def _locate(chunk: _Chunk, document: QuartoOptions, *, expects_error: bool) -> SourceLocation:
    own = chunk.options
    # An option of the chunk overrides the document's, except that nothing runs in a document that is disabled.
    skip_reason = document.why_disabled() or (own.skip_reason if own.decides_eval else document.why_skipped())
    return SourceLocation(
        line=chunk.block.line + 1 + own.offset if own.source else None,
        opening_line=chunk.block.line,
        skip_reason=skip_reason,
        expects_error=expects_error if own.error is None else own.error,
    )


def _other_languages(others: Sequence[ChunkBlock], language: str) -> Iterator[Finding]:
    for other in dict.fromkeys(block.language for block in others):
        lines = [block.line for block in others if block.language == other]
        which = count_of(lines, f"chunk in {other!r}", f"chunks in {other!r}")
        message = f"{which} not executed: the kernel runs {language!r}"
        yield Finding(kind=FindingKind.NOT_RUN, message=message, line=lines[0])


def _not_supported(document: QuartoOptions) -> Iterator[Finding]:
    if document.runs_in_project:
        message = f"{document.runs_in_project} is not supported; the lecture runs in its own folder"
        yield Finding(kind=FindingKind.NOT_RUN, message=message)
    if document.profiles:
        message = f"profiles of Quarto are not applied; options in {', '.join(document.profiles)} are left out"
        yield Finding(kind=FindingKind.NOT_RUN, message=message)


def _inline_code(lines: Sequence[str], chunks: Sequence[_Chunk], language: str) -> Iterator[Finding]:
    """Yield one finding for the inline expressions of a document, which Quarto evaluates between its chunks."""
    pattern = re.compile(rf"(?:^|[^`])`\{{{re.escape(language)}\}}[ \t]([^`]+)`", re.MULTILINE)
    found: list[int] = []
    for start, end in _text_ranges(lines, chunks):
        text = "\n".join(lines[start:end])
        found += [start + text.count("\n", 0, match.start(1)) + 1 for match in pattern.finditer(text)]
    if found:
        which = count_of(found, "inline expression", "inline expressions")
        message = f"{which} not evaluated; Quarto evaluates inline code when it renders the page"
        yield Finding(kind=FindingKind.NOT_RUN, message=message, line=found[0])


def _included(lines: Sequence[str], folder: Path, root: Path) -> Iterator[Finding]:
    """Yield a finding for each included file with chunks, which Quarto executes as part of the page."""
    for number, line in enumerate(lines, start=1):
        for match in _INCLUDE.finditer(line):
            target = match["target"].strip("\"'")
            count = _count_chunks(folder, target, root)
            if count:
                chunks, verb = ("1 chunk", "is") if count == 1 else (f"{count} chunks", "are")
                message = (
                    f"{chunks} in the included file {target!r} {verb} not executed, although Quarto executes included "
                    "files"
                )
                yield Finding(kind=FindingKind.NOT_RUN, message=message, line=number)


def _count_chunks(folder: Path, target: str, root: Path) -> int:
    try:
        # Quarto resolves a target that begins with a slash in the project's folder.
        path = (root / target.lstrip("/") if target.startswith("/") else folder / target).resolve()
        is_inside = any(path.is_relative_to(allowed.resolve()) for allowed in (root, folder))
        if not is_inside or not path.is_file() or path.stat().st_size > _MAX_INCLUDED_BYTES:
            return 0
        text = read_plain_bytes(path, most_bytes=_MAX_INCLUDED_BYTES).decode("utf-8", "replace")
    except (OSError, RuntimeError, ValueError):
        return 0
    return sum(1 for _block in split_chunks(text.splitlines()))
