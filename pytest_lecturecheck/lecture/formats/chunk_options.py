"""Read the options of a chunk: comments of YAML at its beginning, or text in the braces of its fence."""

from __future__ import annotations

import re
from typing import Any, Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.lecture.formats.chunk_splitting import ChunkBlock
from pytest_lecturecheck.lecture.own_settings import parse_tags
from pytest_lecturecheck.lecture.yaml_text import load
from pytest_lecturecheck.model.finding import Finding, FindingKind

# Quarto's table of comment signs; languages that are not listed have "#".
_COMMENTS: Final = {
    "//": ("scala", "csharp", "fsharp", "cpp", "cc", "java", "groovy", "kotlin", "js", "node", "go"),
    "--": ("sql", "mysql", "psql", "lua", "haskell"),
    "%": ("matlab", "tikz"),
    "!": ("fortran", "fortran95"),
    "*": ("stata",),
}
_COMMENT_OF: Final = {language: comment for comment, languages in _COMMENTS.items() for language in languages}
_NO_EVAL: Final = re.compile(r"\beval[ \t]*=[ \t]*(?:FALSE|F|False)\b")
_ERROR: Final = re.compile(r"\berror[ \t]*=[ \t]*(?:(?P<yes>TRUE|T|True)|FALSE|F|False)\b")
_TAGS: Final = re.compile(r"""\btags[ \t]*=[ \t]*(?:c\(|\[)?(?P<tags>(?:[ \t]*,?[ \t]*["'][\w:-]+["'])+)""")
_TAG: Final = re.compile(r"[\w:-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkOptions:
    """
    What a chunk says about itself, and the source without it.

    Attributes:
        source: the lines that the kernel gets; the kernel never sees options, so that a cell magic may follow them.
        offset: the number of lines of the chunk before them.
        tags: the chunk's tags.
        decides_eval: whether the chunk has an option ``eval``.
        skip_reason: why that option does not execute it, or an empty string.
        error: whether it may raise; ``None`` if the document decides.
        findings: remarks about unusable options.
    """

    source: tuple[str, ...]
    offset: int
    tags: tuple[str, ...]
    decides_eval: bool
    skip_reason: str
    error: bool | None
    findings: tuple[Finding, ...]


def read_chunk_options(block: ChunkBlock, *, name: str) -> ChunkOptions:
    """
    Read the options of a chunk.

    Raises:
        LectureReadError: the options are not valid YAML.
    """
    blank = next((index for index, line in enumerate(block.lines) if line.strip()), len(block.lines))
    pattern = re.compile(rf"{re.escape(_COMMENT_OF.get(block.language.lower(), '#'))}\s*\| ?(?P<yaml>.*)")
    yaml_lines: list[str] = []
    for line in block.lines[blank:]:
        match = pattern.fullmatch(line)
        if match is None:
            break
        yaml_lines.append(match["yaml"])
    first_line = block.line + 1 + blank
    value, _lines = load("\n".join(yaml_lines), name=name, what="chunk options", first_line=first_line)
    options = value if isinstance(value, dict) else {}
    findings = () if value is None or isinstance(value, dict) else (_unusable(value, first_line),)
    found = _TAGS.search(block.options)
    tags = [*(_TAG.findall(found["tags"]) if found is not None else []), *sorted(parse_tags(options.get("tags")))]
    source, offset = _trim(block.lines, blank + len(yaml_lines))
    skip_reason = _skip_reason(block, options)
    return ChunkOptions(
        source=source,
        offset=offset,
        tags=tuple(tags),
        decides_eval="eval" in options or bool(skip_reason),
        skip_reason=skip_reason,
        error=_error(block, options),
        findings=findings,
    )


def _trim(lines: tuple[str, ...], start: int) -> tuple[tuple[str, ...], int]:
    """Return the lines from ``start`` on without blank ones at the end, and the number of lines before them."""
    end = len(lines)
    while end > start and not lines[end - 1].strip():
        end -= 1
    return lines[start:end], start


def _skip_reason(block: ChunkBlock, options: dict[str, Any]) -> str:
    if "eval" not in options:
        return "option eval: false" if _NO_EVAL.search(block.options) else ""
    value = options["eval"]
    if value is True:
        return ""
    # Quarto compares with true, so that a list of lines, which only knitr understands, executes nothing.
    return "option eval: false" if value is False else f"option eval: {value!r}"


def _error(block: ChunkBlock, options: dict[str, Any]) -> bool | None:
    if options.get("error") is not None:
        return bool(options["error"])
    match = _ERROR.search(block.options)
    return None if match is None else match["yes"] is not None


def _unusable(value: object, line: int) -> Finding:
    message = f"chunk options (line {line}) are ignored: found {value!r}, expected 'key: value' lines"
    return Finding(kind=FindingKind.FORMAT, message=message, line=line)
