"""Removal of this machine's folders from records: they say nothing about a lecture and may name a person."""

from __future__ import annotations

import json
import re
from pathlib import PurePath, PurePosixPath
from typing import Final

_COMMON_PREFIXES: Final = frozenset({PurePosixPath("/usr"), PurePosixPath("/usr/local")})
"""Prefixes of a Python installation that identify nobody."""


def hide_places(text: str, *, root: PurePath, home: PurePath, prefix: PurePath) -> str:
    """
    Replace folders of this machine in a JSON text by placeholders.

    Args:
        text: JSON as :func:`json.dumps` writes it, in ASCII.
        root: pytest's rootdir; becomes ``.``.
        home: the user's home; becomes ``~``.
        prefix: folder of Python and its packages; becomes ``{prefix}``.
    """
    names = {home: "~", prefix: "{prefix}", root: "."}
    names = {path: name for path, name in names.items() if path.parent != path and path not in _COMMON_PREFIXES}
    if not names:
        return text
    written = {json.dumps(str(path))[1:-1]: name for path, name in names.items()}
    # The innermost folder first, and whole names only: "/home/a" is not part of "/home/abc".
    inner_first = sorted(written, key=len, reverse=True)
    pattern = re.compile("(" + "|".join(map(re.escape, inner_first)) + r")(?![\w.-]*\w)")
    return pattern.sub(lambda found: written[found.group()], text)
