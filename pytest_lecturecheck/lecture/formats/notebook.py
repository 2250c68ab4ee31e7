"""Build nbformat notebooks from text: version 4.4 and cells without ids, as myst-nb does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import nbformat


def to_node(data: Mapping[str, Any]) -> Any:
    """Convert plain types to nbformat's ``NotebookNode``."""
    from_dict: Any = nbformat.from_dict  # nbformat has no type annotations
    return from_dict(dict(data))


def convert(node: object, major: int) -> Any:
    """Upgrade a notebook of an older major version."""
    upgrade: Any = nbformat.convert
    return upgrade(node, major)


def make_notebook(metadata: Mapping[str, Any], cells: Iterable[Mapping[str, Any]]) -> Any:
    """Build a notebook from cells."""
    return to_node({"nbformat": 4, "nbformat_minor": 4, "metadata": dict(metadata), "cells": list(cells)})


def make_code_cell(source: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Build a code cell without outputs."""
    metadata = dict(metadata)
    return {"cell_type": "code", "metadata": metadata, "source": source, "outputs": [], "execution_count": None}


def make_text_cell(source: str, metadata: Mapping[str, Any], *, kind: str = "markdown") -> dict[str, Any]:
    """Build a markdown or raw cell."""
    return {"cell_type": kind, "metadata": dict(metadata), "source": source}
