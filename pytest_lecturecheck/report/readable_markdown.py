"""Escape text so that people can read the Markdown itself, which they paste and edit; see also ``markdown_report``."""

from __future__ import annotations

import re
from typing import Final

from pytest_lecturecheck.report.markdown_report import ACTIVE, code
from pytest_lecturecheck.safe_text import one_line

_PASTED: Final = {"&": "&amp;", "<": "&lt;"} | {text: text for text in '>"@!#'}
"""What is not escaped by a backslash; in the middle of a line, the last ones do nothing."""
_ENDS_SPAN: Final = re.compile(r"[`|\\]")


def pasted(text: str) -> str:
    """Return one line of text for a README: no Markdown or HTML reader acts on it, and people can read its source."""
    return ACTIVE.sub(_pasted_match, one_line(text))


def _pasted_match(found: re.Match[str]) -> str:
    text = found.group()
    return _PASTED.get(text) or f"{text[:-1]}\\{text[-1]}"


def span(text: str) -> str:
    """Return a code span in backticks, or in HTML for text with characters that would end it."""
    clean = one_line(text)
    return f"`{clean}`" if clean and not _ENDS_SPAN.search(clean) else code(clean)
