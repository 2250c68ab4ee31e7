"""Recorded trees of ``/proc`` and ``/sys`` below a test's folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def write_tree(root: Path, texts: Mapping[str, str]) -> None:
    """Write files below ``root``, by their relative paths."""
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
