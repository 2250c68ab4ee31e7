"""Match paths with glob patterns, as Sphinx does for ``exclude_patterns`` and as tables of contents do."""

from __future__ import annotations

import re
import warnings
from functools import cache
from typing import Final
from unicodedata import normalize

_CLASS_END: Final = "]"


def matches_path(pattern: str, relative: str) -> bool:
    """
    Return True if a pattern matches a file or a folder that contains it.

    Args:
        pattern: ``*`` matches within one folder, ``**`` across folders, ``?`` one character, ``[...]`` one of a set.
        relative: POSIX path relative to the book's folder.
    """
    parts = relative.split("/")
    return any(matches_file(pattern, "/".join(parts[:count])) for count in range(1, len(parts) + 1))


def matches_file(pattern: str, relative: str) -> bool:
    """Return True if a pattern matches this path itself; see :func:`matches_path`."""
    expression = _compiled(normalize("NFC", pattern.strip().removeprefix("./").rstrip("/")))
    return expression.fullmatch(normalize("NFC", relative)) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        # re warns about doubled characters in a set, which it may give a meaning later; here they have none.
        with warnings.catch_warnings(action="ignore", category=FutureWarning):
            return re.compile(_translate(pattern), re.DOTALL)
    except re.error:
        # An invalid set ("[?-/]") is literal text, as in the shell.
        return re.compile(re.escape(pattern), re.DOTALL)


def _translate(pattern: str) -> str:
    pieces: list[str] = []
    at = 0
    while at < len(pattern):
        if pattern.startswith("**", at):
            # "**/x" also matches "x", as in all tools except old versions of Sphinx.
            is_folder = pattern.startswith("**/", at)
            pieces.append("(?:.*/)?" if is_folder else ".*")
            at += 3 if is_folder else 2
        elif pattern[at] == "*":
            pieces.append("[^/]*")
            at += 1
        elif pattern[at] == "?":
            pieces.append("[^/]")
            at += 1
        elif pattern[at] == "[" and (end := pattern.find(_CLASS_END, at + 2)) > 0:
            inside = pattern[at + 1 : end].replace("\\", r"\\").replace("[", r"\[")
            pieces.append(f"[^/{inside[1:]}]" if inside[0] == "!" else f"[{inside.replace('^', chr(92) + '^')}]")
            at = end + 1
        else:
            pieces.append(re.escape(pattern[at]))
            at += 1
    return "".join(pieces)
