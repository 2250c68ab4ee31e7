"""Parse texts as jupytext does: Python scripts, and Markdown pages of a book that reads them with jupytext."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from jupytext.formats import guess_format, read_format_from_metadata

from pytest_lecturecheck.errors import LectureReadError
from pytest_lecturecheck.lecture.formats.jupytext_cells import read_document
from pytest_lecturecheck.lecture.formats.kernelspec import read_kernelspec
from pytest_lecturecheck.lecture.formats.notebook import to_node
from pytest_lecturecheck.lecture.formats.parsed import Parsed, lift_jupyter, lift_lines
from pytest_lecturecheck.lecture.formats.peek import SCRIPT_FORMATS, script_format
from pytest_lecturecheck.lecture.formats.script_header import ScriptHeader, read_header, replace_kernelspec
from pytest_lecturecheck.lecture.formats.script_text_cells import find_code_in_text
from pytest_lecturecheck.lecture.source_text import refuse_conflict
from pytest_lecturecheck.model.lecture import LectureFormat

_DISPLAY_NAME: Final = "display_name"


def parse_script(text: str, *, name: str, options: Mapping[str, Any] | None = None) -> Parsed:
    r"""
    Parse a script; its cells are those of ``jupytext.read``.

    Args:
        text: the file, with ``\n`` line ends.
        name: the file as the user knows it.
        options: format options of jupytext's configuration file, such as ``comment_magics``; the header overrides them.

    Raises:
        LectureReadError: merge conflict markers, invalid YAML in the header, not a notebook, or refused by jupytext.
    """
    refuse_conflict(text, name=name)
    lines = text.split("\n")
    header = read_header(lines, name=name)
    metadata = lift_jupyter(header.table.values)
    key_lines = lift_lines(header.table.lines)
    format_name = _format_name(text, metadata, header, name=name)
    # jupytext reports a kernelspec of the wrong kind by an exception of its own.
    kernel_name, language = read_kernelspec(metadata, name=name, where="front matter", key_lines=key_lines)
    spec = metadata.get("kernelspec")
    if isinstance(spec, dict) and _DISPLAY_NAME not in spec:
        # nbformat requires a display name. Nothing depends on it, so a header without one is accepted.
        filled = {"name": kernel_name or "", _DISPLAY_NAME: kernel_name or "", "language": language or "python"}
        text = "\n".join(replace_kernelspec(lines, header, filled))
    own = metadata.get("jupytext")
    fmt = {key: value for key, value in (options or {}).items() if not isinstance(own, dict) or key not in own}
    what = f"jupytext {format_name} script"
    document = read_document(text, {**fmt, "extension": ".py"}, name=name, what=what)
    document.notebook["metadata"] = to_node(metadata)
    return Parsed(
        format=LectureFormat.PERCENT,
        document=document.notebook,
        locations=tuple(document.locations()),
        metadata=metadata,
        key_lines=key_lines,
        findings=tuple(find_code_in_text(document)),
    )


def _format_name(text: str, metadata: Mapping[str, Any], header: ScriptHeader, *, name: str) -> str:
    """Return the format of a script; one without a header is a notebook only if it has ``# %%`` cells."""
    if not header.is_present and script_format(text):
        line = next(index for index, line in enumerate(text.split("\n"), start=1) if line.rstrip() == "# ---")
        msg = f"has its header at line {line}; jupytext reads it only at the top of the file: move it there"
        raise LectureReadError(name, line, msg)
    try:
        named = read_format_from_metadata(text, ".py")
        guessed, _options = (named, {}) if named else guess_format(text, ".py")
    except Exception as exc:
        # jupytext does not validate the header, so any exception is a fault of the file.
        msg = f"has a header that jupytext cannot read: {type(exc).__name__}: {exc}"
        raise LectureReadError(name, header.first + 1 or None, msg) from exc
    has_header = "jupytext" in metadata or "kernelspec" in metadata
    if guessed in SCRIPT_FORMATS and (has_header or guessed in {"percent", "hydrogen"}):
        return str(guessed)
    if has_header:
        msg = f"has the jupytext format {guessed!r}; expected one of {', '.join(sorted(SCRIPT_FORMATS))}"
        raise LectureReadError(name, header.first + 1 or None, msg)
    msg = "is a plain script; expected a jupytext header or '# %%' cells"
    raise LectureReadError(name, None, msg)
