r"""
Lone surrogates: how Python holds file names that are not Unicode, and what no UTF-8 file can hold.

They are written as six plain characters (``\udcff``). Only lectures' names are turned back, so that a lecture is found
again under its name; any other text may well contain such characters for reasons of its own.
"""

from __future__ import annotations

import re


def escape_surrogates(text: str) -> str:
    """Replace lone surrogates, so that the text can be encoded."""
    return str.__str__(text) if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def restore_surrogates(name: str) -> str:
    """Turn escaped surrogates of a lecture's name back."""
    return re.sub(r"\\u(d[89a-f][0-9a-f]{2})", lambda match: chr(int(match.group(1), base=16)), name)
