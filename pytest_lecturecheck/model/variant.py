"""The variant: a named environment in which a lecture runs."""

from __future__ import annotations

from typing import Final

DEFAULT_VARIANT: Final = ""
"""The unnamed variant of a lecture that has no others; it does not show in node ids or budget files."""


def title_of(lecture: str, variant: str) -> str:
    """Name a lecture, or a variant of it (``a.md [c=2]``)."""
    return f"{lecture} [{variant}]" if variant else lecture
