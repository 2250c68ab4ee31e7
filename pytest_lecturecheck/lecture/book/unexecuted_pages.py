"""Pages that the gate runs and myst-nb does not: only their kernelspec says that they are notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_lecturecheck.lecture.book.pages import Book, BookEngine


def explain_unexecuted(book: Book | None, path: Path, front_matter: Mapping[str, Any]) -> str:
    """
    Explain why the build of a page's book does not execute its cells; empty if it does.

    myst-nb 1.4 (``core/read.py``, ``is_myst_markdown_notebook``) recognises ``file_format: mystnb`` and jupytext's
    ``format_name: myst``. To it a page with ``kernelspec`` alone is text, and each code-cell of it is a warning.
    """
    if book is None or book.engine is not BookEngine.MYST_NB or path.suffix.lower() != ".md":
        return ""
    if book.custom_format(path) is not None or front_matter.get("file_format") == "mystnb":
        return ""
    jupytext = front_matter.get("jupytext")
    representation = jupytext.get("text_representation") if isinstance(jupytext, Mapping) else None
    if isinstance(representation, Mapping) and representation.get("format_name") == "myst":
        return ""
    return (
        "the book's build (Jupyter Book 1, myst-nb) shows this page without executing it, because its front matter "
        "has neither file_format nor jupytext; add the line 'file_format: mystnb'"
    )
