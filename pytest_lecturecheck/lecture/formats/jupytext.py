"""Parse texts as jupytext does: Python scripts, and Markdown pages of a book that reads them with jupytext."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from jupytext.formats import guess_format, read_format_from_metadata

from pytest_lecturecheck.errors import LectureReadError
from pytest_lecturecheck.lecture.formats.jupytext_cells import JupytextDocument, read_document
from pytest_lecturecheck.lecture.formats.kernelspec import read_kernelspec
from pytest_lecturecheck.lecture.formats.notebook import to_node
from pytest_lecturecheck.lecture.formats.parsed import Parsed, lift_jupyter, lift_lines
from pytest_lecturecheck.lecture.formats.peek import SCRIPT_FORMATS, script_format
from pytest_lecturecheck.lecture.formats.script_header import JupytextHeader, read_header, replace_kernelspec
from pytest_lecturecheck.lecture.formats.script_text_cells import find_code_in_text
from pytest_lecturecheck.lecture.source_text import refuse_conflict
from pytest_lecturecheck.model.finding import Finding
from pytest_lecturecheck.model.lecture import LectureFormat

_DISPLAY_NAME: Final = "display_name"


def parse_script(text: str, *, name: str, fmt: Mapping[str, Any] | None = None) -> Parsed:
    r"""
    Parse a script; its cells are those of ``jupytext.read``.

    Args:
        text: the file, with ``\n`` line ends.
        name: the file as the user knows it.
        fmt: format options from outside of the script, such as ``comment_magics``; the header overrides them.

    Raises:
        LectureReadError: merge conflict markers, invalid YAML in the header, not a notebook, or refused by jupytext.
    """
    refuse_conflict(text, name=name)
    header = read_header(text.split("\n"), name=name)
    metadata = lift_jupyter(header.table.values)
    format_name = _format_name(text, metadata, header, fmt or {}, name=name)
    own = metadata.get("jupytext")
    used = {key: value for key, value in (fmt or {}).items() if not isinstance(own, dict) or key not in own}
    document = _read(text, header, {**used, "extension": ".py"}, name=name, what=f"jupytext {format_name} script")
    return _parsed(document, header, LectureFormat.PERCENT, find_code_in_text(document))


def parse_markdown(text: str, *, name: str, fmt: Mapping[str, Any]) -> Parsed:
    r"""
    Parse a page of a book that reads Markdown or R Markdown with jupytext; its cells are those of ``jupytext.reads``.

    Args:
        text: the file, with ``\n`` line ends.
        name: the file as the user knows it.
        fmt: jupytext's format, with the key ``extension``.

    Raises:
        LectureReadError: merge conflict markers, invalid YAML in the header, or refused by jupytext.
    """
    refuse_conflict(text, name=name)
    header = read_header(text.split("\n"), name=name, comment="")
    document = _read(text, header, fmt, name=name, what=f"jupytext {fmt['extension']} page")
    form = LectureFormat.RMARKDOWN if fmt["extension"] == ".Rmd" else LectureFormat.MARKDOWN
    return _parsed(document, header, form, ())


def is_myst(text: str, fmt: Mapping[str, Any], *, name: str) -> bool:
    """
    Return True if jupytext reads a page as MyST.

    Raises:
        LectureReadError: jupytext cannot read the header of the page.
    """
    extension = fmt["extension"]
    if extension in {".myst", ".mystnb", ".mnb"}:
        return True
    return extension == ".md" and _resolve_format(text, fmt, extension, name=name, line=None) == "myst"


def _read(text: str, header: JupytextHeader, fmt: Mapping[str, Any], *, name: str, what: str) -> JupytextDocument:
    metadata, key_lines = lift_jupyter(header.table.values), lift_lines(header.table.lines)
    # jupytext reports a kernelspec of the wrong kind by an exception of its own.
    kernel_name, language = read_kernelspec(metadata, name=name, where="front matter", key_lines=key_lines)
    spec = metadata.get("kernelspec")
    if isinstance(spec, dict) and not {"name", _DISPLAY_NAME} <= spec.keys():
        # nbformat requires both names. Nothing depends on them there, so a header without them is accepted.
        filled = {"name": kernel_name or "", _DISPLAY_NAME: kernel_name or "", "language": language or "python"}
        text = "\n".join(replace_kernelspec(text.split("\n"), header, filled))
    document = read_document(text, fmt, name=name, what=what)
    document.notebook["metadata"] = to_node(metadata)
    return document


def _parsed(
    document: JupytextDocument, header: JupytextHeader, form: LectureFormat, findings: Iterable[Finding]
) -> Parsed:
    return Parsed(
        format=form,
        document=document.notebook,
        locations=tuple(document.locations()),
        metadata=lift_jupyter(header.table.values),
        key_lines=lift_lines(header.table.lines),
        findings=tuple(findings),
    )


def _resolve_format(text: str, fmt: Mapping[str, Any], extension: str, *, name: str, line: int | None) -> str:
    """Return the name of a text's format, with the precedence of ``jupytext.reads``."""
    try:
        named = read_format_from_metadata(text, extension) or fmt.get("format_name")
        return str(named or guess_format(text, extension)[0])
    except Exception as exc:
        # jupytext does not validate the header, so any exception is a fault of the file.
        msg = f"has a header that jupytext cannot read: {type(exc).__name__}: {exc}"
        raise LectureReadError(name, line, msg) from exc


def _format_name(
    text: str, metadata: Mapping[str, Any], header: JupytextHeader, fmt: Mapping[str, Any], *, name: str
) -> str:
    """Return the format of a script; one without a header is a notebook only if it has ``# %%`` cells."""
    if not header.is_present and script_format(text):
        line = next(index for index, line in enumerate(text.split("\n"), start=1) if line.rstrip() == "# ---")
        msg = f"has its header at line {line}; jupytext reads it only at the top of the file: move it there"
        raise LectureReadError(name, line, msg)
    guessed = _resolve_format(text, fmt, ".py", name=name, line=header.first + 1 or None)
    has_header = "jupytext" in metadata or "kernelspec" in metadata or "format_name" in fmt
    if guessed in SCRIPT_FORMATS and (has_header or guessed in {"percent", "hydrogen"}):
        return guessed
    if has_header:
        msg = f"has the jupytext format {guessed!r}; expected one of {', '.join(sorted(SCRIPT_FORMATS))}"
        raise LectureReadError(name, header.first + 1 or None, msg)
    msg = "is a plain script; expected a jupytext header or '# %%' cells"
    raise LectureReadError(name, None, msg)
