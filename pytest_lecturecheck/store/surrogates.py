r"""
Lone surrogates: Python uses them for undecodable bytes in file names, and UTF-8 cannot encode them.

They are written as six plain characters (``\udcff``). Only the names of lectures and variants are converted back, so
that they are found again; in any other text these six characters may be meant literally.
"""

from __future__ import annotations

import re


def escape_surrogates(text: str) -> str:
    """Return the text with lone surrogates escaped, so that it can be encoded."""
    return str.__str__(text) if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def restore_surrogates(name: str) -> str:
    """Return the name of a lecture or variant with escaped surrogates converted back."""
    return re.sub(r"\\u(d[89a-f][0-9a-f]{2})", lambda match: chr(int(match.group(1), base=16)), name)
