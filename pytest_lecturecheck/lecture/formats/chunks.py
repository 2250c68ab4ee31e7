"""Parse R Markdown and Quarto documents: fenced chunks with a language in braces."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pytest_lecturecheck.errors import LectureReadError
from pytest_lecturecheck.lecture.formats import peek as _peek
from pytest_lecturecheck.lecture.formats.markdown_source import Fence, is_closed, parse_blocks
from pytest_lecturecheck.lecture.formats.notebook import make_code_cell, make_notebook, make_text_cell
from pytest_lecturecheck.lecture.formats.parsed import Parsed, SourceLocation, lift_jupyter, lift_lines
from pytest_lecturecheck.lecture.source_text import refuse_conflict
from pytest_lecturecheck.lecture.yaml_text import load_table
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.lecture import LectureFormat

_CHUNK: Final = re.compile(r"\{(?P<language>[A-Za-z][\w+#-]*)(?P<options>[ ,][^{}]*)?\}[ \t]*")
_OPTION_LINE: Final = re.compile(r"#\|[ \t]?(?P<yaml>.*)")
_NO_EVAL: Final = re.compile(r"\beval[ \t]*=[ \t]*(?:FALSE|F|False)\b")
_MAY_FAIL: Final = re.compile(r"\berror[ \t]*=[ \t]*(?:TRUE|T|True)\b")
_TAGS: Final = re.compile(r"""\btags[ \t]*=[ \t]*(?:c\(|\[)?(?P<tags>(?:[ \t]*,?[ \t]*["'][\w:-]+["'])+)""")
_WORD: Final = re.compile(r"[\w:-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chunk:
    """One chunk: its fence, language in lower case, options and whether it runs."""

    fence: Fence
    language: str
    tags: tuple[str, ...]
    skip_reason: str
    may_fail: bool


def parse_chunks(text: str, *, name: str, form: LectureFormat) -> Parsed:
    """
    Parse a document of chunks.

    The language is that of the kernel in the header, or else of the first chunk. As in Quarto's Jupyter engine, chunks
    of other languages are not executed; each is a finding.

    Raises:
        LectureReadError: merge conflict markers, invalid YAML, an unclosed chunk, or no chunk in the kernel's language.
    """
    refuse_conflict(text, name=name)
    front = _peek.split_front_matter(text)
    yaml_text, header_lines = front if front is not None else ("", 0)
    header = load_table(yaml_text, name=name, what="front matter", first_line=2)
    metadata = _metadata(header.values)
    body = "\n" * header_lines + "\n".join(text.split("\n")[header_lines:])
    chunks = list(_chunks(body, name=name))
    spec = metadata.get("kernelspec")
    language = _language(spec if isinstance(spec, dict) else {}, chunks)
    ran = [chunk for chunk in chunks if chunk.language == language]
    if chunks and not ran:
        msg = f"has no chunk in {language!r}, the language of its kernel; its chunks are in {_languages(chunks)}"
        raise LectureReadError(name, chunks[0].fence.line, msg)
    if ran and "kernelspec" not in metadata and language != "python":
        msg = f"has chunks in {language!r} but no kernelspec that runs them; name one under 'jupyter: kernelspec:'"
        raise LectureReadError(name, ran[0].fence.line, msg)
    default_skip = _document_skip(header.values) if form is LectureFormat.QUARTO else ""
    return Parsed(
        format=form,
        document=_document(metadata, body, ran),
        locations=tuple(_locate(chunk, default_skip) for chunk in ran),
        metadata=metadata,
        key_lines=lift_lines(header.lines),
        findings=tuple(_other_languages(chunks, language)),
    )


def _metadata(values: Mapping[str, Any]) -> dict[str, Any]:
    metadata = lift_jupyter(values)
    kernel = metadata.get("jupyter")
    # Quarto's short form: "jupyter: python3".
    if isinstance(kernel, str) and "kernelspec" not in metadata:
        metadata["kernelspec"] = {"name": kernel, "display_name": kernel}
    return metadata


def _chunks(body: str, *, name: str) -> Iterator[_Chunk]:
    lines = body.split("\n")
    # Quarto's divs (":::") do not hide a chunk, so they are parsed as text.
    for token in parse_blocks(body, colon_fences=False):
        if token.type != "fence":
            continue
        fence = Fence.of(token)
        match = _CHUNK.fullmatch(fence.info.strip())
        if match is None:
            continue
        if fence.is_top and not is_closed(fence, lines):
            msg = f"chunk {fence.info.strip()} is opened here and never closed; close it with {fence.mark!r}"
            raise LectureReadError(name, fence.line, msg)
        yield _chunk(fence, match["language"].lower(), match["options"] or "", name=name)


def _chunk(fence: Fence, language: str, inline: str, *, name: str) -> _Chunk:
    yaml_lines: list[str] = []
    for line in fence.content.split("\n"):
        match = _OPTION_LINE.fullmatch(line.strip())
        if match is None:
            break
        yaml_lines.append(match["yaml"])
    options = load_table("\n".join(yaml_lines), name=name, what="chunk options", first_line=fence.line + 1).values
    found = _TAGS.search(inline)
    tags = _WORD.findall(found["tags"]) if found is not None else []
    own_tags = options.get("tags", [])
    tags += [own_tags] if isinstance(own_tags, str) else [tag for tag in own_tags if isinstance(tag, str)]
    skips = options.get("eval") is False or _NO_EVAL.search(inline) is not None
    return _Chunk(
        fence=fence,
        language=language,
        tags=tuple(tags),
        skip_reason="option eval: false" if skips else "",
        may_fail=options.get("error") is True or _MAY_FAIL.search(inline) is not None,
    )


def _language(spec: Mapping[str, Any], chunks: list[_Chunk]) -> str:
    named = spec.get("language")
    if isinstance(named, str) and named:
        return named.lower()
    present = {chunk.language for chunk in chunks}
    kernel = str(spec.get("name", ""))
    # The usual kernel names of the two languages of these formats.
    if kernel == "ir":
        return "r"
    if kernel.startswith("python"):
        return "python"
    return "python" if "python" in present else next((chunk.language for chunk in chunks), "python")


def _languages(chunks: list[_Chunk]) -> str:
    counts = Counter(chunk.language for chunk in chunks)
    return ", ".join(f"{language!r} ({count})" for language, count in sorted(counts.items()))


def _document_skip(values: Mapping[str, Any]) -> str:
    """Return why Quarto does not execute the document, from its ``execute:`` key, or an empty string."""
    execute = values.get("execute")
    if isinstance(execute, dict):
        for key in ("enabled", "eval"):
            if execute.get(key) is False:
                return f"front matter execute.{key} is false"
    return ""


def _document(metadata: Mapping[str, Any], body: str, chunks: list[_Chunk]) -> Any:
    lines = body.split("\n")
    cells: list[dict[str, Any]] = []
    start = 0

    def flush(end: int) -> None:
        source = "\n".join(lines[start:end]).strip("\n").rstrip()
        if source:
            cells.append(make_text_cell(source, {}))

    for chunk in chunks:
        flush(chunk.fence.line - 1)
        start = chunk.fence.last_line
        cell_metadata = {"tags": list(chunk.tags)} if chunk.tags else {}
        source = chunk.fence.content.rstrip("\n")
        cells.append(make_code_cell(source, cell_metadata))
    flush(len(lines))
    return make_notebook(metadata, cells)


def _locate(chunk: _Chunk, default_skip: str) -> SourceLocation:
    return SourceLocation(
        line=chunk.fence.line + 1 if chunk.fence.content.strip() else None,
        opening_line=chunk.fence.line,
        skip_reason=chunk.skip_reason or default_skip,
        expects_error=chunk.may_fail,
    )


def _other_languages(chunks: list[_Chunk], language: str) -> Iterator[Finding]:
    for chunk in chunks:
        if chunk.language != language:
            line = chunk.fence.line
            message = f"1 chunk in {chunk.language!r} (line {line}) is not executed: the kernel runs {language!r}"
            yield Finding(kind=FindingKind.NOT_RUN, message=message, line=line)
